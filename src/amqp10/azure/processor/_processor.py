"""Processes that share the partitions of a hub and handle each event at least once."""

from __future__ import annotations

import logging
import math
import random
import signal
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType
from typing import Final, Self, overload
from urllib.parse import urlsplit
from uuid import uuid4

import anyio
from anyio.abc import TaskGroup

from ..._arguments import checked
from ..._calls import FirstError, Ungrouped
from ..._service import Service, ServiceBlock
from ...errors import AmqpError, StoreError
from ...messaging import EventPosition
from ...net import visible
from .._arguments import check_text
from ..event_hubs import EventHub
from ._balancing import Balancer
from ._leases import Checkpoint, ConsumerGroup, Lease, LeaseStore
from ._partition import (
    AfterFailure,
    EventBatchHandler,
    EventHandler,
    Handling,
    PartitionRun,
    is_coroutine_function,
    log,
)

_FIRST: Final = EventPosition.first()
_ATTEMPTS: Final = 3
"""How often in a row leases are read when others write at the same time."""
_RETRY_PART: Final = 0.1
"""The part of the interval after which expired leases are noticed and a store that failed is tried again."""
_CLOSE: Final = 10.0
"""Seconds to keep checkpoints and give leases back after a failure."""
_ASK_AGAIN: Final = 60.0
"""Seconds after which the hub is asked for its partitions again, because it may have more."""


@checked
class EventProcessor(Service):
    """Reads this process's share of the partitions of a hub, and handles each event at least once.

        async with EventHub(connection_string, "telemetry") as hub:
            async with EventProcessor(hub, handle, store=SQLiteLeases("leases.db")) as processor:
                await processor.until_signal()

    All processors with the same hub, consumer group and store share the partitions. Each partition is read by one of
    them. A new processor gets a share; the partitions of a processor that leaves or dies go to the others. Processors
    may run in any number of processes, on any machines that reach the store.

    A partition is read from its checkpoint on. The checkpoint is the last event up to which all events were handled. It
    is kept from time to time and not after each event: after a failure some events come again, and none is lost.

    Leaving the block takes no more events, waits up to `drain_timeout` seconds for running handlers, keeps the
    checkpoints, and gives the partitions back. If an exception or a cancellation leaves the block, running handlers are
    cancelled at once. If a partition cannot be read any longer, or the handler fails for good, the block is cancelled
    and raises the reason. A store that fails meanwhile is tried again, and logged.

    Args:
        hub: an open hub.
        handler: a coroutine function that takes a `ReceivedEvent`, or a plain function, which runs in a thread. With
            `batch_size` it takes a list of events of one partition.
        store: keeps leases and checkpoints: `SQLiteLeases`, `PostgreSQLLeases`, `BlobLeases`, `MemoryLeases`, or one of
            yours.
        group: the consumer group.
        name: the unique name of this processor; None: a random one. A processor that restarts under the same name has
            its partitions back at once.
        start: where to begin in a partition without a checkpoint.
        concurrency: events (or batches) of one partition that are handled at the same time. More than 1 gives up their
            order.
        batch_size: the most events to pass to the handler at a time.
        max_wait: seconds to wait for a batch to fill, after its first event.
        prefetch: the most events of a partition that may be in flight or wait here.
        attempts: how often an event is passed to the handler. The pause between attempts is `initial_delay` seconds and
            doubles each time, up to `max_delay`.
        after_failure: what to do when the last attempt failed. "raise": the block ends with the error. "stop": give the
            partition up, and do not read it here for `expiry` seconds; another processor may read it. "skip": log the
            event, and handle the next one.
        checkpoint_events: keep the checkpoint of a partition after this number of events; None: the time alone decides.
        checkpoint_interval: keep the checkpoint at most this number of seconds after an event was handled.
        around_partition: takes the id of a partition and returns an asynchronous context manager, entered before the
            partition is read and left afterwards.
        interval: seconds between two reads of the leases.
        expiry: seconds after which a lease that was not renewed has no owner. It must exceed the interval of all other
            processors of the group, Microsoft's included.
        drain_timeout: seconds that handlers have to finish when the block is left or a partition is handed over.

    Attributes:
        name: the name of this processor.
        handled: events that were handled or skipped.
        store_error: the error of the store's last use; None: it works.

    Raises:
        TypeError: the handler is not callable, `start` is not an `EventPosition`, or a name is not a str.
        ValueError: a number is out of its range, or a name is empty or has lone surrogates.
    """

    _group: TaskGroup

    @overload
    def __init__(
        self,
        hub: EventHub,
        handler: EventHandler,
        *,
        store: LeaseStore,
        group: str = "$Default",
        name: str | None = None,
        start: EventPosition = _FIRST,
        concurrency: int = 1,
        prefetch: int = 300,
        attempts: int = 5,
        initial_delay: float = 1.0,
        max_delay: float = 60.0,
        after_failure: AfterFailure = "raise",
        checkpoint_events: int | None = None,
        checkpoint_interval: float = 1.0,
        around_partition: Callable[[str], AbstractAsyncContextManager[object]] | None = None,
        interval: float = 10.0,
        expiry: float = 60.0,
        drain_timeout: float = 30.0,
    ) -> None: ...

    @overload
    def __init__(
        self,
        hub: EventHub,
        handler: EventBatchHandler,
        *,
        store: LeaseStore,
        batch_size: int,
        max_wait: float = 0.0,
        group: str = "$Default",
        name: str | None = None,
        start: EventPosition = _FIRST,
        concurrency: int = 1,
        prefetch: int = 300,
        attempts: int = 5,
        initial_delay: float = 1.0,
        max_delay: float = 60.0,
        after_failure: AfterFailure = "raise",
        checkpoint_events: int | None = None,
        checkpoint_interval: float = 1.0,
        around_partition: Callable[[str], AbstractAsyncContextManager[object]] | None = None,
        interval: float = 10.0,
        expiry: float = 60.0,
        drain_timeout: float = 30.0,
    ) -> None: ...

    def __init__(
        self,
        hub: EventHub,
        handler: EventHandler | EventBatchHandler,
        *,
        store: LeaseStore,
        group: str = "$Default",
        name: str | None = None,
        start: EventPosition = _FIRST,
        concurrency: int = 1,
        batch_size: int | None = None,
        max_wait: float = 0.0,
        prefetch: int = 300,
        attempts: int = 5,
        initial_delay: float = 1.0,
        max_delay: float = 60.0,
        after_failure: AfterFailure = "raise",
        checkpoint_events: int | None = None,
        checkpoint_interval: float = 1.0,
        around_partition: Callable[[str], AbstractAsyncContextManager[object]] | None = None,
        interval: float = 10.0,
        expiry: float = 60.0,
        drain_timeout: float = 30.0,
    ) -> None:
        for what, number in (
            ("concurrency", concurrency),
            ("batch_size", batch_size),
            ("prefetch", prefetch),
            ("attempts", attempts),
            ("checkpoint_events", checkpoint_events),
        ):
            if number is not None and number < 1:
                raise ValueError(f"{what} must be at least 1, not {number}")
        if not 0 <= initial_delay <= max_delay < math.inf:
            raise ValueError(
                f"the delays must satisfy 0 <= initial_delay <= max_delay, not {initial_delay} and {max_delay}"
            )
        if not max_wait >= 0 or not drain_timeout >= 0 or not checkpoint_interval >= 0:
            raise ValueError("max_wait, drain_timeout and checkpoint_interval must be 0 seconds or more")
        if not 0 < interval <= expiry / 2:
            raise ValueError(
                f"interval must be more than 0, and expiry at least twice as much, not {interval} and {expiry}: a "
                "lease that is renewed late must not be lost"
            )
        check_text("group", group)
        if name is not None:
            check_text("name", name)
        self._hub = hub
        self._store = store
        self.name: str = name if name is not None else str(uuid4())
        host = urlsplit(hub.connection.url).netloc  # Microsoft's clients include the port, too, if the URL has one
        self._key = ConsumerGroup(host, hub.name, group)
        self._start, self._prefetch = start, prefetch
        self._handling = Handling(
            handler=handler,
            threads=None if is_coroutine_function(handler) else anyio.CapacityLimiter(1_000),
            concurrency=concurrency,
            batch_size=batch_size,
            max_wait=max_wait,
            attempts=attempts,
            initial_delay=initial_delay,
            max_delay=max_delay,
            after_failure=after_failure,
            around=around_partition,
        )
        self._checkpoint_events, self._checkpoint_interval = checkpoint_events, checkpoint_interval
        self._expiry = expiry
        self.drain_timeout = drain_timeout

        self.handled: int = 0
        self.store_error: StoreError | None = None

        self._balancer = Balancer(self.name, interval=interval, expiry=expiry)
        self._partitions: tuple[str, ...] = ()
        self._asked_at = -math.inf  # when the hub was asked for its partitions
        self._runs: dict[str, PartitionRun] = {}
        self._ended: list[PartitionRun] = []  # runs whose checkpoints may still have to be kept
        self._starts: dict[str, EventPosition] = {}  # where runs began that had no checkpoint, by partition
        self._error = FirstError()  # why it ended by itself
        self._not_before: dict[str, float] = {}  # when to read a partition again that another reader took
        self._interval = interval
        self._leasing = anyio.Lock()  # one task at a time decides on leases
        self._saving = anyio.Lock()  # one task at a time keeps checkpoints
        self._look_now = anyio.Event()
        self._changed = anyio.Event()  # a run has begun or ended
        self._progressed = anyio.Event()  # events were handled since checkpoints were last kept
        self._many = anyio.Event()  # checkpoint_events were handled: keep checkpoints now
        self._block = ServiceBlock("processor", "EventProcessor(...)")
        self._stopping = self._block.stopping

    @property
    def partitions(self) -> frozenset[str]:
        """The ids of the partitions that are read here now."""
        return frozenset(self._runs)

    # The block

    async def __aenter__(self) -> Self:
        """Ask for the partitions, take this processor's share of the free ones, and begin to read.

        Raises:
            StoreError: the store cannot be used.
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, ManagementError, AuthenticationFailed,
                RemoteProtocolError, TimeoutError: the hub could not be asked for its partitions.
            LocalProtocolError: the processor was entered before.

        Cancelling: the leases that were taken are given back.
        """
        await self._block.enter(self._run())
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        """Take no more events, let handlers finish, keep the checkpoints, give the partitions back.

        Raises:
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, DecodeError: a partition could not be read.
            Exception: the handler raised it, and `after_failure` is "raise".

        Cancelling: handlers are cancelled at once. Keeping checkpoints and giving partitions back takes up to 10 s
        more; a running call of the store is waited for.
        """
        return await self._block.leave(exc_type, exc, traceback)

    @asynccontextmanager
    async def _run(self) -> AsyncIterator[None]:
        try:
            await self._ask_for_partitions()
            with Ungrouped():
                async with anyio.create_task_group() as self._group:
                    self._error.ends(self._group.cancel_scope)
                    await self._look()
                    self._group.start_soon(self._balance)
                    self._group.start_soon(self._watch_leases)
                    self._group.start_soon(self._keep_checkpoints)
                    yield
                    self.stop()
                    while self._runs:
                        self._changed = anyio.Event()
                        await self._changed.wait()
                    self._group.cancel_scope.cancel()
            self._error.throw()
        finally:
            with anyio.move_on_after(_CLOSE, shield=True):
                await self._give_all_back()

    def stop(self) -> None:
        """Take no more events and no more partitions; running handlers may finish. Never blocks."""
        self._stopping.set()
        for run in self._runs.values():
            run.stop(self.drain_timeout)

    def _log_signal(self, number: signal.Signals) -> None:
        self._notice("processor_stopping", logging.INFO, f"{number.name}: no more events are taken")

    # Leases

    async def _balance(self) -> None:
        """Look at the leases from time to time, and read what this processor owns."""
        while True:
            with anyio.move_on_after(self._balancer.until_next(anyio.current_time()) * random.uniform(0.9, 1)):
                await self._look_now.wait()
            self._look_now = anyio.Event()
            try:
                await self._look()
            except StoreError as error:
                self._store_failed(error)
            if anyio.current_time() - self._asked_at >= _ASK_AGAIN:
                try:
                    await self._ask_for_partitions()
                except (AmqpError, TimeoutError) as error:
                    self._notice("hub_not_asked", logging.WARNING, f"the hub does not tell its partitions: {error}")

    async def _watch_leases(self) -> None:
        """Stop reading where a lease expires, even while the store is slow to answer."""
        while True:
            await anyio.sleep(self._interval * _RETRY_PART)
            self._stop_lost()

    async def _ask_for_partitions(self) -> None:
        self._asked_at = anyio.current_time()
        self._partitions = (await self._hub.properties()).partitions

    async def _look(self) -> None:
        """Read the leases, write what the balancer plans, and start and stop partitions accordingly.

        Raises:
            StoreError: the store cannot be used. A partition whose lease expires meanwhile is not read any longer.
        """
        async with self._leasing:
            checkpoints: Mapping[str, Checkpoint] = {}
            beginning: list[str] = []
            try:
                for _ in range(_ATTEMPTS):
                    now = anyio.current_time()
                    leases = await self._store.leases(self._key)
                    plan = self._balancer.plan(self._partitions, leases, now, leaving=self._stopping.is_set())
                    written = await self._write(plan, now)
                    if len(written) == len(plan):
                        break  # otherwise another processor was faster: read again
                self._stop_lost()
                if unread := self._balancer.unread(self._runs):
                    await self._save(self._ended)
                    for partition in unread:
                        await self._release(partition)
                if beginning := self._to_begin():
                    checkpoints = await self._store.checkpoints(self._key)
                self.store_error = None
            finally:
                self._stop_lost()
            # A run that ended while the store answered may have kept a checkpoint that is not among these.
            self._begin([each for each in self._to_begin() if each in beginning], checkpoints)

    async def _write(self, leases: list[Lease], now: float) -> list[Lease]:
        written = list(await self._store.write(self._key, leases)) if leases else []
        self._balancer.note_written(written, now)
        return written

    def _stop_lost(self) -> None:
        """Stop reading partitions that others own, asked for, or may have taken by now."""
        requested, owned = self._balancer.begin_leaving_requested(), self._balancer.owned(anyio.current_time())
        for partition, run in self._runs.items():
            if partition in requested or partition not in owned:
                run.stop(self.drain_timeout)

    def _to_begin(self) -> list[str]:
        now = anyio.current_time()
        owned = set() if self._stopping.is_set() else self._balancer.owned(now) - self._runs.keys()
        return sorted(each for each in owned if self._not_before.get(each, now) <= now)

    def _begin(self, partitions: Iterable[str], checkpoints: Mapping[str, Checkpoint]) -> None:
        """Begin to read partitions, each from its checkpoint on, or from where it was begun before."""
        for partition in partitions:
            handled = [run.progress.checkpoint for run in self._ended if run.partition == partition]  # not kept yet
            known = [each for each in (checkpoints.get(partition), *handled) if each is not None]
            checkpoint = max(known, key=lambda each: each.sequence_number, default=None)
            reader = self._hub.reader(
                partition,
                group=self._key.group,
                start=_behind(checkpoint) if checkpoint is not None else self._starts.get(partition, self._start),
                owner_level=0,  # Microsoft's processors use 0, too: the reader that attaches last has the partition
                prefetch=self._prefetch,
                name=self.name,
            )
            run = self._runs[partition] = PartitionRun(reader, self._handling, self._on_progress)
            self._notice("partition_begun", logging.INFO, f"read from {checkpoint or self._start} on", partition)
            self._group.start_soon(self._read, run, checkpoint is not None)

    async def _read(self, run: PartitionRun, continues: bool) -> None:
        """Read a partition until it is stopped, keep its checkpoint, and hand it over.

        Args:
            continues: whether the run began at a checkpoint.
        """
        try:
            with self._error:
                await run.run()
                await self._end(run)
        finally:
            if not continues:
                self._starts[run.partition] = run.start
            del self._runs[run.partition]
            self._ended.append(run)
            self._changed.set()
            self._look_now.set()

    async def _end(self, run: PartitionRun) -> None:
        now = anyio.current_time()
        try:
            await self._save([*self._ended, run])
            if run.lost:  # lost to a reader that may hold no lease: do not take the partition back at once
                self._not_before[run.partition] = now + self._interval
            else:
                if run.failed:
                    self._balancer.avoid(run.partition, now + self._expiry)
                async with self._leasing:
                    await self._release(run.partition)
        except StoreError as error:
            self._store_failed(error)
        self._notice("partition_ended", logging.INFO, "not read any longer", run.partition)

    async def _release(self, partition: str) -> None:
        """Hand a partition to the processor that asked for it, or give it up."""
        for _ in range(_ATTEMPTS):
            now = anyio.current_time()
            lease = self._balancer.begin_leaving(partition)
            if lease is None or await self._write([lease], now):
                return
            self._balancer.look(self._partitions, await self._store.leases(self._key), now)

    async def _give_all_back(self) -> None:
        """Give up all partitions that this processor still owns."""
        try:
            await self._save(self._ended)
            async with self._leasing:
                for partition in self._balancer.owned(anyio.current_time()) | set(self._balancer.unread(())):
                    await self._release(partition)
        except StoreError as error:
            self._store_failed(error)

    # Checkpoints

    def _on_progress(self, run: PartitionRun, count: int) -> None:
        self.handled += count
        self._progressed.set()
        if self._checkpoint_events is not None and run.progress.unsaved >= self._checkpoint_events:
            self._many.set()

    async def _keep_checkpoints(self) -> None:
        """Keep all checkpoints after `checkpoint_events` events or `checkpoint_interval` seconds."""
        while True:
            await self._progressed.wait()
            with anyio.move_on_after(self._checkpoint_interval):
                await self._many.wait()
            self._progressed, self._many = anyio.Event(), anyio.Event()
            try:
                await self._save(self._runs.values())
            except StoreError as error:
                self._store_failed(error)
                self._progressed.set()
                await anyio.sleep(self._interval * _RETRY_PART)

    async def _save(self, runs: Iterable[PartitionRun]) -> None:
        """Keep the checkpoints of `runs`; of two runs of one partition, that of the later run.

        Raises:
            StoreError: the store cannot be used.
        """
        async with self._saving:
            found = [(run, run.progress.unsaved, run.progress.checkpoint) for run in runs if run.progress.unsaved]
            checkpoints = {run.partition: checkpoint for run, _, checkpoint in found if checkpoint is not None}
            if checkpoints:
                await self._store.save(self._key, checkpoints)
            for run, count, _ in found:
                run.progress.unsaved -= count
            self._ended = [run for run in self._ended if run.progress.unsaved]

    def _store_failed(self, error: StoreError) -> None:
        self.store_error = error
        self._notice("store_failed", logging.WARNING, f"the store of leases fails, and is tried again: {error}")

    def _notice(self, event: str, level: int, text: str, partition: str | None = None) -> None:
        extra = {"amqp_event": event, "amqp_hub": self._key.hub, "amqp_group": self._key.group}
        where = f"{self._key.hub}/{self._key.group}: "
        if partition is not None:
            extra["amqp_partition"] = partition
            where += f"partition {partition}: "
        log.log(level, "%s", visible(where + text), extra=extra)

    def __repr__(self) -> str:
        return (
            f"<EventProcessor {self.name!r} of {self._key.hub!r}: {len(self._runs)} partitions, {self.handled} handled>"
        )


def _behind(checkpoint: Checkpoint) -> EventPosition:
    if checkpoint.offset is not None:
        return EventPosition.offset(checkpoint.offset)
    return EventPosition.sequence_number(checkpoint.sequence_number)
