"""The termini in the broker's answer to an attach: what they are, and not what was asked for (§2.6.3, §3.5).

The answer for a subscription that outlives its link (`subscriptions`) has the expiry policy and the timeout in force.
So has the answer for a resumable link (`links`), mostly "session-end". Any other terminus has
`expiry_policy="link-detach"`, so that the peer knows that nothing is kept for it.

Without a store the answer has `durable="none"`. With a store, what is kept longer outlives the broker; if the peer
asked for that, the answer has `durable="configuration"`, or "unsettled-state" for a resumable link. It lists only the
filters that are applied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...messaging import OUTCOME_NAMES, OUTCOMES, RELEASED, DeleteOnClose, Modified, Source, Target
from ...types import Array, Symbol
from .._address import Kind, split_address
from .._errors import Refused
from .._filters.filter_set import CAPABILITIES as FILTER_CAPABILITIES
from .._queues.queue import Queue
from .._queues.stream import Stream
from .._queues.topic import Topic

if TYPE_CHECKING:
    from ...messaging import Outcome, TerminusDurability
    from .._queues.node import Node
    from .._retained.retained import Lifetime

# The consumer may have worked on a delivery that ends without an outcome: the delivery-count tells the next one.
FAILED = Modified(delivery_failed=True)


def address_of(terminus: Source | Target) -> str | None:
    """Return the address of a terminus, or None.

    Raises:
        Refused: the address is not a string.
    """
    address = terminus.address
    if address is None or isinstance(address, str):
        return address
    raise Refused("amqp:invalid-field", f"an address must be a string, not of type {type(address).__name__}")


def default_outcome(source: Source, node: Node) -> Outcome:
    """Return the outcome of a delivery that is settled or lost without one (§3.5.3 "default-outcome")."""
    outcome = source.default_outcome
    if isinstance(outcome, OUTCOMES):
        return outcome
    return FAILED if not isinstance(node, Queue) or node.counts_detached else RELEASED


def allows(source: object, outcome: type[Outcome]) -> bool:
    """Return whether a source allows an outcome; a source without a list allows all (§3.5.3 "outcomes")."""
    return not isinstance(source, Source) or not source.outcomes or outcome.descriptor_name in source.outcomes


def copies(source: Source, node: Node) -> bool:
    """Return whether the consumer only browses, by distribution-mode "copy" or the kind of node.

    Raises:
        Refused: the distribution-mode is unknown.
    """
    mode = source.distribution_mode
    if mode not in (None, "move", "copy"):
        raise Refused("amqp:not-implemented", f"there is no distribution mode {mode!r}")
    # In either mode the subscriber takes messages from its own subscription.
    return isinstance(node, Stream) or (mode == "copy" and not isinstance(node, Topic))


def check_dynamic(terminus: Source | Target) -> None:
    """Check that a dynamic node can have the requested properties (§3.5.9); unknown properties are ignored.

    Raises:
        Refused: another lifetime-policy than delete-on-close, or an unsupported distribution-mode.
    """
    properties = terminus.dynamic_node_properties or {}
    lifetime = properties.get("lifetime-policy")
    if lifetime is not None and not isinstance(lifetime, DeleteOnClose):
        reason = f"the lifetime-policy {lifetime!r:.60}: a dynamic node lives with the link that made it"
        raise Refused("amqp:not-implemented", f"{reason} (delete-on-close)")
    modes = properties.get("supported-dist-modes")
    wanted = modes if isinstance(modes, list | tuple) else [] if modes is None else [modes]
    there = _modes("topic" if split_address("", terminus.capabilities)[1] == "topic" else "queue")
    if not all(isinstance(mode, str) and mode in there for mode in wanted):
        raise Refused("amqp:not-implemented", f"no node has the supported-dist-modes {modes!r:.60}")


def _modes(kind: Kind) -> tuple[Symbol, ...]:
    """Return the distribution-modes of a node (§3.5.7); each subscriber gets a copy of a topic's messages."""
    return (Symbol("copy"),) if kind == "topic" else (Symbol("move"), Symbol("copy"))


def answer_source(
    requested: Source,
    node: Node,
    *,
    copying: bool,
    outcome: Outcome,
    dynamic: bool,
    filters: dict[Any, Any] | None,
    lifetime: Lifetime | None,
    durable: TerminusDurability,
) -> Source:
    """Return the source of a link on which the broker sends; `filters` are those that are applied.

    `lifetime`: how long a retained subscription or the state of a resumable link is kept; None for any other source.
    `durable`: what of it survives the broker.
    """
    shared = lifetime is not None and "shared" in requested.capabilities
    sharing = tuple(Symbol(word) for word in ("shared", "global") if shared and word in requested.capabilities)
    wanted = [name for name in OUTCOME_NAMES if name in requested.outcomes]
    return Source(
        address=node.name if dynamic else requested.address,
        durable=durable,
        expiry_policy=lifetime.expiry_policy if lifetime is not None else "link-detach",
        timeout=lifetime.timeout if lifetime is not None else 0,
        dynamic=dynamic,
        dynamic_node_properties=_node_properties(node) if dynamic else None,
        # Every subscriber of a topic gets its copy; on a queue each message goes to one consumer (§3.5.3).
        distribution_mode="copy" if copying or isinstance(node, Topic) else "move",
        filter=filters,
        default_outcome=outcome,
        outcomes=tuple(wanted) or OUTCOME_NAMES,
        capabilities=_capabilities(node) + sharing + FILTER_CAPABILITIES,
    )


def answer_target(
    requested: Target, node: Node | None, *, dynamic: bool, lifetime: Lifetime | None, durable: TerminusDurability
) -> Target:
    """Return the target of a link on which the broker receives; `node` is None for the anonymous terminus.

    `lifetime`: how long the state of the link is kept; None: it is not kept.
    """
    return Target(
        address=node.name if dynamic and node is not None else requested.address,
        durable=durable,
        expiry_policy=lifetime.expiry_policy if lifetime is not None else "link-detach",
        timeout=lifetime.timeout if lifetime is not None else 0,
        dynamic=dynamic,
        dynamic_node_properties=_node_properties(node) if dynamic and node is not None else None,
        capabilities=_capabilities(node) if node is not None else (),
    )


def _node_properties(node: Node) -> dict[Symbol, Any]:
    modes = _modes("topic" if isinstance(node, Topic) else "queue")
    return {Symbol("lifetime-policy"): DeleteOnClose(), Symbol("supported-dist-modes"): Array("symbol", modes)}


def _capabilities(node: Node) -> tuple[Symbol, ...]:
    kind = "topic" if isinstance(node, Topic) else "queue"
    return (Symbol(f"temporary-{kind}"), Symbol(kind)) if node.temporary else (Symbol(kind),)
