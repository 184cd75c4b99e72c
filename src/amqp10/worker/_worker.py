"""The worker: up to `concurrency` tasks that receive in turn, handle what they received, and settle it.

One idle task waits in the receiver. When it gets a message, it lets another task wait in its place, and handles the
message. So no task is spawned for a message, nothing passes between tasks, and under load a finished task takes the
next message without waking another.

A message is a `Job` from its receipt until it has an outcome:

    received ──> handled ──> settled
       │            │  ▲
       │            ▼  │ after the delay of a retry
       │           held
       ▼
    behind an earlier message of its key
"""

from __future__ import annotations

import logging
import signal
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Hashable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from types import TracebackType
from typing import Any, Final, Literal, Self, overload

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup

from .._arguments import advise, check_range, checked, counted, without_secrets
from .._calls import Ungrouped, cancelled_elsewhere
from .._service import Service, ServiceBlock
from ..client import Connection, Delivery, Receiver, Sender
from ..client.internals import MAX_CREDIT, processing_of, taking_at_once
from ..errors import (
    AmqpError,
    DecodeError,
    DeliveryUncertain,
    EncodeError,
    LocalProtocolError,
    MessageNotAccepted,
    StaleDelivery,
    Unsupported,
)
from ..messaging import ACCEPTED, OUTCOMES, Error, Message, Outcome, Rejected, Released, Source
from ..types import Symbol
from ._delays import (
    ByCopy,
    ByOutcome,
    Delay,
    failed_annotations,
    scheduled_by,
    send_letter,
)
from ._handlers import BatchHandler, Handler, HandlerCall
from ._jobs import Job, may_have_failed
from ._locks import Lock, Locks, is_lost, locks_of
from ._notices import Notices
from ._policy import DeadLetter, Retries, Retry, described, sendable

DelayBy = Literal["memory", "broker"]
"""Where a message waits for its retry."""

CONDITION: Final = Symbol("x-opt-dead-letter-condition")
DESCRIPTION: Final = Symbol("x-opt-dead-letter-description")
ATTEMPTS: Final = Symbol("x-opt-dead-letter-attempts")
"""The message annotations of a dead letter that the worker sent."""

_GONE = (AmqpError, anyio.ClosedResourceError)
"""Errors of an outcome whose link ended or was lost."""

_NOT_SENT = (MessageNotAccepted, DeliveryUncertain, EncodeError, DecodeError)
"""Errors of a copy that leave its link usable. Any other error ends the worker."""

_log = logging.getLogger("amqp10.worker")


@checked
class Worker(Service):
    """Handles the messages of an address, up to `concurrency` at a time; begun and ended by `async with`.

        async with Worker(connection, "orders", handle, concurrency=20) as worker:
            await worker.until_signal()

    The handler decides what happens to a message:

    - If it returns None, the message is accepted. If it returns an outcome, such as `Released()`, the message gets it.
    - If it raises `DeadLetter`, the message is dead-lettered, with the reason.
    - If it raises `Retry` or anything else, `retries` decides: the message is retried after a pause, and dead-lettered
      after the last attempt.
    - If it is cancelled, the message is released.

    Messages are handled at least once: after the connection or the process is lost, some arrive again. Attempts still
    count then, if the broker counts them (`Message.delivery_count`, in which the handler sees all attempts). A message
    that was tried too often before it arrived is dead-lettered without another attempt.

    Leaving the block stops receiving, waits up to `drain_timeout` seconds for running handlers, cancels the rest, and
    gives back the messages without an outcome. If an exception leaves the block, or the block is cancelled, the
    handlers are cancelled at once. If the link or the connection ends, the block is cancelled and raises the reason.

    Args:
        connection: an open connection of any dialect, preferably with `reconnect`.
        address: the address of the messages, or a `Source` for further settings.
        handler: a coroutine function that gets the `Message`, or a plain function, which runs in a thread. With
            `batch_size` it gets a list of messages.
        concurrency: the number of handlers that run at the same time.
        prefetch: the number of further messages that may be on their way or wait here. The default is the number
            handled at a time; on Service Bus it is 0, because locks run down meanwhile. A smaller number is fairer to
            other workers, a larger one is faster if handlers are quick.
        retries: how often and when a message is retried.
        delay_by: "memory": a message that waits for its retry is held here, unsettled. "broker": the broker keeps it,
            so that no worker holds it; RabbitMQ 4.3 can in quorum queues, Artemis, Azure Service Bus and the embedded
            broker in all queues.
        delay_queue: the address of a queue that passes messages on to `address` when their time-to-live has passed (in
            RabbitMQ, a queue with a dead-letter exchange). Messages wait there for their retry.
        dead_letters: an address to which dead letters are sent, with the reason in their annotations. A message that
            the address refuses is held, and sent again after each `retries.max_delay`. None: they are rejected, and
            the broker does what it is configured to do.
        key: returns the key of a message. Messages with the same key are handled one after the other, in order,
            including retries of earlier ones. If the key is None, there is no order.
        batch_size: the maximum number of messages to pass to the handler at a time.
        max_wait: seconds to wait for a batch to fill, after its first message.
        max_held: the number of messages that may be held for a retry, or behind others of their key. At that number
            nothing more is received.
        clock: returns the time in seconds since 1970, for renewing locks of Service Bus and for delays at the broker.
        drain_timeout: seconds that handlers have to finish when the block is left.

    Attributes:
        running: messages that are being handled.
        held: messages that are held for a retry, or behind an earlier one of their key.
        handled: messages to which the handler has given an outcome since the start.
        retried: failed attempts that are followed by another one.
        dead_lettered: messages that were dead-lettered.
        locks_lost: messages of Service Bus whose lock ended before they had an outcome; they arrive again.

    Raises:
        ValueError: a number is out of range, or settings do not fit together.
        TypeError: the handler is not a function, or takes no message.
    """

    # Counters begin in the class, so that `dir(Worker)` and editors list them.
    running: int = 0
    held: int = 0
    handled: int = 0
    retried: int = 0
    dead_lettered: int = 0
    locks_lost: int = 0

    _group: TaskGroup
    _receiver: Receiver

    @overload
    def __init__(
        self,
        connection: Connection,
        address: str | Source,
        handler: Handler,
        *,
        concurrency: int = 10,
        prefetch: int | None = None,
        retries: Retries | None = None,
        delay_by: DelayBy = "memory",
        delay_queue: str | None = None,
        dead_letters: str | None = None,
        key: Callable[[Message], Hashable] | None = None,
        max_held: int = 1000,
        drain_timeout: float = 30.0,
        clock: Callable[[], float] = time.time,
    ) -> None: ...

    @overload
    def __init__(
        self,
        connection: Connection,
        address: str | Source,
        handler: BatchHandler,
        *,
        batch_size: int,
        max_wait: float = 0.0,
        concurrency: int = 10,
        prefetch: int | None = None,
        retries: Retries | None = None,
        delay_by: DelayBy = "memory",
        delay_queue: str | None = None,
        dead_letters: str | None = None,
        max_held: int = 1000,
        drain_timeout: float = 30.0,
        clock: Callable[[], float] = time.time,
    ) -> None: ...

    def __init__(
        self,
        connection: Connection,
        address: str | Source,
        handler: Handler | BatchHandler,
        *,
        concurrency: int = 10,
        prefetch: int | None = None,
        retries: Retries | None = None,
        delay_by: DelayBy = "memory",
        delay_queue: str | None = None,
        dead_letters: str | None = None,
        key: Callable[[Message], Hashable] | None = None,
        batch_size: int | None = None,
        max_wait: float = 0.0,
        max_held: int = 1000,
        drain_timeout: float = 30.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        for name, value in (("concurrency", concurrency), ("max_held", max_held), ("batch_size", batch_size)):
            check_range(name, 1 if value is None else value, 1)
        check_range("concurrency times batch_size", concurrency * (batch_size or 1), 1, MAX_CREDIT)
        if prefetch is not None:
            check_range("prefetch", prefetch, 1, MAX_CREDIT)
        for name, seconds in (("max_wait", max_wait), ("drain_timeout", drain_timeout)):
            check_range(name, seconds, 0)
        if key is not None and (batch_size is not None or delay_by != "memory" or delay_queue is not None):
            raise ValueError(
                "messages of one key are handled in order: give key= without batch_size= and delay_queue=, and with "
                'delay_by="memory", for a retry must hold back the messages behind it'
            )
        if delay_queue is not None and delay_by != "memory":
            raise ValueError('delay_queue= says where messages wait: give it without delay_by="broker"')
        own = address.address if isinstance(address, Source) else address
        for name, other in (("dead_letters", dead_letters), ("delay_queue", delay_queue)):
            if other is not None and other == own:
                raise ValueError(f"{name} must be another address than the worker's own, which is {own!r}")
        self._handler = HandlerCall(handler, ("the message",), concurrency)
        self._connection = connection
        self._address = address
        self.concurrency = concurrency
        self._at_once = concurrency * (batch_size or 1)
        self._prefetch = prefetch
        self._clock = clock
        self._retries = retries if retries is not None else Retries()
        self._delay_by, self._delay_queue, self._dead_letters = delay_by, delay_queue, dead_letters
        self._key = key
        self._by_one = key is None and batch_size is None and self._handler.threads is None
        self._batch_size, self._max_wait = batch_size, max_wait
        self._max_held = max_held
        self.drain_timeout = drain_timeout

        self._notices = Notices(lambda: self._receiver.address)
        self._locks: Locks | None = None  # on Service Bus
        self._delay: Delay | None = None  # how the broker keeps messages for a retry; None: they are held here
        self._letters: Sender | None = None  # sends dead letters
        self._ready: deque[list[Job]] = deque()  # due retries, which go first
        self._keys: dict[Hashable, deque[Job]] = {}  # keys in progress, and the messages that wait behind them
        self._tasks = 0
        self._idle: deque[anyio.Event] = deque()  # of idle tasks
        self._receiving = False  # a task is in the receiver
        self._wait: anyio.CancelScope | None = None  # the task waits there
        self._called = 0  # tasks that were woken or started, and do not run yet
        self._block = ServiceBlock("worker", "Worker(...)")
        self._stopping = self._block.stopping
        self._stopped = anyio.Event()  # set when no task is left
        self._over: Exception | None = None  # why it ended by itself

    # The block

    async def __aenter__(self) -> Self:
        """Attach the links, and begin to receive.

        Raises:
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost: see `Receiver`.
            Unsupported: the broker cannot keep messages for later, or the dialect cannot reject and no `dead_letters`
                are given.
            LocalProtocolError: the worker was begun before.

        Cancelling: the links are detached again.
        """
        await self._block.enter(self._run())
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        """Stop receiving, let handlers finish, detach.

        Raises:
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost: the link ended while the worker received.

        Cancelling: handlers are cancelled at once, and their messages released.
        """
        return await self._block.leave(exc_type, exc, traceback)

    @asynccontextmanager
    async def _run(self) -> AsyncIterator[None]:
        async with AsyncExitStack() as links:
            await self._attach(links)
            with Ungrouped():
                async with anyio.create_task_group() as self._group:
                    self._call_another()
                    yield
                    self.stop()
                    with anyio.move_on_after(self.drain_timeout):
                        await self._stopped.wait()
                    if self.running:
                        text = f"the handlers of {counted(self.running, 'message')} took over {self.drain_timeout:g} s"
                        end = "they are cancelled, the messages released"
                        if self._handler.threads is not None:
                            end = (
                                "nothing can cancel a plain function, so they are waited for; a second signal ends all"
                            )
                        self._notices.log("handlers_cancelled", logging.WARNING, f"{text}: {end}", count=self.running)
                    self._group.cancel_scope.cancel()
            if self._over is not None:
                raise self._over

    async def _attach(self, links: AsyncExitStack) -> None:
        connection = self._connection
        address = self._address.address if isinstance(self._address, Source) else self._address
        if self._dead_letters is not None:
            self._letters = await links.enter_async_context(connection.sender(self._dead_letters))
        elif "rejected" not in connection.capabilities:
            raise Unsupported(
                f"dialect {connection.dialect!r} cannot reject messages: give dead_letters=, the address for them"
            )
        if self._delay_queue is not None:
            self._delay = ByCopy(await links.enter_async_context(connection.sender(self._delay_queue)))
        elif self._delay_by == "broker" and (when := scheduled_by(connection)) is not None:
            self._delay = ByCopy(await links.enter_async_context(connection.sender(address)), when, self._clock)
        elif self._delay_by == "broker":
            self._delay = ByOutcome(self._clock)
        self._locks = await self._attach_locked(links, self._prefetch or 0)
        if self._locks is not None:
            self._by_one = False
            self._receiver = self._locks.receiver
        else:
            credit = self._prefetch if self._prefetch is not None else self._at_once
            self._receiver = await links.enter_async_context(connection.receiver(self._address, credit=credit))
            # A subclass, as telemetry has, overrides `receive`.
            self._by_one = self._by_one and type(self._receiver) is Receiver
            self._take_at_once = taking_at_once(self._receiver)

    async def _attach_locked(self, links: AsyncExitStack, prefetch: int) -> Locks | None:
        """Attach a link to an entity of Service Bus; return None if the address is not such an entity."""
        locks = locks_of(self._connection, self._address, prefetch, self._clock)
        if locks is not None:
            await links.enter_async_context(locks.receiver)
        return locks

    def stop(self) -> None:
        """Stop receiving, and give back the messages that no handler has. Running handlers may finish. Never blocks."""
        if self._stopping.is_set():
            return
        self._stopping.set()
        self._by_one = False  # which takes messages
        behind = [job for others in self._keys.values() for job in others]
        self.held -= len(behind)
        waiting = [*(job for jobs in self._ready for job in jobs), *behind]
        self._ready.clear()
        self._keys.clear()
        for job in waiting:
            self._give_back(job)
        while self._idle:
            self._idle.popleft().set()
        if self._wait is not None:
            self._wait.cancel()
        self._end()

    def _log_signal(self, number: signal.Signals) -> None:
        self._notices.stopping(number, "messages are taken", self.running, self.held)

    # The tasks

    async def _work(self) -> None:
        """Handle messages until the worker stops. What ends one task ends the worker; the block raises it."""
        self._called -= 1
        try:
            while True:
                if self._by_one and not (self._receiving or self._ready) and self.held < self._max_held:
                    delivery = self._take_at_once()
                    if delivery is not None:
                        await self._handle_one(delivery)
                        continue
                    if self._receiver.buffered:
                        await anyio.lowlevel.checkpoint()  # lets other tasks take the next messages
                        continue
                jobs = await self._next()
                if jobs is None:
                    break
                await self._handle(jobs)
        except _GONE as error:
            self._over = self._over or error  # several tasks may end for the same reason
            self._group.cancel_scope.cancel()
        finally:
            self._tasks -= 1
            self._end()

    async def _handle_one(self, delivery: Delivery) -> None:
        """Handle a message that waited here: `_next` and `_handle` in one, for a busy worker.

        See benchmarks/budget.py, "relay_worker".
        """
        if self._idle or self._tasks < self.concurrency:
            self._call_another()
        if delivery.stale or may_have_failed(delivery):
            tried = Job(delivery)
            tried.count_earlier_attempts()
            await self._handle([tried])
            return
        handler = self._handler.function
        job: Job | None = None
        self.running += 1
        try:
            try:
                result = await handler(delivery.message)
            except BaseException as error:
                failure = error if isinstance(error, Exception) else cancelled_elsewhere(error, own_task=True)
                if failure is None:
                    raise
                job = Job(delivery)
                await self._failed(job, failure)
                return
            if result is None:
                self.handled += 1
                try:
                    delivery.accept()
                except _GONE as error:
                    self._not_told(Job(delivery), error)
            else:
                job = Job(delivery)
                await self._finish([job], result)
        except BaseException:
            if job is None or not job.held:
                self._give_back(job or Job(delivery))
            raise
        finally:
            self.running -= 1

    def _end(self) -> None:
        if self._stopping.is_set() and self._tasks == 0:
            self._stopped.set()

    async def _next(self) -> list[Job] | None:
        """Return the next jobs; None at the end."""
        while not self._stopping.is_set():
            if self._ready:
                jobs = self._ready.popleft()
                if self._ready or not self._receiving:
                    self._call_another()
                return jobs
            if self._receiving or self.held >= self._max_held:
                called = anyio.Event()
                self._idle.append(called)
                await called.wait()
                self._called -= 1
                continue
            deliveries = await self._receive()
            if deliveries:
                self._call_another()
                jobs = self._admit(deliveries)
                if jobs:
                    return jobs
        return None

    def _call_another(self) -> None:
        """Wake or start another task, which receives or begins ready jobs while this one handles.

        One task for each waiting message is woken at once: one after the other, each would cost a pass of the loop.
        """
        if self._idle:
            wanted = max(1, self._receiver.buffered)
            while self._idle and self._called < wanted:
                self._called += 1
                self._idle.popleft().set()
        elif not self._called and self._tasks < self.concurrency:
            self._called += 1
            self._tasks += 1
            self._group.start_soon(self._work)

    async def _receive(self) -> list[Delivery]:
        """Return the next deliveries; return nothing if a job became ready meanwhile."""
        receiver = self._receiver
        if self._locks is not None:
            self._locks.ask_for(self._at_once - self.running)
        self._receiving = True
        try:
            if receiver.buffered and self._batch_size is None:
                return [await receiver.receive()]
            deliveries: list[Delivery] = []
            with anyio.CancelScope() as self._wait:
                deliveries.append(await receiver.receive())
                if self._batch_size is not None and self._batch_size > 1:
                    deliveries += await receiver.receive_batch(self._batch_size - 1, max_wait=self._max_wait)
            self._wait = None
        finally:
            self._receiving = False
        if self._stopping.is_set():
            for delivery in deliveries:
                self._give_back(Job(delivery))
            return []
        return deliveries

    async def _keep_locked(self, lock: Lock, job: Job) -> None:
        """Renew the lock of a message until it has an outcome; cancel its handler if the lock is lost."""
        failure = await lock.kept()
        if failure is not None:
            self._lost(job, lock, failure)

    def _admit(self, deliveries: list[Delivery]) -> list[Job]:
        """Return the jobs that may begin; a job behind an earlier one of its key waits."""
        jobs: list[Job] = []
        for delivery in deliveries:
            job = Job(delivery)
            if self._locks is not None:
                job.lock = self._locks.take(delivery)
                if job.lock is not None:
                    self._group.start_soon(self._keep_locked, job.lock, job)
            job.count_earlier_attempts()
            if self._key is not None and job.fault is None:
                try:
                    job.key = self._key(delivery.message)
                except Exception as error:
                    job.fault = error
            if job.key is None:
                jobs.append(job)
            elif (behind := self._keys.get(job.key)) is not None:
                behind.append(job)
                self.held += 1
            else:
                self._keys[job.key] = deque()
                jobs.append(job)
        return jobs

    # Handling

    async def _handle(self, jobs: list[Job]) -> None:
        self.running += len(jobs)
        try:
            fit = []
            for job in jobs:
                if job.lock.lost if job.lock is not None else job.delivery.stale:
                    continue  # the message arrives again
                if self._is_unfit(job):
                    await self._refuse(job)
                else:
                    fit.append(job)
            if fit:
                await self._attempt(fit)
        except BaseException:
            for job in jobs:
                if not job.held:
                    self._give_back(job)
            raise
        finally:
            self.running -= len(jobs)
            for job in jobs:
                if job.held:
                    continue
                if job.lock is not None:
                    job.lock.let_go()
                if job.key is not None:
                    self._pass_on(job.key)

    def _is_unfit(self, job: Job) -> bool:
        """Return whether a message must not reach the handler: it is malformed, or was tried too often before."""
        return job.fault is not None or job.letter is not None or job.failures >= self._retries.attempts

    async def _refuse(self, job: Job) -> None:
        if job.letter is not None:
            await self._dead_letter(job, job.letter, job.failures)
        elif job.fault is not None:
            await self._failed(job, job.fault)
        else:
            reason = f"it was tried {job.failures} times without an outcome, and {self._retries.attempts} are allowed"
            await self._dead_letter(job, DeadLetter(reason), job.failures)

    async def _attempt(self, jobs: list[Job]) -> None:
        try:
            messages = [job.message_for_handler() for job in jobs]
            given = messages if self._batch_size is not None else messages[0]
            processing = processing_of(self._receiver)
            if processing is None:
                result = await self._call(given, jobs)
            else:
                with processing(messages):
                    result = await self._call(given, jobs)
        except BaseException as error:
            failure = error if isinstance(error, Exception) else cancelled_elsewhere(error, own_task=True)
            if failure is None:
                raise
            for job in jobs:
                await self._failed(job, failure)
            return
        await self._finish(jobs, result)

    async def _finish(self, jobs: list[Job], result: Any) -> None:
        """Settle messages by the handler's result."""
        try:
            outcomes = self._outcomes(result, len(jobs))
        except TypeError as error:  # not retried: the handler did its work, and would return the same again
            for job in jobs:
                await self._dead_letter(job, DeadLetter(described(error)), job.attempt, error)
            return
        finished: list[tuple[Job, Outcome]] = []
        for job, outcome in zip(jobs, outcomes, strict=True):
            if isinstance(outcome, Rejected):
                self.handled += 1
                await self._reject(job, outcome)
            else:
                finished.append((job, outcome if outcome is not None else ACCEPTED))
        handled_before = self.handled
        self.handled += await self._settle(finished)
        if all(isinstance(outcome, Released) for _, outcome in finished):
            self._notices.released(len(finished), handled_before, self.handled)

    def _outcomes(self, result: Any, count: int) -> Sequence[Outcome | None]:
        """Return the outcomes that a handler returned for a batch.

        Raises:
            TypeError: `result` is anything else.
        """
        outcomes: Sequence[Outcome | None]
        if self._batch_size is None:
            outcomes = (result,)
        else:
            outcomes = [None] * count if result is None else list(result)
        for outcome in outcomes:
            if outcome is not None and not isinstance(outcome, OUTCOMES):
                raise TypeError(
                    f"a handler must return an outcome, such as Released(), or None, not {without_secrets(outcome)}"
                )
        if len(outcomes) != count:
            raise TypeError(f"a handler of {count} messages returned {len(outcomes)} outcomes")
        return outcomes

    async def _call(self, given: Any, jobs: list[Job]) -> Any:
        if self._locks is not None and self._batch_size is None and (lock := jobs[0].lock) is not None:
            with lock.attempt():  # cancelled when the lock is lost
                return await self._handler(given)
            return None
        return await self._handler(given)

    async def _failed(self, job: Job, error: Exception) -> None:
        """Retry, dead-letter or settle a message whose handler raised, as the policy decides."""
        if job.lock is not None and job.lock.lost:
            return
        advise(error, ())
        if isinstance(error, DeadLetter):
            decision: Retry | DeadLetter | Outcome = error
        else:
            decision = self._retries.decide(error, job.delivery.message, job.attempt)
        if isinstance(decision, Retry):
            delay = decision.delay if decision.delay is not None else self._retries.initial_delay
            reason = described(error)
            self._notices.log(
                *("handler_failed", logging.WARNING),
                f"attempt {job.attempt} of {self._retries.attempts} failed, the next is in {delay:.3g} s: {reason}",
                job,
                # The traceback of every attempt would fill the log: that of the last one is enough.
                exc_info=error if _log.isEnabledFor(logging.DEBUG) and not isinstance(error, Retry) else None,
                attempt=job.attempt,
                again_in=delay,
                error=reason,
            )
            await self._retry(job, delay)
        elif isinstance(decision, DeadLetter):
            await self._dead_letter(job, decision, job.attempt, error)
        elif isinstance(decision, Rejected):
            await self._reject(job, decision)
        else:
            await self._settle([(job, decision)])

    async def _retry(self, job: Job, delay: float) -> None:
        self.retried += 1
        job.failures += 1
        if self._delay is not None:
            try:
                outcome = await self._delay(job.delivery, job.failures, job.broker_count, delay)
                await self._settle([(job, outcome)])
                return
            except _NOT_SENT as error:
                text = f"what is to be tried again is held here: {error}"
                self._notices.log("retry_held", logging.WARNING, text, job, error=described(error))
        self._keep(job, delay)

    def _keep(self, job: Job, delay: float) -> None:
        """Hold a message here, to retry it after `delay` seconds."""
        if self._stopping.is_set():
            self._give_back(job)
            return
        job.held = True
        self.held += 1
        self._group.start_soon(self._hold, job, delay)

    async def _hold(self, job: Job, delay: float) -> None:
        """Hold a failed message until its retry."""
        try:
            with anyio.move_on_after(delay):
                await self._stopping.wait()
        except BaseException:
            self._give_back(job)
            raise
        finally:
            self.held -= 1
            job.held = False
        if self._stopping.is_set():
            self._give_back(job)
        else:
            self._begin(job)

    def _pass_on(self, key: Hashable) -> None:
        """Begin the next message of a key, after the one before it is done."""
        behind = self._keys.get(key)
        if behind:
            self.held -= 1
            self._begin(behind.popleft())
        elif behind is not None:
            del self._keys[key]

    def _begin(self, job: Job) -> None:
        """Let a task handle a held job, before receiving further messages."""
        self._ready.append([job])
        if self._wait is not None and not self._idle and self._tasks >= self.concurrency:
            self._wait.cancel()
        else:
            self._call_another()

    # Settling

    async def _settle(self, outcomes: list[tuple[Job, Outcome]]) -> int:
        """Send outcomes to the broker; return how many it took, or all if it does not confirm them."""
        done = 0
        if any(isinstance(outcome, Released) for _, outcome in outcomes):
            told: list[tuple[Job, Outcome]] = []
            for job, outcome in outcomes:
                if isinstance(outcome, Released) and self._is_ordered(job):
                    self._keep(job, 0)  # given back, it would come after later messages, which are here or on their way
                    done += 1
                else:
                    told.append((job, outcome))
            outcomes = told
        if self._locks is not None:
            done += await self._confirm(self._locks, outcomes)
            outcomes = [(job, outcome) for job, outcome in outcomes if job.lock is None]
        done += len(outcomes)
        for job, outcome in outcomes:
            try:
                job.delivery.settle(outcome)
            except (EncodeError, LocalProtocolError) as error:
                if isinstance(outcome, Rejected) or job.delivery.stale or job.delivery.state is not None:
                    self._not_told(job, error)
                    continue
                # Without any outcome, it would stay on the link, and take up credit, as long as the worker runs.
                done -= 1
                reason = f"the handler's outcome cannot be sent: {described(error)}"
                await self._dead_letter(job, DeadLetter(reason), job.attempt, error)
            except _GONE as error:
                self._not_told(job, error)
        return done

    def _is_ordered(self, job: Job) -> bool:
        """Return whether later messages must wait until this one has an outcome."""
        return job.key is not None

    async def _confirm(self, locks: Locks, outcomes: list[tuple[Job, Outcome]]) -> int:
        """Send outcomes to Service Bus, and wait for its confirmations; return how many count."""
        held = [(job, job.lock, outcome) for job, outcome in outcomes if job.lock is not None and not job.lock.lost]
        failures = await locks.settle([(lock, outcome) for _, lock, outcome in held])
        done = 0
        for (job, lock, _), failure in zip(held, failures, strict=True):
            if failure is None:
                done += 1
            elif is_lost(failure):
                self._lost(job, lock, failure)
            else:
                lock.lose()
                self._not_told(job, failure)
        return done

    def _lost(self, job: Job, lock: Lock, failure: Exception) -> None:
        """Record that a message lost its lock, so that it arrives again; cancel its handler."""
        if lock.lost:
            return
        lock.lose()
        self.locks_lost += 1
        text = f"a message comes again, for its lock was lost: {failure}"
        self._notices.log("lock_lost", logging.WARNING, text, job, error=described(failure))

    async def _reject(self, job: Job, outcome: Rejected) -> None:
        """Send a message to the dead letters for the reason of an outcome."""
        error = outcome.error
        condition = error.condition if error is not None else "amqp:internal-error"
        reason = (error.description if error is not None else None) or "the handler rejected it"
        await self._dead_letter(job, DeadLetter(reason, condition=condition), job.attempt)

    async def _dead_letter(self, job: Job, letter: DeadLetter, attempts: int, error: Exception | None = None) -> None:
        """Send a message to the dead letters, with the reason; reject it if they have no address."""
        letters = self._letters if not isinstance(job.fault, DecodeError) else None  # malformed: no copy
        letter = sendable(letter)
        self._notices.log(
            *("message_dead_lettered", logging.ERROR, f"dead-lettered: {letter.condition}: {letter.reason}", job),
            exc_info=None if isinstance(error, DeadLetter | Retry) else error,
            attempt=attempts,
            condition=letter.condition,
            reason=letter.reason,
        )
        try:
            if letters is not None:
                annotations = {CONDITION: Symbol(letter.condition), DESCRIPTION: letter.reason, ATTEMPTS: attempts}
                await send_letter(letters, job.delivery.message, annotations)
        except _NOT_SENT as refused:
            text = f"a dead letter could not be sent: {refused}"
            self._notices.log("dead_letter_refused", logging.ERROR, text, job, error=described(refused))
            job.letter, job.failures = letter, attempts
            self._keep(job, max(self._retries.max_delay, 1.0))
            return
        outcome = ACCEPTED if letters is not None else Rejected(Error(letter.condition, letter.reason))
        self.dead_lettered += await self._settle([(job, outcome)])

    def _give_back(self, job: Job) -> None:
        """Give a message back to the broker, which delivers it again; report attempts that failed here."""
        delivery = job.delivery
        if job.lock is not None:
            job.lock.let_go()
            if job.lock.lost or job.lock.delivery.settled:
                return
        if delivery.state is not None:
            return
        try:
            if job.failures > job.failures_on_arrival and "modified" in self._connection.capabilities:
                annotations = failed_annotations(job.failures, job.broker_count)
                delivery.modify(delivery_failed=True, message_annotations=annotations)
            else:
                delivery.release()
        except _GONE as error:
            self._not_told(job, error)

    def _not_told(self, job: Job, error: Exception) -> None:
        """Log that an outcome was lost with the link: the broker delivers the message again, here or elsewhere."""
        level = logging.INFO if isinstance(error, StaleDelivery) else logging.WARNING
        text = f"a message comes again, for its outcome cannot be told: {error}"
        self._notices.log("outcome_lost", level, text, job, error=described(error))

    def __repr__(self) -> str:
        address = self._address.address if isinstance(self._address, Source) else self._address
        return f"<Worker on {address!r}: {self.running} running, {self.held} held, {self.handled} handled>"
