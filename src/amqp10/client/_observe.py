"""What a connection tells of its own life: lost, tried, restored, given up; for logs, metrics and health checks."""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final
from weakref import WeakSet

import anyio

from ..errors import AmqpError
from ._endpoint import busy

if TYPE_CHECKING:
    from ._link import Link

_log = logging.getLogger("amqp10.connection")

MOST_KEPT: Final = 1000
"""Events that wait for one observer; of more, the oldest are dropped."""


@dataclass(frozen=True, slots=True)
class ConnectionEvent:
    """The base of all these.

    Connections without `reconnect` have none but `ConnectionBlocked`, `ConnectionUnblocked` and `ConnectionGivenUp`.

    Attributes:
        level: at which it is logged: WARNING where something was lost or is refused, else INFO.
    """

    level: ClassVar[int] = logging.INFO


@dataclass(frozen=True, slots=True)
class ConnectionInterrupted(ConnectionEvent):
    """The connection was lost, and is to be restored."""

    level: ClassVar[int] = logging.WARNING
    cause: AmqpError | None


@dataclass(frozen=True, slots=True)
class ConnectionAttempted(ConnectionEvent):
    """An attempt failed.

    Attributes:
        number: of the attempt, 1 for the first after the loss, or at all.
        url: where to, without credentials.
        error: why it failed.
    """

    level: ClassVar[int] = logging.WARNING
    number: int
    url: str
    error: Exception


@dataclass(frozen=True, slots=True)
class ConnectionRestored(ConnectionEvent):
    """The connection is open again.

    Attributes:
        url: where to, without credentials.
        downtime: seconds since the loss.
    """

    url: str
    downtime: float


@dataclass(frozen=True, slots=True)
class ConnectionGivenUp(ConnectionEvent):
    """The connection is over for a fault: it is not tried, or not again. One that is left in order tells nothing.

    Without `reconnect` it is logged at level INFO, for whoever uses the connection gets the error.
    """

    level: ClassVar[int] = logging.WARNING
    cause: Exception | None


@dataclass(frozen=True, slots=True)
class ConnectionBlocked(ConnectionEvent):
    """The broker takes no messages for now, as RabbitMQ says in 0-9-1 when memory or disk run out; who sends waits.

    Attributes:
        reason: the broker's words.
    """

    level: ClassVar[int] = logging.WARNING
    reason: str


@dataclass(frozen=True, slots=True)
class ConnectionUnblocked(ConnectionEvent):
    """It takes them again."""


@dataclass(frozen=True, slots=True)
class LinkInterrupted(ConnectionEvent):
    """The peer detached a link or ended its session; it is to be attached again."""

    level: ClassVar[int] = logging.WARNING
    link: Link
    cause: AmqpError | None


@dataclass(frozen=True, slots=True)
class LinkRestored(ConnectionEvent):
    """A link is attached again.

    Attributes:
        resumed: with its unsettled deliveries (§2.6.13).
    """

    link: Link
    resumed: bool


@dataclass(frozen=True, slots=True)
class DeclarationRefused(ConnectionEvent):
    """What was declared before the loss could not be declared again, and is not tried any more.

    Attributes:
        what: "queue NAME", "exchange NAME", or "binding EXCHANGE" for one of that exchange's.
        cause: why: the server's words, mostly.
    """

    level: ClassVar[int] = logging.WARNING
    what: str
    cause: AmqpError


class Observer:
    """The events from the moment it was made; an async iterator, which ends with the connection."""

    def __init__(self, over: bool) -> None:
        self._waiting: deque[ConnectionEvent] = deque(maxlen=MOST_KEPT)
        self._over = over
        self._news: anyio.Event | None = None  # of the task that waits

    def _tell(self, event: ConnectionEvent | None) -> None:
        if event is None:
            self._over = True
        else:
            self._waiting.append(event)
        if self._news is not None:
            self._news.set()

    def __aiter__(self) -> Observer:
        return self

    async def __anext__(self) -> ConnectionEvent:
        """Wait for the next event.

        Raises:
            StopAsyncIteration: the connection is over, and all was told.
            anyio.BusyResourceError: another task waits for it; each has an observer of its own.

        Cancelling: no event is lost.
        """
        if self._news is not None:
            raise busy("waiting for the next event")
        while not self._waiting:
            if self._over:
                raise StopAsyncIteration
            self._news = anyio.Event()
            try:
                await self._news.wait()
            finally:
                self._news = None
        return self._waiting.popleft()


class Observers:
    """Those who look on, and the log `amqp10.connection`.

    Attributes:
        logs: what is told is logged, too.
    """

    def __init__(self) -> None:
        self._all: WeakSet[Observer] = WeakSet()
        self._over = False
        self.logs = True

    def add(self) -> Observer:
        observer = Observer(self._over)
        self._all.add(observer)
        return observer

    def tell(self, event: ConnectionEvent, level: int | None = None) -> None:
        if self.logs:
            _log.log(level or event.level, "%s", event)
        for observer in list(self._all):
            observer._tell(event)

    def end(self) -> None:
        self._over = True
        for observer in list(self._all):
            observer._tell(None)
