"""Service Bus and Event Hubs without `await`, made by tools/make_sync.py: run `make sync`.

What does not wait, such as `MessageBatch`, `Rule` and the errors, is imported from `amqp10.azure`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from datetime import datetime
from types import TracebackType
from typing import Any, Literal, Self, Unpack
from uuid import UUID

from .. import azure
from ..azure import EventBatch, HubProperties, MessageBatch, PartitionProperties, ReceivedEvent, ReceivedMessage, Rule
from ..azure import EventHub as AsyncEventHub
from ..azure import ServiceBus as AsyncServiceBus
from ..client import ConnectionSettings
from ..messaging import EventPosition, Message
from ._facades import Connection, Receiver, Sender, Transaction
from ._loop import FACADES, Facade, Opened, in_chunks

_FIRST = EventPosition.first()

__all__ = (
    "EventHub",
    "EventReader",
    "EventSender",
    "ServiceBus",
    "ServiceBusDelivery",
    "ServiceBusReceiver",
    "ServiceBusSender",
    "ServiceBusSession",
    "SubscriptionRules",
)


class ServiceBus(Opened):
    """A namespace of Azure Service Bus; `with` opens the connection, and closes it with all that is on it.

        with ServiceBus(connection_string) as bus:
            with bus.sender("orders") as sender:
                sender.send(Message(b"two teas"))
            with bus.receiver("orders") as receiver:
                for delivery in receiver:
                    with delivery as message: ...

    A connection, a sender or a receiver that is lost comes back by itself (`reconnect`); a session does not, for
    its lock is lost with it. All tasks of a program may share it.

    Args:
        where: a connection string; or `NAMESPACE.servicebus.windows.net`, also as a URL, `wss://...` for WebSockets.
        credential: the login: a credential of azure-identity, azure-core's AzureNamedKeyCredential or
            AzureSasCredential, a `SasKey`, or what else gives tokens; None where the connection string says it.
        request_timeout: seconds that the service may take to answer a request.
        clock: the time in seconds since 1970.
        settings: as for `Connection`, but for tokens and sasl; `reconnect` is on unless you say None.

    Raises:
        ValueError, TypeError, LookupError: where, credential or settings make no sense. No secret is in the error.

    Attributes:
        connection: what it stands on: its events, its health.
    """

    __slots__ = ()

    def __init__(
        self,
        where: str,
        credential: Any = None,
        *,
        request_timeout: float = 60.0,
        clock: Callable[[], float] = time.time,
        **settings: Unpack[ConnectionSettings],
    ) -> None:
        super().__init__(AsyncServiceBus(where, credential, request_timeout=request_timeout, clock=clock, **settings))

    @property
    def connection(self) -> Connection:
        value: Connection = self._get("connection")
        return value

    def __enter__(self) -> Self:
        """Connect.

        Raises:
            ConnectionLost, AuthenticationFailed, InsecureTransport, ConnectionClosed, RemoteProtocolError: see
                `Connection`. A wrong key is told by whatever is attached first.

        Timeout: the transport is closed.
        """
        return self._enter()

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Leave what is left, and close the connection.

        Timeout: is not noticed; it takes `close_timeout` seconds at most.
        """
        self._leave(exc_type, exc, traceback)

    def list_sessions(
        self,
        entity: str | None = None,
        *,
        subscription: str | None = None,
        updated_after: datetime | None = None,
        timeout: float | None = None,
    ) -> list[str]:
        """Return the ids of sessions that have messages or a state.

        Args:
            entity, subscription: as for `receiver`.
            updated_after: those whose state was set after this time, in place of them.

        Raises:
            TypeError: `updated_after` is no datetime.
            ValueError: no name is given, or the time has no time zone.
            ServiceBusError, LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, TimeoutError: the service
                could not be asked.

        Timeout: nothing has happened.
        """
        result: list[str] = self._wait(
            timeout, "list_sessions", entity, subscription=subscription, updated_after=updated_after
        )
        return result

    def next_session(
        self,
        entity: str | None = None,
        *,
        subscription: str | None = None,
        max_wait: float = 60.0,
        mode: Literal["peek-lock", "receive-and-delete"] = "peek-lock",
        prefetch: int = 0,
    ) -> ServiceBusSession:
        """Make a receiver of a session that nobody has and that has messages, to be locked by `with`.

        Args:
            entity, subscription, mode, prefetch: as for `receiver`.
            max_wait: seconds that the service looks for one; then entering raises `NoSession`.

        Raises:
            ValueError: no name is given, or the mode, prefetch or time makes no sense.
            TypeError: `max_wait` is no number.
        """
        result: ServiceBusSession = self._do(
            "next_session", entity, subscription=subscription, max_wait=max_wait, mode=mode, prefetch=prefetch
        )
        return result

    def receiver(
        self,
        entity: str | None = None,
        *,
        subscription: str | None = None,
        dead_letters: bool = False,
        mode: Literal["peek-lock", "receive-and-delete"] = "peek-lock",
        prefetch: int = 0,
    ) -> ServiceBusReceiver:
        """Make a receiver, to be attached by `with`.

        Args:
            entity: the queue, or the topic of the `subscription`; None for the EntityPath of the connection string.
            subscription: which one of the topic.
            dead_letters: receive its dead letters.
            mode: "peek-lock": messages are locked until settled; "receive-and-delete": they are gone when sent.
            prefetch: messages that may wait here, locked; 0: each is asked for when you ask.

        Raises:
            ValueError: no name is given, or the mode or prefetch makes no sense.
        """
        result: ServiceBusReceiver = self._do(
            "receiver", entity, subscription=subscription, dead_letters=dead_letters, mode=mode, prefetch=prefetch
        )
        return result

    def rules(self, topic: str, subscription: str) -> SubscriptionRules:
        """Return the rules of a subscription, to look at and to change.

        Raises:
            ValueError: no name is given, or another one than the EntityPath of the connection string.
            TypeError: the subscription is no str.
        """
        result: SubscriptionRules = self._do("rules", topic, subscription)
        return result

    def sender(self, entity: str | None = None, *, via: str | None = None) -> ServiceBusSender:
        """Make a sender to a queue or topic, to be attached by `with`.

        Args:
            entity: its name; None for the EntityPath of the connection string.
            via: send via this entity, the one that a transaction receives from: it goes over both then.

        Raises:
            ValueError: no name is given, or another one than the EntityPath of the connection string.
        """
        result: ServiceBusSender = self._do("sender", entity, via=via)
        return result

    def session(
        self,
        entity: str,
        session_id: str,
        *,
        subscription: str | None = None,
        mode: Literal["peek-lock", "receive-and-delete"] = "peek-lock",
        prefetch: int = 0,
    ) -> ServiceBusSession:
        """Make a receiver of one session, to be locked by `with`.

        Args:
            entity, subscription, mode, prefetch: as for `receiver`.
            session_id: what its messages have as `group_id`; 128 characters at most.

        Raises:
            TypeError: the session id is no str; `next_session` is for any session.
            ValueError: no name is given, or the session id, the mode or prefetch makes no sense.
        """
        result: ServiceBusSession = self._do(
            "session", entity, session_id, subscription=subscription, mode=mode, prefetch=prefetch
        )
        return result

    def transaction(self) -> Transaction:
        """Make a transaction: `with bus.transaction() as work:`, whose end commits, and an exception rolls back.

        `sender.send(message, transaction=work)`, `sender.schedule(message, at, transaction=work)` and
        `delivery.complete(transaction=work)` are parts of it. The service has one entity in a transaction; others by
        `bus.sender(entity, via=...)`.
        """
        result: Transaction = self._do("transaction")
        return result


class ServiceBusSender(Facade):
    """Sends to a queue or topic; made by `bus.sender()`, attached by `with`.

    Any number of tasks may send at once. A message's `group_id` is its session, its `message_id` what duplicates are
    known by, its annotation "x-opt-partition-key" what chooses its partition.

    Attributes:
        sender: the link that it sends on.
    """

    __slots__ = ()

    @property
    def sender(self) -> Sender:
        value: Sender = self._get("sender")
        return value

    def __enter__(self) -> Self:
        """Attach the link.

        Raises:
            ServiceBusError: the service refuses it for a reason of its own, as `ServerBusy`.
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, AuthenticationFailed: see `Sender`; there is
                no such entity ("amqp:not-found"), or the token does not allow to send ("amqp:unauthorized-access").

        Timeout: the link is detached as soon as the service's answer comes.
        """
        return self._enter()

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Wait for what is on its way, and detach.

        Raises:
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, DeliveryUncertain, TimeoutError: see `Sender`.

        Timeout: is not noticed; it takes `close_timeout` seconds at most.
        """
        self._leave(exc_type, exc, traceback)

    def batch(self, max_size: int | None = None) -> MessageBatch:
        """Make an empty batch, which `send` sends as a whole. It has room for 4,500 messages at most.

        Args:
            max_size: octets that it may have; None: as many as the service takes.

        Raises:
            ValueError: the service takes fewer than that.
            LocalProtocolError: the sender is not attached yet.
        """
        result: MessageBatch = self._do("batch", max_size)
        return result

    def cancel_scheduled(self, *sequence_numbers: int | Iterable[int], timeout: float | None = None) -> None:
        """Cancel messages that were scheduled.

        Args:
            sequence_numbers: what `schedule` returned, one by one, or as `schedule_many` returned them.

        Raises:
            TypeError, ValueError: one of them is no sequence number.
            MessageNotFound: one of them is not scheduled, or is there already.
            ServiceBusError, DeliveryUncertain, LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost,
                TimeoutError: see `schedule_many`.

        Timeout: they may be cancelled.
        """
        self._wait(timeout, "cancel_scheduled", *sequence_numbers)

    def schedule(
        self, message: object, at: datetime, *, transaction: Transaction | None = None, timeout: float | None = None
    ) -> int:
        """Schedule a message; return its sequence number, which `cancel_scheduled` takes.

        Args:
            message, at, transaction: see `schedule_many`.

        Raises:
            TypeError, ValueError, ServiceBusError, DeliveryUncertain, LinkDetached, SessionEnded, ConnectionClosed,
                ConnectionLost, TimeoutError, EncodeError, LocalProtocolError, TransactionRolledBack: see
                `schedule_many`.

        Timeout: it may be scheduled.
        """
        result: int = self._wait(timeout, "schedule", message, at, transaction=transaction)
        return result

    def schedule_many(
        self,
        messages: Iterable[object],
        at: datetime,
        *,
        transaction: Transaction | None = None,
        timeout: float | None = None,
    ) -> list[int]:
        """Schedule messages; return their sequence numbers, which `cancel_scheduled` takes.

        Args:
            messages: each a `Message`, or the body of one.
            at: a time with a time zone.
            transaction: schedule them as part of this, made by `bus.transaction()`: they are scheduled when that is
                committed, under these numbers.

        Raises:
            TypeError: `at` is no datetime.
            ValueError: `at` has no time zone.
            ServiceBusError: the service does not take them.
            DeliveryUncertain: the connection was lost before the answer came: they may be scheduled.
            LocalProtocolError: the transaction is over, or is one of another connection.
            TransactionRolledBack: the transaction is lost with its link.
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, TimeoutError, EncodeError: see `Requester`.

        Timeout: they may be scheduled.
        """
        result: list[int] = self._wait(timeout, "schedule_many", messages, at, transaction=transaction)
        return result

    def send(self, message: object, *, transaction: Transaction | None = None, timeout: float | None = None) -> None:
        """Send a message, or a batch, and wait until the service has it.

        Args:
            message: a `Message`, a `MessageBatch`; any other value is the body of a message.
            transaction: send it as part of this, made by `bus.transaction()`: it is there when that is committed.

        Raises:
            MessageRejected, MessageReleased, MessageModified: the service did not take it; "com.microsoft:server-busy"
                among the conditions means to try again after some seconds.
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, DeliveryUncertain, EncodeError,
                LocalProtocolError, anyio.ClosedResourceError: see `Sender.send`.
            ValueError: the batch is empty.

        Timeout: as for `Sender.send`.
        """
        self._wait(timeout, "send", message, transaction=transaction)

    def send_many(self, messages: Iterable[object], *, window: int = 1000, timeout: float | None = None) -> int:
        """Send messages one after the other, many of them on their way at a time; return how many there were.

        Args:
            messages: any iterable or async iterable of what `send` takes, but for batches.
            window: the most messages without an outcome at a time.

        Raises:
            MessageRejected, MessageReleased, MessageModified, LinkDetached, SessionEnded, ConnectionClosed,
                ConnectionLost, DeliveryUncertain, EncodeError, LocalProtocolError, TypeError,
                anyio.ClosedResourceError: see `Sender.send_many`.

        Timeout: as for `Sender.send_many`.
        """
        count = 0
        for chunk in in_chunks(messages):
            count += self._wait(timeout, "send_many", chunk, window=window)
        return count


class ServiceBusReceiver(Facade):
    """Receives from a queue, a subscription or their dead letters; made by `bus.receiver()`, attached by `with`.

        for delivery in receiver:
            with delivery as message: ...

    The service locks a message for whoever receives it. Without `prefetch` a message is asked for when you ask for one,
    so that no lock runs down while it waits here. On leaving, what came and nobody took is given back.

    Attributes:
        receiver: the link that it receives on.
        mode: "peek-lock": messages are locked until they are settled; "receive-and-delete": they are gone when they are
            sent, and lost if they do not arrive.
    """

    __slots__ = ()

    @property
    def receiver(self) -> Receiver:
        value: Receiver = self._get("receiver")
        return value

    @property
    def mode(self) -> Literal["peek-lock", "receive-and-delete"]:
        value: Literal["peek-lock", "receive-and-delete"] = self._get("mode")
        return value

    def __enter__(self) -> Self:
        """Attach the link.

        Raises:
            ServiceBusError: the service refuses it for a reason of its own, as `ServerBusy`.
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, AuthenticationFailed: see `Receiver`; there is
                no such entity ("amqp:not-found"), or the token does not allow to listen ("amqp:unauthorized-access").

        Timeout: the link is detached as soon as the service's answer comes.
        """
        return self._enter()

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Give back what nobody took, and detach. What was taken can be settled as long as its lock lasts.

        Timeout: is not noticed; it takes `close_timeout` seconds at most.
        """
        self._leave(exc_type, exc, traceback)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ServiceBusDelivery:
        try:
            result: ServiceBusDelivery = self._in_turn(None, "__anext__")
        except StopAsyncIteration:
            raise StopIteration from None
        return result

    def complete_many(self, deliveries: Iterable[ServiceBusDelivery], *, timeout: float | None = None) -> None:
        """Complete several messages in one go, and wait for the service's word on all of them.

        Those that were settled before stay as they are. When one cannot be completed the others are all the same; the
        first error is raised at the end, with a note that counts them.

        Raises:
            MessageLockLost, SessionLockLost, DeliveryUncertain, ServiceBusError, LinkDetached, SessionEnded,
                ConnectionClosed, ConnectionLost, TimeoutError, LocalProtocolError: see `ServiceBusDelivery.complete`.

        Timeout: the outcomes stand; only the waiting for the service's word ends.
        """
        self._wait(timeout, "complete_many", tuple(deliveries))

    def delete_messages(self, size: int, *, before: datetime | None = None, timeout: float | None = None) -> int:
        """Delete messages that are there for receivers, the oldest first, without receiving them; return how many.

        Those that are locked, deferred or scheduled stay. The service may delete fewer than it could: ask again until
        it deletes none.

        Args:
            size: the most to delete; Azure takes up to 500 in the standard tier, and up to 4,000 in the premium one.
            before: those that came before this time; None: before now, as this machine has it.

        Raises:
            ServiceBusError: the service refuses it, as a size that is too large.
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, TimeoutError: the service could not be asked.
            DeliveryUncertain: the connection was lost before the answer came.
            ValueError: `size` is not positive, or the time has no time zone.
            TypeError: `before` is no datetime.

        Timeout: they may be deleted.
        """
        result: int = self._wait(timeout, "delete_messages", size, before=before)
        return result

    def peek(self, size: int = 100, *, from_sequence: int = 0, timeout: float | None = None) -> list[ReceivedMessage]:
        """Look at messages, in order of their sequence numbers, and leave them as they are.

        Those that are locked, deferred or scheduled are among them; see `state`.

        Args:
            size: the most to return; the service may return fewer, and [] when there are no more.
            from_sequence: the first number to look at: one more than the last that was seen.

        Raises:
            ServiceBusError, LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, TimeoutError: the service
                could not be asked.
            ValueError: `size` is not positive.

        Timeout: nothing has happened.
        """
        result: list[ReceivedMessage] = self._wait(timeout, "peek", size, from_sequence=from_sequence)
        return result

    def receive(self, *, timeout: float | None = None) -> ServiceBusDelivery:
        """Return the next message.

        Raises:
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost: the link is over, and why. With `reconnect` it
                comes back by itself.
            SessionLockLost: the session is lost.
            ServiceBusError: the service ended the link for a reason of its own.
            anyio.BusyResourceError: another thread is receiving from this receiver.
            anyio.ClosedResourceError: the receiver was closed here.

        Timeout: no message is lost: one that comes stays for the next call, locked.
        """
        result: ServiceBusDelivery = self._in_turn(timeout, "receive")
        return result

    def receive_batch(
        self, size: int, *, max_wait: float | None = None, timeout: float | None = None
    ) -> list[ServiceBusDelivery]:
        """Receive several messages at once: 1 to `size` of them, [] only when `max_wait` passed.

        Args:
            size: the most to return; with `prefetch` no more than that.
            max_wait: how long to collect, in seconds; 0: what the service has now. None: wait for the first message,
                and return those that are there by then.

        Raises:
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, SessionLockLost, ServiceBusError,
                anyio.BusyResourceError, anyio.ClosedResourceError: see `receive`.
            ValueError: `size` is not positive.
            TypeError: `max_wait` is no number.

        Timeout: no message is lost: those that came stay for the next call, locked.
        """
        result: list[ServiceBusDelivery] = self._in_turn(timeout, "receive_batch", size, max_wait=max_wait)
        return result

    def receive_deferred(
        self, *sequence_numbers: int | Iterable[int], timeout: float | None = None
    ) -> list[ServiceBusDelivery]:
        """Return messages that were deferred, locked again.

        Args:
            sequence_numbers: of the messages, one by one, or in a list.

        Raises:
            TypeError, ValueError: one of them is no sequence number.
            MessageNotFound: one of them is not there, or not deferred.
            ServiceBusError, DeliveryUncertain, LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost,
                TimeoutError: the service could not be asked.

        Timeout: they may be locked, or gone in mode "receive-and-delete".
        """
        result: list[ServiceBusDelivery] = self._wait(timeout, "receive_deferred", *sequence_numbers)
        return result


class ServiceBusSession(ServiceBusReceiver):
    """One session of a queue or subscription: its messages in order, its state; locked for this receiver.

    Made by `bus.session()` and `bus.next_session()`, locked by `with`. The lock is that of all its messages, and
    ends with the link: after a loss `SessionLockLost` is raised, and the session is to be asked for again.
    """

    __slots__ = ()

    def __enter__(self) -> Self:
        """Lock the session.

        Raises:
            SessionCannotBeLocked: somebody else has it.
            NoSession: for `next_session`: none with messages was free in time.
            ServiceBusError, LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, AuthenticationFailed: see
                `ServiceBusReceiver`.

        Timeout: the link is detached as soon as the service's answer comes, and the session is free.
        """
        return self._enter()

    def keep_locked(self, *, max_time: float | None = None) -> AbstractContextManager[None]:
        """Renew the lock while a block runs: `with session.keep_locked(): ...`; else as of a delivery.

        Raises:
            SessionLockLost: the lock was lost, though the block went on.
        """
        result: AbstractContextManager[None] = self._do("keep_locked", max_time=max_time)
        return result

    @property
    def locked_until(self) -> datetime | None:
        """When the lock ends, as the service said last."""
        value: datetime | None = self._get("locked_until")
        return value

    def renew_lock(self, *, timeout: float | None = None) -> datetime:
        """Begin the lock anew; return when it ends now.

        Raises:
            SessionLockLost: it has ended.
            ServiceBusError, LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, TimeoutError: the service did
                not answer, or not so.

        Timeout: it may be renewed.
        """
        result: datetime = self._wait(timeout, "renew_lock")
        return result

    @property
    def session_id(self) -> str:
        """The session that it is; "" before it is known."""
        value: str = self._get("session_id")
        return value

    def set_state(self, state: bytes | None, *, timeout: float | None = None) -> None:
        """Keep something with the session, for whoever has it next; None: nothing.

        Raises:
            SessionLockLost: the session is lost.
            ServiceBusError, LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, TimeoutError: the service
                could not be asked.
            TypeError: `state` is not bytes.

        Timeout: it may be kept.
        """
        self._wait(timeout, "set_state", state)

    def state(self, *, timeout: float | None = None) -> bytes | None:
        """Return what `set_state` has kept with the session; None: nothing.

        Raises:
            ServiceBusError, LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, TimeoutError: the service
                could not be asked.

        Timeout: nothing has happened.
        """
        result: bytes | None = self._wait(timeout, "state")
        return result


class ServiceBusDelivery(Facade):
    """A message that was received, and its settlement.

    `with delivery as message:` completes it at the end of the block, unless it was settled in it; an exception
    abandons it, a cancellation gives it back. A message that cannot be decoded becomes a dead letter.

    Settling waits until the service has confirmed it, and raises `MessageLockLost` where the lock had ended before. It
    goes on if the link is lost: the lock is the message's, so it is settled through the management node then. Of a
    session the lock is the link's: `SessionLockLost`. The first outcome counts: a second one does nothing. What was
    received and deleted has no outcome: to give one raises `LocalProtocolError`, and leaving the block does nothing.

    Attributes:
        lock_token: names the lock; None of a message that was received and deleted.
        settled: an outcome was given, or none is wanted.
    """

    __slots__ = ()

    @property
    def message(self) -> Message:
        value: Message = self._get("message")
        return value

    @property
    def lock_token(self) -> UUID | None:
        value: UUID | None = self._get("lock_token")
        return value

    @property
    def settled(self) -> bool:
        value: bool = self._get("settled")
        return value

    def __enter__(self) -> Message:
        """Return the message.

        Raises:
            DecodeError: it is malformed, and a dead letter now.

        Timeout: nothing has happened.
        """
        given: Message = self._enter_given()
        return given

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Complete, abandon or give back, unless that was done in the block.

        Raises:
            MessageLockLost, SessionLockLost, DeliveryUncertain, ServiceBusError, LinkDetached, SessionEnded,
                ConnectionClosed, ConnectionLost, TimeoutError: see `complete`; not where the block raises.

        Timeout: as for `complete`. Where the block raises or is cancelled it takes `close_timeout` at most.
        """
        self._leave(exc_type, exc, traceback)

    def abandon(
        self,
        properties: Mapping[str, Any] | None = None,
        *,
        transaction: Transaction | None = None,
        timeout: float | None = None,
    ) -> None:
        """Give the message back at once; this counts as a failed attempt.

        Args:
            properties: application properties to set.
            transaction: see `complete`.

        Raises:
            MessageLockLost, SessionLockLost, DeliveryUncertain, ServiceBusError, LinkDetached, SessionEnded,
                ConnectionClosed, ConnectionLost, TimeoutError, EncodeError, LocalProtocolError, TransactionRolledBack:
                see `complete`.

        Timeout: as for `complete`.
        """
        self._wait(timeout, "abandon", properties, transaction=transaction)

    @property
    def body(self) -> Any:
        """The body of the message."""
        value: Any = self._get("body")
        return value

    def complete(self, *, transaction: Transaction | None = None, timeout: float | None = None) -> None:
        """Tell that the message was processed: it is gone.

        Args:
            transaction: tell it as part of this, made by `bus.transaction()`: it counts when that is committed. After a
                rollback the message stays locked, to be settled again.

        Raises:
            MessageLockLost, SessionLockLost: the lock had ended: the message comes again.
            DeliveryUncertain: the link was lost before the service confirmed it: it is not known which came first.
            LocalProtocolError: the message was received and deleted, or the transaction is over, or is one of another
                connection.
            TransactionRolledBack: the transaction is lost with its link.
            ServiceBusError, LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, TimeoutError: the service
                could not be told.

        Timeout: the outcome stands; only the waiting for the service's word ends.
        """
        self._wait(timeout, "complete", transaction=transaction)

    def dead_letter(
        self,
        reason: str = "",
        description: str = "",
        properties: Mapping[str, Any] | None = None,
        *,
        transaction: Transaction | None = None,
        timeout: float | None = None,
    ) -> None:
        """Put the message among the dead letters.

        Args:
            reason, description: why; a receiver of the dead letters finds them at `dead_letter_reason` and
                `dead_letter_description`.
            properties: application properties to set.
            transaction: see `complete`.

        Raises:
            MessageLockLost, SessionLockLost, DeliveryUncertain, ServiceBusError, LinkDetached, SessionEnded,
                ConnectionClosed, ConnectionLost, TimeoutError, EncodeError, LocalProtocolError, TransactionRolledBack:
                see `complete`.

        Timeout: as for `complete`.
        """
        self._wait(timeout, "dead_letter", reason, description, properties, transaction=transaction)

    @property
    def dead_letter_description(self) -> str | None:
        """The same in more words."""
        value: str | None = self._get("dead_letter_description")
        return value

    @property
    def dead_letter_reason(self) -> str | None:
        """Why it is a dead letter."""
        value: str | None = self._get("dead_letter_reason")
        return value

    @property
    def dead_letter_source(self) -> str | None:
        """The entity that it died in, if it is elsewhere now."""
        value: str | None = self._get("dead_letter_source")
        return value

    def defer(
        self,
        properties: Mapping[str, Any] | None = None,
        *,
        transaction: Transaction | None = None,
        timeout: float | None = None,
    ) -> None:
        """Put the message aside: it comes by `receiver.receive_deferred(sequence_number)` only.

        Args:
            properties: application properties to set.
            transaction: see `complete`.

        Raises:
            MessageLockLost, SessionLockLost, DeliveryUncertain, ServiceBusError, LinkDetached, SessionEnded,
                ConnectionClosed, ConnectionLost, TimeoutError, EncodeError, LocalProtocolError, TransactionRolledBack:
                see `complete`.

        Timeout: as for `complete`.
        """
        self._wait(timeout, "defer", properties, transaction=transaction)

    @property
    def delivery_count(self) -> int:
        """How often it was received before, and not completed."""
        value: int = self._get("delivery_count")
        return value

    @property
    def enqueued_at(self) -> datetime | None:
        """When the entity took it."""
        value: datetime | None = self._get("enqueued_at")
        return value

    @property
    def enqueued_sequence_number(self) -> int:
        """The number that it had where it was sent to first; 0 where the service says none."""
        value: int = self._get("enqueued_sequence_number")
        return value

    @property
    def expires_at(self) -> datetime | None:
        """When its time to live ends, counted from `enqueued_at` as Service Bus does; None for never."""
        value: datetime | None = self._get("expires_at")
        return value

    def keep_locked(self, *, max_time: float | None = None) -> AbstractContextManager[None]:
        """Renew the lock while a block runs: `with delivery.keep_locked(): ...`.

        Half of the time that is left is waited each time. A renewal that fails is tried again until the lock has ended.
        If it is lost, the end of the block raises, for somebody else may have the message.

        Args:
            max_time: seconds after which it is renewed no more; None: as long as the block runs.

        Raises:
            MessageLockLost: the lock was lost, though the block went on.
            LocalProtocolError: the lock is a session's, or the message has no lock.
        """
        result: AbstractContextManager[None] = self._do("keep_locked", max_time=max_time)
        return result

    @property
    def locked_until(self) -> datetime | None:
        """When the lock ends, as the service said last; None in a session, and of what was received and deleted."""
        value: datetime | None = self._get("locked_until")
        return value

    @property
    def partition_key(self) -> str | None:
        """What chooses its partition."""
        value: str | None = self._get("partition_key")
        return value

    def renew_lock(self, *, timeout: float | None = None) -> datetime:
        """Begin the lock anew; return when it ends now.

        Raises:
            MessageLockLost, MessageNotFound: it has ended.
            LocalProtocolError: the lock is a session's, or the message has no lock.
            ServiceBusError, TimeoutError, LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost: the service did
                not answer, or not so.

        Timeout: it may be renewed.
        """
        result: datetime = self._wait(timeout, "renew_lock")
        return result

    @property
    def scheduled_for(self) -> datetime | None:
        """When it is, or was, to be there."""
        value: datetime | None = self._get("scheduled_for")
        return value

    @property
    def sequence_number(self) -> int:
        """The number that no other message of the entity has; 0 where the service says none."""
        value: int = self._get("sequence_number")
        return value

    @property
    def session_id(self) -> str | None:
        """The session that it belongs to; the message's `group_id`."""
        value: str | None = self._get("session_id")
        return value

    @property
    def state(self) -> Literal["active", "deferred", "scheduled"]:
        """Whether it is there for all, deferred, or scheduled."""
        value: Literal["active", "deferred", "scheduled"] = self._get("state")
        return value


class SubscriptionRules(Facade):
    """The rules of a subscription, made by `bus.rules()`; nothing is to be opened."""

    __slots__ = ()

    def add(self, rule: Rule, *, timeout: float | None = None) -> None:
        """Add a rule. A new subscription has "$Default" beside it, which all messages pass: remove that.

        Raises:
            TypeError: it is no `Rule`.
            ValueError: its SQL has parameters, for which the request has no place.
            RuleExists: there is one of that name.
            ServiceBusError: it makes no sense to the service, or the token does not allow to manage.
            DeliveryUncertain: the connection was lost before the answer came.
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, TimeoutError, EncodeError: the service could
                not be asked.

        Timeout: it may be added.
        """
        self._wait(timeout, "add", rule)

    def list(self, *, timeout: float | None = None) -> list[Rule]:
        """Return all rules.

        Raises:
            ServiceBusError, LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, TimeoutError: the service
                could not be asked.

        Timeout: nothing has happened.
        """
        result: list[Rule] = self._wait(timeout, "list")
        return result

    def remove(self, name: str, *, timeout: float | None = None) -> None:
        """Remove a rule.

        Raises:
            EntityNotFound: no rule has that name.
            ServiceBusError: the token does not allow to manage.
            DeliveryUncertain, LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, TimeoutError: see `add`.

        Timeout: it may be removed.
        """
        self._wait(timeout, "remove", name)


class EventHub(Opened):
    """An event hub of Azure; `with` opens the connection, and closes it with all that is on it.

        with EventHub(connection_string, "telemetry") as hub:
            with hub.sender() as sender:
                sender.send(Message(b"21.5"), key="sensor-7")
            with hub.reader("0") as reader:
                for event in reader: ...

    A connection, a sender or a reader that is lost comes back by itself (`reconnect`). All tasks of a program may share
    it.

    Args:
        where: a connection string; or `NAMESPACE.servicebus.windows.net`, also as a URL, `wss://...` for WebSockets.
        name: of the hub; None where the connection string has it as EntityPath.
        credential: the login: a credential of azure-identity, azure-core's AzureNamedKeyCredential or
            AzureSasCredential, a `SasKey`, or what else gives tokens; None where the connection string says it.
        request_timeout: seconds that the service may take to answer a request.
        clock: the time in seconds since 1970.
        settings: as for `Connection`, but for tokens and sasl; `reconnect` is on unless you say None.

    Raises:
        ValueError, TypeError, LookupError: where, name, credential or settings make no sense. No secret is in the
            error.

    Attributes:
        connection: what it stands on: its events, its health.
        name: of the hub.
    """

    __slots__ = ()

    def __init__(
        self,
        where: str,
        name: str | None = None,
        credential: Any = None,
        *,
        request_timeout: float = 60.0,
        clock: Callable[[], float] = time.time,
        **settings: Unpack[ConnectionSettings],
    ) -> None:
        super().__init__(
            AsyncEventHub(where, name, credential, request_timeout=request_timeout, clock=clock, **settings)
        )

    @property
    def connection(self) -> Connection:
        value: Connection = self._get("connection")
        return value

    @property
    def name(self) -> str:
        value: str = self._get("name")
        return value

    def __enter__(self) -> Self:
        """Connect.

        Raises:
            ConnectionLost, AuthenticationFailed, InsecureTransport, ConnectionClosed, RemoteProtocolError: see
                `Connection`. A wrong key is told by whatever is attached first.

        Timeout: the transport is closed.
        """
        return self._enter()

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Leave what is left, and close the connection.

        Timeout: is not noticed; it takes `close_timeout` seconds at most.
        """
        self._leave(exc_type, exc, traceback)

    def partition_properties(self, partition: str | int, *, timeout: float | None = None) -> PartitionProperties:
        """Ask what a partition, by its id or number, has: its first and last event.

        Raises, Cancelling: as for `properties`; 400: there is no such partition.
        """
        result: PartitionProperties = self._wait(timeout, "partition_properties", partition)
        return result

    def properties(self, *, timeout: float | None = None) -> HubProperties:
        """Ask what the hub is: the ids of its partitions.

        Raises:
            ManagementError: the service says no: 404, there is no such hub; 503, it is busy.
            RemoteProtocolError: its answer has no partitions.
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, AuthenticationFailed, TimeoutError: it could
                not be asked.

        Timeout: nothing has happened.
        """
        result: HubProperties = self._wait(timeout, "properties")
        return result

    def reader(
        self,
        partition: str | int,
        *,
        group: str = "$Default",
        start: EventPosition = _FIRST,
        owner_level: int | None = None,
        track_last: bool = False,
        prefetch: int = 300,
        name: str | None = None,
    ) -> EventReader:
        """Make a reader of one partition, to be attached by `with`.

        Args:
            partition: its id or number; `properties` has all of them.
            group: the consumer group; each reads all events.
            start: where to begin: `EventPosition.first()`, `.latest()`, `.offset(...)` and others.
            owner_level: have the partition alone, and take it from readers of this level, a lower one or none. None:
                share it with four others at most.
            track_last: have the service tell with each event what the last one is (`event.last`).
            prefetch: events that may be on their way or wait here.
            name: of the reader, which the service tells those whom it keeps out.

        Raises:
            TypeError: the partition is neither str nor int, or `start` is no `EventPosition`.
            ValueError: a name is empty, or a number is out of range.
        """
        result: EventReader = self._do(
            "reader",
            partition,
            group=group,
            start=start,
            owner_level=owner_level,
            track_last=track_last,
            prefetch=prefetch,
            name=name,
        )
        return result

    def sender(self, *, partition: str | int | None = None, publisher: str | None = None) -> EventSender:
        """Make a sender, to be attached by `with`.

        Args:
            partition: its id or number: send to this one only; None: keys choose, or partitions take turns.
            publisher: send as this publisher, whose name is the key of all its events.

        Raises:
            TypeError: the partition is neither str nor int.
            ValueError: a partition and a publisher are given, or an empty name, or a number less than 0.
        """
        result: EventSender = self._do("sender", partition=partition, publisher=publisher)
        return result


class EventSender(Facade):
    """Sends to a hub; made by `hub.sender()`, attached by `with`.

    Any number of tasks may send at once. Events with equal keys are in one partition, in the order in which they were
    sent.

    Attributes:
        sender: the link that it sends on.
    """

    __slots__ = ()

    @property
    def sender(self) -> Sender:
        value: Sender = self._get("sender")
        return value

    def __enter__(self) -> Self:
        """Attach the link.

        Raises:
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, AuthenticationFailed: see `Sender`; there is
                no such hub ("amqp:not-found") or partition ("com.microsoft:argument-out-of-range"), or the token does
                not allow to send ("amqp:unauthorized-access").

        Timeout: the link is detached as soon as the service's answer comes.
        """
        return self._enter()

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Wait for what is on its way, and detach.

        Raises:
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, DeliveryUncertain, TimeoutError: see `Sender`.

        Timeout: is not noticed; it takes `close_timeout` seconds at most.
        """
        self._leave(exc_type, exc, traceback)

    def batch(self, *, key: str | None = None, max_size: int | None = None) -> EventBatch:
        """Make an empty batch, which `send` sends as a whole.

        Args:
            key: what chooses the partition of all its events.
            max_size: octets that it may have; None: as many as the service takes.

        Raises:
            TypeError: the key is no str.
            ValueError: the service takes fewer than that; the key is too long, or has no place here.
            LocalProtocolError: the sender is not attached yet.
        """
        result: EventBatch = self._do("batch", key=key, max_size=max_size)
        return result

    def send(self, event: object, *, key: str | None = None, timeout: float | None = None) -> None:
        """Send an event, or a batch of them, and wait until the service has it.

        Args:
            event: a `Message`, an `EventBatch`; any other value is the body of a message.
            key: what chooses the partition; a batch has its own.

        Raises:
            MessageRejected, MessageReleased, MessageModified: the service did not take it; "com.microsoft:server-busy"
                among the conditions means to try again after some seconds.
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, DeliveryUncertain, EncodeError,
                LocalProtocolError, anyio.ClosedResourceError: see `Sender.send`.
            TypeError: the key is no str.
            ValueError: the key is too long, or has no place here; or the batch is empty.

        Timeout: as for `Sender.send`.
        """
        self._wait(timeout, "send", event, key=key)

    def send_many(
        self, events: Iterable[object], *, key: str | None = None, window: int = 1000, timeout: float | None = None
    ) -> int:
        """Send events one after the other, many of them on their way at a time; return how many there were.

        Args:
            events: any iterable or async iterable of what `send` takes, but for batches.
            key: of all of them.
            window: the most events without an outcome at a time.

        Raises:
            MessageRejected, MessageReleased, MessageModified, LinkDetached, SessionEnded, ConnectionClosed,
                ConnectionLost, DeliveryUncertain, EncodeError, LocalProtocolError, TypeError,
                anyio.ClosedResourceError: see `Sender.send_many`.
            ValueError: the key is too long, or has no place here; TypeError: it is no str.

        Timeout: as for `Sender.send_many`.
        """
        count = 0
        for chunk in in_chunks(events):
            count += self._wait(timeout, "send_many", chunk, key=key, window=window)
        return count


class EventReader(Facade):
    """Reads one partition; made by `hub.reader()`, attached by `with`.

        with hub.reader("0", start=EventPosition.offset(checkpoint)) as reader:
            for event in reader: ...

    Events stay in the hub, whoever reads them: to go on another time, keep the `offset` of the last one that you have
    handled. After a loss it goes on by itself behind the last event that came, and none comes twice.

    Args:
        source: where it reads; its filter is moved on with each event.
        start: where it begins.
        last_of: asks for the partition.

    Attributes:
        receiver: the link that it receives on.
        partition: the id of what it reads.
    """

    __slots__ = ()

    @property
    def receiver(self) -> Receiver:
        value: Receiver = self._get("receiver")
        return value

    @property
    def partition(self) -> str:
        value: str = self._get("partition")
        return value

    def __enter__(self) -> Self:
        """Attach the link. A reader that begins with the next event has the events from now on, whatever is lost.

        Raises:
            OwnershipLost: a reader of a higher owner level has the partition, or of any, where this one has none.
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, AuthenticationFailed: see `Receiver`; there is
                no such hub or consumer group ("amqp:not-found") or partition ("com.microsoft:argument-out-of-range"),
                the partition has no such position ("com.microsoft:argument-error"), there are five readers already
                ("amqp:resource-limit-exceeded"), or the token does not allow to listen ("amqp:unauthorized-access").
            ManagementError, TimeoutError: it could not be asked where the partition ends.

        Timeout: the link is detached as soon as the service's answer comes.
        """
        return self._enter()

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Detach.

        Raises:
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, TimeoutError: see `Receiver`.

        Timeout: is not noticed; it takes `close_timeout` seconds at most.
        """
        self._leave(exc_type, exc, traceback)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ReceivedEvent:
        try:
            result: ReceivedEvent = self._in_turn(None, "__anext__")
        except StopAsyncIteration:
            raise StopIteration from None
        return result

    def receive(self, *, timeout: float | None = None) -> ReceivedEvent:
        """Return the next event.

        Raises:
            OwnershipLost: another reader has taken the partition.
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost: the link is over, and why. With `reconnect` it
                comes back by itself.
            DecodeError: the event is no message; the next call returns the one behind it.
            anyio.BusyResourceError: another thread is receiving from this reader.
            anyio.ClosedResourceError: the reader was closed here.

        Timeout: no event is lost: one that comes is there for the next call.
        """
        result: ReceivedEvent = self._in_turn(timeout, "receive")
        return result

    def receive_batch(
        self, size: int, *, max_wait: float | None = None, timeout: float | None = None
    ) -> list[ReceivedEvent]:
        """Receive several events at once: 1 to `size` of them, [] only when `max_wait` passed.

        Args:
            size: the most to return; never more than the `prefetch` of the reader.
            max_wait: how long to collect, in seconds; 0: what is here. None: wait for the first event, and return those
                that are there by then.

        Raises:
            OwnershipLost, LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, DecodeError,
                anyio.BusyResourceError, anyio.ClosedResourceError: see `receive`.
            ValueError: `size` is not positive.
            TypeError: `max_wait` is no number.

        Timeout: no event is lost: those that came are there for the next call.
        """
        result: list[ReceivedEvent] = self._in_turn(timeout, "receive_batch", size, max_wait=max_wait)
        return result


FACADES.update(
    {
        azure.ServiceBus: ServiceBus,
        azure.ServiceBusSender: ServiceBusSender,
        azure.ServiceBusReceiver: ServiceBusReceiver,
        azure.ServiceBusSession: ServiceBusSession,
        azure.ServiceBusDelivery: ServiceBusDelivery,
        azure.SubscriptionRules: SubscriptionRules,
        azure.EventHub: EventHub,
        azure.EventSender: EventSender,
        azure.EventReader: EventReader,
    }
)
