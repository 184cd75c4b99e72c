"""The core of a connection: it opens, owns the one background task, and tells links what happened (§2.4).

ClientConnection ──owns──> task group ──runs──> Pump ──drives──> Engine
    ^                                             |
    └────────────── events, each pass ────────────┘      -> Session, Sender, Receiver, the owners
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Self

import anyio
from anyio.abc import TaskGroup

from .._calls import Ungrouped, only
from ..engine import (
    NO_LINK_OWNER,
    NO_SESSION_OWNER,
    Authenticated,
    ConnectionEnded,
    ConnectionOpened,
    ConnectionTerms,
    Engine,
    EngineOwner,
    Event,
    LinkAttached,
    LinkEnded,
    LinkTerms,
    PeerBlocked,
    RequestAnswered,
    SessionBegun,
    SessionTerms,
    SessionUnmapped,
)
from ..errors import AmqpError, ConnectionLost, LocalProtocolError, StoreError
from ..messaging import Error
from ..net import Pump
from ..profiles import Profile
from ._connecting.supervisor import TransportSupervisor
from ._core.close_deadline import CloseDeadlines, leave_all
from ._core.connection import ConnectionCore, LinkCore, SessionCore, TokenKeeper
from ._core.states import Step
from ._errors import hide_secrets
from ._events import (
    ConnectionBlocked,
    ConnectionGivenUp,
    ConnectionInterrupted,
    ConnectionRestored,
    ConnectionUnblocked,
    Observers,
)
from ._health import HealthMonitor
from ._links.redirects import LinkRedirects
from ._recovery.restorer import Restorer
from ._session import ClientSession
from ._stores.store import DeliveryStore

if TYPE_CHECKING:
    from ._core.connection import UserConnection


def _loop_finder() -> Callable[[], object]:
    """Return what returns the event loop that it is called in, of the kind that runs now; it raises RuntimeError."""
    if (asyncio := sys.modules.get("asyncio")) is not None:  # who runs on trio need not import it
        running: Callable[[], object] = asyncio.get_running_loop
        with suppress(RuntimeError):
            running()
            return running
    from trio.lowlevel import current_trio_token

    return current_trio_token


class ClientConnection(ConnectionCore, EngineOwner):
    """The core of a connection: it opens and closes it, runs its task, and tells links what happened.

    Attributes:
        face: what the user holds.
    """

    # Without slots a connection takes a kilobyte more: a dict with shared keys has no room for all these attributes.
    __slots__ = (
        "_background",
        "_crash",
        "_default",
        "_engine",
        "_find_loop",
        "_loop",
        "_named_profile",
        "_opener",
        "_profile",
        "_pumped",
        "_scopes",
        "_session_terms",
        "_shield",
        "_tasks",
        "close_deadlines",
        "close_timeout",
        "delivery_store",
        "face",
        "failure",
        "health",
        "links",
        "losing",
        "mechanism",
        "named",
        "observers",
        "pump",
        "recovery",
        "redirects",
        "subscriptions",
        "supervisor",
        "terms",
        "tokens",
    )

    supervisor: TransportSupervisor
    redirects: LinkRedirects
    recovery: Restorer | None
    tokens: TokenKeeper | None

    def __init__(
        self,
        face: UserConnection,
        terms: ConnectionTerms,
        session_terms: SessionTerms,
        *,
        close_timeout: float,
        delivery_store: DeliveryStore | None,
        profile: Profile | None,
        named: bool,
    ) -> None:
        super().__init__("connection")
        self.face = face
        self.terms = terms
        self.close_timeout = close_timeout
        self._named_profile = self._profile = profile
        self.delivery_store = delivery_store
        self.observers: Observers = Observers(lambda: self.where)
        self.health: HealthMonitor = HealthMonitor()
        self._session_terms = session_terms
        self.named = named
        self._default: ClientSession | None = None
        self.links: dict[LinkCore, SessionCore] = {}  # attached, or being so, or to be so again; and on which session
        self.close_deadlines: CloseDeadlines = CloseDeadlines()
        # Of subscriptions whose links are there: the link's name, and that of the subscription's first link.
        self.subscriptions: dict[LinkCore, tuple[str, str]] = {}
        self.mechanism: str | None = None
        self.failure: Exception | None = None  # why there never was a connection
        self._engine: Engine | None = None
        self.pump: Pump | None = None
        self._pumped = False
        self._crash: BaseException | None = None
        # Made when the block is entered, for a connection may be made where no event loop runs.
        self._background: anyio.CancelScope
        self._shield: anyio.CancelScope
        self._tasks: TaskGroup | None = None
        self._opener: int | None = None  # the task that entered the block
        self._scopes: dict[anyio.CancelScope, None] = {}
        self._find_loop: Callable[[], object] | None = None  # returns the event loop of who calls it
        self._loop: object = None
        self.losing = False

    # Opening

    async def __aenter__(self) -> Self:
        self.enter()
        self._opener = anyio.get_current_task().id
        self._find_loop = _loop_finder()
        self._loop = self._find_loop()
        # Cancelling the block must reach neither the background task, which has the closing still to do, nor the
        # waiting for it: the first has a shield of its own, the second a scope around the group, shut while closing.
        self._background = anyio.CancelScope(shield=True)
        self._shield = anyio.CancelScope()
        self._shield.__enter__()
        self._tasks = tasks = anyio.create_task_group()
        await tasks.__aenter__()
        try:
            tasks.start_soon(self._background_main)
            await self.until(lambda: self.open or self.over)
            if self.over:
                with anyio.move_on_after(self.close_timeout):
                    await self.until(lambda: self._pumped)
                raise self.failure or self.lost()
        except BaseException:
            self._shield.shield = True
            self.advance(Step.CLOSE)
            await self._stop_tasks()
            raise
        return self

    def check_loop(self) -> None:
        try:
            here = self._find_loop() if self._find_loop is not None else None
        except RuntimeError:  # trio's, where asyncio's is asked for, or the other way round
            here = None
        if here is not self._loop and not self.over:  # else nobody waits, and the cause is told, as in a forked child
            raise LocalProtocolError(
                "the connection was opened in another event loop, and nothing would wake who waits here: open one in "
                "this event loop, or call it there (anyio.from_thread.run from another thread); amqp10.sync is for "
                "threads without an event loop"
            )

    async def _background_main(self) -> None:
        """Run the background task. A fault of this package's own ends the connection like any other cause."""
        try:
            with self._background:
                await self.supervisor.run(self)
        except Exception as error:
            self._crash = only(error)
            if self._engine is not None:
                self._engine.receive_eof()
                self.handle(self._engine.events())
            self._on_ended(self._reason(None))
        finally:
            self._pumped = True
            self.changed()

    async def keep(self) -> None:
        """Store what links have unsettled, before anything is written that relies on it."""
        assert self.delivery_store is not None
        try:
            await self.delivery_store.commit()
        except StoreError as error:
            self._crash = error
            raise

    def adopt(self) -> None:
        """Take over the engine and pump that the supervisor has made."""
        self._engine, self.pump = self.supervisor.engine, self.supervisor.pump

    # What happened

    def handle(self, events: list[Event]) -> None:
        """Tell those concerned; called by the pump with the events of each pass."""
        last = events[-1] if events else None
        if isinstance(last, ConnectionEnded):
            if self.tokens is not None and (why := self.tokens.explained(last.error)) is not last.error:
                ends = (ConnectionEnded, SessionUnmapped, LinkEnded)
                events = [replace(event, error=why) if isinstance(event, ends) else event for event in events]
                last = events[-1]
                assert isinstance(last, ConnectionEnded)
            # A connection that opens and ends in one pass gets no opened event: nobody could have used it.
            events = [event for event in events if not isinstance(event, ConnectionOpened)]
            ended = self.closed or self._crash is not None or last.error is None
            self.losing = not ended and self.supervisor.keeps(self, last.error)  # type: ignore[arg-type]
        try:
            self.dispatch(events)
        except Exception as error:
            self._crash, self.losing = error, False  # nothing would restore it
            raise

    def _reason(self, error: AmqpError | None) -> AmqpError | None:
        """Return why something ended. A fault of our own goes first: the engine then reports only its consequence."""
        if self._crash is None:
            if error is not None:
                error = self.supervisor.judged(error)
            if error is not None and self._engine is not None and self._engine.remote is not None:
                self.profile.explain(error)
            return error
        if isinstance(self._crash, ConnectionLost | StoreError):
            return self._crash
        cause = ConnectionLost(f"the connection's own task failed: {self._crash!r}")
        cause.__cause__ = self._crash
        return cause

    def _on_authenticated(self, event: Authenticated) -> None:
        self.mechanism = event.mechanism

    def _on_peer_blocked(self, event: PeerBlocked) -> None:
        reason = event.reason
        self.health.changed(blocked=reason is not None)
        if reason is None:
            self.observers.tell(ConnectionUnblocked())
        else:
            self.observers.tell(ConnectionBlocked(self.supervisor.secrets.hide(reason)))

    def _on_request_answered(self, event: RequestAnswered) -> None:
        if event.request.error is not None:
            hide_secrets(self.supervisor.secrets, event.request.error)
        super()._on_request_answered(event)

    def _on_session_begun(self, event: SessionBegun) -> None:
        session = event.session
        if session.owner is NO_SESSION_OWNER:
            session.begin()
            session.end(Error("amqp:not-implemented", "this client does not accept sessions from its peer"))
        super()._on_session_begun(event)

    def _on_link_attached(self, event: LinkAttached) -> None:
        if event.link.owner is NO_LINK_OWNER:
            event.link.refuse(Error("amqp:not-implemented", "this client does not accept links from its peer"))
        super()._on_link_attached(event)

    def _on_connection_opened(self, event: ConnectionOpened) -> None:
        self.adopt()
        again = self.interrupted
        self.advance(Step.OPEN)
        self.health.changed()
        self._profile = self._named_profile
        downtime = self.supervisor.opened(self.remote.properties)
        if again:
            self.observers.tell(ConnectionRestored(f"{self.supervisor.endpoint}", downtime))
            if self.recovery is not None:
                self.recovery.restored()
        if self.tokens is not None:
            self.tokens.connected()
        self.changed()

    def _on_connection_ended(self, event: ConnectionEnded) -> None:
        self._on_ended(self._reason(event.error))

    def _on_ended(self, error: AmqpError | None) -> None:
        if self.over:
            return
        if self.losing:
            self.losing = False
            if self.open:
                self.interrupt(error)
                self.health.changed()
                self.observers.tell(ConnectionInterrupted(error))
            return
        cause = self.failure or error or (self.loss if self.interrupted else None)
        self.end_for_good(error)
        self.health.changed()
        if self.recovery is not None:
            self.recovery.given_up(error)
        if cause is not None:
            # No warning: without `recovery` the error is raised to whoever uses it, and who leaves expects the end.
            level = logging.INFO if self.recovery is None or self.closed else None
            self.observers.tell(ConnectionGivenUp(cause), level)
        self.observers.end()

    def not_connected(self, error: Exception) -> None:
        """End: there is no connection, and no further attempt."""
        self.failure = error
        if not isinstance(error, AmqpError):
            lost = ConnectionLost(f"the connection could not be restored: {error}")
            lost.__cause__ = error
            error = lost
        self._on_ended(error)

    def forked(self) -> None:
        """End: this is a child process, and the connection is the parent's."""
        engine = self._engine
        if engine is None or self.over:
            return
        self._crash = ConnectionLost("the connection belongs to the process that this one was forked from")
        self.observers.logs = False  # each child would say of each connection that it is lost
        recovery, self.recovery = self.recovery, None
        engine.receive_eof()
        self.handle(engine.events())
        if recovery is not None:
            recovery.given_up(self._crash)
        self._on_ended(self._crash)  # if it was interrupted

    # Sessions and links

    def new_session(self, terms: SessionTerms, *, restorable: bool = True) -> ClientSession:
        return ClientSession(self, terms, restorable=restorable)

    def default_session(self) -> ClientSession:
        """Return the session of links that ask for none; begun when first needed, and again if the peer ended it."""
        if self._default is None or not (self._default.open or self._default.interrupted):
            session = ClientSession(self, self._session_terms)
            session.begin()
            self._default = session
        return self._default

    async def follow_redirect(
        self, cause: AmqpError | None, terms: LinkTerms, sender: bool
    ) -> tuple[ConnectionCore, LinkTerms]:
        return await self.redirects.follow(cause, terms, sender)

    def closed_for_resuming(self, error: AmqpError) -> bool:
        return self.recovery is not None and self.recovery.closed_for_resuming(error)

    # Closing

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._opener != anyio.get_current_task().id:
            self.advance(Step.CLOSE)
            self._background.cancel()
            raise LocalProtocolError(
                "a connection must be closed by the task that opened it: keep its `async with` in one task, such "
                "as the "
                "lifespan of a web application or an anyio fixture; other tasks may use the connection meanwhile"
            ) from exc
        self._shield.shield = True
        self.advance(Step.CLOSE)
        self.health.changed()
        with self.close_deadlines.exit(self.close_timeout, outermost=True) as this:
            try:
                await leave_all([link for link in self.links if link.ever_attached], this.links_by)
                if self.interrupted:
                    self._background.cancel()
                elif self._engine is not None and not self.over:
                    if self._default is not None and self._default.open:
                        self._default.in_engine.end()
                    self._engine.close()
                    self.wake()
                with anyio.CancelScope(deadline=this.by):
                    await self.until(lambda: self._pumped)
            finally:
                await self._stop_tasks()
        if self._crash is not None and exc is None:
            raise self._crash

    async def _stop_tasks(self) -> None:
        """Leave the task group. What it raises for one cause is that cause."""
        tasks = self._tasks
        assert tasks is not None
        self._background.cancel()
        for scope in self._scopes:
            scope.cancel()
        if not self.over and self.interrupted:
            self._on_ended(None)
        try:
            with Ungrouped():
                await tasks.__aexit__(None, None, None)
        finally:
            self._shield.__exit__(None, None, None)
