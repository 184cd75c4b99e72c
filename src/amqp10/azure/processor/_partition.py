"""One partition, read from its checkpoint until it is stopped."""

from __future__ import annotations

import inspect
import logging
import random
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from itertools import count
from typing import Any, Final, Literal

import anyio

from ..._calls import FirstError, cancelled_elsewhere, in_thread, one_line
from ...errors import DecodeError
from ...messaging import EventPosition
from ...net import backoff, visible
from ..event_hubs import EventReader, OwnershipLost, ReceivedEvent
from ._leases import Checkpoint
from ._progress import Progress

EventHandler = Callable[[ReceivedEvent], Awaitable[None] | None]
"""Handles one event."""

EventBatchHandler = Callable[[list[ReceivedEvent]], Awaitable[None] | None]
"""Handles several events of one partition, in their order."""

AfterFailure = Literal["raise", "stop", "skip"]
"""What to do with an event that failed in its last attempt."""

log: Final = logging.getLogger("amqp10.azure.processor")


@dataclass(frozen=True, slots=True, kw_only=True)
class Handling:
    """How events are handled; see `EventProcessor`."""

    handler: Callable[[Any], Any]
    threads: anyio.CapacityLimiter | None
    concurrency: int
    batch_size: int | None
    max_wait: float
    attempts: int
    initial_delay: float
    max_delay: float
    after_failure: AfterFailure
    around: Callable[[str], AbstractAsyncContextManager[object]] | None

    async def call(self, events: list[ReceivedEvent]) -> None:
        """Call the handler; a plain function runs in a thread."""
        given = events if self.batch_size is not None else events[0]
        if self.threads is None:
            await self.handler(given)
        else:
            await in_thread(self.handler, given, limiter=self.threads)


class PartitionRun:
    """Reads a partition once, until it is stopped or lost.

    Args:
        reader: attached and detached here.
        handling: how the events are handled.
        on_progress: called with this run and the number of events after events were handled.

    Attributes:
        progress: how far the partition was handled.
        lost: whether another reader took the partition.
        failed: whether the handler failed for good, so that the partition is given up.
    """

    def __init__(
        self, reader: EventReader, handling: Handling, on_progress: Callable[[PartitionRun, int], None]
    ) -> None:
        self.progress = Progress()
        self.lost = False
        self.failed = False
        self._reader = reader
        self._handling = handling
        self._on_progress = on_progress
        self._stopping = anyio.Event()
        self._all = anyio.CancelScope()
        self._wait: anyio.CancelScope | None = None

    @property
    def partition(self) -> str:
        """The id of the partition."""
        return self._reader.partition

    @property
    def start(self) -> EventPosition:
        """Where the run began; for a position that moves, such as the latest one, where that was."""
        return self._reader.start

    def stop(self, timeout: float) -> None:
        """Take no more events, and give running handlers `timeout` seconds to finish. Never blocks."""
        if not self._stopping.is_set():
            self._stopping.set()
            self._all.deadline = anyio.current_time() + timeout
            if self._wait is not None:
                self._wait.cancel()

    async def run(self) -> None:
        """Read until the run is stopped or the partition is lost.

        Raises:
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, DecodeError: see `EventReader`.
            Exception: the handler raised it in the last attempt, and `after_failure` is "raise".

        Cancelling: running handlers are cancelled.
        """
        with self._all:
            async with AsyncExitStack() as stack:
                if self._handling.around is not None:
                    await stack.enter_async_context(self._handling.around(self.partition))
                try:
                    await stack.enter_async_context(self._reader)
                except OwnershipLost as error:
                    self._lose(error)
                else:
                    await self._read()
        if self._all.cancelled_caught:
            self._notice("handlers_cancelled", logging.WARNING, "its handlers took too long, and were cancelled")

    async def _read(self) -> None:
        free, error = anyio.Semaphore(self._handling.concurrency), FirstError()
        async with anyio.create_task_group() as tasks:
            error.ends(tasks.cancel_scope)
            with error:
                while not self._stopping.is_set():
                    await free.acquire()
                    events = await self._next()
                    if not events:
                        break
                    if self._handling.concurrency == 1:
                        await self._handle(events, free)
                    else:
                        tasks.start_soon(self._handle_beside, events, free, error)
        error.throw()

    async def _next(self) -> list[ReceivedEvent]:
        """Return the next events; []: the run is stopped. Events that come later stay in the hub."""
        reader, size = self._reader, self._handling.batch_size
        events: list[ReceivedEvent] = []
        while not events and not self._stopping.is_set():
            try:
                with anyio.CancelScope() as self._wait:
                    events.append(await reader.receive())
                    if size is not None and size > 1:
                        events += await reader.receive_batch(size - 1, max_wait=self._handling.max_wait)
            except OwnershipLost as error:
                self._lose(error)
            except DecodeError as error:
                text = f"an event is no message: {error}"
                if self._handling.after_failure == "skip":
                    self._notice("event_skipped", logging.ERROR, text, error=str(error))
                elif self._handling.after_failure == "stop":
                    self._give_up(text, error)
                else:
                    raise
            finally:
                self._wait = None
        return [] if self._stopping.is_set() else events

    def _lose(self, error: OwnershipLost) -> None:
        """Stop because another reader has the partition; running handlers may finish."""
        self.lost = True
        self._notice("partition_lost", logging.WARNING, f"another reader has taken it: {error}", error=str(error))
        self._stopping.set()

    def _give_up(self, text: str, error: Exception) -> None:
        """Stop because an event cannot be handled here; another processor may try."""
        self.failed = True
        self._notice("partition_given_up", logging.ERROR, text, exc_info=error, error=str(error))
        self._stopping.set()
        if self._wait is not None:
            self._wait.cancel()

    async def _handle_beside(self, events: list[ReceivedEvent], free: anyio.Semaphore, error: FirstError) -> None:
        """Handle events in a task of their own."""
        with error:
            await self._handle(events, free)

    async def _handle(self, events: list[ReceivedEvent], free: anyio.Semaphore) -> None:
        """Give events to the handler, and again after each failure while attempts are left.

        Raises:
            Exception: the handler raised it in the last attempt, and `after_failure` is "raise".
        """
        last = events[-1]
        token = self.progress.begin(Checkpoint(last.sequence_number, last.offset), len(events))
        try:
            if await self._is_handled(events):
                self.progress.finish(token)
                self._on_progress(self, len(events))
        finally:
            free.release()

    async def _is_handled(self, events: list[ReceivedEvent]) -> bool:
        """Return whether the handler succeeded, or the events are to be skipped.

        Raises:
            Exception: the handler raised it in the last attempt, and `after_failure` is "raise".
        """
        handling, number = self._handling, events[0].sequence_number
        for attempt in count(1):
            try:
                with self._reader.receiver.processing([each.message for each in events]):
                    await handling.call(events)
                return True
            except BaseException as caught:
                error = caught if isinstance(caught, Exception) else cancelled_elsewhere(caught, own_task=True)
                if error is None:
                    raise
                text = f"event {number}: attempt {attempt} of {handling.attempts} failed: {_described(error)}"
                fields: dict[str, Any] = {"sequence_number": number, "attempt": attempt, "error": _described(error)}
                if attempt < handling.attempts:
                    delay = backoff(attempt, handling.initial_delay, handling.max_delay, 2.0, 0.5, random.random())
                    text += f"; the next is in {delay:.3g} s"
                    self._notice("handler_failed", logging.WARNING, text, exc_info=error, again_in=delay, **fields)
                elif handling.after_failure == "skip":
                    self._notice("event_skipped", logging.ERROR, f"{text}; it is skipped", exc_info=error, **fields)
                    return True
                elif handling.after_failure == "stop":
                    self._give_up(text, error)
                    return False
                else:
                    raise error from error.__cause__
            with anyio.move_on_after(delay):
                await self._stopping.wait()
            if self._stopping.is_set():
                break
        return False

    def _notice(
        self, event: str, level: int, text: str, *, exc_info: Exception | None = None, **fields: object
    ) -> None:
        """Log an event of this partition; `EventProcessor` lists the attributes of the record."""
        extra = {"amqp_event": event, "amqp_partition": self.partition}
        extra |= {f"amqp_{name}": value for name, value in fields.items()}  # type: ignore[misc]
        log.log(level, "%s", visible(f"partition {self.partition}: {text}"), extra=extra, exc_info=exc_info)


def is_coroutine_function(handler: Any) -> bool:
    """Return whether calling `handler` returns an awaitable, as far as its definition tells."""
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(type(handler).__call__)


def _described(error: Exception) -> str:
    text = one_line(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
