"""What links know of their session and its engine in every dialect: where their events go. See `engine._parents`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ...engine import LinkSession, SessionEngine

if TYPE_CHECKING:
    from ...engine import Event


class Batcher(Protocol):
    """An object that collects what it has to write, and writes it before the next output: in `flush`."""

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
