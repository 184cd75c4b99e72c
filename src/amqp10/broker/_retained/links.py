"""Links that can be resumed (§2.6.13): what a link held unsettled is kept when it is lost, for as long as was asked.

A link is known by the user's container, its name and its direction (§2.6.1). The broker's own terminus of it, the
target of what a producer sends and the source of what a consumer gets, says by expiry policy and timeout how long its
state is kept without a link (§3.5.6). One that asks for neither has the default, "session-end": it is found again on
its connection only, and a dynamic node lives as long. It ends

- with a closing detach;
- when its time is up;
- when a link of that name begins anew, or with another node;
- with its queue.

Of a producer, the outcome of each unsettled delivery is kept, and the received part of a message that was cut off; of
a consumer, the messages that it holds: nobody else gets them until then.

A `LinkJournal` is told of all this while it happens, so that it can outlive the broker.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from .._deadlines import Deadlines
from .._log import attempt
from .._queues.topic import Owner
from .subscriptions import EXPIRES, ExpiryTrigger, Lifetime

if TYPE_CHECKING:
    from ...messaging import DeliveryState, Source, Target
    from .._queues.message import Clock, QueuedMessage
    from .._queues.node import Node

Direction = Literal["in", "out"]

MOST_PARTS = 64 * 1024 * 1024
"""Bytes of messages cut off that are kept, of all suspended links; those beyond are sent again from the beginning."""


MOST_OF_CONNECTION = 4096
"""Links that end with their session: a connection with more of them, attached or not, has none kept that detaches."""


@dataclass(frozen=True, slots=True)
class LinkKey:
    """What names a link; `direction` is the broker's: what it receives comes "in".

    `connection`: that of a link that ends with its session; None for one that is found again on another.
    """

    owner: Owner
    name: str
    direction: Direction
    connection: object = None


@dataclass(slots=True, eq=False)
class ResumableLink:
    """A link that can be resumed.

    Attributes:
        node: where its messages go or come from; None for the anonymous terminus.
        lifetime: as it was answered.
        deliveries: what it holds, while no attachment does.
        requeue: ends what it holds; None while it is attached.
        steal: takes it away from its attachment; None while it has none.
        consumer: the key of the consumer that it is, for its queue; the same in all attachments.
        parts: bytes of a message cut off, among `deliveries`.
        session, connection: those of its last attachment.
        attached_by: the number of the connection that attached it last; 0 if that has detached it by its own will.
        owned: the dynamic node that lives with it, while no attachment has that.
        deadline: when it ends, on the broker's clock; None while that is not settled.
    """

    key: LinkKey
    node: Node | None
    lifetime: Lifetime
    deliveries: list[Any] = field(default_factory=list)
    requeue: Callable[[list[Any]], None] | None = None
    steal: Callable[[], None] | None = None
    consumer: int | None = None
    parts: int = 0
    session: object = None
    connection: object = None
    attached_by: int = 0
    owned: Node | None = None
    deadline: float | None = None


class LinkJournal(ABC):
    """Records links that can be resumed; called in the pass of the scheduler in which something happens."""

    @abstractmethod
    def began(self, link: ResumableLink) -> None:
        """Record that a link was attached that can be resumed, anew or resumed itself."""

    @abstractmethod
    def noted(self, link: ResumableLink, tag: bytes, state: DeliveryState) -> None:
        """Record the outcome of a durable message that a producer was told and has not settled."""

    @abstractmethod
    def held(self, link: ResumableLink, tag: bytes, entry: QueuedMessage) -> None:
        """Record that a consumer was given this message."""

    @abstractmethod
    def settled(self, link: ResumableLink, tags: Iterable[bytes]) -> None:
        """Record that these deliveries are settled; some may never have been recorded."""

    @abstractmethod
    def ended(self, link: ResumableLink) -> None:
        """Record that the link is over, and with it all that it holds."""


def is_resumable(terminus: Source | Target) -> bool:
    """Return whether a terminus asks for its links to be kept beyond their session.

    The default of expiry-policy is "session-end", so this word alone is no wish. A dynamic node goes with its session.
    """
    return not terminus.dynamic and (terminus.expiry_policy in ("connection-close", "never") or terminus.timeout > 0)


class ResumableLinks:
    """All of one broker.

    Args:
        clock: the broker's.
        alarm: told of each deadline, for whoever calls `expire` in time.
        most: links of one user that wait without an attachment; of more, the one that has waited longest ends.

    Attributes:
        journal: the journal in which links are recorded; None without a store.
    """

    journal: LinkJournal | None = None

    def __init__(self, clock: Clock, alarm: Callable[[ResumableLinks, float], None], most: int = 1000) -> None:
        self._most = most
        self._waiting: dict[str | None, dict[ResumableLink, None]] = {}  # by user, the one that waits longest first
        self._clock = clock
        self._alarm = alarm
        self._deadlines: Deadlines[ResumableLink] = Deadlines()
        self._all: dict[LinkKey, ResumableLink] = {}
        self._of: dict[object, dict[LinkKey, ResumableLink]] = {}  # those of one connection alone
        self._parts = 0  # bytes of messages cut off

    def is_late(self, key: LinkKey, connection: int) -> bool:
        """Return whether a newer connection than this one has the link, or had it last."""
        found = self._all.get(key)
        return found is not None and found.attached_by > connection

    def claim(self, key: LinkKey) -> ResumableLink | None:
        """Return the link of that name, without an attachment: whoever has it loses it (§2.6.1)."""
        found = self._table(key).get(key)
        if found is not None and found.steal is not None:
            attempt("taking a link from its connection", found.steal)
        return self._table(key).get(key)

    def _table(self, key: LinkKey) -> dict[LinkKey, ResumableLink]:
        return self._all if key.connection is None else self._of.get(key.connection, {})

    def begin(self, link: ResumableLink, before: ResumableLink | None) -> None:
        """Keep an attached link; end what was kept of it `before`, unless the same goes on."""
        if before is not None and before is not link:
            self.end(before)
        self._weigh(link, 0)
        self._waits_no_more(link)
        link.deliveries = []
        link.requeue = None
        link.session = link.connection = link.deadline = None
        self._deadlines.set(link, None)
        if link.key.connection is not None:
            self._of.setdefault(link.key.connection, {})
        self._table(link.key)[link.key] = link
        if self.journal is not None and link.key.connection is None:
            self.journal.began(link)

    def suspend(
        self,
        link: ResumableLink,
        deliveries: list[Any],
        requeue: Callable[[list[Any]], None],
        session: object,
        connection: object,
    ) -> None:
        """Keep a link whose attachment is over."""
        link.deliveries, link.requeue, link.steal = deliveries, requeue, None
        if self._table(link.key).get(link.key) is not link:
            requeue(deliveries)
            return
        if link.key.direction == "in":
            parts = {each: _came_of(each) for each in deliveries}
            if self._parts + sum(parts.values()) > MOST_PARTS:
                link.deliveries = [each for each in deliveries if not parts[each]]
            else:
                self._weigh(link, sum(parts.values()))
        link.session, link.connection = session, connection
        if link.key.connection is None:
            waiting = self._waiting.setdefault(link.key.owner[0], {})
            waiting[link] = None
            if len(waiting) > self._most:
                self.end(next(iter(waiting)))
        self._left(link, "detached")
        if link.key.connection is not None and len(self._table(link.key)) > MOST_OF_CONNECTION:
            self.end(link)

    def _waits_no_more(self, link: ResumableLink) -> None:
        waiting = self._waiting.get(link.key.owner[0], {})
        waiting.pop(link, None)
        if not waiting:
            self._waiting.pop(link.key.owner[0], None)

    def _weigh(self, link: ResumableLink, parts: int) -> None:
        self._parts += parts - link.parts
        link.parts = parts

    def session_ended(self, session: object, connection: object) -> None:
        """End what ends with a session; its links were ended before."""
        for link in [each for each in self._that_end_with(connection) if each.session is session]:
            self._left(link, "session")

    def connection_ended(self, connection: object) -> None:
        """End what ends with a connection; its sessions were ended before."""
        for link in [each for each in self._that_end_with(connection) if each.connection is connection]:
            self._left(link, "connection")
            link.session = link.connection = None
        self._of.pop(connection, None)

    def _that_end_with(self, connection: object) -> list[ResumableLink]:
        """Return the links that may end with a session of that connection, or with the connection."""
        return [*self._all.values(), *self._of.get(connection, {}).values()]

    def restore(self, link: ResumableLink, requeue: Callable[[list[Any]], None]) -> None:
        """Take a link from the store; the connection that it had is over."""
        link.requeue = requeue
        self._all[link.key] = link
        self._waiting.setdefault(link.key.owner[0], {})[link] = None
        self._left(link, "connection")

    def _left(self, link: ResumableLink, how: ExpiryTrigger) -> None:
        """End the link now, later, or not at all, as its expiry policy says (§3.5.6)."""
        if link.deadline is not None or how not in EXPIRES[link.lifetime.expiry_policy]:
            return
        if not link.lifetime.timeout:
            self.end(link)
            return
        link.deadline = self._clock() + link.lifetime.timeout
        self._deadlines.set(link, link.deadline)
        self._alarm(self, link.deadline)

    def expire(self, now: float) -> float | None:
        """End those whose time has come; return when the next one's does."""
        for link in self._deadlines.take(now):
            attempt("the end of a link that was kept", self.end, link)
        return self._deadlines.first

    def end(self, link: ResumableLink) -> None:
        """Forget the link, and give back what it held."""
        table = self._table(link.key)
        if table.get(link.key) is not link:
            return
        del table[link.key]
        self._waits_no_more(link)
        self._weigh(link, 0)
        link.deadline = None
        self._deadlines.set(link, None)
        if link.requeue is not None:
            deliveries, link.deliveries = link.deliveries, []
            link.requeue(deliveries)
        if self.journal is not None and link.key.connection is None:
            self.journal.ended(link)


def _came_of(delivery: Any) -> int:
    """Bytes of a delivery that came in part."""
    stream = getattr(delivery, "stream", None)
    return sum(map(len, stream.parts)) if stream is not None else 0
