"""Sessions and links after a loss: all of them when the connection is back, one alone where the peer ended it alone.

What is lost is *interrupted*: it is not over, whoever waits on it goes on waiting, and it is begun or attached again,
with pauses that grow as long as the peer refuses. What becomes of a link's deliveries is the link's business
(`_sending.resumption`, `_receiving.resumption`); here is only what comes back, and when.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

import anyio

from ...engine import Request, SenderLink
from ...errors import AmqpError, ConnectionClosed, LinkDetached, LocalProtocolError, SessionEnded
from ...messaging import Target
from .._connecting.policy import is_transient, is_unrelated_to_resume
from .._core.connection import ConnectionCore, LinkCore, Restorable, SessionCore
from .._sending.delivery import Repeating
from .declarations import Declarations
from .pending_answers import PendingAnswers

if TYPE_CHECKING:
    from ...engine import OutgoingDelivery
    from .._settings import Reconnect


MAX_FRUITLESS: Final = 3
"""Limit of failed attachments in a row.

An attachment fails if it resumes nothing, although the peer said that there is more to resume or that it will resume.
It also fails if it ends over the same message as the one before.
"""


def is_anonymous_sender(link: LinkCore) -> bool:
    """Return whether the link is a sender without an address, whose messages each say where they go."""
    target = link.terms.target
    return link.kind == "sender" and isinstance(target, Target) and target.address is None and not target.dynamic


@dataclass(slots=True)
class Attempts:
    """How often one session or link was restored, and with what success.

    Attributes:
        failures: restorations in a row that failed, or did not last.
        refusals: those of them that failed, since `lost_at`.
        lost_at, restored_at: when the first of these was planned, and when it was restored last.
    """

    failures: int = 0
    refusals: int = 0
    lost_at: float = 0.0
    restored_at: float = 0.0


class Restorer:
    """Of one connection that has `reconnect`.

    Attributes:
        topology: what was declared, and comes back before links do.
        answers: looks after what the peer has to say to what comes back.
    """

    def __init__(self, connection: ConnectionCore) -> None:
        self.settings: Reconnect = connection.supervisor.settings
        self.sessions: dict[SessionCore, None] = {}
        self.topology: Declarations = Declarations(
            connection, again=self.settings.declare_again, attach_links=self.restore_links
        )
        self.answers: PendingAnswers = PendingAnswers(connection, self.settings.attempt_timeout)
        self._closings = 0  # in a row, while links were to be resumed
        self._suspected: dict[SessionCore, list[LinkCore]] = {}  # of sessions whose end is being told
        self._blamed: dict[SessionCore, list[LinkCore]] = {}  # the same, of those whose messages may be why
        self._parts: WeakKeyDictionary[LinkCore, tuple[int, int]] = WeakKeyDictionary()
        self._eldest: WeakKeyDictionary[LinkCore, tuple[OutgoingDelivery | Repeating, int]] = WeakKeyDictionary()
        self._attempts: WeakKeyDictionary[Restorable, Attempts] = WeakKeyDictionary()
        self._connection = connection

    def attempts_of(self, endpoint: Restorable) -> Attempts:
        """Return the record of a session or link."""
        found = self._attempts.get(endpoint)
        if found is None:
            self._attempts[endpoint] = found = Attempts()
        return found

    async def standing(self) -> None:
        await self.topology.standing()

    def declared(self, session: SessionCore, request: Request[Any], answer: Any) -> None:
        self.topology.note(session, request, answer)

    def undeclared(self, request: Request[Any]) -> None:
        self.topology.forget(request)

    def expect_answer(self, owner: Restorable) -> None:
        self.answers.expect(owner)

    # The connection

    def restored(self) -> None:
        """Restore all sessions: the connection is open again."""
        sessions = list(self.sessions)
        self.topology.lost(session for session in sessions if not session.suspended)
        for session in sessions:
            if session.suspended:
                session.resume()
                self.answers.expect(session)
            else:
                self._restore_session(session)
        self.topology.restore()

    def closed_for_resuming(self, error: AmqpError) -> bool:
        """Return whether links were to be resumed as the peer closed: they are attached without their deliveries then.

        A cause that passes is waited for a few times.
        """
        asking = [link for link in self._connection.links if link.awaiting_peer and link.resuming]
        if not isinstance(error, ConnectionClosed) or is_unrelated_to_resume(error) or not asking:
            return False
        self._closings += 1
        if is_transient(error) and self._closings <= MAX_FRUITLESS:
            return False
        for link in asking:
            link.may_resume = False
        return True

    def given_up(self, error: AmqpError | None) -> None:
        """End all sessions and links: nothing comes back."""
        for session in list(self.sessions):
            for link in session.links:
                link.end_for_good(error)
            session.end_for_good(error)

    # A session

    def session_returns(self, session: SessionCore, error: AmqpError | None) -> bool:
        """Return whether a session that ended with this error is begun again; its links have been asked before."""
        if session.end_sent or session not in self.sessions:
            return False
        found = session.refused_to_resume or is_transient(error) or bool(self._unanswered_attaches(session))
        return self._connection.losing or (session.begun and found)

    def session_lost(self, session: SessionCore) -> None:
        """Begin a session again later: it is interrupted, by itself or with the connection."""
        suspects, blamed = self._suspected.pop(session, []), self._blamed.pop(session, [])
        if self._connection.losing:
            return
        for link in blamed:
            if link.interrupted:
                self._isolate(link)
        # Peers attach in order: the first link without an answer was it, and the others never had their turn.
        if suspects and suspects[0].interrupted:
            self._isolate(suspects[0])
        self._restore_later(session, lambda: self._restore_ended(session))

    def _unanswered_attaches(self, session: SessionCore) -> list[LinkCore]:
        """Return the links whose attach was unanswered when a session with others ended: one may be why it did."""
        if session not in self._suspected:
            links = [link for link in session.links if link.session is session]
            several = len(links) > 1 and not any(link.terms.properties.get("paired") for link in links)
            self._suspected[session] = [link for link in links if link.awaiting_peer] if several else []
        return self._suspected[session]

    def _isolate(self, link: LinkCore) -> None:
        """Try it on a session of its own: RabbitMQ ends the session, and all others on it, for one that is at fault."""
        before = link.session
        assert before is not None
        alone = before.for_one(link)
        self.sessions[alone] = None
        link.session = self._connection.links[link] = alone
        attempts = self.attempts_of(before)
        attempts.failures = attempts.refusals = 0
        self._restore_later(alone, lambda: self._restore_ended(alone))

    def session_restored(self, session: SessionCore) -> None:
        attempts = self.attempts_of(session)
        attempts.restored_at = anyio.current_time()
        if not session.links:  # else it is restored with the first of them
            attempts.refusals = 0

    def session_over(self, session: SessionCore) -> None:
        self.sessions.pop(session, None)
        self._suspected.pop(session, None)
        self._blamed.pop(session, None)
        if self._connection.established and not self.topology.stands:  # it may have waited for this one
            self.topology.restore()

    def _restore_ended(self, session: SessionCore) -> None:
        """Begin a session again that ended by itself, and declare again what it had declared."""
        self.topology.lost([session])
        self._restore_session(session)
        self.topology.restore()

    def _restore_session(self, session: SessionCore) -> None:
        if session.over or not session.interrupted or not self._connection.established:
            return
        try:
            session.restore()
        except LocalProtocolError as error:  # the peer takes no more sessions than are there
            session.end_for_good(error)
        else:
            self.answers.expect(session)

    # A link

    def link_returns(self, link: LinkCore, error: AmqpError | None, *, unresumed: bool) -> bool:
        """Return whether a link that ended so is attached again; `unresumed`: without its deliveries."""
        if not link.restorable or link.session not in self.sessions or self._repeats_fatal_message(link, error):
            return False
        if not self._connection.losing and self.topology.lacks(link, error):
            return False
        if isinstance(error, SessionEnded) and link.ever_attached and self._unanswered_attaches(link.session):
            return True
        return (
            self._connection.losing
            or unresumed
            or (link.ever_attached and (is_transient(error) or self._stolen_by_own_attach(link, error)))
        )

    def _repeats_fatal_message(self, link: LinkCore, error: AmqpError | None) -> bool:
        """Return whether the link ends over a message that is sent again each time: it would do so for ever.

        This happens on senders without an address: the message names an address that does not exist. On other links it
        is the link's own address that is missing, and that may come back.
        """
        ours = link.engine_link
        if not isinstance(error, ConnectionClosed | SessionEnded | LinkDetached) or error.condition != "amqp:not-found":
            return False
        if not isinstance(ours, SenderLink) or link.awaiting_peer or not is_anonymous_sender(link):
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
            self._suspect(link)
        if count <= MAX_FRUITLESS:
            return False
        note = f"so did {MAX_FRUITLESS} attachments before, each with a message under way that has no outcome"
        if note not in getattr(error, "__notes__", ()):  # several links end with one session
            error.add_note(note)
        return True

    def _suspect(self, link: LinkCore) -> None:
        """Suspect a link over a message that has ended the session, if other anonymous senders may have sent it."""
        session = link.session
        assert session is not None
        others = [
            each for each in session.links if each is not link and each.session is session and is_anonymous_sender(each)
        ]
        if any(each.unsettled for each in others):
            self._blamed.setdefault(session, []).append(link)

    def _stolen_by_own_attach(self, link: LinkCore, error: AmqpError | None) -> bool:
        """Return whether the link was stolen by its own attach on a lost connection; once for each such attach."""
        stolen = isinstance(error, LinkDetached) and error.condition == "amqp:link:stolen"
        if not stolen or not link.stray_attaches:
            return False
        link.stray_attaches -= 1
        return True

    def refused_to_resume(self, link: LinkCore, error: AmqpError | None) -> bool:
        """Return whether a link has ended because it was to be resumed: before the peer's attach, or soon after it.

        A cause that passes is waited for a few times; on a session with others it may be another link's.
        """
        if self._connection.losing or not link.resuming or is_unrelated_to_resume(error):
            return False
        session = link.session if isinstance(error, SessionEnded) else None
        if is_transient(error):
            failures = self.attempts_of(session if session is not None else link).failures
            others = session is not None and bool(self._unanswered_attaches(session))
            return link.awaiting_peer and failures >= MAX_FRUITLESS and not others
        if session is not None:
            return link.awaiting_peer
        recent = anyio.current_time() - self.attempts_of(link).restored_at < self.settings.attempt_timeout
        return link.awaiting_peer or recent

    def link_lost(self, link: LinkCore, error: AmqpError | None, *, unresumed: bool) -> None:
        """Attach a link again later: it is interrupted, by itself, or with its session or the connection."""
        if unresumed:
            assert link.session is not None
            link.may_resume, link.session.refused_to_resume = False, isinstance(error, SessionEnded)
        if self._connection.losing or not isinstance(error, LinkDetached):
            return
        if unresumed:  # once again, and at once
            self.restore_link(link)
        else:
            self._restore_later(link, lambda: self.restore_link(link))

    def link_restored(self, link: LinkCore) -> None:
        self._closings = 0
        attempts = self.attempts_of(link)
        attempts.restored_at, attempts.refusals = anyio.current_time(), 0
        assert link.session is not None
        self.attempts_of(link.session).refusals = 0

    def link_over(self, link: LinkCore) -> None:
        self.topology.left(link)

    def resume_again(self, link: LinkCore, left: int) -> bool:
        """Return whether to resume once more what could not be resumed at once; not if the peer never comes to an end.

        Args:
            left: deliveries that are still to be resumed.
        """
        before, fruitless = self._parts.get(link, (left + 1, 0))
        fruitless = 0 if left < before else fruitless + 1
        self._parts[link] = left, fruitless
        if fruitless < MAX_FRUITLESS:
            return True
        del self._parts[link]
        return False

    def restore_link(self, link: LinkCore) -> None:
        """Attach it again, if it is time for that."""
        if not link.interrupted or link.awaiting_peer or link.session is None or not link.session.established:
            return
        if not self.topology.stands:
            return
        if self._connection.tokens is not None and not self._connection.tokens.admits(link):
            return
        try:
            link.restore()
        except LocalProtocolError as error:  # no handle is left, or the name is taken
            link.end_for_good(error)

    def restore_links(self) -> None:
        """Attach all links again: what they are attached to is there again."""
        for link in list(self._connection.links):
            self.restore_link(link)

    def _restore_later(self, endpoint: Restorable, restore: Callable[[], None]) -> None:
        """Call `restore` after a pause, the longer the more often in a row that has failed."""
        now, settings, attempts = anyio.current_time(), self.settings, self.attempts_of(endpoint)
        if attempts.refusals == 0:
            attempts.lost_at = now
            if now - attempts.restored_at > settings.max_delay:
                attempts.failures = 0
        attempts.failures += 1
        attempts.refusals += 1
        delay = settings.delay(attempts.failures, random.random())
        if attempts.refusals > settings.attempts or now + delay - attempts.lost_at > settings.max_time:
            endpoint.end_for_good(endpoint.loss)
        else:
            self._connection.start(self._restore_after, delay, endpoint, restore)

    async def _restore_after(self, delay: float, endpoint: Restorable, restore: Callable[[], None]) -> None:
        generation = endpoint.generation
        await anyio.sleep(delay)
        if endpoint.generation == generation:  # else the connection was lost meanwhile, and brought it back, or will
            restore()
