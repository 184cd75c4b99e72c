"""What the engines of all dialects share: what is known at first, the open, events out, the end of the transport."""

from __future__ import annotations

import math
from abc import abstractmethod
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from ..._machine import Machine
from ...errors import AmqpError, ConnectionLost, LocalProtocolError
from .timers import TimedEngine

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...engine import ConnectionTerms, Event, Role

State = TypeVar("State", bound=Enum)

COSTLY: Final = 20
"""The cost of input that is no part of a message, such as an attach: as much as that many messages."""


class EngineBase(TimedEngine, Machine[State]):
    """One end of a connection; see `Engine` for the contract.

    Attributes:
        over: nothing more is read. `entered` of each dialect sets it.
        left: what is left of the portion (see `Engine`).
        put_off_work: what the next portion begins with; None: the next input.
    """

    noun = "connection"
    over: bool = False
    behind: bool = False
    left: float = math.inf
    put_off_work: Callable[[], None] | None = None

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

    # The input, in portions

    def begin_portion(self) -> None:
        """Begin to work off a portion of the input."""
        # Most connections are never behind. With one more attribute the dict of an engine would share no keys: a KiB.
        if self.behind:
            self.behind = False
        self.left = math.inf if self.portion is None else self.portion

    def put_off(self, work: Callable[[], None]) -> None:
        then = self.put_off_work
        self.put_off_work = work if then is None else partial(self._in_turn, work, then)
        self.left, self.behind = 0, True

    def _in_turn(self, work: Callable[[], None], then: Callable[[], None]) -> None:
        """Do two things that were put off, the second in a later portion if the first fills this one."""
        work()
        if self.left > 0:
            then()
        elif self.put_off_work is None:
            self.put_off_work = then
        else:
            self.put_off_work = partial(self._in_turn, self.put_off_work, then)

    def take_up(self) -> bool:
        """Do what was put off, before anything is read; return whether to read on."""
        if self.put_off_work is not None:
            work, self.put_off_work = self.put_off_work, None
            work()
        if self.left > 0 and not self.over:
            return True
        self.behind = not self.over
        return False

    def when_handled(self, work: Callable[[], None]) -> None:
        """Do something that ends what the peer did before, once the owner has handled that: in the next portion."""
        if self.portion is None or not self.reading:
            work()
        else:
            self.put_off(work)

    def in_portions(
        self, numbers: Sequence[int], settle: Callable[[Sequence[int]], None], then: Callable[[], None]
    ) -> None:
        """Call `settle` with as many deliveries as the portion has room for, later with the others; at last `then`."""
        most = int(min(max(1, self.left), len(numbers)))
        self.left -= most
        settle(numbers[:most])
        if most == len(numbers):
            then()
        else:
            self.put_off(partial(self.in_portions, numbers[most:], settle, then))

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
