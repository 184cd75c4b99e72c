"""Sessions and links after a loss: all of them when the connection is back, one alone where the peer ended it alone.

What is lost is *interrupted*: it is not over, whoever waits on it goes on waiting, and it is begun or attached again,
with pauses that grow as long as the peer refuses. What becomes of a link's deliveries is the link's business
(`_sender`, `_receiver`); here is only what comes back, and when.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

import anyio

from ..engine import SenderLink
from ..errors import AmqpError, ConnectionClosed, LinkDetached, LocalProtocolError, SessionEnded
from ..messaging import Target
from ._answers import Answers
from ._delivery import Repeating
from ._observe import LinkInterrupted, LinkRestored
from ._reconnect import passing
from ._topology import Topology

if TYPE_CHECKING:
    from ..engine import OutgoingDelivery
    from ._connection import Connection
    from ._link import Link
    from ._session import Session


_OTHER_CAUSES: Final = frozenset(
    {
        "amqp:connection:forced",
        "amqp:connection:redirect",
        "amqp:link:detach-forced",
        "amqp:link:redirect",
        "amqp:link:stolen",
        "amqp:resource-limit-exceeded",
        "amqp:resource-locked",
        "amqp:unauthorized-access",
    }
)

MOST_FRUITLESS: Final = 3
"""Attachments in a row that came to nothing: they resumed nothing, though the peer says that there is more to come or
that it will do; or they ended over the same message."""


def speaks_of_other_things(error: AmqpError | None) -> bool:
    """Whether an end is surely not about the deliveries that an attach says: the next attach says them again."""
    ended = isinstance(error, ConnectionClosed | SessionEnded | LinkDetached)
    return ended and str(error.condition) in _OTHER_CAUSES  # type: ignore[union-attr]


def anywhere(link: Link) -> bool:
    """Whether it is a sender without an address: each message says where it goes."""
    target = link._terms.target
    return link._kind == "sender" and isinstance(target, Target) and target.address is None and not target.dynamic


class Recovery:
    """Of one connection that has `reconnect`.

    Attributes:
        settings: the user's.
        losing: the events that are told just now end with the loss of the connection, which will be restored.
        topology: what was declared, and comes back before links do.
        answers: looks after what the peer has to say to what comes back.
        sessions: those that are to be there, in order of beginning.
    """

    def __init__(self, connection: Connection) -> None:
        self.settings = connection._lifeline.settings
        self.losing = False
        self.sessions: dict[Session, None] = {}
        self.topology = Topology(connection, again=self.settings.declare_again)
        self.answers = Answers(connection, self.settings.attempt_timeout)
        self._closings = 0  # in a row, while links were to be resumed
        self._suspected: dict[Session, list[Link]] = {}  # of sessions whose end is being told
        self._blamed: dict[Session, list[Link]] = {}  # the same, of those whose messages may be why
        self._parts: WeakKeyDictionary[Link, tuple[int, int]] = WeakKeyDictionary()
        self._eldest: WeakKeyDictionary[Link, tuple[OutgoingDelivery | Repeating, int]] = WeakKeyDictionary()
        self._connection = connection

    # The connection

    def restored(self) -> None:
        """The connection is open again."""
        sessions = list(self.sessions)
        self.topology.lost(session for session in sessions if not session._suspended)
        for session in sessions:
            if session._suspended:
                session._resume()
                self.answers.expect(session)
            else:
                self._restore_session(session)
        self.topology.restore()

    def closed_for_resuming(self, error: AmqpError) -> bool:
        """Whether links were to be resumed as the connection was closed: they are attached without their deliveries.

        A cause that passes is waited for a few times.
        """
        asking = [link for link in self._connection._links if link._asking and link._resuming]
        if not isinstance(error, ConnectionClosed) or speaks_of_other_things(error) or not asking:
            return False
        self._closings += 1
        if passing(error) and self._closings <= MOST_FRUITLESS:
            return False
        for link in asking:
            link._may_resume = False
        return True

    def given_up(self, error: AmqpError | None) -> None:
        """Nothing comes back."""
        for session in list(self.sessions):
            for link in session._links:
                link._end_for_good(error)
            session._end_for_good(error)

    # A session

    def session_returns(self, session: Session, error: AmqpError | None) -> bool:
        """Whether a session that ended so is begun again; its links have been asked before."""
        if session._parting or session not in self.sessions:
            return False
        found = session._refused_to_resume or passing(error) or bool(self._suspects(session))
        return self.losing or (session._begun and found)

    def session_lost(self, session: Session) -> None:
        """It is interrupted, by itself or with the connection."""
        suspects, blamed = self._suspected.pop(session, []), self._blamed.pop(session, [])
        if self.losing:
            return
        for link in blamed:
            if link._interrupted:
                self._separate(link)
        # Peers attach in order: the first link without an answer was it, and the others never had their turn.
        if suspects and suspects[0]._interrupted:
            self._separate(suspects[0])
        self._later(session)

    def _suspects(self, session: Session) -> list[Link]:
        """The links whose attach was not answered when a session ended, if it had others: one may be why it did."""
        if session not in self._suspected:
            links = [link for link in session._links if link._on is session]
            several = len(links) > 1 and not any(link._terms.properties.get("paired") for link in links)
            self._suspected[session] = [link for link in links if link._asking] if several else []
        return self._suspected[session]

    def _separate(self, link: Link) -> None:
        """Try it on a session of its own: RabbitMQ ends the session, and all others on it, for one that is at fault."""
        before = link._on
        assert before is not None
        alone = before._for_one(link)
        self.sessions[alone] = None
        link._on = self._connection._links[link] = alone
        before._failures = before._refusals = 0
        self._later(alone)

    def forget(self, session: Session) -> None:
        """It is over."""
        self.sessions.pop(session, None)
        self._suspected.pop(session, None)
        self._blamed.pop(session, None)
        if self._connection.open and not self.topology.stands:  # it may have waited for this one
            self.topology.restore()

    def _restore_session(self, session: Session) -> None:
        if session._over or not session._interrupted or not self._connection.open:
            return
        try:
            session._restore()
        except LocalProtocolError as error:  # the peer takes no more sessions than are there
            session._end_for_good(error)
        else:
            self.answers.expect(session)

    # A link

    def link_returns(self, link: Link, error: AmqpError | None, *, unresumed: bool) -> bool:
        """Whether a link that ended so is attached again; `unresumed`: without its deliveries, for that was why."""
        if not link._restorable or link._on not in self.sessions or self._spoiled(link, error):
            return False
        if not self.losing and self.topology.lacks(link, error):
            return False
        if isinstance(error, SessionEnded) and link._standing and self._suspects(link._on):
            return True
        return self.losing or unresumed or (link._standing and (passing(error) or self._robbed_by_itself(link, error)))

    def _spoiled(self, link: Link, error: AmqpError | None) -> bool:
        """Whether a message that is sent again each time is why it ends: it would do so for ever.

        So it is where a message says itself where it goes, and there is no such address: on a link that has an address
        of its own what is not found is that, and it may come back.
        """
        ours = link._engine_link
        if not isinstance(error, ConnectionClosed | SessionEnded | LinkDetached) or error.condition != "amqp:not-found":
            return False
        if not isinstance(ours, SenderLink) or link._asking or not anywhere(link):
            return False
        eldest = next(iter(ours.unsettled.values()), None)
        if eldest is None or not eldest.on_wire:
            return False
        # A request is another delivery each time, but the same one waits for it.
        same = eldest.waiter if isinstance(eldest.waiter, Repeating) else eldest
        before, count = self._eldest.get(link, (None, 0))
        count = count + 1 if same is before else 1
        self._eldest[link] = same, count
        if isinstance(error, SessionEnded) and count > 1:
            self._blame(link)
        if count <= MOST_FRUITLESS:
            return False
        note = f"so did {MOST_FRUITLESS} attachments before, each with a message under way that has no outcome"
        if note not in getattr(error, "__notes__", ()):  # several links end with one session
            error.add_note(note)
        return True

    def _blame(self, link: Link) -> None:
        """A message of it has ended the session, or one of another that has no address either: tell them apart."""
        session = link._on
        assert session is not None
        others = [each for each in session._links if each is not link and each._on is session and anywhere(each)]
        if any(each.unsettled for each in others):  # type: ignore[attr-defined]
            self._blamed.setdefault(session, []).append(link)

    def _robbed_by_itself(self, link: Link, error: AmqpError | None) -> bool:
        """Whether an attach of its own has stolen it, that came late from a connection that was lost; once for each."""
        stolen = isinstance(error, LinkDetached) and error.condition == "amqp:link:stolen"
        if not stolen or not link._ghosts:
            return False
        link._ghosts -= 1
        return True

    def refused_to_resume(self, link: Link, error: AmqpError | None) -> bool:
        """Whether a link has ended because it was to be resumed: before the peer's attach, or soon after it.

        A cause that passes is waited for a few times; on a session with others it may be another link's.
        """
        if self.losing or not link._resuming or speaks_of_other_things(error):
            return False
        session = link._on if isinstance(error, SessionEnded) else None
        if passing(error):
            failures = session._failures if session is not None else link._failures
            others = session is not None and bool(self._suspects(session))
            return link._asking and failures >= MOST_FRUITLESS and not others
        if session is not None:
            return link._asking
        recent = anyio.current_time() - link._restored_at < self.settings.attempt_timeout
        return link._asking or recent

    def link_lost(self, link: Link, error: AmqpError | None, *, unresumed: bool) -> None:
        """It is interrupted, by itself, or with its session or the connection."""
        if isinstance(error, SessionEnded | LinkDetached):
            self._connection._observers.tell(LinkInterrupted(link, error))
        if unresumed:
            assert link._on is not None
            link._may_resume, link._on._refused_to_resume = False, isinstance(error, SessionEnded)
        if self.losing or not isinstance(error, LinkDetached):
            return
        if unresumed:  # once again, and at once
            self.restore_link(link)
        else:
            self._later(link)

    def link_restored(self, link: Link) -> None:
        self._closings = 0
        self._connection._observers.tell(LinkRestored(link, link._resuming and link.remote.unsettled is not None))

    def goes_on_in_part(self, link: Link, left: int) -> bool:
        """Whether to resume once more what could not be resumed at once; not if the peer never comes to an end.

        Args:
            left: deliveries that are still to be resumed.
        """
        before, fruitless = self._parts.get(link, (left + 1, 0))
        fruitless = 0 if left < before else fruitless + 1
        self._parts[link] = left, fruitless
        if fruitless < MOST_FRUITLESS:
            return True
        del self._parts[link]
        return False

    def restore_link(self, link: Link) -> None:
        """Attach it again, if it is time for that."""
        if not link._interrupted or link._asking or link._on is None or not link._on.open:
            return
        if not self.topology.stands:
            return
        try:
            link._restore()
        except LocalProtocolError as error:  # no handle is left, or the name is taken
            link._end_for_good(error)

    def restore_links(self) -> None:
        """What they are attached to is there again."""
        for link in list(self._connection._links):
            self.restore_link(link)

    def _later(self, endpoint: Session | Link) -> None:
        """Restore it after a pause, the longer the more often in a row that has failed."""
        now, settings = anyio.current_time(), self.settings
        if endpoint._refusals == 0:
            endpoint._lost_at = now
            if now - endpoint._restored_at > settings.max_delay:
                endpoint._failures = 0
        endpoint._failures += 1
        endpoint._refusals += 1
        delay = settings.delay(endpoint._failures, random.random())
        if endpoint._refusals > settings.attempts or now + delay - endpoint._lost_at > settings.max_time:
            endpoint._end_for_good(endpoint._loss)
        else:
            self._connection._start(self._restore_after, delay, endpoint)

    async def _restore_after(self, delay: float, endpoint: Session | Link) -> None:
        generation = endpoint._generation
        await anyio.sleep(delay)
        if endpoint._generation != generation:
            return  # the connection was lost meanwhile, and brought it back, or will
        if endpoint._kind == "session":
            self.topology.lost([endpoint])  # type: ignore[list-item]
            self._restore_session(endpoint)  # type: ignore[arg-type]
            self.topology.restore()
        else:
            self.restore_link(endpoint)  # type: ignore[arg-type]
