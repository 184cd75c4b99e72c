"""Receiving from a queue, a subscription, its dead letters, or one session."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any, Final, Literal, Self
from uuid import UUID

import anyio

from ..._arguments import check_range, checked
from ...client import Connection, Delivery, Receiver
from ...errors import AmqpError, ConnectionLost, EndpointError
from ...messaging import Message, Source
from ...types import Array, Int, Symbol, UInt
from .._arguments import check_time, numbers_of
from .._moments import moment
from ._errors import ServiceBusError, SessionLockLost, own_errors, refusal
from ._locks import kept
from ._management import EntityManagement, listed
from ._received import ReceivedMessage, ReceiverContext, ServiceBusDelivery, complete_all

Mode = Literal["peek-lock", "receive-and-delete"]
SESSION_FILTER: Final = Symbol("com.microsoft:session-filter")
_TIMEOUT: Final = Symbol("com.microsoft:timeout")
_LOCKED_UNTIL: Final = Symbol("com.microsoft:locked-until-utc")
_DAY_ONE: Final = datetime(1, 1, 1, tzinfo=UTC)


class ServiceBusReceiver:
    """Receives from a queue, a subscription or their dead letters; made by `bus.receiver()`, attached by `async with`.

        async for delivery in receiver:
            async with delivery as message: ...

    The service locks a message for its receiver. Without `prefetch` each message is requested when you ask for one, so
    that no lock runs down while a message waits here. Leaving the block gives back what came and was not taken.

    Attributes:
        receiver: the link that brings the messages.
        mode: "peek-lock": a message is locked until it is settled; "receive-and-delete": it is deleted when it is sent,
            and lost if it does not arrive.
    """

    def __init__(
        self, receiver: Receiver, node: EntityManagement, mode: Mode, prefetch: int, clock: Callable[[], float]
    ) -> None:
        self.receiver = receiver
        self.mode: Mode = mode
        self._node = node
        self._prefetch = prefetch
        self._clock = clock
        self._granted = 0  # without `prefetch`: messages that the service may still send, or that wait here
        self._context = ReceiverContext(
            receiver.name, clock, receiver.connection.close_timeout, processing=receiver.processing
        )

    async def __aenter__(self) -> Self:
        """Attach the link.

        Raises:
            ServiceBusError: the service refused the link, as `ServerBusy`.
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, AuthenticationFailed: see `Receiver`; there is
                no such entity ("amqp:not-found"), or the token does not allow listening ("amqp:unauthorized-access").

        Cancelling: the link is detached as soon as the service's answer comes.
        """
        with own_errors():
            await self.receiver.__aenter__()
        return self

    # Receiving

    async def receive(self) -> ServiceBusDelivery:
        """Return the next message.

        Raises:
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost: the link is over, and why. With `reconnect` it
                comes back by itself.
            SessionLockLost: the session was lost with its link.
            ServiceBusError: the service ended the link with a condition of its own.
            anyio.BusyResourceError: another task is receiving from this receiver.
            anyio.ClosedResourceError: the receiver was closed here.

        Cancelling: no message is lost: one that came stays for the next call, locked.
        """
        try:
            self._ask_for(1)
            delivery = await self.receiver.receive()
        except (EndpointError, ConnectionLost) as error:
            over = self._over(error)
            if over is None:
                raise
            raise over from error
        self._granted -= 1
        return self._received(delivery)

    def __aiter__(self) -> AsyncIterator[ServiceBusDelivery]:
        return self

    __anext__ = receive

    @checked
    async def receive_batch(self, size: int, *, max_wait: float | None = None) -> list[ServiceBusDelivery]:
        """Receive several messages at once: 1 to `size` of them, [] only when `max_wait` passed.

        Args:
            size: the most to return; never more than `prefetch`, unless that is 0.
            max_wait: how long to collect, in seconds; 0: return what the service has now. None: wait for the first
                message, and return it with the others that have arrived by then.

        Raises:
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, SessionLockLost, ServiceBusError,
                anyio.BusyResourceError, anyio.ClosedResourceError: see `receive`.
            ValueError: `size` is not positive, or `max_wait` is negative.
            TypeError: `max_wait` is not a number.

        Cancelling: no message is lost: those that came stay for the next call, locked.
        """
        if max_wait is not None:
            check_range("max_wait", max_wait, 0)
        receiver = self.receiver
        try:
            if self._prefetch:
                return [self._received(each) for each in await receiver.receive_batch(size, max_wait=max_wait)]
            self._ask_for(size)
            if max_wait == 0:
                await self._stop_asking()
            batch = await receiver.receive_batch(size, max_wait=max_wait)
        except (EndpointError, ConnectionLost) as error:
            over = self._over(error)
            if over is None:
                raise
            raise over from error
        self._granted -= len(batch)
        if self._granted:
            # Lock no message that nobody waits for, and lose none of those taken to a cancellation.
            with anyio.move_on_after(self._context.close_timeout, shield=True):
                try:
                    await self._stop_asking()
                    more = await receiver.receive_batch(size, max_wait=0) if receiver.buffered else []
                    self._granted -= len(more)
                    batch += more
                except AmqpError:
                    pass  # the next call to receive raises it
        return [self._received(each) for each in batch]

    def _ask_for(self, count: int) -> None:
        """Let the service send `count` messages, and no more."""
        if not self._prefetch and count > self._granted:
            self.receiver.add_credit(count - self._granted)
            self._granted = count

    async def _stop_asking(self) -> None:
        """Take back unused credit; all messages that the service had sent are here then."""
        await self.receiver.drain()
        self._granted = self.receiver.buffered

    def _received(self, delivery: Delivery) -> ServiceBusDelivery:
        token = UUID(bytes_le=delivery.tag) if self.mode == "peek-lock" and len(delivery.tag) == 16 else None
        return ServiceBusDelivery(delivery.message, self._context, self._node, token, delivery)

    def _over(self, error: AmqpError) -> ServiceBusError | None:
        """Return the error of Service Bus for the end of the link; None: the condition is not its own."""
        return refusal(error)

    @checked
    async def complete_many(self, deliveries: Iterable[ServiceBusDelivery]) -> None:
        """Complete several messages together, and wait until the service has answered for all of them.

        Messages settled before are left alone. If some cannot be completed, the others are; then the first error is
        raised, with a note of how many failed.

        Raises:
            MessageLockLost, SessionLockLost, DeliveryUncertain, ServiceBusError, LinkDetached, SessionEnded,
                ConnectionClosed, ConnectionLost, TimeoutError, LocalProtocolError: see `ServiceBusDelivery.complete`.

        Cancelling: the outcomes stand; only the waiting for the confirmations ends.
        """
        await complete_all(deliveries)

    async def receive_deferred(self, *sequence_numbers: int | Iterable[int]) -> list[ServiceBusDelivery]:
        """Return deferred messages, locked again.

        Args:
            sequence_numbers: numbers, or lists of numbers.

        Raises:
            TypeError, ValueError: an argument is not a sequence number.
            MessageNotFound: a message does not exist or is not deferred.
            ServiceBusError, DeliveryUncertain, LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost,
                TimeoutError: the service could not be asked.

        Cancelling: the messages may be locked, or deleted in mode "receive-and-delete".
        """
        numbers = numbers_of(sequence_numbers)
        if not numbers:
            return []
        request = {
            "sequence-numbers": Array("long", numbers),
            "receiver-settle-mode": UInt(self.mode == "peek-lock"),
        }
        answer = await self._ask("receive-by-sequence-number", request)
        return [self._deferred(each) for each in listed(answer, "messages")]

    def _deferred(self, entry: Any) -> ServiceBusDelivery:
        token = entry.get("lock-token") if isinstance(entry, dict) else None
        if self.mode == "peek-lock" and not isinstance(token, UUID):
            raise ServiceBusError(None, f"the lock-token of a message must be a UUID, not {token!r:.100}")
        return ServiceBusDelivery(_message(entry), self._context, self._node, token, None)

    @checked
    async def peek(self, size: int = 100, *, from_sequence: int = 0) -> list[ReceivedMessage]:
        """Return messages in order of their sequence numbers, without locking or changing them.

        Locked, deferred and scheduled messages are included; see `state`.

        Args:
            size: the most to return; the service may return fewer, and [] when there are no more.
            from_sequence: the lowest number to return: pass the last one seen plus one to go on.

        Raises:
            ServiceBusError, LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, TimeoutError: the service
                could not be asked.
            ValueError: `size` is not positive.

        Cancelling: nothing has changed.
        """
        if size < 1:
            raise ValueError(f"size must be at least 1, not {size}")
        check_range("from_sequence", from_sequence, 0, (1 << 63) - 1)
        request = {"from-sequence-number": from_sequence, "message-count": Int(size)}
        answer = await self._ask("peek-message", request, repeat=True)
        return [ReceivedMessage(_message(each)) for each in listed(answer, "messages")]

    @checked
    async def delete_messages(self, size: int, *, before: datetime | None = None) -> int:
        """Delete available messages, the oldest first, without receiving them; return how many were deleted.

        Locked, deferred and scheduled messages stay. The service may delete fewer than it could: ask again until it
        deletes none.

        Args:
            size: the most to delete; Azure takes up to 500 in the standard tier, and up to 4,000 in the premium tier.
            before: delete messages enqueued before this time; None: before now, by this machine's clock.

        Raises:
            ServiceBusError: the service refused, because of a `size` that is too large for example.
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, TimeoutError: the service could not be asked.
            DeliveryUncertain: the connection was lost before the answer came.
            ValueError: `size` is not positive, or the time has no time zone.
            TypeError: `before` is not a datetime.

        Cancelling: the messages may be deleted.
        """
        if size < 1:
            raise ValueError(f"size must be at least 1, not {size}")
        if before is not None:
            check_time("before", before)
        now = datetime.fromtimestamp(self._clock(), UTC)
        request = {"message-count": Int(size), "enqueued-time-utc": before if before is not None else now}
        answer = await self._ask("batch-delete-messages", request)
        count = answer.get("message-count") if isinstance(answer, dict) else None
        return int(count) if isinstance(count, int) else 0

    async def _ask(self, operation: str, request: dict[str, Any], *, repeat: bool = False) -> Any:
        if self._context.session_id is not None:
            request["session-id"] = self._context.session_id
        return await self._node.ask(operation, request, link=self.receiver.name, repeat=repeat)

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Give back messages that were not taken, and detach. Those taken can be settled as long as their locks last.

        Cancelling: is not noticed; it takes `close_timeout` seconds at most.
        """
        await self.receiver.__aexit__(exc_type, exc, traceback)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._node.address!r}>"


class ServiceBusSession(ServiceBusReceiver):
    """Receives one session of a queue or subscription, locked for this receiver: messages in order, and a state.

    Made by `bus.session()` and `bus.next_session()`, locked by `async with`. One lock covers all messages, and ends
    with the link. After a loss `SessionLockLost` is raised, and you have to ask for the session again.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._until: datetime | None = None

    async def __aenter__(self) -> Self:
        """Lock the session.

        Raises:
            SessionCannotBeLocked: another receiver has it.
            NoSession: from `next_session`: no session with messages was free in time.
            ServiceBusError, LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, AuthenticationFailed: see
                `ServiceBusReceiver`.

        Cancelling: the link is detached as soon as the service's answer comes, which frees the session.
        """
        await super().__aenter__()
        remote = self.receiver.remote
        found = (remote.source.filter or {}).get(SESSION_FILTER) if remote.source is not None else None
        session_id = getattr(found, "value", found)
        if not isinstance(session_id, str):
            await self.receiver.__aexit__(None, None, None)
            raise ServiceBusError(None, f"the service does not name the session that it locked: {found!r:.200}")
        ticks = remote.properties.get(_LOCKED_UNTIL)
        self._until = _day_of(ticks)
        self._context = replace(self._context, session_id=session_id)
        return self

    @property
    def session_id(self) -> str:
        """The id of the session; "": not known before the session is locked."""
        return self._context.session_id or ""

    @property
    def locked_until(self) -> datetime | None:
        """When the lock ends, by the service's last word."""
        return self._until

    async def renew_lock(self) -> datetime:
        """Restart the lock's time; return when the lock ends now.

        Raises:
            SessionLockLost: the lock has ended.
            ServiceBusError, LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, TimeoutError: the service
                gave no valid answer.

        Cancelling: the lock may be renewed.
        """
        if not self.receiver.open:
            raise SessionLockLost(description=f"the link of the session {self.session_id!r} is over")
        answer = await self._ask("renew-session-lock", {}, repeat=True)
        until = moment(answer.get("expiration"))
        if until is None:
            raise ServiceBusError(None, f"the answer to renew-session-lock has no expiration: {answer!r:.200}")
        self._until = until
        return until

    @checked
    def keep_locked(self, *, max_time: float | None = None) -> AbstractAsyncContextManager[None]:
        """Renew the lock while a block runs, as `ServiceBusDelivery.keep_locked` does.

        Raises:
            SessionLockLost: the lock was lost, and the block cancelled.
        """
        check_range("max_time", max_time if max_time is not None else 0, 0)
        return kept(self.renew_lock, self._until, self._clock, SessionLockLost, max_time)

    async def state(self) -> bytes | None:
        """Return the state that `set_state` kept with the session; None: it has no state.

        Raises:
            ServiceBusError, LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, TimeoutError: the service
                could not be asked.

        Cancelling: nothing has changed.
        """
        value = (await self._ask("get-session-state", {}, repeat=True)).get("session-state")
        if not isinstance(value, bytes | None):
            raise ServiceBusError(None, f"the state of a session must be binary, not {value!r:.100}")
        return value

    @checked
    async def set_state(self, state: bytes | None) -> None:
        """Keep a state with the session, for its next receiver; None removes it.

        Raises:
            SessionLockLost: the session is lost.
            ServiceBusError, LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, TimeoutError: the service
                could not be asked.
            TypeError: `state` is neither bytes nor None.

        Cancelling: the state may be kept.
        """
        if not self.receiver.open:
            raise SessionLockLost(description=f"the link of the session {self.session_id!r} is over")
        await self._ask("set-session-state", {"session-state": state}, repeat=True)

    def _over(self, error: AmqpError) -> ServiceBusError:
        lost = f"the link of the session {self.session_id!r} is lost: {error}"
        return super()._over(error) or SessionLockLost(description=lost)


def link_on(connection: Connection, address: str | Source, mode: Mode, prefetch: int, **how: Any) -> Receiver:
    """Make the link of a receiver, to be attached by `async with`.

    Raises:
        ValueError: prefetch is invalid.
    """
    if prefetch < 0:
        raise ValueError(
            f"prefetch must be 0 or more messages, not {prefetch}; with 0 each message is fetched on demand"
        )
    if mode == "peek-lock":
        return connection.receiver(address, credit=prefetch, receiver_settle_mode="second", **how)
    return connection.receiver(address, credit=prefetch, settle_mode="settled", **how)


def session_on(
    connection: Connection,
    node: EntityManagement,
    session_id: str | None,
    mode: Mode = "peek-lock",
    prefetch: int = 0,
    max_wait: float | None = None,
    clock: Callable[[], float] = time.time,
) -> ServiceBusSession:
    """Make a receiver of one session of an entity, which `async with` locks.

    Args:
        node: the management node of the entity.
        session_id: the session; None: any free session that has messages.
        max_wait: seconds that the service looks for a session; None: as long as the service's own limit.

    Raises:
        ValueError: prefetch is invalid.
    """
    source = Source(node.address, filter={SESSION_FILTER: session_id})
    properties = {} if max_wait is None else {_TIMEOUT: UInt(round(max_wait * 1000))}
    link = link_on(connection, source, mode, prefetch, require_filters=False, restore=False, properties=properties)
    return ServiceBusSession(link, node, mode, prefetch, clock)


def _message(entry: Any) -> Message:
    """Return the message in an answer.

    Raises:
        ServiceBusError: the answer has no message.
    """
    payload = entry.get("message") if isinstance(entry, dict) else None
    if not isinstance(payload, bytes):
        raise ServiceBusError(None, f"a message in an answer must be binary, not {payload!r:.100}")
    return Message.decode(payload)


def _day_of(ticks: Any) -> datetime | None:
    """Return .NET's ticks as a datetime; None if `ticks` is no such number."""
    try:
        return _DAY_ONE + timedelta(microseconds=ticks // 10)
    except (TypeError, OverflowError):
        return None
