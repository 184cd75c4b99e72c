"""The two ends of a link: source and target (§3.5), and the coordinator of transactions as a target (§4.5.1)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Literal

from ..types import Composite, Described, Symbol, composite, field
from ._filters.filters import Filter, filter_set
from ._outcomes import Outcome

# §3.5.5, §3.5.6 and §3.5.7, by their words.
TerminusDurability = Literal["none", "configuration", "unsettled-state"]
TerminusExpiryPolicy = Literal["link-detach", "session-end", "connection-close", "never"]
DistributionMode = Literal["move", "copy"]

_DURABILITY: Final = {"none": 0, "configuration": 1, "unsettled-state": 2}
_EXPIRY: Final = {word: word for word in ("link-detach", "session-end", "connection-close", "never")}


@composite(0x28, "amqp:source:list", provides=("source",))
class Source(Composite):
    """Where messages come from (§3.5.3).

        Source("events", filters=[Selector("region = 'eu'")], durable="unsettled-state", expiry_policy="never")

    What is asked for and what is there may differ: the peer answers with the source as it has it, `receiver.source`.

    Attributes:
        address: the node, a str; None where `dynamic` asks for a new one.
        durable: what of the terminus survives its host: "none", "configuration" or "unsettled-state".
        expiry_policy: when it begins to expire: "link-detach", "session-end", "connection-close" or "never".
        timeout: how long it takes to expire from then, in seconds.
        dynamic: the peer is to make a node; its answer has the address.
        dynamic_node_properties: of the node to make, by symbol (§3.5.9): "lifetime-policy" is one of the `DeleteOn...`
            classes, "supported-dist-modes" a symbol or an array of them.
        distribution_mode: "move" takes messages off the node, "copy" leaves them there; None for the node's own way.
        filter: which messages, by names of the receiver's choice (§3.5.8): each a `Described` value, or a `Filter` that
            becomes one. None for all messages. What `filters` says becomes a part of it.
        default_outcome: what becomes of a delivery that is settled without an outcome.
        outcomes: the outcomes that may be asked for, by symbolic descriptor ("amqp:accepted:list").
        capabilities: the extensions that the terminus has, or shall have.

    Args:
        filters: what messages to filter by; every one of them has to let a message pass.

    Raises:
        ValueError: two filters have the same name.
    """

    address: Any = field("*", requires="address")
    durable: TerminusDurability = field("uint", default="none", choices=_DURABILITY)
    expiry_policy: TerminusExpiryPolicy = field("symbol", default="session-end", choices=_EXPIRY)
    timeout: int = field("uint", default=0)
    dynamic: bool = field("boolean", default=False)
    dynamic_node_properties: dict[Any, Any] | None = field("map", requires="lifetime-policy", keys="symbol")
    distribution_mode: DistributionMode | None = field("symbol")
    filter: dict[Any, Any] | None = field("map", keys="symbol")
    default_outcome: Outcome | Described | None = field("*", requires="outcome")
    outcomes: tuple[str, ...] = field("symbol", multiple=True)
    capabilities: tuple[str, ...] = field("symbol", multiple=True)

    def __init__(
        self,
        address: Any = None,
        durable: TerminusDurability = "none",
        expiry_policy: TerminusExpiryPolicy = "session-end",
        timeout: int = 0,
        dynamic: bool = False,
        dynamic_node_properties: dict[Any, Any] | None = None,
        distribution_mode: DistributionMode | None = None,
        filter: dict[Any, Any] | None = None,  # noqa: A002
        default_outcome: Outcome | Described | None = None,
        outcomes: tuple[str, ...] = (),
        capabilities: tuple[str, ...] = (),
        *,
        filters: Iterable[Filter] = (),
    ) -> None:
        self.address = address
        self.durable = durable
        self.expiry_policy = expiry_policy
        self.timeout = timeout
        self.dynamic = dynamic
        self.dynamic_node_properties = dynamic_node_properties
        self.distribution_mode = distribution_mode
        self.filter = filter_set(filters, filter) if filters or filter else filter
        self.default_outcome = default_outcome
        self.outcomes = outcomes
        self.capabilities = capabilities


@composite(0x29, "amqp:target:list", provides=("target",))
class Target(Composite):
    """Where messages go to (§3.5.4).

    Attributes:
        address: the node, a str; None where `dynamic` asks for a new one, and for the anonymous terminus, where each
            message says by its field `to` where it goes.
        durable, expiry_policy, timeout, dynamic, dynamic_node_properties, capabilities: as of `Source`.
    """

    address: Any = field("*", requires="address")
    durable: TerminusDurability = field("uint", default="none", choices=_DURABILITY)
    expiry_policy: TerminusExpiryPolicy = field("symbol", default="session-end", choices=_EXPIRY)
    timeout: int = field("uint", default=0)
    dynamic: bool = field("boolean", default=False)
    dynamic_node_properties: dict[Any, Any] | None = field("map", requires="lifetime-policy", keys="symbol")
    capabilities: tuple[str, ...] = field("symbol", multiple=True)


NEWEST_CONNECTION: Final = Symbol("amqp10:newest-connection")
"""The property of an attach that says: the link is only ever attached on a connection as new as that which has it.

One that reaches the broker on an older connection was late, and steals nothing. A word of this project's own.
"""

ONLY_TO_RESUME: Final = Symbol("amqp10:only-to-resume")
"""The property of an attach that says: resume what is kept of the link, or refuse it, but do not make it anew.

A link made anew knows nothing of its deliveries, which looks as if they had never come to whoever attaches next; and
that may be another process, for this one can die before it has the answer. A word of this project's own.
"""


def outlives_link(*termini: object) -> bool:
    """Return whether a terminus is meant to be there for the next link of its name (§3.5.6).

    Whoever has no wish to end it detaches from it, and does not close (§2.6.4, §2.6.6).
    """
    return any(
        isinstance(each, Source | Target) and (each.durable not in ("none", None) or each.expiry_policy == "never")
        for each in termini
    )


def outlives_connection(*termini: object) -> bool:
    """Return whether a terminus outlives its connection for a while, so that its link can be resumed (§3.5.6)."""
    return any(
        isinstance(each, Source | Target) and (each.expiry_policy == "never" or bool(each.timeout)) for each in termini
    )


@composite(0x2B, "amqp:delete-on-close:list", provides=("lifetime-policy",))
class DeleteOnClose(Composite):
    """The dynamic node goes with the link that made it (§3.5.10)."""


@composite(0x2C, "amqp:delete-on-no-links:list", provides=("lifetime-policy",))
class DeleteOnNoLinks(Composite):
    """The dynamic node goes when no link is left at it (§3.5.11)."""


@composite(0x2D, "amqp:delete-on-no-messages:list", provides=("lifetime-policy",))
class DeleteOnNoMessages(Composite):
    """The dynamic node goes when the link that made it is gone and no message is left (§3.5.12)."""


@composite(0x2E, "amqp:delete-on-no-links-or-messages:list", provides=("lifetime-policy",))
class DeleteOnNoLinksOrMessages(Composite):
    """The dynamic node goes when neither links nor messages are left (§3.5.13)."""


@composite(0x30, "amqp:coordinator:list", provides=("target",))
class Coordinator(Composite):
    """The target of a link that controls transactions (§4.5.1).

    Attributes:
        capabilities: what transactions may be, such as "amqp:local-transactions" (§4.5.7).
    """

    capabilities: tuple[str, ...] = field("symbol", multiple=True)
