"""The two ends of a link: source and target (§3.5), and the coordinator of transactions as a target (§4.5.1)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal

from .._arguments import checked
from ..types import Composite, Described, Symbol, composite, field
from ._filters.filters import Filter, filter_set
from ._outcomes import Outcome

# The names of §3.5.5, §3.5.6 and §3.5.7.
TerminusDurability = Literal["none", "configuration", "unsettled-state"]
TerminusExpiryPolicy = Literal["link-detach", "session-end", "connection-close", "never"]
DistributionMode = Literal["move", "copy"]

_DURABILITY: Final = {"none": 0, "configuration": 1, "unsettled-state": 2}
_EXPIRY: Final = {word: word for word in ("link-detach", "session-end", "connection-close", "never")}


@composite(0x28, "amqp:source:list", provides=("source",))
class Source(Composite):
    """The source of a link: where messages come from (§3.5.3).

        Source("events", filters=[Selector("region = 'eu'")], durable="unsettled-state", expiry_policy="never")

    The peer answers with the actual source, `receiver.source`, which may differ from the requested one.

    Attributes:
        address: the address of the node, a str; None if `dynamic` requests a new node.
        durable: how much of the terminus survives a restart of its host: "none", "configuration" or "unsettled-state".
        expiry_policy: when it begins to expire: "link-detach", "session-end", "connection-close" or "never".
        timeout: seconds from then until it expires.
        dynamic: request a new node from the peer, whose answer has the address.
        dynamic_node_properties: properties of the new node, by symbol (§3.5.9): "lifetime-policy" is one of the
            `DeleteOn...` classes, "supported-dist-modes" a symbol or an array of symbols.
        distribution_mode: "move" takes messages off the node, "copy" leaves them there; None for the node's default.
        filter: the filter set, by names that the receiver chooses (§3.5.8). Each value is a `Described`, or a `Filter`
            that becomes one. None for all messages. The constructor adds `filters` to it.
        default_outcome: the outcome of a delivery that is settled without one.
        outcomes: the supported outcomes, by symbolic descriptor ("amqp:accepted:list").
        capabilities: the extensions that the terminus has, or should have.

    Args:
        filters: filters that a message must all pass.

    Raises:
        TypeError: an argument is unknown or has the wrong type.
        ValueError: two filters have the same name, or a word is not one of those above.
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

    @checked
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
        outcomes: Sequence[str] = (),
        capabilities: Sequence[str] = (),
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
        self.outcomes = tuple(outcomes)
        self.capabilities = tuple(capabilities)


@composite(0x29, "amqp:target:list", provides=("target",))
class Target(Composite):
    """The target of a link: where messages go (§3.5.4).

    Attributes:
        address: the address of the node, a str; None if `dynamic` requests a new node, or for the anonymous terminus,
            which sends each message to the address in its field `to`.
        durable, expiry_policy, timeout, dynamic, dynamic_node_properties, capabilities: as for `Source`.

    Raises:
        TypeError, ValueError: as for `Source`.
    """

    address: Any = field("*", requires="address")
    durable: TerminusDurability = field("uint", default="none", choices=_DURABILITY)
    expiry_policy: TerminusExpiryPolicy = field("symbol", default="session-end", choices=_EXPIRY)
    timeout: int = field("uint", default=0)
    dynamic: bool = field("boolean", default=False)
    dynamic_node_properties: dict[Any, Any] | None = field("map", requires="lifetime-policy", keys="symbol")
    capabilities: tuple[str, ...] = field("symbol", multiple=True)

    @checked
    def __init__(
        self,
        address: Any = None,
        durable: TerminusDurability = "none",
        expiry_policy: TerminusExpiryPolicy = "session-end",
        timeout: int = 0,
        dynamic: bool = False,
        dynamic_node_properties: dict[Any, Any] | None = None,
        capabilities: Sequence[str] = (),
    ) -> None:
        self.address = address
        self.durable = durable
        self.expiry_policy = expiry_policy
        self.timeout = timeout
        self.dynamic = dynamic
        self.dynamic_node_properties = dynamic_node_properties
        self.capabilities = tuple(capabilities)


NEWEST_CONNECTION: Final = Symbol("amqp10:newest-connection")
"""The property of an attach that may not take the link from a newer connection.

An attach that arrives late, over an older connection, thus steals nothing. An extension of this project.
"""

ONLY_TO_RESUME: Final = Symbol("amqp10:only-to-resume")
"""The property of an attach that must resume an existing link, or fail.

A new link would know nothing of the deliveries, so that whoever attaches next, perhaps another process, would conclude
that they had never arrived. An extension of this project.
"""


def outlives_link(*termini: object) -> bool:
    """Return whether a terminus is to exist for the next link of its name (§3.5.6).

    To keep such a terminus, a link detaches without closing (§2.6.4, §2.6.6).
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
    """The dynamic node is deleted with the link that created it (§3.5.10)."""


@composite(0x2C, "amqp:delete-on-no-links:list", provides=("lifetime-policy",))
class DeleteOnNoLinks(Composite):
    """The dynamic node is deleted when it has no links (§3.5.11)."""


@composite(0x2D, "amqp:delete-on-no-messages:list", provides=("lifetime-policy",))
class DeleteOnNoMessages(Composite):
    """The dynamic node is deleted when the link that created it is closed and it has no messages (§3.5.12)."""


@composite(0x2E, "amqp:delete-on-no-links-or-messages:list", provides=("lifetime-policy",))
class DeleteOnNoLinksOrMessages(Composite):
    """The dynamic node is deleted when it has neither links nor messages (§3.5.13)."""


@composite(0x30, "amqp:coordinator:list", provides=("target",))
class Coordinator(Composite):
    """The target of a link that controls transactions (§4.5.1).

    Attributes:
        capabilities: the supported kinds of transactions, such as "amqp:local-transactions" (§4.5.7).
    """

    capabilities: tuple[str, ...] = field("symbol", multiple=True)
