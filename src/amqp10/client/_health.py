"""How a connection is, as one cheap look at it: for probes, gauges and people (`Connection.health`)."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Final, Literal
from weakref import WeakKeyDictionary

from ..engine import Link as EngineLink
from ..engine import UnsettledCount
from ..errors import AmqpError
from ..types import serial_diff
from ._core.connection import ConnectionCore, LinkCore

MAX_LOOKS: Final = 64
"""Looks at a link that are remembered; of more, every second one is forgotten."""

ConnectionState = Literal["connecting", "open", "blocked", "interrupted", "closing", "closed"]


@dataclass(frozen=True, slots=True)
class LinkHealth:
    """How one sender or receiver is.

    Attributes:
        kind: "sender" or "receiver".
        name: the link's name.
        address: what it was attached to; None for what has no address.
        open: it can be used now; False while it is interrupted.
        credit: of a sender, the messages that it may send now; of a receiver, those that the peer may send.
        unsettled: deliveries without an outcome, those that wait here to be received among them.
        oldest_unsettled: seconds that the oldest of these has been without, as far as was seen; 0.0 without any.
    """

    kind: str
    name: str
    address: str | None
    open: bool
    credit: int
    unsettled: int
    oldest_unsettled: float


@dataclass(frozen=True, slots=True)
class Health:
    """How a connection is at this moment; what `Connection.health` returns.

    No message is timed for it. The age of a delivery is found by comparing one look with the next: it is never more
    than the true age, and less by the time between two looks at most. It counts from when the link was attached.

    Attributes:
        state: "connecting" before the first open; "open"; "blocked", open but the broker takes no messages (0-9-1);
            "interrupted", lost and to be restored; "closing"; "closed", which it stays.
        state_age: seconds that it has been so.
        url: where it leads, without credentials.
        cause: why it is interrupted or closed; None otherwise, and where it was closed in order.
        received_age, sent_age: seconds since the peer, and this side, sent something; None if not on this transport.
        reconnects: how often it was restored.
        unsettled: deliveries of all links without an outcome.
        oldest_unsettled: seconds that the oldest of these has been without; 0.0 without any.
        credit: the credit of the sender that has least; None without senders. 0: it waits for its receiver.
        window: transfer frames that the peer takes now, on the session that has least; None in dialects without a
            window, and without links.
        queued: bytes that wait to be written.
        token_expires_in: seconds until the token of the login ends, or the first of those at `$cbs`; None without one.
        counts: how often what the log `amqp10.connection` tells has happened, by its names; see the page "Health".
        links: all that are attached, or to be attached again.
    """

    state: ConnectionState
    state_age: float
    url: str
    cause: Exception | None
    received_age: float | None
    sent_age: float | None
    reconnects: int
    unsettled: int
    oldest_unsettled: float
    credit: int | None
    window: int | None
    queued: int
    token_expires_in: float | None
    counts: Mapping[str, int]
    links: tuple[LinkHealth, ...]

    @property
    def live(self) -> bool:
        """Whether the connection is there, or comes back by itself: if not, the program has to make a new one."""
        return self.state not in ("closing", "closed")

    @property
    def ready(self) -> bool:
        """Whether messages can be sent and received now: it is open and not blocked, and all its links are open.

        It stays True while one sender waits because its queue is full: see `credit`.
        """
        return self.state == "open" and all(link.open for link in self.links)


class UnsettledAges:
    """How long deliveries of one link have been unsettled, found by looking now and then.

    Each look notes the newest delivery that there was. Whatever is not newer than that was there then.
    """

    def __init__(self) -> None:
        self._link: EngineLink | None = None
        self._looks: deque[tuple[float, int]] = deque()  # when, and the delivery-id of the newest; oldest look first
        self._held_since: float | None = None  # when the oldest was seen that has no delivery-id yet

    def oldest(self, link: EngineLink, unsettled: UnsettledCount, now: float) -> float:
        """Return the age of the oldest of these, and note this look; delivery-ids are of one attachment only."""
        looks = self._looks
        if link is not self._link:
            self._link = link
            looks.clear()
        total, first, last = unsettled
        if first is None:
            looks.clear()
            if not total:
                self._held_since = None
            elif self._held_since is None:
                self._held_since = now  # it waits for the session's window
            return now - self._held_since if self._held_since is not None else 0.0
        if not looks and self._held_since is not None:
            looks.append((self._held_since, first))
        self._held_since = None
        while looks and serial_diff(looks[0][1] & 0xFFFF_FFFF, first & 0xFFFF_FFFF) < 0:
            looks.popleft()
        looks.append((now, first if last is None else last))
        if len(looks) > MAX_LOOKS:
            self._looks = deque([each for at, each in enumerate(looks) if at % 2 == 0])
        return now - looks[0][0]

    def interrupted(self, now: float) -> float:
        """Return the age of the oldest delivery while there is no link to ask."""
        return now - self._looks[0][0] if self._looks else 0.0


class HealthMonitor:
    """What a connection remembers for its health.

    Attributes:
        blocked: the broker takes no messages.
        since: when the state changed last.
    """

    def __init__(self) -> None:
        self.blocked: bool = False
        self.since: float = monotonic()
        self._ages: WeakKeyDictionary[LinkCore, UnsettledAges] | None = None  # created for the first look

    def changed(self, *, blocked: bool = False) -> None:
        """Note that the connection's state has changed."""
        self.blocked = blocked
        self.since = monotonic()

    def look(self, connection: ConnectionCore) -> Health:
        """Look at the connection."""
        now = monotonic()
        pump = connection.pump
        links = [self._look_at(link, now) for link in connection.links]
        senders = [link.credit for link in links if link.kind == "sender"]
        counts = connection.observers.counts
        state = self._state(connection)
        return Health(
            state=state,
            state_age=now - self.since,
            url=connection.url,
            cause=self._cause(connection, state),
            received_age=_age(now, pump.received_at) if pump is not None else None,
            sent_age=_age(now, pump.sent_at) if pump is not None else None,
            reconnects=counts["connection_restored"],
            unsettled=sum(link.unsettled for link in links),
            oldest_unsettled=max((link.oldest_unsettled for link in links), default=0.0),
            credit=min(senders, default=None),
            window=_window(connection),
            queued=pump.waiting if pump is not None and connection.established else 0,
            token_expires_in=connection.tokens.seconds_left if connection.tokens is not None else None,
            counts=dict(counts),
            links=tuple(links),
        )

    def _state(self, connection: ConnectionCore) -> ConnectionState:
        if connection.over:
            return "closed"
        if connection.closed:
            return "closing"
        if connection.interrupted:
            return "interrupted"
        if connection.open:
            return "blocked" if self.blocked else "open"
        return "connecting"

    def _cause(self, connection: ConnectionCore, state: ConnectionState) -> Exception | None:
        cause: AmqpError | Exception | None = None
        if state == "closed":
            cause = connection.failure or connection.cause
        elif state == "interrupted":
            cause = connection.loss
        return cause

    def _look_at(self, link: LinkCore, now: float) -> LinkHealth:
        if self._ages is None:
            self._ages = WeakKeyDictionary()
        ages = self._ages.get(link)
        if ages is None:
            self._ages[link] = ages = UnsettledAges()
        engine_link = link.engine_link
        if engine_link is None or link.interrupted:
            unsettled = len(link.pending)
            oldest = ages.interrupted(now) if unsettled else 0.0
        else:
            counted = engine_link.count_unsettled()
            unsettled = counted.total
            oldest = ages.oldest(engine_link, counted, now)
        return LinkHealth(
            kind=link.kind,
            name=link.name,
            address=getattr(link.terminus, "address", None),
            open=link.open,
            credit=engine_link.credit if engine_link is not None and link.open else 0,
            unsettled=unsettled,
            oldest_unsettled=oldest,
        )


def _age(now: float, moment: float | None) -> float | None:
    return now - moment if moment is not None else None


def _window(connection: ConnectionCore) -> int | None:
    if not connection.established:
        return None
    windows = [session.in_engine.peer_window for session in set(connection.links.values()) if session.established]
    return min((each for each in windows if each is not None), default=None)
