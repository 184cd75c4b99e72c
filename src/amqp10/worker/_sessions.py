"""A worker on sessions of Azure Service Bus, which handles each session by a `Worker` with one task.

Each of `sessions` tasks locks the next free session, handles its messages until no more arrive for a while, releases
the session, and goes on with the next one.
"""

from __future__ import annotations

import logging
import math
import random
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, cast

import anyio
from anyio.abc import TaskGroup

from .._arguments import check_range, check_type, checked
from .._calls import Ungrouped
from .._service import Service, ServiceBlock
from ..client import Connection
from ..client.internals import MAX_CREDIT, is_transient, restores
from ..errors import AmqpError, ConnectionLost, EndpointError
from ..messaging import Message, Outcome
from ..net import backoff
from ._handlers import Handler, HandlerCall
from ._jobs import Job
from ._locks import Locks, locks_of_session
from ._notices import Notices
from ._policy import Retries, described
from ._worker import DelayBy, Worker

if TYPE_CHECKING:
    from ..azure import ServiceBus, ServiceBusSession

SessionHandler = Callable[[Message, "ServiceBusSession"], Awaitable[Outcome | None] | Outcome | None]
"""Handles a message of a session, and returns the same as `Handler`."""

MAX_SESSIONS: Final = 65_536
"""The limit of sessions at a time: each has a task and a link."""

_ACCEPT: Final = 60.0
"""Seconds that the service may look for a session before the worker asks again."""


class _OneSession(Worker):
    """Handles the messages of a locked session, one after the other."""

    def __init__(self, connection: Connection, session: ServiceBusSession, handler: Handler, **settings: Any) -> None:
        # To keep the order, no message is received while one waits for its retry.
        super().__init__(connection, session.receiver.address or "", handler, concurrency=1, max_held=1, **settings)
        self._session = session

    @property
    def busy(self) -> bool:
        """Whether a message is being handled, held for its retry, or about to be retried."""
        return bool(self.running or self.held or self._ready)

    def _is_ordered(self, job: Job) -> bool:
        return True

    async def _attach_locked(self, links: AsyncExitStack, prefetch: int) -> Locks | None:
        return locks_of_session(self._connection, self._session, prefetch)


@checked
class SessionWorker(Service):
    """Handles the messages of sessions of Azure Service Bus, up to `sessions` at a time; begun by `async with`.

        async with SessionWorker(bus, "orders", handle, sessions=20) as worker:
            await worker.until_signal()

    Each session is handled by one worker at a time, its messages one after the other, in order. While a message waits
    for its retry, those behind it wait, too. The lock of the session is renewed while the session is here. If the lock
    is lost, the handler is cancelled, and the messages arrive again wherever the session is locked next.

    The handler decides what happens to a message, as in `Worker`. It gets the message and the session, and may use the
    session's `session_id`, `state` and `set_state`.

    Leaving the block stops locking sessions, waits up to `drain_timeout` seconds for running handlers, cancels the
    rest, and releases the sessions. If an exception leaves the block, or the block is cancelled, the handlers are
    cancelled at once. If no more sessions can be locked, because the entity does not exist or the connection is over,
    the block is cancelled and raises the reason.

    Args:
        bus: an open `ServiceBus`.
        entity: the queue, or the topic of the `subscription`; None for the EntityPath of the connection string.
        handler: a coroutine function, which gets the `Message` and the `ServiceBusSession`; or a plain function, which
            runs in a thread.
        subscription: a subscription of the topic.
        sessions: the maximum number of sessions locked at a time.
        idle_time: seconds without a message after which a session is released for another one. The clock stops while a
            handler runs or a message waits for its retry.
        session_time: seconds after which a session is released even if it has more messages, so that others get their
            turn.
        prefetch: the number of messages of a session that may wait here; None to request each when the one before is
            done.
        retries: how often and when a message is retried.
        delay_by: "memory": a message that waits for its retry is held here. "broker": a copy is scheduled, which
            arrives after the messages behind it.
        dead_letters: an address to which dead letters are sent; None to leave them in the service's
            NAME/$DeadLetterQueue.
        drain_timeout: seconds that handlers have to finish when the block is left.
        clock: returns the time in seconds since 1970, for delays at the service. Give the bus the same clock.

    Attributes:
        sessions_lost: the number of sessions whose lock or link was lost while they were here.

    Raises:
        ValueError: a number is out of range, or settings do not fit together.
        TypeError: the handler is not a function, or does not take a message and a session.
    """

    sessions_lost: int = 0

    _group: TaskGroup

    def __init__(
        self,
        bus: ServiceBus,
        entity: str | None,
        handler: SessionHandler,
        *,
        subscription: str | None = None,
        sessions: int = 8,
        idle_time: float = 1.0,
        session_time: float = math.inf,
        prefetch: int | None = None,
        retries: Retries | None = None,
        delay_by: DelayBy = "memory",
        dead_letters: str | None = None,
        drain_timeout: float = 30.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        from ..azure import ServiceBus  # here, so that other workers start without it

        check_type("bus", bus, ServiceBus)
        if not 1 <= sessions <= MAX_SESSIONS:
            raise ValueError(f"sessions must be in 1..{MAX_SESSIONS}, not {sessions}")
        if prefetch is not None:
            check_range("prefetch", prefetch, 1, MAX_CREDIT)
        if not idle_time > 0 or not session_time > 0 or not drain_timeout >= 0:
            shown = f"{idle_time}, {session_time} and {drain_timeout}"
            raise ValueError(
                f"idle_time and session_time must be more than 0 seconds, and drain_timeout 0 or more, not {shown}"
            )
        if delay_by == "broker" and subscription is not None:
            raise ValueError(
                'delay_by="broker" would schedule a copy to the topic, and so to all its subscriptions: hold messages '
                'of a subscription by delay_by="memory"'
            )
        if dead_letters is not None and dead_letters == entity:
            raise ValueError(f"dead_letters must be another address than the worker's own, which is {entity!r}")
        self._handler = HandlerCall(handler, ("the message", "the session"), sessions)
        self._bus = bus
        self._entity, self._subscription = entity, subscription
        self._idle_time, self._session_time = idle_time, session_time
        self._settings = {
            "prefetch": prefetch,
            "retries": retries,
            "delay_by": delay_by,
            "dead_letters": dead_letters,
            "drain_timeout": drain_timeout,
            "clock": clock,
        }
        self._notices = Notices(lambda: self._address)
        self.sessions = sessions
        self._counts = dict.fromkeys(("handled", "retried", "dead_lettered", "locks_lost"), 0)  # of ended workers
        self._workers: dict[Worker, str] = {}  # by the running worker: the id of its session
        self._waits: set[anyio.CancelScope] = set()  # of tasks that wait for a session
        self._over: AmqpError | None = None  # why there are no more sessions
        self._block = ServiceBlock("worker", "SessionWorker(...)")
        self._stopping = self._block.stopping

    @property
    def session_ids(self) -> frozenset[str]:
        """The ids of the sessions locked now."""
        return frozenset(self._workers.values())

    @property
    def running(self) -> int:
        """The number of messages being handled."""
        return sum(each.running for each in self._workers)

    @property
    def held(self) -> int:
        """The number of messages held for a retry."""
        return sum(each.held for each in self._workers)

    @property
    def handled(self) -> int:
        """The number of messages to which the handler has given an outcome since the start."""
        return self._counted("handled")

    @property
    def retried(self) -> int:
        """The number of failed attempts that are followed by another one."""
        return self._counted("retried")

    @property
    def dead_lettered(self) -> int:
        """The number of dead-lettered messages."""
        return self._counted("dead_lettered")

    @property
    def locks_lost(self) -> int:
        """The number of messages whose outcome was refused because the session was lost; they arrive again."""
        return self._counted("locks_lost")

    def _counted(self, name: str) -> int:
        return self._counts[name] + sum(cast("int", getattr(each, name)) for each in self._workers)

    # The block

    async def __aenter__(self) -> Self:
        """Begin to lock sessions.

        Raises:
            LocalProtocolError: the worker was begun before.

        Cancelling: nothing has happened.
        """
        await self._block.enter(self._run())
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        """Lock no more sessions, let handlers finish, release the sessions.

        Raises:
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, AuthenticationFailed, ServiceBusError: no more
                sessions could be locked.
            Unsupported: the service cannot do what a setting requires.

        Cancelling: handlers are cancelled at once, and the sessions released.
        """
        return await self._block.leave(exc_type, exc, traceback)

    @asynccontextmanager
    async def _run(self) -> AsyncIterator[None]:
        with Ungrouped():
            async with anyio.create_task_group() as self._group:
                for _ in range(self.sessions):
                    self._group.start_soon(self._serve)
                yield
                self.stop()
        if self._over is not None:
            raise self._over

    def stop(self) -> None:
        """Lock no more sessions, and release each when its handler has finished. Never blocks."""
        self._stopping.set()
        for wait in self._waits:
            wait.cancel()

    def _log_signal(self, number: signal.Signals) -> None:
        self._notices.stopping(number, "sessions are locked", self.running, self.held)

    # The tasks

    async def _serve(self) -> None:
        """Handle one session after the other, until the worker stops."""
        failures = 0
        while not self._stopping.is_set():
            session_id: str | None = None
            try:
                async with AsyncExitStack() as stack:
                    session = await self._lock_next(stack)
                    if session is not None and not self._stopping.is_set():
                        session_id = session.session_id
                        await self._handle(session)
                failures = 0
            except AmqpError as error:
                if not self._may_go_on(error):
                    self._over = self._over or error  # all tasks end for the same reason
                    self._group.cancel_scope.cancel()
                    return
                failures += 1
                self._failed(session_id, error)
                with anyio.move_on_after(backoff(failures, 0.1, 30.0, 2.0, 0.5, random.random())):
                    await self._stopping.wait()

    async def _lock_next(self, stack: AsyncExitStack) -> ServiceBusSession | None:
        """Lock the next free session; return None if no session is free, or the worker stops."""
        from ..azure import NoSession  # loaded only for Service Bus

        session = self._bus.next_session(self._entity, subscription=self._subscription, max_wait=_ACCEPT)
        with anyio.CancelScope() as wait:
            self._waits.add(wait)
            try:
                return await stack.enter_async_context(session)
            except NoSession:
                return None
            finally:
                self._waits.discard(wait)
        return None

    async def _handle(self, session: ServiceBusSession) -> None:
        """Handle the messages of a session until it is released."""
        quiet_since = anyio.current_time()

        async def handle(message: Message) -> Outcome | None:
            nonlocal quiet_since
            try:
                return cast("Outcome | None", await self._handler(message, session))
            finally:
                quiet_since = anyio.current_time()

        worker = _OneSession(self._bus.connection, session, handle, **self._settings)
        self._workers[worker] = session.session_id
        try:
            # The lock is renewed until the worker ends.
            async with session.keep_locked(), worker:
                with anyio.move_on_after(self._session_time):
                    while not self._stopping.is_set():
                        left = self._idle_time
                        if not worker.busy:
                            left += quiet_since - anyio.current_time()
                        if left <= 0:
                            break
                        with anyio.move_on_after(left):
                            await self._stopping.wait()
        finally:
            del self._workers[worker]
            for name in self._counts:
                self._counts[name] += getattr(worker, name)

    def _may_go_on(self, error: AmqpError) -> bool:
        """Return whether another session may be locked after an error."""
        from ..azure import EntityNotFound, ServiceBusError

        if isinstance(error, ServiceBusError):
            return not isinstance(error, EntityNotFound)
        if isinstance(error, EndpointError) and error.condition == "amqp:not-found":
            return False
        return is_transient(error) and (restores(self._bus.connection) or not isinstance(error, ConnectionLost))

    def _failed(self, session_id: str | None, error: AmqpError) -> None:
        """Record that a session was lost, or could not be locked."""
        if session_id is None:
            text = f"no session could be locked, and another attempt follows: {error}"
            self._notices.log("session_refused", logging.WARNING, text, error=described(error))
        else:
            self.sessions_lost += 1
            text = f"the session {session_id!r} was lost, and its messages come again: {error}"
            self._notices.log("session_lost", logging.WARNING, text, session_id=session_id, error=described(error))

    @property
    def _address(self) -> str:
        name = self._entity or "the entity"
        return name if self._subscription is None else f"{name}/Subscriptions/{self._subscription}"

    def __repr__(self) -> str:
        return f"<SessionWorker on {self._address!r}: {len(self._workers)} sessions, {self.handled} handled>"
