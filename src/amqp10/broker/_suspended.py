"""Links that can be resumed (§2.6.13): what a link held unsettled is kept when it is lost, for as long as was asked.

A link is known by the user's container, its name and its direction (§2.6.1). The broker's own terminus of it, the
target of what a producer sends and the source of what a consumer gets, says by expiry policy and timeout how long its
state is kept without a link (§3.5.6). One that asks for neither has the default, "session-end": it is found again on
its connection only, and a dynamic node lives as long. It ends

- with a closing detach;
- when its time is up;
- when a link of that name begins anew, or with another node;
- with its queue.

What is kept of a producer is the outcome of each delivery that the sender has not settled, and what came of a message
that was cut off; of a consumer, the messages that it holds: nobody else gets them until then.

A `Keeper` is told of all this while it happens, so that it can outlive the broker.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from ._faults import attempt
from ._subscriptions import EXPIRES, Lifetime, Owner, Passing

if TYPE_CHECKING:
    from ..messaging import DeliveryState, Source, Target
    from ._entry import Clock, Entry
    from ._node import Node

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
class KeptLink:
    """A link that can be resumed.

    Attributes:
        node: where its messages go or come from; None for the anonymous terminus.
        lifetime: as it was answered.
        deliveries: what it holds, while no attachment does.
        give_back: ends what it holds; None while it is attached.
        steal: takes it away from its attachment; None while it has none.
        consumer: the key of the consumer that it is, for its queue; the same in all attachments.
        parts: bytes of a message cut off, among `deliveries`.
        session, connection: those of its last attachment.
        holder: the number of the connection that attached it last; 0 if that has detached it by its own will.
        owned: the dynamic node that lives with it, while no attachment has that.
        deadline: when it ends, on the broker's clock; None while that is not settled.
    """

    key: LinkKey
    node: Node | None
    lifetime: Lifetime
    deliveries: list[Any] = field(default_factory=list)
    give_back: Callable[[list[Any]], None] | None = None
    steal: Callable[[], None] | None = None
    consumer: int | None = None
    parts: int = 0
    session: object = None
    connection: object = None
    holder: int = 0
    owned: Node | None = None
    deadline: float | None = None


class Keeper(ABC):
    """Who is to know of links that can be resumed; told at once, in the pass in which it happens."""

    @abstractmethod
    def began(self, link: KeptLink) -> None:
        """A link was attached that can be resumed, anew or resumed itself."""

    @abstractmethod
    def noted(self, link: KeptLink, tag: bytes, state: DeliveryState) -> None:
        """A producer was told this outcome of a durable message, and has not settled the delivery."""

    @abstractmethod
    def held(self, link: KeptLink, tag: bytes, entry: Entry) -> None:
        """A consumer was given this message."""

    @abstractmethod
    def settled(self, link: KeptLink, tags: Iterable[bytes]) -> None:
        """These deliveries, noted or held, are over; those never told of may be among them."""

    @abstractmethod
    def ended(self, link: KeptLink) -> None:
        """It is over, and with it all that it holds."""


def keeps(terminus: Source | Target) -> bool:
    """Whether a terminus asks for its links to be kept beyond their session.

    The default of expiry-policy is "session-end", so this word alone is no wish. A dynamic node goes with its session.
    """
    return not terminus.dynamic and (terminus.expiry_policy in ("connection-close", "never") or terminus.timeout > 0)


class KeptLinks:
    """All of one broker.

    Args:
        clock: the broker's.
        alarm: told of each deadline, for whoever calls `expire` in time.
        most: links of one user that wait without an attachment; of more, the one that has waited longest ends.

    Attributes:
        keeper: who is told; None for nobody.
    """

    keeper: Keeper | None = None

    def __init__(self, clock: Clock, alarm: Callable[[float], None], most: int = 1000) -> None:
        self._most = most
        self._waiting: dict[str | None, dict[KeptLink, None]] = {}  # by user, the one that waits longest first
        self._clock = clock
        self._alarm = alarm
        self._all: dict[LinkKey, KeptLink] = {}
        self._of: dict[object, dict[LinkKey, KeptLink]] = {}  # those of one connection alone
        self._parts = 0  # bytes of messages cut off

    def is_late(self, key: LinkKey, connection: int) -> bool:
        """Whether a newer connection than this one has the link, or had it last."""
        found = self._all.get(key)
        return found is not None and found.holder > connection

    def claim(self, key: LinkKey) -> KeptLink | None:
        """The link of that name, without an attachment: whoever has it loses it (§2.6.1)."""
        found = self._table(key).get(key)
        if found is not None and found.steal is not None:
            attempt("taking a link from its connection", found.steal)
        return self._table(key).get(key)

    def _table(self, key: LinkKey) -> dict[LinkKey, KeptLink]:
        return self._all if key.connection is None else self._of.get(key.connection, {})

    def begin(self, link: KeptLink, before: KeptLink | None) -> None:
        """A link is attached; what was kept of it `before` is over, unless it is the same that goes on."""
        if before is not None and before is not link:
            self.end(before)
        self._weigh(link, 0)
        self._waits_no_more(link)
        link.deliveries = []
        link.give_back = None
        link.session = link.connection = link.deadline = None
        if link.key.connection is not None:
            self._of.setdefault(link.key.connection, {})
        self._table(link.key)[link.key] = link
        if self.keeper is not None and link.key.connection is None:
            self.keeper.began(link)

    def suspend(
        self,
        link: KeptLink,
        deliveries: list[Any],
        give_back: Callable[[list[Any]], None],
        session: object,
        connection: object,
    ) -> None:
        """Its attachment is over."""
        link.deliveries, link.give_back, link.steal = deliveries, give_back, None
        if self._table(link.key).get(link.key) is not link:
            give_back(deliveries)
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

    def _waits_no_more(self, link: KeptLink) -> None:
        waiting = self._waiting.get(link.key.owner[0], {})
        waiting.pop(link, None)
        if not waiting:
            self._waiting.pop(link.key.owner[0], None)

    def _weigh(self, link: KeptLink, parts: int) -> None:
        self._parts += parts - link.parts
        link.parts = parts

    def session_ended(self, session: object, connection: object) -> None:
        """A session is over, the links on it before."""
        for link in [each for each in self._that_end_with(connection) if each.session is session]:
            self._left(link, "session")

    def connection_ended(self, connection: object) -> None:
        """A connection is over, its sessions before."""
        for link in [each for each in self._that_end_with(connection) if each.connection is connection]:
            self._left(link, "connection")
            link.session = link.connection = None
        self._of.pop(connection, None)

    def _that_end_with(self, connection: object) -> list[KeptLink]:
        """Those that may end when a session of that connection does, or it does itself."""
        return [*self._all.values(), *self._of.get(connection, {}).values()]

    def restore(self, link: KeptLink, give_back: Callable[[list[Any]], None]) -> None:
        """A keeper had it from before the broker's start; its connection is over."""
        link.give_back = give_back
        self._all[link.key] = link
        self._waiting.setdefault(link.key.owner[0], {})[link] = None
        self._left(link, "connection")

    def _left(self, link: KeptLink, how: Passing) -> None:
        """It ends now, in time, or not, as its expiry policy says (§3.5.6)."""
        if link.deadline is not None or how not in EXPIRES[link.lifetime.expiry_policy]:
            return
        if not link.lifetime.timeout:
            self.end(link)
            return
        link.deadline = self._clock() + link.lifetime.timeout
        self._alarm(link.deadline)

    def expire(self, now: float) -> float | None:
        """End those whose time has come; return when the next one's does."""
        for link in list(self._all.values()):
            if link.deadline is not None and link.deadline <= now:
                self.end(link)
        return min((each.deadline for each in self._all.values() if each.deadline is not None), default=None)

    def end(self, link: KeptLink) -> None:
        """Nothing is kept of it any more."""
        table = self._table(link.key)
        if table.get(link.key) is not link:
            return
        del table[link.key]
        self._waits_no_more(link)
        self._weigh(link, 0)
        link.deadline = None
        if link.give_back is not None:
            deliveries, link.deliveries = link.deliveries, []
            link.give_back(deliveries)
        if self.keeper is not None and link.key.connection is None:
            self.keeper.ended(link)


def _came_of(delivery: Any) -> int:
    """Bytes of a delivery that came in part."""
    stream = getattr(delivery, "stream", None)
    return sum(map(len, stream.parts)) if stream is not None else 0
