"""Resumable links (§2.6.13): the unsettled deliveries of a lost link are kept as long as its peer asked for.

A link is identified by the user, the container, its name and its direction (§2.6.1). The broker's own terminus, the
target for a producer or the source for a consumer, says by expiry-policy and timeout how long the state of a detached
link is kept (§3.5.6). A terminus with neither has the default, "session-end": it can only be resumed on its connection,
and its dynamic node lives as long. The state ends

- with a closing detach;
- when its time is up;
- when a link of that name begins anew, or with another node;
- with its queue.

For a producer, the outcome of each unsettled delivery is kept, and the received part of an incomplete message. For a
consumer, the messages that it holds are kept, and nobody else gets them.

A `LinkJournal` records all this while it happens, so that it can outlive the broker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from .._log import attempt
from .._queues.topic import Owner
from .retained import Lifetime, Retained

if TYPE_CHECKING:
    from ...engine import LinkSession
    from ...messaging import DeliveryState, Source, Target
    from .._queues.message import Clock, QueuedMessage
    from .._queues.node import Node

Direction = Literal["in", "out"]

MAX_PARTS = 64 * 1024 * 1024
"""Bytes of incomplete messages kept for all suspended links; messages beyond that are sent again from the beginning."""


MAX_OF_CONNECTION = 4096
"""Links that end with their session. If a connection has more of them, none is kept when it detaches."""


@dataclass(frozen=True, slots=True)
class LinkKey:
    """Identifies a link; `direction` is the broker's: "in" is what it receives.

    `connection`: that of a link that ends with its session; None: the link can be resumed on another connection.
    """

    owner: Owner
    name: str
    direction: Direction
    connection: object = None


@dataclass(slots=True, eq=False)
class ResumableLink:
    """A resumable link.

    Attributes:
        node: where its messages go or come from; None for the anonymous terminus.
        lifetime: the lifetime in the answer to its attach.
        deliveries: the deliveries that it holds while it is detached.
        requeue: gives these deliveries back; None while it is attached.
        steal: detaches it from its current link; None while it is detached.
        consumer: the key of the consumer in its queue, the same for all attachments.
        parts: bytes of an incomplete message among `deliveries`.
        session, connection: those of its last attachment.
        attached_by: the number of the connection that attached it last; 0 if that connection detached it on purpose.
        owned: the dynamic node that lives with it, while it is detached.
        deadline: when it ends, on the broker's clock; None: not known yet.
    """

    key: LinkKey
    node: Node | None
    lifetime: Lifetime
    deliveries: list[Any] = field(default_factory=list)
    requeue: Callable[[list[Any]], None] | None = None
    steal: Callable[[], None] | None = None
    consumer: int | None = None
    parts: int = 0
    session: LinkSession | None = None
    connection: object = None
    attached_by: int = 0
    owned: Node | None = None
    deadline: float | None = None

    @property
    def ends_with_session(self) -> bool:
        """Return whether it ends at once with its session, as most do."""
        return self.lifetime.expiry_policy == "session-end" and not self.lifetime.timeout


class LinkJournal(Protocol):
    """Records resumable links; called in the pass of the scheduler in which something happens."""

    def began(self, link: ResumableLink) -> None:
        """Record that a resumable link was attached, anew or resumed."""

    def noted(self, link: ResumableLink, tag: bytes, state: DeliveryState) -> None:
        """Record the outcome of a durable message that was sent to a producer and is not settled yet."""

    def held(self, link: ResumableLink, tag: bytes, entry: QueuedMessage) -> None:
        """Record that a consumer was sent this message."""

    def settled(self, link: ResumableLink, tags: Iterable[bytes]) -> None:
        """Record that these deliveries are settled; some may never have been recorded."""

    def ended(self, link: ResumableLink) -> None:
        """Record that the link and all that it holds has ended."""


def is_resumable(terminus: Source | Target) -> bool:
    """Return whether a terminus asks for its link to be kept beyond its session.

    "session-end" is the default of expiry-policy, and so no request. A dynamic node ends with its session.
    """
    return not terminus.dynamic and (terminus.expiry_policy in ("connection-close", "never") or terminus.timeout > 0)


class ResumableLinks(Retained[ResumableLink]):
    """All resumable links of one virtual host.

    Args:
        most: the most detached links of one user; beyond that the one that has waited longest ends.

    Attributes:
        journal: records the links; None: there is no store.
    """

    journal: LinkJournal | None = None

    def __init__(self, clock: Clock, alarm: Callable[[Retained[Any], float], None], most: int = 1000) -> None:
        super().__init__(clock, alarm)
        self._most = most
        self._waiting: dict[str | None, dict[ResumableLink, None]] = {}  # by user, the longest waiting first
        self._all: dict[LinkKey, ResumableLink] = {}
        self._of: dict[object, dict[LinkKey, ResumableLink]] = {}  # those that end with their connection
        self._parts = 0  # bytes of incomplete messages

    def is_late(self, key: LinkKey, connection: int) -> bool:
        """Return whether a newer connection has or had the link."""
        found = self._all.get(key)
        return found is not None and found.attached_by > connection

    def claim(self, key: LinkKey) -> ResumableLink | None:
        """Return the link of that key, detached from whoever had it (§2.6.1); None: there is no link to resume."""
        found = self._table(key).get(key)
        if found is not None and found.steal is not None:
            attempt("taking a link from its connection", found.steal)
        return self._table(key).get(key)

    def _table(self, key: LinkKey) -> dict[LinkKey, ResumableLink]:
        return self._all if key.connection is None else self._of.get(key.connection, {})

    def begin(self, link: ResumableLink, before: ResumableLink | None) -> None:
        """Keep an attached link; end the state that was kept `before`, unless it is the same link."""
        if before is not None and before is not link:
            self.end(before)
        self._weigh(link, 0)
        self._waits_no_more(link)
        link.deliveries = []
        link.requeue = None
        self._stop_expiry(link)
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
        session: LinkSession,
        connection: object,
    ) -> None:
        """Keep a link that was detached."""
        link.deliveries, link.requeue, link.steal = deliveries, requeue, None
        if self._table(link.key).get(link.key) is not link:
            requeue(deliveries)
            return
        if link.key.direction == "in":
            parts = {each: _came_of(each) for each in deliveries}
            if self._parts + sum(parts.values()) > MAX_PARTS:
                link.deliveries = [each for each in deliveries if not parts[each]]
            else:
                self._weigh(link, sum(parts.values()))
        self._left(link, session, connection)
        if link.key.connection is None:
            waiting = self._waiting.setdefault(link.key.owner[0], {})
            waiting[link] = None
            if len(waiting) > self._most:
                self.end(next(iter(waiting)))
        self._begin_expiry(link, "detached")
        if link.key.connection is not None and len(self._table(link.key)) > MAX_OF_CONNECTION:
            self.end(link)

    def _waits_no_more(self, link: ResumableLink) -> None:
        waiting = self._waiting.get(link.key.owner[0], {})
        waiting.pop(link, None)
        if not waiting:
            self._waiting.pop(link.key.owner[0], None)

    def _weigh(self, link: ResumableLink, parts: int) -> None:
        self._parts += parts - link.parts
        link.parts = parts

    def connection_ended(self, connection: object) -> None:
        super().connection_ended(connection)
        self._of.pop(connection, None)

    def restore(self, link: ResumableLink, requeue: Callable[[list[Any]], None]) -> None:
        """Restore a link from the store, as detached from a lost connection."""
        link.requeue = requeue
        self._all[link.key] = link
        self._waiting.setdefault(link.key.owner[0], {})[link] = None
        self._begin_expiry(link, "connection")

    def end(self, link: ResumableLink) -> None:
        """Forget the link, and give back what it held."""
        table = self._table(link.key)
        if table.get(link.key) is not link:
            return
        del table[link.key]
        self._stop_expiry(link)
        self._waits_no_more(link)
        self._weigh(link, 0)
        if link.requeue is not None:
            deliveries, link.deliveries = link.deliveries, []
            link.requeue(deliveries)
        if self.journal is not None and link.key.connection is None:
            self.journal.ended(link)


def _came_of(delivery: Any) -> int:
    """Return the bytes that have arrived of an incomplete delivery."""
    stream = getattr(delivery, "stream", None)
    return sum(map(len, stream.parts)) if stream is not None else 0
