"""The core of a sender or receiver: attaching, restoring, detaching in bounded time (§2.6.3 to §2.6.6).

Sender, Receiver    Link        what users hold (`link.py`)
  ._core            ClientLink  the link itself: what its session, the restorer and its deliveries know, too
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import anyio

from ...engine import LinkOwner, LinkTerms
from ...errors import AmqpError, ConnectionClosed, LinkDetached, SessionEnded, Unsupported
from ...messaging import NEWEST_CONNECTION, Source, Target, outlives_connection, outlives_link
from ...types import UInt
from .._connecting.policy import is_unrelated_to_resume
from .._core.close_deadline import shielded_until
from .._core.connection import ConnectionCore, LinkCore, SessionCore
from .._core.states import State, Step
from .events import LinkInterrupted, LinkLost, LinkRestored
from .link import Link
from .redirects import MAX_HOPS

if TYPE_CHECKING:
    from ...engine import Link as EngineLink
    from .._stores.link_store import LinkStore

# The share of the closing time that is reserved for the peer's answer to our detach, if earlier steps used up the rest.
ANSWER_SHARE = 0.25


class ClientLink(LinkCore, LinkOwner):
    """The core of a sender or receiver: how it is attached, restored after a loss, and left.

    Attributes:
        on_session: the session that it was made on; None: it takes the connection's default session.
        answered: what the peer said in the last attach that it answered; None: it has answered none.
    """

    # Without these an idle link takes a kilobyte more.
    __slots__ = (
        "_closes",
        "_leave_running",
        "_resume_refused",
        "_terminus_outlives_link",
        "answered",
        "connection",
        "detach_sent",
        "ever_attached",
        "face",
        "may_resume",
        "on_session",
        "pending",
        "restorable",
        "resuming",
        "session",
        "store",
        "stray_attaches",
        "terms",
        "wake",
    )

    face: Link
    cause: AmqpError | None
    awaiting_peer: bool

    def __init__(self, kind: str, connection: ConnectionCore, session: SessionCore | None, terms: LinkTerms) -> None:
        super().__init__(kind)
        self.connection: ConnectionCore = connection
        self.terms: LinkTerms = terms
        self.session: SessionCore | None = None
        self.restorable: bool = True
        self.ever_attached: bool = False
        self.detach_sent: bool = False
        self.resuming: bool = False
        self.may_resume: bool = False
        self.stray_attaches: int = 0
        self.pending: list[Any] = []
        self.store: LinkStore | None = None
        self.wake: Callable[[], None] = connection.wake
        self.on_session: SessionCore | None = session
        self.answered: LinkTerms | None = None
        self._terminus_outlives_link = outlives_link(terms.source, terms.target)
        # How its owner leaves it, closed or only detached. Without a word from the owner, what is meant to outlive the
        # link is not closed: it may have been there before, with messages in it.
        self._closes: bool = not self._terminus_outlives_link
        self._leave_running = False
        self._resume_refused = False  # the peer took no deliveries of an earlier connection

    def described(self) -> str:
        address = getattr(self.terminus, "address", None)
        return f"{address!r:.200} (link {self.name!r:.100}) on {self.connection.where}"

    @property
    def remote(self) -> LinkTerms:
        link = self.engine_link
        answer = link.remote if link is not None and link.remote is not None else self.answered
        if answer is None:
            raise self.gone()
        return answer

    # Attaching

    async def attach(self) -> None:
        """Attach the link, where the peer redirects it to.

        Cancelling: the link is detached as soon as the peer's answer to the attach comes.
        """
        self.enter()
        hops = 0
        while not await self._attach_here():
            hops += 1
            if hops > MAX_HOPS or self.on_session is not None:
                raise self.lost()
            self.connection, self.terms = await self.connection.follow_redirect(
                self.cause, self.terms, self.kind == "sender"
            )
            self.wake = self.connection.wake
            self.retry()

    async def _attach_here(self, *, again: bool = True) -> bool:
        """Attach; False if the peer redirects the link.

        Args:
            again: put another token, and attach once more, if the peer may have dropped the token.
        """
        connection = self.connection
        connection.close_deadlines.interrupted()
        await connection.ready()
        session = self.on_session if self.on_session is not None else connection.default_session()
        await session.ready()
        if connection.recovery is not None:
            await connection.recovery.standing()
        had_token = False
        if connection.tokens is not None:
            had_token = await connection.tokens.admit(self)
            await session.ready()
        if not session.established or not connection.established:
            raise session.gone() if connection.established else connection.gone()
        self.require_capabilities()
        self.ask_to_be_kept()
        self._recall()
        self.attach_to(session).owner = self
        self.awaiting_peer = True
        self.session = session
        connection.links[self] = session
        connection.wake()
        try:
            await self.until(lambda: self.open or self.over)
        except BaseException:
            self._abandon()
            raise
        if self.over and self.first_attach_refused():
            self._resume_refused = True
            self.retry()
            return await self._attach_here(again=again)
        if self.over and again and had_token and await self._token_put_anew():
            self.retry()
            return await self._attach_here(again=False)
        if self.over and not is_redirect(self.cause):
            error = self.lost()
            if self.resuming and isinstance(error, ConnectionClosed) and connection.recovery is None:
                error.add_note(
                    f"the link {self.name!r} asked to resume what the delivery store has; if the peer cannot do that, "
                    "connect with reconnect=Reconnect(): the link is then attached without, once"
                )
            raise error
        return not self.over

    async def _token_put_anew(self) -> bool:
        """Put another token where the link was refused for want of one; return whether the peer took it."""
        cause, tokens = self.cause, self.connection.tokens
        refused = isinstance(cause, LinkDetached) and cause.condition == "amqp:unauthorized-access"
        return refused and tokens is not None and await tokens.put_anew(self)

    @abstractmethod
    def require_capabilities(self) -> None:
        """Raise `Unsupported` if the dialect cannot do what the link asks for."""

    @abstractmethod
    def attach_to(self, session: SessionCore) -> EngineLink:
        """Attach the link on a session, by the engine."""

    def require(self, capability: str, what: str) -> None:
        """Raise `Unsupported` unless the dialect has a capability."""
        if capability not in self.connection.capabilities:
            raise Unsupported(f"dialect {self.connection.dialect!r} has no {what}")

    def ask_to_be_kept(self) -> None:
        """Ask the peer to keep its end of the link for a while when the connection is lost (§3.5.6)."""
        restored = self.connection.recovery is not None
        if not (restored or self.store is not None) or not self.restorable or not self.connection.resumes:
            return
        if restored:
            self.terms = replace(self.terms, properties={**self.terms.properties, NEWEST_CONNECTION: True})
        timeout = self.connection.supervisor.settings.resume_timeout
        terminus = self.terminus
        if not isinstance(terminus, Source | Target) or terminus.expiry_policy != "session-end":
            return
        if timeout and not terminus.timeout and not terminus.dynamic:
            terminus = copy.copy(terminus)
            terminus.expiry_policy, terminus.timeout = "connection-close", UInt(timeout)
            if isinstance(terminus, Target):
                self.terms = replace(self.terms, target=terminus)
            else:
                self.terms = replace(self.terms, source=terminus)

    def _recall(self) -> None:
        """Take what an earlier connection left unsettled; it is resumed, or else what becomes of it is decided here."""
        if self.store is not None:
            self.pending = self.recalled()
            self.resuming = bool(self.pending) and self.connection.resumes and not self._resume_refused
            self.may_resume = self.resuming

    @abstractmethod
    def recalled(self) -> list[Any]:
        """Return the deliveries that the store has of this link."""

    def first_attach_refused(self) -> bool:
        """Return whether to attach once more without the deliveries of an earlier connection."""
        if not self.resuming or is_unrelated_to_resume(self.cause) or not self.connection.established:
            return False
        return self.on_session is None or self.on_session.established

    def _abandon(self) -> None:
        """Attaching was cancelled: nobody will use the link, so it goes as soon as it stands."""
        if self.state is State.OPENING:
            self.advance(Step.CANCEL)
            return
        attached = self.open
        self.advance(Step.CLOSE)
        if self.interrupted:
            self.end_for_good(None)
        elif attached:
            self.detach(closed=self._closes)

    def on_attached(self) -> None:
        """Act on the peer's attach."""
        self.awaiting_peer = False
        if self.state is State.ABANDONED or self.over:  # attaching was cancelled, or the answer has crossed the end
            self.detach(closed=self._closes)
            return
        link = self.engine_link  # it may be detached already, which is told next
        if link is not None:
            self.answered = link.remote
        restored = self.interrupted and self.ever_attached
        self.advance(Step.OPEN)
        self.ever_attached = True
        self.may_resume = self.is_kept()
        if restored:
            assert self.connection.recovery is not None
            self.connection.recovery.link_restored(self)
            resumed = self.resuming and self.remote.unsettled is not None
            self.connection.observers.tell(LinkRestored(self.face, resumed))
            self.go_on()
        elif self.pending and self.open and link is not None and link.attached:
            self.on_unresumed(self.take_pending())
        self.changed()

    def is_kept(self) -> bool:
        """Return whether the peer keeps its end for a while without the connection, as its answer says."""
        if self.connection.recovery is None or not self.connection.resumes:
            return False
        terminus = self.remote.target if self.kind == "sender" else self.remote.source
        return outlives_connection(terminus)

    def use_transport(self) -> None:
        self.wake = self.connection.waker

    # After a loss

    def restore(self) -> None:
        assert self.session is not None
        self.resuming = self.may_resume
        made_up = self.terms.name.startswith(f"{self.connection.container_id}-")
        keeps = self.engine_link is not None and self.engine_link.keeps_name
        # Detached and not closed, the peer's end stands as long as the session, with what is unsettled: only an attach
        # of its name takes it over (§2.6.4, §3.5.6).
        stands = isinstance(self.loss, LinkDetached)
        if made_up and not keeps and not stands and not self.resuming and not self._terminus_outlives_link:
            # Broker-J does not answer an attach for a name that belongs to a connection which it has not seen die yet.
            self.terms = replace(self.terms, name=self.connection.new_link_name(self.kind))
        self.attach_again(self.session)

    def attach_again(self, session: SessionCore) -> None:
        """Attach a link that was there before: nobody but us waits for the answer."""
        self.attach_to(session).owner = self
        self.awaiting_peer = True
        if self.connection.recovery is not None:
            self.connection.recovery.expect_answer(self)
        self.connection.wake()

    def interrupt(self, error: AmqpError | None) -> None:
        if self.awaiting_peer and self.connection.losing:
            self.stray_attaches += 1
        super().interrupt(error)

    def on_incomplete(self) -> None:
        """Attach once more with what is left: not all could be resumed at once (§2.6.13)."""
        link, recovery = self.engine_link, self.connection.recovery
        assert link is not None
        assert recovery is not None
        self.may_resume = recovery.resume_again(self, len(link.suspended()))
        self.interrupt(None)
        link.retired = True
        link.detach(closed=False)
        recovery.restore_link(self)

    def take_pending(self) -> list[Any]:
        """Return the deliveries of the link that was lost: they are somebody else's concern now."""
        pending, self.pending = self.pending, []
        return pending

    @abstractmethod
    def on_unresumed(self, deliveries: Sequence[Any]) -> None:
        """Decide on the deliveries whose state the peer does not tell."""

    @abstractmethod
    def go_on(self) -> None:
        """Go on: the link is attached again."""

    # Detaching

    @abstractmethod
    def wake_all(self) -> None:
        """Wake all tasks that wait on the link, because it is closing or over."""

    @abstractmethod
    async def drain_work(self) -> None:
        """Wait until nothing is left that the detach would cut off."""

    @abstractmethod
    def before_detach(self) -> None:
        """Settle what is to be settled before the detach, without waiting."""

    def outlives_link(self) -> bool:
        return self._terminus_outlives_link

    async def leave(self, closed: bool, deadline: float | None = None) -> None:
        if self.closed or self.state is State.NEW:
            with anyio.CancelScope(shield=True):
                await self.until(lambda: not self._leave_running)  # another task is at it
            return
        self._closes, self._leave_running = closed, True
        self.advance(Step.CLOSE)
        try:
            self.wake_all()
            if not self.over and deadline is not None:
                await self._close_within(closed, deadline)
            elif not self.over:
                with self.connection.close_deadlines.exit(self.connection.close_timeout) as this:
                    await self._close_within(closed, this.links_by)
        finally:
            self._leave_running = False
            self.changed()

    async def _close_within(self, closed: bool, deadline: float) -> None:
        if self.interrupted and not self.has_unfinished_work():
            self.end_for_good(self.loss)
            return
        with shielded_until(deadline, 1 - ANSWER_SHARE):
            await self.drain_work()
        if self.interrupted:
            self.end_for_good(self.loss)
        if not self.over:
            self.before_detach()
            self.detach(closed=closed)
            with shielded_until(deadline):
                await self.until(lambda: self.over)

    def detach(self, closed: bool) -> None:
        self.detach_sent = True
        link = self.engine_link
        if closed and self.store is not None:
            if self.store.left:
                closed = False  # the next link of this name is to find out what became of it
            else:
                self.store.end()
        if link is not None:
            link.detach(closed=closed)
            self.connection.wake()

    def on_ended(self, error: AmqpError | None) -> None:
        recovery = self.connection.recovery
        if self.connection.tokens is not None and isinstance(error, LinkDetached):
            error = self.connection.tokens.explained(error, self)
        if recovery is None or self.detach_sent or self.over or self.state is State.ABANDONED:
            self.end_for_good(error)
            return
        unresumed = recovery.refused_to_resume(self, error)
        if recovery.link_returns(self, error, unresumed=unresumed):
            self.interrupt(error)
            if isinstance(error, SessionEnded | LinkDetached):
                self.connection.observers.tell(LinkInterrupted(self.face, error))
            recovery.link_lost(self, error, unresumed=unresumed)
        else:
            self.end_for_good(error)

    def end_for_good(self, error: AmqpError | None) -> None:
        if self.over:
            return
        if isinstance(error, SessionEnded | LinkDetached) and not is_redirect(error):
            self.connection.observers.tell(LinkLost(self.face, error))
        super().end_for_good(error)
        self.connection.links.pop(self, None)
        if self.connection.recovery is not None:
            self.connection.recovery.link_over(self)
        self.wake_all()
        if self.session is not None:
            self.session.link_over()


def is_redirect(error: AmqpError | None) -> bool:
    """Return whether the peer redirects a link (§2.8.18)."""
    return isinstance(error, LinkDetached) and error.condition == "amqp:link:redirect"
