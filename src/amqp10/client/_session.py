"""A session: what its links share, and how it begins, is restored and ends (§2.5)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from .._arguments import made_by
from ..engine import Request, SessionOwner, SessionTerms
from ..errors import AmqpError, LocalProtocolError, RequestRefused
from ._core.close_deadline import leave_all, shielded_until
from ._core.connection import ConnectionCore, LinkCore, SessionCore
from ._core.states import State, Step
from ._errors import fresh
from ._factory import LinkFactory

if TYPE_CHECKING:
    from ..engine import PendingRequest
    from ..engine import Session as EngineSession
    from ._core.connection import UserConnection

R = TypeVar("R")


class ClientSession(SessionCore, SessionOwner):
    """The core of a session: how it begins, is restored and ends."""

    def __init__(self, connection: ConnectionCore, terms: SessionTerms, *, restorable: bool = True) -> None:
        super().__init__("session")
        self._restorable = restorable
        self.connection = connection
        self._terms = terms
        self.begun: bool = False
        self._engine_session: EngineSession | None = None
        self.parent: SessionCore | None = None  # it has taken over one link of this session
        self._senders: dict[LinkCore, Callable[[], None]] = {}
        self.end_sent: bool = False  # our end is out
        self.coordinator_link: object = None
        self.refused_to_resume: bool = False  # it may have ended because a link of it was to be resumed

    # Beginning

    async def __aenter__(self) -> Self:
        await self.connection.ready()
        self.begin()
        try:
            await self.until(lambda: self.begun or self.over)
        except BaseException:
            self._abandon()
            raise
        if self.over:
            raise self.lost()
        return self

    def _abandon(self) -> None:
        """Beginning was cancelled: nobody will use the session, so it ends as soon as the peer has begun it."""
        if self.open and not self.begun:
            self.advance(Step.CANCEL)
            return
        self.advance(Step.CLOSE)
        if self.interrupted:
            self.end_for_good(None)
        elif self.begun:
            self.end()

    def begin(self) -> None:
        self.enter()
        self.connection.close_deadlines.interrupted()
        if not self.connection.established:
            raise self.connection.gone()
        self._begin_in_engine()
        if self.connection.recovery is not None and self._restorable:
            self.connection.recovery.sessions[self] = None

    def _begin_in_engine(self) -> None:
        terms, recovery = self._terms, self.connection.recovery
        if recovery is not None and "session-resume" in self.connection.capabilities:
            terms = replace(terms, timeout=recovery.settings.resume_timeout)
        self._engine_session = session = self.connection.in_engine.begin(terms)
        session.owner = self
        self.awaiting_peer = True
        self.advance(Step.OPEN)
        self.connection.wake()

    @property
    def suspended(self) -> bool:
        return self._engine_session is not None and self._engine_session.suspended

    def resume(self) -> None:
        assert self._engine_session is not None
        try:
            self.connection.in_engine.resume(self._engine_session)
        except LocalProtocolError as error:  # the peer takes no more sessions than are there
            self._engine_session.end()
            self.end_for_good(error)
        else:
            self.awaiting_peer = True
        self.connection.wake()

    def on_answered(self, request: PendingRequest[Any]) -> None:
        self.changed()

    def on_session_resumed(self) -> None:
        """Go on with all links on another transport."""
        self.awaiting_peer = False
        for link in self.links:
            link.use_transport()
        self.on_window()
        self.changed()

    def restore(self) -> None:
        """Begin again, with all links."""
        self._begin_in_engine()
        recovery = self.connection.recovery
        assert recovery is not None
        for link in self.links:
            if link.session is self:
                recovery.restore_link(link)
        self.changed()

    def for_one(self, link: LinkCore) -> ClientSession:
        session = ClientSession(self.connection, self._terms)
        session.parent = self
        session.begun = True
        session.interrupt(link.loss)
        self._senders.pop(link, None)
        return session

    def link_over(self) -> None:
        if self.parent is None or self.over:
            return
        if self.open:
            self.end()
        else:
            self.end_for_good(None)

    def on_begun(self) -> None:
        """Act on the peer's begin."""
        self.begun, self.awaiting_peer = True, False
        if self.connection.recovery is not None:
            self.connection.recovery.session_restored(self)
        if self.state is State.ABANDONED:
            self.end()
        self.changed()

    @property
    def in_engine(self) -> EngineSession:
        if self._engine_session is None:
            raise self.gone()
        return self._engine_session

    @property
    def remote(self) -> SessionTerms:
        remote = self.in_engine.remote
        if remote is None:
            raise self.gone()
        return remote

    async def request(self, request: Request[R]) -> R:
        recovery = self.connection.recovery
        if recovery is None:
            return await self.ask(request)
        await recovery.standing()
        try:
            answer = await self.ask(request)
        except BaseException as error:
            if not isinstance(error, RequestRefused) or error.condition == "amqp:not-found":
                recovery.undeclared(request)
            raise
        recovery.declared(self, request, answer)
        return answer

    async def ask(self, request: Request[R]) -> R:
        await self.ready()
        pending = self.in_engine.request(request)
        self.connection.wake()
        await self.until(lambda: pending.answered or self.over or self.interrupted)
        if pending.error is not None:
            raise fresh(pending.error)
        if not pending.answered:
            raise self.gone()
        return pending.result

    # Window

    def add_sender(self, sender: LinkCore, on_window: Callable[[], None]) -> None:
        self._senders[sender] = on_window

    def remove_sender(self, sender: LinkCore) -> None:
        self._senders.pop(sender, None)

    def on_window(self) -> None:
        """Wake whoever waits to send: the peer's incoming window opened (§2.5.6)."""
        for on_window in self._senders.values():
            on_window()

    # Ending

    def end(self) -> None:
        self.advance(Step.CLOSE)
        self.end_sent = True
        if self._engine_session is not None:
            self._engine_session.end()
            self.connection.wake()

    def on_ended(self, error: AmqpError | None) -> None:
        recovery = self.connection.recovery
        abandoned = self.state is State.ABANDONED
        if recovery is not None and not abandoned and recovery.session_returns(self, error):
            self.refused_to_resume = False
            self.interrupt(error)
            recovery.session_lost(self)
        else:
            self.end_for_good(error)

    def described(self) -> str:
        return f"on {self.connection.where}"

    def end_for_good(self, error: AmqpError | None) -> None:
        super().end_for_good(error)
        self._forget()
        self._senders.clear()
        for link in self.links:
            link.end_for_good(error)

    @property
    def links(self) -> list[LinkCore]:
        return [link for link, on in self.connection.links.items() if on is self or on.parent is self]

    def _forget(self) -> None:
        if self.connection.recovery is not None:
            self.connection.recovery.session_over(self)

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with self.connection.close_deadlines.exit(self.connection.close_timeout) as this:
            await self.leave(this.links_by)

    async def leave(self, deadline: float) -> None:
        if self.closed or self.over or self.state is State.NEW:
            return
        self.advance(Step.CLOSE)
        if self.interrupted and not any(link.has_unfinished_work() for link in self.links):
            self.end_for_good(None)
            return
        await leave_all(self.links, deadline)
        if self.interrupted:
            self.end_for_good(self.loss)
        if not self.over:
            self.end()
            with shielded_until(deadline):
                await self.until(lambda: self.over)


@made_by("connection.session()", "ClientSession")
class Session(LinkFactory):
    """A session (§2.5): links that share a window of transfer frames and an order; begun by `async with`.

    Most programs need none of their own: a connection begins one by itself. A second one keeps the flow of its links
    apart from that of the others.
    """

    def __init__(self, core: SessionCore) -> None:
        self._core = core

    def _place(self) -> tuple[ConnectionCore, SessionCore]:
        return self._core.connection, self._core

    @property
    def open(self) -> bool:
        """Whether the session can be used now."""
        return self._core.open

    @property
    def connection(self) -> UserConnection:
        """The connection that the session is on."""
        return self._core.connection.face

    @property
    def remote(self) -> SessionTerms:
        """What the peer said in its begin (§2.7.2): its windows and handle-max.

        Raises:
            LocalProtocolError: it has not begun yet.
        """
        return self._core.remote

    async def __aenter__(self) -> Self:
        """Begin the session.

        Raises:
            ConnectionClosed, ConnectionLost: the connection is gone.
            SessionEnded: the peer ended the session at once.
            LocalProtocolError: the peer takes no further session.

        Cancelling: the session is ended as soon as the peer's answer comes.
        """
        await self._core.__aenter__()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Leave the links that are left on it, all at once, and end the session.

        Cancelling: is not noticed; it takes `close_timeout` seconds at most.
        """
        await self._core.__aexit__(exc_type, exc, traceback)

    def __repr__(self) -> str:
        return f"<Session {self._core.described()}: {self._core.state_in_words()}>"
