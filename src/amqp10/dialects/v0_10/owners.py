"""What sessions use of the engine that they are on."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from .._kit.timers import TimedEngine

if TYPE_CHECKING:
    from ...engine import ConnectionTerms, Event
    from .wire.struct import Control


class EngineCore(TimedEngine):
    """The engine, as its sessions see it.

    Attributes:
        max_payload: octets of payload that fit one frame of ours.
        sessions: all sessions of the connection, by channel.
    """

    terms: ConnectionTerms
    opened: bool
    max_payload: int
    sessions: dict[int, Any]

    @abstractmethod
    def emit(self, event: Event) -> None:
        """Tell the owner of `event`."""

    @abstractmethod
    def write(self, data: bytes | bytearray) -> None:
        """Queue octets."""

    @abstractmethod
    def write_control(self, control: Control, channel: int = 0) -> None:
        """Queue a control."""

    @abstractmethod
    def flush_later(self, session: Any) -> None:
        """Flush `session` before the next output."""

    @abstractmethod
    def tell_later(self, session: Any) -> None:
        """Tell what `session` has gathered (`settle_events`) with the next events."""

    @abstractmethod
    def settle_events(self) -> None:
        """Tell what all sessions have gathered."""
