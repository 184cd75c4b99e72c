"""A session: what its links share, and how it begins, is restored and ends (§2.5)."""

from __future__ import annotations

from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, ClassVar, Self, TypeVar

import anyio

from ..engine import Request, SessionTerms
from ..errors import AmqpError, LocalProtocolError, RequestRefused
from ._endpoint import Endpoint, fresh
from ._leaving import leave_all, until
from ._link import Link
from ._links import Links
from ._sender import Sender
from ._transaction import CoordinatorSender

if TYPE_CHECKING:
    from ..engine import Session as EngineSession
    from ._connection import Connection

R = TypeVar("R")


class Session(Endpoint, Links):
    """A session (§2.5): links that share a window of transfer frames and an order; begun by `async with`.

    Most programs need none of their own: a connection begins one by itself. A second one keeps the flow of its links
    apart from that of the others.
    """

    _kind: ClassVar[str] = "session"

    def __init__(self, connection: Connection, terms: SessionTerms) -> None:
        super().__init__()
        self.connection = connection
        self._terms = terms
        self._abandoned = False
        self._begun = False
        self._engine_session: EngineSession | None = None
        self._parent: Session | None = None  # of which it has taken over one link
        self._senders: dict[Sender, None] = {}
        self._parting = False  # our end is out
        self._refused_to_resume = False  # it may have ended because a link of it was to be resumed
        self._coordinating: anyio.Lock | None = None
        self._coordinator_link: CoordinatorSender | None = None

    def _place(self) -> tuple[Connection, Session]:
        return self.connection, self

    # Beginning

    async def __aenter__(self) -> Self:
        """Begin the session.

        Raises:
            ConnectionClosed, ConnectionLost: the connection is gone.
            SessionEnded: the peer ended the session at once.
            LocalProtocolError: the peer takes no further session.

        Cancelling: the session is ended as soon as the peer's answer comes.
        """
        await self.connection._ready()
        self._begin()
        try:
            await self._until(lambda: self._begun or self._over)
        except BaseException:
            self._closed = self._abandoned = True
            if self._begun:
                self._end()
            raise
        if self._over:
            raise self._lost()
        return self

    def _begin(self) -> None:
        """Send the begin; links may attach at once."""
        self._enter()
        self.connection._leaving.interrupted()
        if not self.connection.open:
            raise self.connection._gone()
        self._begin_in_engine()
        if self.connection._recovery is not None:
            self.connection._recovery.sessions[self] = None

    def _begin_in_engine(self) -> None:
        terms, recovery = self._terms, self.connection._recovery
        if recovery is not None and "session-resume" in self.connection.capabilities:
            terms = replace(terms, timeout=recovery.settings.resume_timeout)
        self._engine_session = session = self.connection._in_engine.begin(terms)
        session.context = self
        self.open = self._asking = True
        self.connection._wake()

    @property
    def _suspended(self) -> bool:
        """Its transport is lost, and nothing else: it goes on where it was when it is resumed."""
        return self._engine_session is not None and self._engine_session.suspended

    def _resume(self) -> None:
        """The connection is back."""
        assert self._engine_session is not None
        try:
            self.connection._in_engine.resume(self._engine_session)
        except LocalProtocolError as error:  # the peer takes no more sessions than are there
            self._engine_session.end()
            self._end_for_good(error)
        else:
            self._asking = True
        self.connection._wake()

    def _on_resumed(self) -> None:
        """It goes on, and so do its links, on another transport."""
        self._asking = False
        for link in self._links:
            link._wake = self.connection._waker
        self._on_window()
        self._changed()

    def _restore(self) -> None:
        """Begin again, with all links."""
        self._begin_in_engine()
        self._interrupted = False
        recovery = self.connection._recovery
        assert recovery is not None
        for link in self._links:
            if link._on is self:
                recovery.restore_link(link)
        self._changed()

    def _for_one(self, link: Link) -> Session:
        """A session for one link of this one, to be begun as one that was lost."""
        session = Session(self.connection, self._terms)
        session._parent = self
        session._begun = session._interrupted = True
        session._loss = link._loss
        self._senders.pop(link, None)  # type: ignore[call-overload]
        return session

    def _link_over(self) -> None:
        """A link on it is over; if it was begun for that one, so is it."""
        if self._parent is None or self._over:
            return
        if self.open:
            self._end()
        else:
            self._end_for_good(None)

    def _on_begun(self) -> None:
        """The peer's begin is here."""
        self._begun, self._asking = True, False
        self._restored_at = anyio.current_time()
        if not self._links:  # else it is restored with the first of them
            self._refusals = 0
        if self._abandoned:
            self._end()
        self._changed()

    @property
    def _in_engine(self) -> EngineSession:
        """The engine's session; links attach to it.

        Raises:
            LocalProtocolError: there is none yet.
        """
        if self._engine_session is None:
            raise self._gone()
        return self._engine_session

    @property
    def remote(self) -> SessionTerms:
        """What the peer said in its begin (§2.7.2): its windows and handle-max.

        Raises:
            LocalProtocolError: it has not begun yet.
        """
        remote = self._in_engine.remote
        if remote is None:
            raise self._gone()
        return remote

    async def _coordinator(self) -> CoordinatorSender:
        """The link to the coordinator; attached when it is first needed, and again if the peer detached it.

        Raises:
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, Unsupported: there is none.

        Cancelling: the link is detached again.
        """
        if self._coordinating is None:
            self._coordinating = anyio.Lock()
        async with self._coordinating:
            link = self._coordinator_link
            if link is None or not link.open:
                link = CoordinatorSender(self, self.connection._link_name("transactions"))
                await link.__aenter__()
                self._coordinator_link = link
        return link

    async def _request(self, request: Request[R]) -> R:
        """Ask the peer for what AMQP 1.0 has no word for; with `reconnect`, what is declared so is declared again.

        Raises:
            Unsupported: the dialect has no such request; nothing was written.
            RequestRefused: the peer's answer is no.
            SessionEnded, ConnectionClosed, ConnectionLost: no answer came, and it may have been done.

        Cancelling: it may have been done.
        """
        recovery = self.connection._recovery
        if recovery is None:
            return await self._ask(request)
        await recovery.topology.standing()
        try:
            answer = await self._ask(request)
        except BaseException as error:
            if not isinstance(error, RequestRefused) or error.condition == "amqp:not-found":
                recovery.topology.forget(request)
            raise
        recovery.topology.note(self, request, answer)
        return answer

    async def _ask(self, request: Request[R]) -> R:
        await self._ready()
        pending = self._in_engine.request(request)
        self.connection._wake()
        await self._until(lambda: pending.answered or self._over or self._interrupted)
        if pending.error is not None:
            raise fresh(pending.error)
        if not pending.answered:
            raise self._gone()
        return pending.result

    # Window

    def _add_sender(self, sender: Sender) -> None:
        """Note a sender that is to hear of the window."""
        self._senders[sender] = None

    def _remove_sender(self, sender: Sender) -> None:
        self._senders.pop(sender, None)

    def _on_window(self) -> None:
        """The peer's incoming window opened: whoever waits to send goes on (§2.5.6)."""
        for sender in self._senders:
            sender._on_window()

    # Ending

    def _end(self) -> None:
        self.open = False
        self._parting = True
        if self._engine_session is not None:
            self._engine_session.end()
            self.connection._wake()

    def _on_ended(self, error: AmqpError | None) -> None:
        recovery = self.connection._recovery
        if recovery is not None and recovery.session_returns(self, error):
            self._refused_to_resume = False
            self._interrupt(error)
            recovery.session_lost(self)
        else:
            self._end_for_good(error)

    def _end_for_good(self, error: AmqpError | None) -> None:
        super()._end_for_good(error)
        self._forget()
        self._senders.clear()
        for link in self._links:
            link._end_for_good(error)

    @property
    def _links(self) -> list[Link]:
        """Those that are attached on it, or being attached, or interrupted; and those of it that are on one apart."""
        return [link for link, on in self.connection._links.items() if on is self or on._parent is self]

    def _forget(self) -> None:
        if self.connection._recovery is not None:
            self.connection._recovery.forget(self)

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Leave the links that are left on it, all at once, and end the session.

        Cancelling: is not noticed; it takes `close_timeout` seconds at most.
        """
        with self.connection._leaving.exit(self.connection.close_timeout) as this:
            await self._leave(this.links_by)

    async def _leave(self, deadline: float) -> None:
        if self._closed or self._over:
            return
        self._closed = True
        if self._interrupted and not any(link._owing() for link in self._links):
            self._end_for_good(None)
            return
        self.open = False
        await leave_all(self._links, deadline)
        if self._interrupted:
            self._end_for_good(self._loss)
        if not self._over:
            self._end()
            with until(deadline):
                await self._until(lambda: self._over)
