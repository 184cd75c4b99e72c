"""The terms that each side sends when it opens an endpoint, named as in AMQP 1.0; values only.

`checked` is for the terms that this side is about to send; those of a peer are not checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

from .._arguments import without_secrets
from ..messaging import Source, Target
from ..types import Described, Symbol, ULong

if TYPE_CHECKING:
    from ..messaging import Coordinator, DeliveryState

SenderSettleMode = Literal["unsettled", "settled", "mixed"]
ReceiverSettleMode = Literal["first", "second"]

_UINT_MAX = 0xFFFF_FFFF
_ULONG_MAX = 0xFFFF_FFFF_FFFF_FFFF


def _check(name: str, value: float, least: int, most: int) -> None:
    if not least <= value <= most:
        raise ValueError(f"{name} must be in {least}..{most}, not {value}")


class Role(Enum):
    """Which end of a connection an engine plays."""

    CLIENT = "client"
    SERVER = "server"


@dataclass(frozen=True, slots=True)
class ConnectionTerms:
    """One side's terms of the connection (§2.7.1).

    Attributes:
        container_id: the name of the container.
        hostname: the virtual host that a client asks for; None from a server.
        max_frame_size: the largest frame this side takes, bytes, 512 at least.
        channel_max: the highest channel number this side takes, 0..65535.
        idle_timeout: seconds of silence after which this side gives the connection up; None: never. Ours is the limit
            that we enforce (half of it is advertised); the peer's is the one that it advertised.
        path: the path of the URL, percent-decoded, or else the hostname that was given: the virtual host, in dialects
            that have virtual hosts.
        max_message_size: the largest message this side takes, bytes, in dialects whose links can not tell it; None:
            any.
        all_fields: frames have all their fields, in AMQP 1.0; for peers that cannot do without those that are null.
        any_numbers: the peer's deliveries may have any delivery-id and delivery-tag, even used ones, in AMQP 1.0; for
            peers that count them in several threads at once.
    """

    container_id: str
    hostname: str | None = None
    max_frame_size: int = 131_072
    channel_max: int = 1023
    idle_timeout: float | None = 60.0
    offered_capabilities: tuple[str, ...] = ()
    desired_capabilities: tuple[str, ...] = ()
    properties: Mapping[Any, Any] = field(default_factory=dict)
    path: str = ""
    max_message_size: int | None = None
    all_fields: bool = False
    any_numbers: bool = False

    @property
    def virtual_host(self) -> str | None:
        """The virtual host for dialects before 1.0: NAME of the hostname "vhost:NAME", as for RabbitMQ, or the path."""
        if self.hostname is not None and self.hostname.startswith("vhost:"):
            return self.hostname.removeprefix("vhost:")
        return self.path or None

    def checked(self) -> Self:
        """Check the terms, and return them.

        Raises:
            ValueError: an open cannot express one of the limits.
        """
        _check("max_frame_size", self.max_frame_size, 512, _UINT_MAX)
        _check("channel_max", self.channel_max, 0, 0xFFFF)
        _check("idle_timeout", self.idle_timeout or 0, 0, 2 * _UINT_MAX // 1000)
        return self


@dataclass(frozen=True, slots=True)
class SessionTerms:
    """One side's terms of a session (§2.7.2).

    Attributes:
        incoming_window: the number of transfer frames that this side takes before it refreshes the window.
        outgoing_window: the number of transfer frames that this side may hold back, as told to the peer.
        handle_max: the highest link handle this side takes.
        next_outgoing_id: the first transfer-id that this side will use.
        timeout: seconds that the peer is asked to keep the session when its transport is lost, in dialects with
            "session-resume"; it may keep it for less, or not at all. In the peer's terms: the seconds granted.
    """

    incoming_window: int = 2048
    outgoing_window: int = 0x7FFF_FFFF
    handle_max: int = 1023
    next_outgoing_id: int = 0
    offered_capabilities: tuple[str, ...] = ()
    desired_capabilities: tuple[str, ...] = ()
    properties: Mapping[Any, Any] = field(default_factory=dict)
    timeout: int = 0

    def checked(self) -> Self:
        """Check the terms, and return them.

        Raises:
            ValueError: a begin cannot express one of the limits, or the incoming window is 0.
        """
        _check("incoming_window", self.incoming_window, 1, _UINT_MAX)
        _check("handle_max", self.handle_max, 0, _UINT_MAX)
        return self


@dataclass(frozen=True, slots=True)
class LinkTerms:
    """One side's terms of a link (§2.7.3).

    Attributes:
        name: names the link between the two containers, with its direction.
        source, target: the termini; None for a null terminus.
        settle_mode: how the sender settles.
        receiver_settle_mode: how the receiver settles.
        unsettled: delivery-tag -> state, for the deliveries that this side still holds unsettled (§2.6.13); None for a
            link that begins anew. If deliveries are given to be resumed, the engine fills in their map.
        incomplete_unsettled: the map was too large to be sent whole.
        initial_delivery_count: the sender's first delivery-count.
        max_message_size: the largest message this side takes, bytes; None or 0: any.
        on_demand: a missing node may be made for the link. Never sent on the wire; False in dialects that declare
            their nodes.
    """

    name: str
    source: Source | None = None
    target: Target | Coordinator | None = None
    settle_mode: SenderSettleMode = "mixed"
    receiver_settle_mode: ReceiverSettleMode = "first"
    unsettled: Mapping[bytes, DeliveryState | None] | None = None
    incomplete_unsettled: bool = False
    initial_delivery_count: int = 0
    max_message_size: int | None = None
    offered_capabilities: tuple[str, ...] = ()
    desired_capabilities: tuple[str, ...] = ()
    properties: Mapping[Any, Any] = field(default_factory=dict)
    on_demand: bool = True

    def checked(self) -> Self:
        """Check the terms, and return them.

        Raises:
            ValueError: a settle mode is unknown, an attach cannot express the size, or a terminus makes no sense.
        """
        for terminus in (self.source, self.target):
            if isinstance(terminus, Source | Target):
                _check_terminus(terminus)
        for name, modes in (("settle_mode", SenderSettleMode), ("receiver_settle_mode", ReceiverSettleMode)):
            if (mode := getattr(self, name)) not in get_args(modes):
                raise ValueError(f"{name} must be one of {', '.join(get_args(modes))}, not {without_secrets(mode)}")
        _check("max_message_size", self.max_message_size or 0, 0, _ULONG_MAX)
        return self


def _check_terminus(terminus: Source | Target) -> None:
    """Check what no peer could make sense of (§3.5.3, §3.5.4, §1.5).

    Raises:
        ValueError: the address is no string, dynamic and an address or properties without dynamic are said, or the
            descriptor of a filter is neither symbol nor ulong.
    """
    kind, address = type(terminus).__name__, terminus.address
    if not isinstance(address, str | None):
        raise ValueError(f"{kind}: address must be a str, not {without_secrets(address)}")
    _check(f"{kind}: timeout", terminus.timeout, 0, _UINT_MAX)
    if terminus.dynamic and address is not None:
        raise ValueError(
            f"{kind}: the peer chooses the address of a dynamic node: leave out the address {address!r}, or dynamic"
        )
    if terminus.dynamic_node_properties and not terminus.dynamic:
        raise ValueError(f"{kind}: dynamic_node_properties need dynamic=True, for they describe a node to make")
    for name, each in ((terminus.filter or {}) if isinstance(terminus, Source) else {}).items():
        if isinstance(each, Described) and type(each.descriptor) not in (Symbol, ULong):
            raise ValueError(
                f"{kind}: the descriptor of the filter {name!r:.60} must be a Symbol or ULong, not {each!r:.60}"
            )
