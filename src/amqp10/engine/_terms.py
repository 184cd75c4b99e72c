"""What each side says of an endpoint when it opens it, in AMQP 1.0's words; values only.

`checked` is for what this side is about to say: a peer may say what it likes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

from ..messaging import Source, Target

if TYPE_CHECKING:
    from ..messaging import Coordinator, DeliveryState

SenderSettleMode = Literal["unsettled", "settled", "mixed"]
ReceiverSettleMode = Literal["first", "second"]

_UINT_MAX = 0xFFFF_FFFF
_ULONG_MAX = 0xFFFF_FFFF_FFFF_FFFF


def _check(name: str, value: float, least: int, most: int) -> None:
    if not least <= value <= most:
        raise ValueError(f"{name} is {least} to {most}, not {value}")


class Role(Enum):
    """Which end of a connection an engine plays."""

    CLIENT = "client"
    SERVER = "server"


@dataclass(frozen=True, slots=True)
class ConnectionTerms:
    """One side's word on the connection (§2.7.1).

    Attributes:
        container_id: the name of the container.
        hostname: the virtual host asked for; None from a server.
        max_frame_size: the largest frame this side takes, bytes, 512 at least.
        channel_max: the highest channel number this side takes, 0..65535.
        idle_timeout: seconds of silence after which this side gives the connection up; None for never.
            Ours is what we enforce (half of it is advertised); the peer's is what it advertised.
        path: of the URL, percent-decoded, or else the hostname that was given: the virtual host, in dialects that have
            such.
        max_message_size: the largest message this side takes, bytes, where no link can say it; None for any.
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

    @property
    def virtual_host(self) -> str | None:
        """What dialects before 1.0 ask for: a hostname "vhost:NAME" says it, as for RabbitMQ in 1.0; or the path."""
        if self.hostname is not None and self.hostname.startswith("vhost:"):
            return self.hostname.removeprefix("vhost:")
        return self.path or None

    def checked(self) -> Self:
        """The same.

        Raises:
            ValueError: a limit that no open can say.
        """
        _check("max_frame_size", self.max_frame_size, 512, _UINT_MAX)
        _check("channel_max", self.channel_max, 0, 0xFFFF)
        _check("idle_timeout", self.idle_timeout or 0, 0, 2 * _UINT_MAX // 1000)
        return self


@dataclass(frozen=True, slots=True)
class SessionTerms:
    """One side's word on a session (§2.7.2).

    Attributes:
        incoming_window: how many transfer frames this side takes before it refreshes the window.
        outgoing_window: how many transfer frames this side may hold back, as told to the peer.
        handle_max: the highest link handle this side takes.
        next_outgoing_id: the first transfer-id that this side will use.
        timeout: seconds that the peer shall keep the session when its transport is lost, in dialects with
            "session-resume"; it may keep it for less, or not at all. In the peer's word: those that it does.
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
        """The same.

        Raises:
            ValueError: a limit that no begin can say, or a window through which nothing comes.
        """
        _check("incoming_window", self.incoming_window, 1, _UINT_MAX)
        _check("handle_max", self.handle_max, 0, _UINT_MAX)
        return self


@dataclass(frozen=True, slots=True)
class LinkTerms:
    """One side's word on a link (§2.7.3).

    Attributes:
        name: names the link between the two containers, with its direction.
        source, target: the termini; None for a null terminus.
        settle_mode: how the sender settles.
        receiver_settle_mode: how the receiver settles.
        unsettled: delivery-tag -> state of what this side still holds unsettled (§2.6.13); None for a link
            that begins anew. Where deliveries are given to be resumed, the engine says theirs.
        incomplete_unsettled: the map was too large to be said whole.
        initial_delivery_count: the sender's first delivery-count.
        max_message_size: the largest message this side takes, bytes; None or 0 for any.
        on_demand: a node that is not there may be made for the link. Never said on the wire: in dialects that declare
            their nodes it is False.
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
        """The same.

        Raises:
            ValueError: no settle mode, a size that no attach can say, or a dynamic terminus with an address.
        """
        for terminus in (self.source, self.target):
            if isinstance(terminus, Source | Target) and terminus.dynamic and terminus.address is not None:
                kind, address = type(terminus).__name__, terminus.address
                raise ValueError(
                    f"{kind}: the peer names a dynamic node; leave out the address {address!r}, or dynamic"
                )
        for name, modes in (("settle_mode", SenderSettleMode), ("receiver_settle_mode", ReceiverSettleMode)):
            if getattr(self, name) not in get_args(modes):
                raise ValueError(f"{name} is one of {', '.join(get_args(modes))}, not {getattr(self, name)!r}")
        _check("max_message_size", self.max_message_size or 0, 0, _ULONG_MAX)
        return self
