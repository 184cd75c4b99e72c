"""What the broker answers to an attach: the termini as they really are, not as they were wished for (§2.6.3, §3.5).

A subscription that was asked to outlive its link does (`_subscriptions`), and its answer has the expiry policy and the
timeout in force, as has that of a link that can be resumed (`_suspended`). Where there is a store, both outlive the
broker too; if that was asked for, the answer says `durable="configuration"`, or "unsettled-state" where the link can be
resumed. Without a store it says `durable="none"`, whatever was asked for. Any other terminus says
`expiry_policy="link-detach"`, so that a peer knows that nothing waits for it when it comes back. Of the filters those
are answered that are applied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..messaging import Accepted, DeleteOnClose, Modified, Rejected, Released, Source, Target
from ..types import Symbol
from ._filters import CAPABILITIES as FILTER_CAPABILITIES
from ._router import AddressError
from ._stream import Stream
from ._topic import Topic

if TYPE_CHECKING:
    from ..messaging import Outcome, TerminusDurability
    from ._node import Node
    from ._subscriptions import Lifetime

_OUTCOME_TYPES = (Accepted, Rejected, Released, Modified)
OUTCOMES = tuple(kind.descriptor_name for kind in _OUTCOME_TYPES)
# A delivery that ends without an outcome may have been worked on: the next consumer is told by the delivery-count.
FAILED = Modified(delivery_failed=True)


def address_of(terminus: Source | Target) -> str | None:
    """The address that a terminus names; None where it names none.

    Raises:
        AddressError: it is no string.
    """
    address = terminus.address
    if address is None or isinstance(address, str):
        return address
    raise AddressError("amqp:invalid-field", f"an address of type {type(address).__name__}")


def default_outcome(source: Source) -> Outcome:
    """What a delivery ends in that is settled, or lost, without an outcome (§3.5.3 "default-outcome")."""
    outcome = source.default_outcome
    return outcome if isinstance(outcome, _OUTCOME_TYPES) else FAILED


def may_reject(source: object) -> bool:
    """Whether a sender takes the outcome rejected; one that names no outcomes is taken to (§3.5.3 "outcomes")."""
    return not isinstance(source, Source) or not source.outcomes or Rejected.descriptor_name in source.outcomes


def copies(source: Source, node: Node) -> bool:
    """Whether the consumer only looks at a queue: it says so (distribution-mode "copy"), or nothing else can be done.

    Raises:
        AddressError: a distribution mode that is not there.
    """
    mode = source.distribution_mode
    if mode not in (None, "move", "copy"):
        raise AddressError("amqp:not-implemented", f"there is no distribution mode {mode!r}")
    # A subscription is the subscriber's own: it takes its messages out of it, in either mode.
    return isinstance(node, Stream) or (mode == "copy" and not isinstance(node, Topic))


def answer_source(
    asked: Source,
    node: Node,
    *,
    copying: bool,
    outcome: Outcome,
    dynamic: bool,
    filters: dict[Any, Any] | None,
    lifetime: Lifetime | None,
    durable: TerminusDurability,
) -> Source:
    """The source of a link on which the broker sends; `filters` are those that are applied.

    `lifetime`: how long a subscription is kept that may outlive its link, or is shared, or what a link holds that can
    be resumed; None for any other source.
    `durable`: what of it survives the broker.
    """
    shared = lifetime is not None and "shared" in asked.capabilities
    sharing = tuple(Symbol(word) for word in ("shared", "global") if shared and word in asked.capabilities)
    wanted = [name for name in OUTCOMES if name in asked.outcomes]
    return Source(
        address=node.name if dynamic else asked.address,
        durable=durable,
        expiry_policy=lifetime.expiry_policy if lifetime is not None else "link-detach",
        timeout=lifetime.timeout if lifetime is not None else 0,
        dynamic=dynamic,
        dynamic_node_properties=_lifetime(dynamic),
        # Every subscriber of a topic gets its copy; on a queue a message goes to one (§3.5.3 "distribution-mode").
        distribution_mode="copy" if copying or isinstance(node, Topic) else "move",
        filter=filters,
        default_outcome=outcome,
        outcomes=tuple(wanted) or OUTCOMES,
        capabilities=_capabilities(node) + sharing + FILTER_CAPABILITIES,
    )


def answer_target(
    asked: Target, node: Node | None, *, dynamic: bool, lifetime: Lifetime | None, durable: TerminusDurability
) -> Target:
    """The target of a link on which the broker receives; `node` None: the anonymous terminus.

    `lifetime`: how long its state is kept without a link; None for not at all.
    """
    return Target(
        address=node.name if dynamic and node is not None else asked.address,
        durable=durable,
        expiry_policy=lifetime.expiry_policy if lifetime is not None else "link-detach",
        timeout=lifetime.timeout if lifetime is not None else 0,
        dynamic=dynamic,
        dynamic_node_properties=_lifetime(dynamic),
        capabilities=_capabilities(node) if node is not None else (),
    )


def _lifetime(dynamic: bool) -> dict[Symbol, Any] | None:
    return {Symbol("lifetime-policy"): DeleteOnClose()} if dynamic else None


def _capabilities(node: Node) -> tuple[Symbol, ...]:
    kind = "topic" if isinstance(node, Topic) else "queue"
    return (Symbol(f"temporary-{kind}"), Symbol(kind)) if node.temporary else (Symbol(kind),)
