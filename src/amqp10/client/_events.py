"""What a connection tells of its own life: lost, tried, restored, given up; for logs, metrics and health checks.

Each event is one line on the logger `amqp10.connection`, counted under its name (`Health.counts`), and told to whoever
iterates over `Connection.events()`.
"""

from __future__ import annotations

import dataclasses
import logging
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final
from weakref import WeakSet

import anyio

from .._arguments import Renamed
from ..errors import AmqpError, AuthenticationFailed
from ..net import visible
from ._errors import busy

_log = logging.getLogger("amqp10.connection")

MAX_KEPT: Final = 1000
"""Events that wait for one observer; of more, the oldest are dropped."""

LOGIN_REFUSED: Final = "login_refused"


@dataclass(frozen=True, slots=True)
class ConnectionEvent:
    """The base of all these.

    Connections without `reconnect` have none but `ConnectionBlocked`, `ConnectionUnblocked`, `ConnectionGivenUp`,
    `TokenRenewed` and `TokenRefused`.

    Attributes:
        level: at which it is logged: WARNING where something was lost or is refused, else INFO.
        name: what it is in the log's field `amqp_event`, and in `Health.counts`.
    """

    level: ClassVar[int] = logging.INFO
    kind: ClassVar[str] = "event"

    @property
    def name(self) -> str:
        return self.kind

    def describe(self) -> str:
        """Return what happened, as the log says it after the connection's URL."""
        return self.name

    def fields(self) -> dict[str, Any]:
        """Return what the log record has beside its text, by the names of its attributes."""
        fields = {f"amqp_{each.name}": getattr(self, each.name) for each in dataclasses.fields(self)}
        return fields | cause_fields(fields.pop("amqp_cause", None))

    if not TYPE_CHECKING:
        said = Renamed("describe")


def cause_fields(cause: BaseException | None) -> dict[str, Any]:
    """Return the fields of a log record that say why something happened."""
    if cause is None:
        return {}
    fields: dict[str, Any] = {"amqp_error": type(cause).__name__}
    condition = getattr(cause, "condition", None)
    if condition is not None:
        fields["amqp_condition"] = str(condition)
    return fields


def because(cause: BaseException | None) -> str:
    """Return why, for the end of a sentence; "" where no reason is known."""
    return f": {type(cause).__name__}: {cause}" if cause is not None else ""


@dataclass(frozen=True, slots=True)
class ConnectionInterrupted(ConnectionEvent):
    """The connection was lost, and is to be restored."""

    level: ClassVar[int] = logging.WARNING
    kind: ClassVar[str] = "connection_lost"
    cause: AmqpError | None

    def describe(self) -> str:
        return f"the connection was lost{because(self.cause)}"


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

    @property
    def name(self) -> str:
        return LOGIN_REFUSED if isinstance(self.error, AuthenticationFailed) else "attempt_failed"

    def describe(self) -> str:
        what = "the login was refused" if self.name == LOGIN_REFUSED else "no connection"
        return f"{what} at attempt {self.number}, to {self.url or 'what a callable says'}{because(self.error)}"

    def fields(self) -> dict[str, Any]:
        return {"amqp_attempt": self.number, "amqp_url": self.url, **cause_fields(self.error)}


@dataclass(frozen=True, slots=True)
class ConnectionRestored(ConnectionEvent):
    """The connection is open again, and all sessions are restored.

    Attributes:
        url: where to, without credentials.
        downtime: seconds since the loss.
    """

    kind: ClassVar[str] = "connection_restored"
    url: str
    downtime: float

    def describe(self) -> str:
        return f"the connection is back after {self.downtime:.3g} s, to {self.url}"


@dataclass(frozen=True, slots=True)
class ConnectionGivenUp(ConnectionEvent):
    """The connection is over for a fault: it is not tried, or not again. One that is left in order tells nothing.

    Without `reconnect` it is logged at level INFO, for whoever uses the connection gets the error; so is the end of one
    that is left while it is away.
    """

    level: ClassVar[int] = logging.WARNING
    cause: Exception | None

    @property
    def name(self) -> str:
        return LOGIN_REFUSED if isinstance(self.cause, AuthenticationFailed) else "connection_given_up"

    def describe(self) -> str:
        what = "the login was refused" if self.name == LOGIN_REFUSED else "the connection is over"
        return f"{what}, and is not tried again{because(self.cause)}"


@dataclass(frozen=True, slots=True)
class ConnectionBlocked(ConnectionEvent):
    """The broker takes no messages for now, as RabbitMQ says in 0-9-1 when memory or disk run out; senders wait.

    Attributes:
        reason: the broker's words.
    """

    level: ClassVar[int] = logging.WARNING
    kind: ClassVar[str] = "connection_blocked"
    reason: str

    def describe(self) -> str:
        return f"the broker takes no messages for now: {self.reason}"


@dataclass(frozen=True, slots=True)
class ConnectionUnblocked(ConnectionEvent):
    """It takes them again."""

    kind: ClassVar[str] = "connection_unblocked"

    def describe(self) -> str:
        return "the broker takes messages again"


@dataclass(frozen=True, slots=True)
class DeclarationRefused(ConnectionEvent):
    """What was declared before the loss could not be declared again, and is not tried any more.

    Attributes:
        what: "queue NAME", "exchange NAME", or "binding EXCHANGE" for one of that exchange's.
        cause: why: the server's words, mostly.
    """

    level: ClassVar[int] = logging.WARNING
    kind: ClassVar[str] = "declaration_refused"
    what: str
    cause: AmqpError

    def describe(self) -> str:
        return f"{self.what} could not be declared again{because(self.cause)}"


@dataclass(frozen=True, slots=True)
class TokenRenewed(ConnectionEvent):
    """The peer has a new token.

    Attributes:
        audience: what it is for; "login" for the one that the connection logged in with.
        expires_on: when it ends, seconds since 1970; None: it does not.
    """

    kind: ClassVar[str] = "token_renewed"
    audience: str
    expires_on: float | None

    def describe(self) -> str:
        return f"the peer has a new token for {self.audience}"


@dataclass(frozen=True, slots=True)
class TokenRefused(ConnectionEvent):
    """A token could not be had, or the peer did not take it. The one before counts until it ends.

    Attributes:
        audience: as for `TokenRenewed`.
        cause: why: what the source raised is its `__cause__`.
        again_in: seconds until the next try; None: the token before has ended, too, and it is not tried again.
    """

    level: ClassVar[int] = logging.WARNING
    kind: ClassVar[str] = "token_refused"
    audience: str
    cause: Exception
    again_in: float | None

    def describe(self) -> str:
        again = "it is not tried again" if self.again_in is None else f"it is tried again in {self.again_in:.3g} s"
        return f"no new token for {self.audience}, and {again}{because(self.cause)}"


class Observer:
    """The events from the moment it was made; an async iterator, which ends with the connection."""

    def __init__(self, over: bool) -> None:
        self._waiting: deque[ConnectionEvent] = deque(maxlen=MAX_KEPT)
        self._over = over
        self._news: anyio.Event | None = None  # of the task that waits

    def __repr__(self) -> str:
        return f"<events: {len(self._waiting)} waiting>"

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

    Args:
        where: names the connection, without credentials.

    Attributes:
        logs: what is told is logged, too.
        counts: how often something of each name was told; of events of several messages, those.
    """

    def __init__(self, where: Callable[[], str] = str) -> None:
        self._where = where
        self._all: WeakSet[Observer] | None = None  # created for the first
        self._over = False
        self.logs = True
        self.counts: Counter[str] = Counter()

    def add(self) -> Observer:
        observer = Observer(self._over)
        if self._all is None:
            self._all = WeakSet()
        self._all.add(observer)
        return observer

    def tell(self, event: ConnectionEvent, level: int | None = None) -> None:
        fields = event.fields()
        self.counts[event.name] += fields.get("amqp_count", 1)
        if self.logs:
            where = self._where()
            fields = {"amqp_event": event.name, "amqp_url": where, **fields}
            _log.log(level or event.level, "%s", visible(f"{where}: {event.describe()}"), extra=fields)
        for observer in list(self._all or ()):
            observer._tell(event)

    def end(self) -> None:
        self._over = True
        for observer in list(self._all or ()):
            observer._tell(None)
