"""What the engines of all dialects share: what is known at first, the open, events out, the end of the transport."""

from __future__ import annotations

from abc import abstractmethod
from enum import Enum
from typing import TYPE_CHECKING, TypeVar

from ..._machine import Machine
from ...errors import AmqpError, ConnectionLost, LocalProtocolError
from .timers import TimedEngine

if TYPE_CHECKING:
    from ...engine import ConnectionTerms, Event, Role

State = TypeVar("State", bound=Enum)


class EngineBase(TimedEngine, Machine[State]):
    """One end of a connection; see `Engine` for the contract.

    Attributes:
        over: nothing more is read. `entered` of each dialect sets it.
    """

    noun = "connection"
    over: bool = False

    def __init__(self, role: Role, terms: ConnectionTerms, capabilities: frozenset[str]) -> None:
        self.role = role
        self.terms: ConnectionTerms = terms
        self.remote: ConnectionTerms | None = None
        self.identity: str | None = None
        self.capabilities = capabilities
        self.opened: bool = False
        self.output_size: int = 0
        self._events: list[Event] = []
        self._open_asked = False  # no state: the owner may ask in any, even before the header is sent

    def open(self, terms: ConnectionTerms | None = None) -> None:
        if self._open_asked:
            raise LocalProtocolError("the connection was opened already")
        if self.over:
            return  # it ended meanwhile: `ConnectionEnded` is among the same events
        if terms is not None:
            self.terms = terms
        self._open_asked = True
        self.open_if_asked()

    @abstractmethod
    def open_if_asked(self) -> None:
        """Open the connection, or answer the peer that opened it, if the owner has asked for that and it is time."""

    def emit(self, event: Event) -> None:
        self._events.append(event)

    def events(self) -> list[Event]:
        events, self._events = self._events, []
        return events

    def _transport_ended(self, closed: bool, awaited: str | None) -> None:
        """End the connection with its transport.

        Args:
            closed: this side has sent its close.
            awaited: what this side waited for; None if the connection was open.
        """
        if not self.over:
            how = "without closing the connection" if awaited is None else f"while this side waited for {awaited}"
            self.finish(None if closed else ConnectionLost(f"the peer ended the transport {how}"))

    @abstractmethod
    def finish(self, error: AmqpError | None) -> None:
        """End the connection, and everything on it; `error` is the cause, None for an orderly end."""
