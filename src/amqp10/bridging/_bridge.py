"""The bridge: two ends and the mover between them, within an `async with` block."""

from __future__ import annotations

import secrets
import time
from collections.abc import Generator
from contextlib import AsyncExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

import anyio

from .._arguments import checked
from .._calls import only
from ..client import Connection, DeliveryStore
from ..client.internals import close_deadlines, core_of, leave_all
from ..engine import Address, parse_address
from ..errors import LocalProtocolError
from ..messaging import Source, Target
from ._attach import attach_links
from ._guarantee import Role, check_stores, reconnect_for
from ._links import SourceLink, TargetLink
from ._mover import Mover
from ._plan import BridgePlan, count, end_of
from ._report import BridgeReport
from ._settings import OnRefused, Settings

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

T = TypeVar("T")
End = tuple[Connection | str, str | T]
"""A connection or its URL, and an address or a terminus."""

OUTCOMES_SHARE = 0.6
"""The part of `close_timeout` to wait for outcomes; the rest is for the links."""


def _normalized(address: str | None) -> Address | str | None:
    """Return the same form for all spellings of an address."""
    try:
        return parse_address(address) if address is not None else None
    except ValueError:
        return address


class Bridge:
    """Moves messages from one address to another; made by `bridge()`, started by `async with` or `await`.

    Leaving the block stops the bridge: it waits for messages in flight, and returns unsent ones to the source, within
    `close_timeout` seconds. An exception of the block is raised unchanged; otherwise the error that ended the bridge is
    raised, unless `done` raised it.
    """

    def __init__(
        self,
        source: End[Source],
        target: End[Target | None],
        settings: Settings,
        name: str | None,
        delivery_store: DeliveryStore | None,
    ) -> None:
        self._ends = source, target
        self._settings = settings
        self._store = delivery_store
        self._source = Source(source[1]) if isinstance(source[1], str) else source[1]
        self._target = Target(target[1]) if isinstance(target[1], str) else target[1]
        addresses = self._source.address, self._target.address if self._target is not None else None
        if "" in addresses:
            raise ValueError("an address must not be empty")
        if source[0] == target[0] and _normalized(addresses[0]) == _normalized(addresses[1]):
            raise ValueError("a bridge from an address to itself would move its messages for ever")
        if settings.exactly_once:
            check_stores(source[0], target[0], delivery_store)
            name = name if name is not None else f"amqp10-bridge {addresses[0]} {addresses[1]}"
        elif delivery_store is not None or name is not None:
            raise ValueError("delivery_store and name need exactly_once=True")
        self._name = name
        self._mover: Mover | None = None
        self._links: list[SourceLink | TargetLink] = []
        self._begun_at = self._ended_at = 0.0
        self._failure_raised = self._entered = False
        self._crash: BaseException | None = None
        self._stack = AsyncExitStack()
        # Created on entering the block, because a bridge may be made without an event loop.
        self._over: anyio.Event
        self._shield: anyio.CancelScope
        self._tasks: TaskGroup

    def __repr__(self) -> str:
        target = self._target.address if self._target is not None else "the address in `to`"
        return f"<Bridge from {self._source.address} to {target}>"

    # Before the beginning

    async def plan(self) -> BridgePlan:
        """Return what would be moved, between which ends, and how, without moving anything.

        Both ends are opened, attached, and left again. A broker that creates nodes on demand creates them for this,
        too. The bridge can be started afterwards.

        Raises:
            Unsupported, LinkDetached, AuthenticationFailed, InsecureTransport, ConnectionClosed, ConnectionLost,
                RemoteProtocolError, SessionEnded, LocalProtocolError: as on entering the bridge.

        Cancelling: what was opened is closed.
        """
        async with AsyncExitStack() as stack:
            # Links of other names, so that messages that an earlier bridge left in flight stay untouched.
            source, target = await self._connections(stack, " trial")
            name = f"{self._name} trial {secrets.token_hex(4)}"
            attached = await attach_links(self._settings, (source, self._source), (target, self._target), name, stack)
            messages, more = await count(source, self._source, self._settings.max_bytes)
            return BridgePlan(
                source=end_of(source, self._source.address),
                target=end_of(target, self._target.address if self._target is not None else None),
                guarantee=attached.guarantee,
                undecoded="message-formats" in source.capabilities & target.capabilities,
                messages=messages,
                more=more,
            )

    # The beginning

    async def __aenter__(self) -> Self:
        """Open the connections given by URL, attach both links, and start.

        Raises:
            Unsupported: an end does not support a setting, such as exactly once or copying. No message was moved.
            LinkDetached: an end refused its address.
            DeliveryUncertain: exactly once, and an end has forgotten the messages that an earlier process had in
                flight.
            AuthenticationFailed, InsecureTransport, ConnectionClosed, ConnectionLost, RemoteProtocolError,
                SessionEnded: see `Connection`.
            LocalProtocolError: a given connection is not open, or the bridge was started before.

        Cancelling: no message was moved; what was opened is closed.
        """
        if self._entered:
            raise LocalProtocolError("a bridge can be entered by `async with` only once; make a new one")
        self._entered = True
        try:
            source, target = await self._connections(self._stack)
            attached = await attach_links(
                self._settings, (source, self._source), (target, self._target), self._name, self._stack
            )
        except BaseException as error:
            await self._stack.__aexit__(type(error), error, error.__traceback__)
            raise
        # Cancelling the block stops the mover; the shield protects `_finish`, which follows.
        self._shield = anyio.CancelScope()
        self._shield.__enter__()
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        self._over = anyio.Event()
        self._mover, self._links = attached.mover, attached.links
        self._begun_at = time.monotonic()
        self._tasks.start_soon(self._run, attached.mover)
        return self

    async def _connections(self, stack: AsyncExitStack, which: str = "") -> tuple[Connection, Connection]:
        """Open the connections of both ends: a new one for a URL, and a single one if both ends are the same."""
        (source, _), (target, _) = self._ends
        opened = await self._open(source, "source", stack, which)
        return opened, opened if target == source else await self._open(target, "target", stack, which)

    async def _open(self, end: Connection | str, role: Role, stack: AsyncExitStack, which: str) -> Connection:
        if isinstance(end, Connection):
            return end
        made = Connection(
            end,
            dialect="auto",
            reconnect=reconnect_for(role, exactly_once=self._settings.exactly_once),
            container_id=f"{self._name} {role}{which}" if self._name is not None else None,
            delivery_store=self._store,
            close_timeout=self._settings.close_timeout,
        )
        return await stack.enter_async_context(made)

    async def _run(self, mover: Mover) -> None:
        try:
            await mover.run()
        except Exception as error:
            self._crash = only(error)
        finally:
            self._over.set()

    # While it runs

    @property
    def report(self) -> BridgeReport:
        """The current or final counts."""
        if self._mover is None:
            return BridgeReport()
        in_flight, ended = self._mover.in_flight, self._ended_at
        return BridgeReport(
            moved=in_flight.moved,
            in_flight=in_flight.unsettled if ended else in_flight.active,
            refused=in_flight.refused,
            returned=in_flight.returned,
            duplicates=in_flight.duplicates,
            in_doubt=in_flight.in_doubt,
            recovered=in_flight.recovered,
            size=in_flight.moved_size,
            seconds=(ended or time.monotonic()) - self._begun_at,
        )

    async def done(self) -> BridgeReport:
        """Wait until the bridge has ended by `count` or `until_empty`, or was stopped.

        Raises:
            MessageRejected, MessageReleased, MessageModified: the target did not accept a message, and `on_refused` is
                "stop". The message returns to the source.
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost: an end is lost, and is not restored.
            DeliveryUncertain: exactly once, and an end has forgotten the messages in flight.
            TransactionRolledBack, TransactionInDoubt: a transaction within one broker failed, other than by a lost
                connection.

        Cancelling: only stops the waiting.
        """
        await self._over.wait()
        failure = self._failure
        if failure is not None:
            self._failure_raised = True
            raise failure
        return self.report

    def stop(self) -> None:
        """Stop receiving and sending; leaving the block waits for the messages in flight."""
        if self._mover is not None:
            self._mover.stop()

    def __await__(self) -> Generator[Any, None, BridgeReport]:
        return self._run_to_end().__await__()

    async def _run_to_end(self) -> BridgeReport:
        async with self:
            await self.done()
        return self.report

    @property
    def _failure(self) -> BaseException | None:
        return self._crash or (self._mover.failure if self._mover is not None else None)

    # The end

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop, wait for the messages in flight, return the rest, and leave both ends.

        Raises:
            MessageRejected, LinkDetached, ...: as for `done`, unless it has raised them.

        Cancelling: is not noticed; it takes at most `close_timeout` seconds.
        """
        self._shield.shield = True
        try:
            await self._finish()
        finally:
            self._tasks.cancel_scope.cancel()
            try:
                await self._tasks.__aexit__(None, None, None)
            finally:
                self._shield.__exit__(None, None, None)
        await self._stack.__aexit__(exc_type, exc, traceback)
        failure = self._failure
        if failure is not None and (exc is failure or (exc is None and not self._failure_raised)):
            failure.add_note(f"bridge: {self.report}")
            if exc is None:
                raise failure

    async def _finish(self) -> None:
        mover = self._mover
        assert mover is not None
        mover.stop()
        with close_deadlines(self._links[0].connection).exit(self._settings.close_timeout) as this:
            now = anyio.current_time()
            outcomes_by = now + (this.links_by - now) * OUTCOMES_SHARE
            with anyio.CancelScope(deadline=this.links_by):
                await self._over.wait()
            await mover.finish(outcomes_by)
            await leave_all([core_of(link) for link in self._links], this.links_by)
            mover.count_unconfirmed()
        for link in self._links:
            if isinstance(link, TargetLink):  # the report has the messages without an outcome
                link.report_all()
        self._ended_at = time.monotonic()


@checked
def bridge(
    source: End[Source],
    target: End[Target | None],
    *,
    window: int = 1000,
    max_bytes: int = 64 * 1024 * 1024,
    count: int | None = None,
    until_empty: bool = False,
    copy: bool = False,
    stream: bool = False,
    rate: float | None = None,
    on_refused: OnRefused = "stop",
    refused_to: str | None = None,
    exactly_once: bool = False,
    name: str | None = None,
    delivery_store: DeliveryStore | None = None,
    close_timeout: float = 5.0,
) -> Bridge:
    """Move messages from one address to another, on the same or another broker, in the same or another dialect.

        report = await amqp10.bridge((old, "orders"), (new, "orders"), until_empty=True)

        async with amqp10.bridge((old, "orders"), (new, "orders")) as moving:
            print(moving.report)
            await moving.done()

    Messages are moved in order, at least once: a message is accepted at the source once the target has accepted it. If
    both dialects are AMQP 1.0, messages are passed on without decoding.

    Args:
        source: a connection and an address on it, or a `Source` for further settings, such as filters. The connection
            is an open one, or a URL for a connection of the bridge's own, which speaks the best dialect of its peer and
            reconnects after a loss.
        target: the same, with a `Target` for further settings; or None to send each message to the address in its `to`.
        window: the maximum number of messages here at a time: on their way from the source, or without an outcome at
            the target.
        max_bytes: the number of bytes of these messages at which no more are requested; those already on their way
            still come.
        count: stop after this number of messages.
        until_empty: stop when the source is empty.
        copy: leave the messages at the source (§3.5.7). Raises `Unsupported` if the source cannot do that.
        stream: pass each message on while it arrives, one after the other, for messages larger than the memory.
        rate: the maximum number of messages a second.
        on_refused: what to do with a message that the target does not accept. "stop": raise an error, and leave the
            message at the source; "reject": reject it at the source, which may have a dead-letter queue; "leave": go
            on, and return it to the source when the bridge ends. Fewer than `window` messages can be left.
        refused_to: an address at the target for refused messages; the message-annotation x-opt-bridge-refused has the
            reason.
        exactly_once: never deliver twice. Both ends must resume links, or sessions (0-10), as the embedded broker does;
            or be the same connection, or URL, to a broker with transactions. Otherwise it raises `Unsupported` before a
            message is moved.
        name: the name of the links, for exactly once, which must be the same in the next process; None to make it from
            the addresses.
        delivery_store: keeps the messages in flight, so that the next process goes on exactly once, if both ends are
            URLs. Given connections must have the same store themselves.
        close_timeout: seconds that leaving may take.

    Raises:
        ValueError: settings that are invalid or do not fit together; a bridge from an address to itself.
    """
    settings = Settings(
        window=window,
        max_bytes=max_bytes,
        count=count,
        until_empty=until_empty,
        copy=copy,
        stream=stream,
        rate=rate,
        exactly_once=exactly_once,
        on_refused=on_refused,
        refused_to=refused_to,
        close_timeout=close_timeout,
    )
    return Bridge(source, target, settings, name, delivery_store)
