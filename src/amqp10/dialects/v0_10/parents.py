"""What sessions know of the engine that they are on, and the engine of its sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from .._kit.parents import EventEngine

if TYPE_CHECKING:
    from ...errors import AmqpError
    from .wire.frames import Assembly
    from .wire.struct import Control


class EngineSession(Protocol):
    """A session, as its engine sees it."""

    @property
    def channel(self) -> int: ...

    def receive(self, assembly: Assembly) -> None: ...

    def flush(self) -> None: ...

    def settle_events(self) -> None: ...

    def connection_closes(self) -> None: ...

    @property
    def resumable(self) -> bool: ...

    def suspend(self) -> None: ...

    def over(self, error: AmqpError | None) -> None: ...


class EndpointEngine(EventEngine, Protocol):
    """The engine, as its sessions see it.

    Attributes:
        sessions: all sessions of the connection, by channel.
    """

    sessions: dict[int, EngineSession]

    @property
    def max_payload(self) -> int:
        """Return the octets of payload that fit one frame of ours."""

    def write(self, data: bytes | bytearray) -> None:
        """Queue octets."""

    def write_control(self, control: Control, channel: int = 0) -> None:
        """Queue a control."""

    def flush_later(self, session: EngineSession) -> None:
        """Flush `session` before the next output."""

    def tell_later(self, session: EngineSession) -> None:
        """Tell what `session` has gathered (`settle_events`) with the next events."""

    def settle_events(self) -> None:
        """Tell what all sessions have gathered."""
