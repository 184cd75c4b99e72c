"""What links know of their session and its engine in every dialect: where their events go. See `engine._parents`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ...engine import LinkSession, SessionEngine

if TYPE_CHECKING:
    from ...engine import Event


class Flushed(Protocol):
    """An object that keeps back what it has to write, to merge it, until the next output."""

    def flush(self) -> None: ...


class EventEngine(SessionEngine, Protocol):
    """The engine of a session, which takes its events."""

    def emit(self, event: Event) -> None: ...


class EventSession(LinkSession, Protocol):
    """The session of a link, whose engine takes the link's events."""

    @property
    def engine(self) -> EventEngine: ...


class EventSource(Protocol):
    """An object whose engine takes its events."""

    @property
    def engine(self) -> EventEngine: ...
