"""Service Bus and Event Hubs without `await`, made by tools/make_sync.py: run `make sync`.

What does not wait, such as `MessageBatch`, `Rule` and the errors, is imported from `amqp10.azure`.
"""

# mypy: disable-error-code="no-any-return"

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


class _NamespaceClient(Facade):
    """A connection to a namespace; `with` opens it, and closes it with all its links.

    Attributes:
        connection: the AMQP connection, with its events and its health.
        _each_message: classes whose methods are called for each message.
    """

    __slots__ = ()

    @property
    def connection(self) -> Connection:
        return self._get("connection")

    def __enter__(self) -> Self:
        """Connect.

        Raises:
            ConnectionLost, AuthenticationFailed, InsecureTransport, ConnectionClosed, RemoteProtocolError: see
                `Connection`. A wrong key shows only when the first link is attached.

        Timeout: the transport is closed.
        """
        return self._enter()

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close all links and the connection.

        Timeout: is not noticed; it takes `close_timeout` seconds at most.
        """
        self._leave(exc_type, exc, traceback)


class _NamespaceSender(Facade):
    """Sends messages and batches on a link.

    Attributes:
        sender: the link that carries the messages.
    """

    __slots__ = ()

    @property
    def sender(self) -> Sender:
        return self._get("sender")

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Wait for the outcomes of messages in flight, and detach.

        Raises:
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, DeliveryUncertain, TimeoutError: see `Sender`.

        Timeout: is not noticed; it takes `close_timeout` seconds at most.
        """
        self._leave(exc_type, exc, traceback)


class ServiceBus(_NamespaceClient, Opened):
    """A namespace of Azure Service Bus; `with` opens the connection, and closes it with all its links.

        with ServiceBus(connection_string) as bus:
            with bus.sender("orders") as sender:
                sender.send(Message(b"two teas"))
            with bus.receiver("orders") as receiver:
                for delivery in receiver:
                    with delivery as message: ...

    A lost connection, sender or receiver comes back by itself (`reconnect`). A session does not, because its lock is
    lost with its link. All tasks of a program may share the namespace.

    Args:
        where: a connection string, or `NAMESPACE.servicebus.windows.net`, alone or in a URL (`wss://...` for
            WebSockets).
        credential: a credential of azure-identity, azure-core's AzureNamedKeyCredential or AzureSasCredential, a
            `SasKey`, or any other source of tokens; None: the connection string has the key.
        request_timeout: seconds that the service may take to answer a request.
        clock: the time in seconds since 1970.
        settings: those of `Connection` except tokens and sasl. `reconnect` is on unless you pass None.

    Raises:
        ValueError, TypeError, LookupError: where, credential or a setting is invalid. The error contains no secret.

    Attributes:
        connection: the AMQP connection, with its events and its health.
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

    def list_sessions(
        self,
        entity: str | None = None,
        *,
        subscription: str | None = None,
        updated_after: datetime | None = None,
        timeout: float | None = None,
    ) -> list[str]:
        """Return the ids of the sessions that have messages or a state.

        Args:
            entity, subscription: as for `receiver`.
            updated_after: return instead the sessions whose state was set after this time.

        Raises:
            TypeError: `updated_after` is not a datetime.
            ValueError: no name is given, or the time has no time zone.
            ServiceBusError, LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, TimeoutError: the service
                could not be asked.

        Timeout: nothing has changed.
        """
        return self._wait(timeout, "list_sessions", entity, subscription=subscription, updated_after=updated_after)

    def next_session(
        self,
        entity: str | None = None,
        *,
        subscription: str | None = None,
        max_wait: float = 60.0,
        mode: Literal["peek-lock", "receive-and-delete"] = "peek-lock",
        prefetch: int = 0,
    ) -> ServiceBusSession:
        """Make a receiver of any free session that has messages, which `with` locks.

        Args:
            entity, subscription, mode, prefetch: as for `receiver`.
            max_wait: seconds that the service looks for a session; after that, entering raises `NoSession`.

        Raises:
            ValueError: no name is given, or the mode, prefetch or time is invalid.
            TypeError: `max_wait` is not a number.
        """
        return self._do(
            "next_session", entity, subscription=subscription, max_wait=max_wait, mode=mode, prefetch=prefetch
        )

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
            entity: the queue, or the topic of the `subscription`; None: the EntityPath of the connection string.
            subscription: the subscription of the topic.
            dead_letters: receive its dead letters instead.
            mode: "peek-lock": a message is locked until it is settled; "receive-and-delete": it is deleted when sent.
            prefetch: the most messages that may wait here, locked; 0: each message is requested when you ask for one.

        Raises:
            ValueError: no name is given, or the mode or prefetch is invalid.
        """
        return self._do(
            "receiver", entity, subscription=subscription, dead_letters=dead_letters, mode=mode, prefetch=prefetch
        )

    def rules(self, topic: str, subscription: str) -> SubscriptionRules:
        """Return the rules of a subscription, to list and to change.

        Raises:
            ValueError: no name is given, or the name differs from the EntityPath of the connection string.
            TypeError: the subscription is not a str.
        """
        return self._do("rules", topic, subscription)

    def sender(self, entity: str | None = None, *, via: str | None = None) -> ServiceBusSender:
        """Make a sender to a queue or topic, to be attached by `with`.

        Args:
            entity: its name; None: the EntityPath of the connection string.
            via: the entity that a transaction receives from: messages then go through it to `entity`.

        Raises:
            ValueError: no name is given, or the name differs from the EntityPath of the connection string.
        """
        return self._do("sender", entity, via=via)

    def session(
        self,
        entity: str,
        session_id: str,
        *,
        subscription: str | None = None,
        mode: Literal["peek-lock", "receive-and-delete"] = "peek-lock",
        prefetch: int = 0,
    ) -> ServiceBusSession:
        """Make a receiver of one session, which `with` locks.

        Args:
            entity, subscription, mode, prefetch: as for `receiver`.
            session_id: the `group_id` of the session's messages, at most 128 characters.

        Raises:
            TypeError: the session id is not a str; `next_session` takes any session.
            ValueError: no name is given, or the session id, the mode or prefetch is invalid.
        """
        return self._do("session", entity, session_id, subscription=subscription, mode=mode, prefetch=prefetch)

    def transaction(self) -> Transaction:
        """Make a transaction. `with bus.transaction() as work:` commits it at the end; an exception rolls back.

        `sender.send(message, transaction=work)`, `sender.schedule(message, at, transaction=work)` and
        `delivery.complete(transaction=work)` are parts of it. A transaction of the service has one entity; it reaches
        others through `bus.sender(entity, via=...)`.
        """
        return self._do("transaction")


class ServiceBusSender(_NamespaceSender):
    """Sends to a queue or topic; made by `bus.sender()`, attached by `with`.

    Any number of tasks may send at once. The `group_id` of a message is its session, its `message_id` is used to find
    duplicates, and its annotation "x-opt-partition-key" chooses its partition.

    Attributes:
        sender: the link that carries the messages.
    """

    __slots__ = ()

    def __enter__(self) -> Self:
        """Attach the link.

        Raises:
            ServiceBusError: the service refused the link, as `ServerBusy`.
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, AuthenticationFailed: see `Sender`; there is
                no such entity ("amqp:not-found"), or the token does not allow sending ("amqp:unauthorized-access").

        Timeout: the link is detached as soon as the service's answer comes.
        """
        return self._enter()

    def batch(self, max_size: int | None = None) -> MessageBatch:
        """Make an empty batch of up to 4,500 messages, which `send` sends as a whole.

        Args:
            max_size: the most octets it may have; None: as many as the service takes.

        Raises:
            ValueError: the service takes fewer octets than `max_size`.
            LocalProtocolError: the sender is not attached yet.
        """
        return self._do("batch", max_size)

    def cancel_scheduled(self, *sequence_numbers: int | Iterable[int], timeout: float | None = None) -> None:
        """Cancel scheduled messages.

        Args:
            sequence_numbers: what `schedule` or `schedule_many` returned: numbers, or lists of numbers.

        Raises:
            TypeError, ValueError: an argument is not a sequence number.
            MessageNotFound: a message is not scheduled, or has become available already.
            ServiceBusError, DeliveryUncertain, LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost,
                TimeoutError: see `schedule_many`.

        Timeout: the messages may be cancelled.
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

        Timeout: the message may be scheduled.
        """
        return self._wait(timeout, "schedule", message, at, transaction=transaction)

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
            messages: each is a `Message`, or any other value as the body of one.
            at: when they become available, with a time zone.
            transaction: made by `bus.transaction()`; the messages are scheduled, under these numbers, when it is
                committed.

        Raises:
            TypeError: `at` is not a datetime.
            ValueError: `at` has no time zone.
            ServiceBusError: the service did not take them.
            DeliveryUncertain: the connection was lost before the answer came: they may be scheduled.
            LocalProtocolError: the transaction is over or of another connection.
            TransactionRolledBack: the transaction was lost with its link.
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, TimeoutError, EncodeError: see `Requester`.

        Timeout: the messages may be scheduled.
        """
        return self._wait(timeout, "schedule_many", messages, at, transaction=transaction)

    def send(self, message: object, *, transaction: Transaction | None = None, timeout: float | None = None) -> None:
        """Send a message or a batch, and wait until the service has taken it.

        Args:
            message: a `Message`, a `MessageBatch`, or any other value as the body of a message.
            transaction: made by `bus.transaction()`; the message becomes available when it is committed.

        Raises:
            MessageRejected, MessageReleased, MessageModified: the service did not take it. If the condition is
                "com.microsoft:server-busy", try again after some seconds.
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, DeliveryUncertain, EncodeError,
                LocalProtocolError, anyio.ClosedResourceError: see `Sender.send`.
            ValueError: the batch is empty.

        Timeout: as for `Sender.send`.
        """
        self._wait(timeout, "send", message, transaction=transaction)

    def send_many(self, messages: Iterable[object], *, window: int = 1000, timeout: float | None = None) -> int:
        """Send messages one after the other without waiting for each outcome; return how many were sent.

        Args:
            messages: an iterable or async iterable of anything `send` takes except batches.
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

    The service locks a message for its receiver. Without `prefetch` each message is requested when you ask for one, so
    that no lock runs down while a message waits here. Leaving the block gives back what came and was not taken.

    Attributes:
        receiver: the link that brings the messages.
        mode: "peek-lock": a message is locked until it is settled; "receive-and-delete": it is deleted when it is sent,
            and lost if it does not arrive.
    """

    __slots__ = ()

    @property
    def receiver(self) -> Receiver:
        return self._get("receiver")

    @property
    def mode(self) -> Literal["peek-lock", "receive-and-delete"]:
        return self._get("mode")

    def __enter__(self) -> Self:
        """Attach the link.

        Raises:
            ServiceBusError: the service refused the link, as `ServerBusy`.
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, AuthenticationFailed: see `Receiver`; there is
                no such entity ("amqp:not-found"), or the token does not allow listening ("amqp:unauthorized-access").

        Timeout: the link is detached as soon as the service's answer comes.
        """
        return self._enter()

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Give back messages that were not taken, and detach. Those taken can be settled as long as their locks last.

        Timeout: is not noticed; it takes `close_timeout` seconds at most.
        """
        self._leave(exc_type, exc, traceback)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ServiceBusDelivery:
        return self._step()

    def complete_many(self, deliveries: Iterable[ServiceBusDelivery], *, timeout: float | None = None) -> None:
        """Complete several messages together, and wait until the service has answered for all of them.

        Messages settled before are left alone. If some cannot be completed, the others are; then the first error is
        raised, with a note of how many failed.

        Raises:
            MessageLockLost, SessionLockLost, DeliveryUncertain, ServiceBusError, LinkDetached, SessionEnded,
                ConnectionClosed, ConnectionLost, TimeoutError, LocalProtocolError: see `ServiceBusDelivery.complete`.

        Timeout: the outcomes stand; only the waiting for the confirmations ends.
        """
        self._wait(timeout, "complete_many", tuple(deliveries))

    def delete_messages(self, size: int, *, before: datetime | None = None, timeout: float | None = None) -> int:
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

        Timeout: the messages may be deleted.
        """
        return self._wait(timeout, "delete_messages", size, before=before)

    def peek(self, size: int = 100, *, from_sequence: int = 0, timeout: float | None = None) -> list[ReceivedMessage]:
        """Return messages in order of their sequence numbers, without locking or changing them.

        Locked, deferred and scheduled messages are included; see `state`.

        Args:
            size: the most to return; the service may return fewer, and [] when there are no more.
            from_sequence: the lowest number to return: pass the last one seen plus one to go on.

        Raises:
            ServiceBusError, LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, TimeoutError: the service
                could not be asked.
            ValueError: `size` is not positive.

        Timeout: nothing has changed.
        """
        return self._wait(timeout, "peek", size, from_sequence=from_sequence)

    def receive(self, *, timeout: float | None = None) -> ServiceBusDelivery:
        """Return the next message.

        Raises:
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost: the link is over, and why. With `reconnect` it
                comes back by itself.
            SessionLockLost: the session was lost with its link.
            ServiceBusError: the service ended the link with a condition of its own.
            anyio.BusyResourceError: another thread is receiving from this receiver.
            anyio.ClosedResourceError: the receiver was closed here.

        Timeout: no message is lost: one that came stays for the next call, locked.
        """
        return self._in_turn(timeout, "receive")

    def receive_batch(
        self, size: int, *, max_wait: float | None = None, timeout: float | None = None
    ) -> list[ServiceBusDelivery]:
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

        Timeout: no message is lost: those that came stay for the next call, locked.
        """
        return self._in_turn(timeout, "receive_batch", size, max_wait=max_wait)

    def receive_deferred(
        self, *sequence_numbers: int | Iterable[int], timeout: float | None = None
    ) -> list[ServiceBusDelivery]:
        """Return deferred messages, locked again.

        Args:
            sequence_numbers: numbers, or lists of numbers.

        Raises:
            TypeError, ValueError: an argument is not a sequence number.
            MessageNotFound: a message does not exist or is not deferred.
            ServiceBusError, DeliveryUncertain, LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost,
                TimeoutError: the service could not be asked.

        Timeout: the messages may be locked, or deleted in mode "receive-and-delete".
        """
        return self._wait(timeout, "receive_deferred", *sequence_numbers)


class ServiceBusSession(ServiceBusReceiver):
    """Receives one session of a queue or subscription, locked for this receiver: messages in order, and a state.

    Made by `bus.session()` and `bus.next_session()`, locked by `with`. One lock covers all messages, and ends
    with the link. After a loss `SessionLockLost` is raised, and you have to ask for the session again.
    """

    __slots__ = ()

    def __enter__(self) -> Self:
        """Lock the session.

        Raises:
            SessionCannotBeLocked: another receiver has it.
            NoSession: from `next_session`: no session with messages was free in time.
            ServiceBusError, LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, AuthenticationFailed: see
                `ServiceBusReceiver`.

        Timeout: the link is detached as soon as the service's answer comes, which frees the session.
        """
        return self._enter()

    def keep_locked(self, *, max_time: float | None = None) -> AbstractContextManager[None]:
        """Renew the lock while a block runs, as `ServiceBusDelivery.keep_locked` does.

        Raises:
            SessionLockLost: the lock was lost, though the block went on.
        """
        return self._do("keep_locked", max_time=max_time)

    @property
    def locked_until(self) -> datetime | None:
        """When the lock ends, by the service's last word."""
        return self._get("locked_until")

    def renew_lock(self, *, timeout: float | None = None) -> datetime:
        """Restart the lock's time; return when the lock ends now.

        Raises:
            SessionLockLost: the lock has ended.
            ServiceBusError, LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, TimeoutError: the service
                gave no valid answer.

        Timeout: the lock may be renewed.
        """
        return self._wait(timeout, "renew_lock")

    @property
    def session_id(self) -> str:
        """The id of the session; "": not known before the session is locked."""
        return self._get("session_id")

    def set_state(self, state: bytes | None, *, timeout: float | None = None) -> None:
        """Keep a state with the session, for its next receiver; None removes it.

        Raises:
            SessionLockLost: the session is lost.
            ServiceBusError, LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, TimeoutError: the service
                could not be asked.
            TypeError: `state` is neither bytes nor None.

        Timeout: the state may be kept.
        """
        self._wait(timeout, "set_state", state)

    def state(self, *, timeout: float | None = None) -> bytes | None:
        """Return the state that `set_state` kept with the session; None: it has no state.

        Raises:
            ServiceBusError, LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, TimeoutError: the service
                could not be asked.

        Timeout: nothing has changed.
        """
        return self._wait(timeout, "state")


class ServiceBusDelivery(Facade):
    """A received message, and its settlement.

    `with delivery as message:` completes the message at the end of the block, unless the block settled it. An
    exception abandons it, a cancellation releases it. A message that cannot be decoded becomes a dead letter.

    Settling waits until the service confirms it, and raises `MessageLockLost` if the lock had expired. The lock of a
    message outlives its link: if the link is lost, the message is settled through the management node. The lock of a
    session ends with the link: settling then raises `SessionLockLost`. Only the first outcome counts; a different
    one does nothing, and the log has a warning. A message that was received and deleted has no outcome: settling it
    raises `LocalProtocolError`, and leaving the block does nothing.

    Attributes:
        lock_token: identifies the lock; None: the message was received and deleted.
        settled: whether an outcome was given, or none is needed.
    """

    __slots__ = ()

    @property
    def message(self) -> Message:
        return self._get("message")

    @property
    def lock_token(self) -> UUID | None:
        return self._get("lock_token")

    @property
    def settled(self) -> bool:
        return self._get("settled")

    def __enter__(self) -> Message:
        """Return the message.

        Raises:
            DecodeError: the message is malformed, and was made a dead letter.

        Timeout: nothing has changed.
        """
        return self._enter_given()

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Complete, abandon or release the message, unless the block settled it.

        Raises:
            MessageLockLost, SessionLockLost, DeliveryUncertain, ServiceBusError, LinkDetached, SessionEnded,
                ConnectionClosed, ConnectionLost, TimeoutError: see `complete`; not raised if the block itself raises.

        Timeout: as for `complete`. If the block raises or is cancelled, this takes `close_timeout` at most.
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
        return self._get("body")

    def complete(self, *, transaction: Transaction | None = None, timeout: float | None = None) -> None:
        """Complete the message: it was processed, and the service deletes it.

        Args:
            transaction: made by `bus.transaction()`; the message is completed when it is committed. After a rollback
                the message stays locked, to be settled again.

        Raises:
            MessageLockLost, SessionLockLost: the lock had expired: the message is delivered again.
            DeliveryUncertain: the link was lost before the service confirmed. The message may be completed, or its lock
                may have expired first.
            LocalProtocolError: the message was received and deleted, or the transaction is over or of another
                connection.
            TransactionRolledBack: the transaction was lost with its link.
            ServiceBusError, LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, TimeoutError: the service
                could not be told.

        Timeout: the outcome stands; only the waiting for the confirmation ends.
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
        """Move the message to the dead letters.

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
        """The explanation of `dead_letter_reason`."""
        return self._get("dead_letter_description")

    @property
    def dead_letter_reason(self) -> str | None:
        """The reason why the message is a dead letter."""
        return self._get("dead_letter_reason")

    @property
    def dead_letter_source(self) -> str | None:
        """The entity where the message became a dead letter, if it was forwarded since."""
        return self._get("dead_letter_source")

    def defer(
        self,
        properties: Mapping[str, Any] | None = None,
        *,
        transaction: Transaction | None = None,
        timeout: float | None = None,
    ) -> None:
        """Set the message aside: only `receiver.receive_deferred(sequence_number)` returns it.

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
        """How often the message was received before without being completed."""
        return self._get("delivery_count")

    @property
    def enqueued_at(self) -> datetime | None:
        """When the entity took the message."""
        return self._get("enqueued_at")

    @property
    def enqueued_sequence_number(self) -> int:
        """The sequence number in the entity that the message was first sent to; 0: the service named none."""
        return self._get("enqueued_sequence_number")

    @property
    def expires_at(self) -> datetime | None:
        """When the message expires: `enqueued_at` plus its ttl, as Service Bus counts; None: never."""
        return self._get("expires_at")

    def keep_locked(self, *, max_time: float | None = None) -> AbstractContextManager[None]:
        """Renew the lock while a block runs: `with delivery.keep_locked(): ...`.

        Each renewal comes when half of the remaining time has passed. A renewal that fails is tried again until the
        lock expires. If the lock is lost, the block is cancelled, because another receiver may have the message.

        Args:
            max_time: seconds after which the lock is no longer renewed; None: renew it as long as the block runs.

        Raises:
            MessageLockLost: the lock was lost, though the block went on.
            LocalProtocolError: the lock is that of a session, or the message has no lock.
        """
        return self._do("keep_locked", max_time=max_time)

    @property
    def locked_until(self) -> datetime | None:
        """When the lock ends, by the service's last word; None for a message of a session or without a lock."""
        return self._get("locked_until")

    @property
    def partition_key(self) -> str | None:
        """The key that chooses the partition of the message."""
        return self._get("partition_key")

    def renew_lock(self, *, timeout: float | None = None) -> datetime:
        """Restart the lock's time; return when the lock ends now.

        Raises:
            MessageLockLost, MessageNotFound: the lock has expired.
            LocalProtocolError: the lock is that of a session, or the message has no lock.
            ServiceBusError, TimeoutError, LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost: the service
                gave no valid answer.

        Timeout: the lock may be renewed.
        """
        return self._wait(timeout, "renew_lock")

    @property
    def scheduled_for(self) -> datetime | None:
        """When the scheduled message becomes, or became, available."""
        return self._get("scheduled_for")

    @property
    def sequence_number(self) -> int:
        """The unique number of the message in its entity; 0: the service named none."""
        return self._get("sequence_number")

    @property
    def session_id(self) -> str | None:
        """The session of the message, its `group_id`."""
        return self._get("session_id")

    @property
    def state(self) -> Literal["active", "deferred", "scheduled"]:
        """Whether the message is active, deferred or scheduled."""
        return self._get("state")


class SubscriptionRules(Facade):
    """The rules of a subscription, made by `bus.rules()`. It needs no opening."""

    __slots__ = ()

    def add(self, rule: Rule, *, timeout: float | None = None) -> None:
        """Add a rule. A new subscription also has the rule "$Default", which passes all messages: remove that one.

        Raises:
            TypeError: `rule` is not a `Rule`.
            ValueError: the rule's SQL has parameters, which the request cannot carry.
            RuleExists: the subscription has a rule of that name.
            ServiceBusError: the service refused the rule, or the token does not allow managing.
            DeliveryUncertain: the connection was lost before the answer came.
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, TimeoutError, EncodeError: the service could
                not be asked.

        Timeout: the rule may be added.
        """
        self._wait(timeout, "add", rule)

    def list(self, *, timeout: float | None = None) -> list[Rule]:
        """Return all rules.

        Raises:
            ServiceBusError, LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, TimeoutError: the service
                could not be asked.

        Timeout: nothing has changed.
        """
        return self._wait(timeout, "list")

    def remove(self, name: str, *, timeout: float | None = None) -> None:
        """Remove a rule.

        Raises:
            EntityNotFound: no rule has that name.
            ServiceBusError: the token does not allow managing.
            DeliveryUncertain, LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, TimeoutError: see `add`.

        Timeout: the rule may be removed.
        """
        self._wait(timeout, "remove", name)


class EventHub(_NamespaceClient, Opened):
    """An event hub of Azure; `with` opens the connection, and closes it with all its links.

        with EventHub(connection_string, "telemetry") as hub:
            with hub.sender() as sender:
                sender.send(Message(b"21.5"), key="sensor-7")
            with hub.reader("0") as reader:
                for event in reader: ...

    A lost connection, sender or reader comes back by itself (`reconnect`). All tasks of a program may share the hub.

    Args:
        where: a connection string, or `NAMESPACE.servicebus.windows.net`, alone or in a URL (`wss://...` for
            WebSockets).
        name: the name of the hub; None: the EntityPath of the connection string.
        credential: a credential of azure-identity, azure-core's AzureNamedKeyCredential or AzureSasCredential, a
            `SasKey`, or any other source of tokens; None: the connection string has the key.
        request_timeout: seconds that the service may take to answer a request.
        clock: the time in seconds since 1970.
        settings: those of `Connection` except tokens and sasl. `reconnect` is on unless you pass None.

    Raises:
        ValueError, TypeError, LookupError: where, name, credential or a setting is invalid. The error contains no
            secret.

    Attributes:
        connection: the AMQP connection, with its events and its health.
        name: the name of the hub.
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
    def name(self) -> str:
        return self._get("name")

    def partition_properties(self, partition: str | int, *, timeout: float | None = None) -> PartitionProperties:
        """Ask for the first and the last event of a partition, given by its id or number.

        Raises, Cancelling: as for `properties`; a ManagementError 400 means that there is no such partition.
        """
        return self._wait(timeout, "partition_properties", partition)

    def properties(self, *, timeout: float | None = None) -> HubProperties:
        """Ask for the name, the age and the partition ids of the hub.

        Raises:
            ManagementError: the service refused: 503, it is busy.
            RemoteProtocolError: the answer lists no partitions.
            LinkDetached: there is no such hub (`amqp:not-found`), or as the next.
            SessionEnded, ConnectionClosed, ConnectionLost, AuthenticationFailed, TimeoutError: the
                service could not be asked.

        Timeout: nothing has changed.
        """
        return self._wait(timeout, "properties")

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
            partition: its id or number; `properties` lists the ids.
            group: the consumer group; each group reads all events.
            start: where to begin: `EventPosition.first()`, `.latest()`, `.offset(...)` and others.
            owner_level: read the partition alone, and take it from readers with the same or a lower level, or without
                one. None: share it with up to four other readers.
            track_last: have the service name the partition's last event with each event (`event.last`).
            prefetch: the most events that may be in flight or wait here.
            name: the reader's name, which the service shows to readers that it refuses.

        Raises:
            TypeError: the partition is neither a str nor an int, or `start` is not an `EventPosition`.
            ValueError: a name is empty, or a number is out of range.
        """
        return self._do(
            "reader",
            partition,
            group=group,
            start=start,
            owner_level=owner_level,
            track_last=track_last,
            prefetch=prefetch,
            name=name,
        )

    def sender(self, *, partition: str | int | None = None, publisher: str | None = None) -> EventSender:
        """Make a sender, to be attached by `with`.

        Args:
            partition: the id or number of the only partition to send to; None: the key of an event chooses its
                partition, and events without a key go to the partitions in turn.
            publisher: the publisher to send as; its name is the key of all its events.

        Raises:
            TypeError: the partition is neither a str nor an int.
            ValueError: both a partition and a publisher are given, or a name is empty, or the number is negative.
        """
        return self._do("sender", partition=partition, publisher=publisher)


class EventSender(_NamespaceSender):
    """Sends to a hub; made by `hub.sender()`, attached by `with`.

    Any number of tasks may send at once. Events with equal keys go to one partition, in the order in which they are
    sent.

    Attributes:
        sender: the link that carries the events.
    """

    __slots__ = ()

    def __enter__(self) -> Self:
        """Attach the link.

        Raises:
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, AuthenticationFailed: see `Sender`; there is
                no such hub ("amqp:not-found") or partition ("com.microsoft:argument-out-of-range"), or the token does
                not allow sending ("amqp:unauthorized-access").

        Timeout: the link is detached as soon as the service's answer comes.
        """
        return self._enter()

    def batch(self, *, key: str | None = None, max_size: int | None = None) -> EventBatch:
        """Make an empty batch, which `send` sends as a whole.

        Args:
            key: the key that chooses the partition of all its events.
            max_size: the most octets it may have; None: as many as the service takes.

        Raises:
            TypeError: the key is not a str.
            ValueError: the service takes fewer octets than `max_size`, or the key is too long, or this sender takes no
                key.
            LocalProtocolError: the sender is not attached yet.
        """
        return self._do("batch", key=key, max_size=max_size)

    def send(self, event: object, *, key: str | None = None, timeout: float | None = None) -> None:
        """Send an event or a batch, and wait until the service has taken it.

        Args:
            event: a `Message`, an `EventBatch`, or any other value as the body of a message.
            key: the key that chooses the partition; a batch has its own.

        Raises:
            MessageRejected, MessageReleased, MessageModified: the service did not take it. If the condition is
                "com.microsoft:server-busy", try again after some seconds.
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, DeliveryUncertain, EncodeError,
                LocalProtocolError, anyio.ClosedResourceError: see `Sender.send`.
            TypeError: the key is not a str.
            ValueError: the key is too long, or this sender or event takes no key, or the batch is empty.

        Timeout: as for `Sender.send`.
        """
        self._wait(timeout, "send", event, key=key)

    def send_many(
        self, events: Iterable[object], *, key: str | None = None, window: int = 1000, timeout: float | None = None
    ) -> int:
        """Send events one after the other without waiting for each outcome; return how many were sent.

        Args:
            events: an iterable or async iterable of anything `send` takes except batches.
            key: the key of all events.
            window: the most events without an outcome at a time.

        Raises:
            MessageRejected, MessageReleased, MessageModified, LinkDetached, SessionEnded, ConnectionClosed,
                ConnectionLost, DeliveryUncertain, EncodeError, LocalProtocolError, anyio.ClosedResourceError: see
                `Sender.send_many`.
            TypeError: the key is not a str, or see `Sender.send_many`.
            ValueError: the key is too long, or this sender takes no key.

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

    Reading removes nothing from the hub. To continue another time, keep the `offset` of the last event you handled.
    After a loss the reader continues by itself behind the last event that came, and returns no event twice.

    Args:
        source: the partition; its filter is moved forward with each event.
        start: where to begin.
        last_of: asks for the properties of the partition.

    Attributes:
        receiver: the link that brings the events.
        partition: the id of the partition.
        start: where it begins; `EventPosition.latest()` becomes the last event when the link is attached first.
    """

    __slots__ = ()

    @property
    def receiver(self) -> Receiver:
        return self._get("receiver")

    @property
    def partition(self) -> str:
        return self._get("partition")

    def __enter__(self) -> Self:
        """Attach the link. A reader that starts at `EventPosition.latest()` misses no later event, even if the link is
        lost.

        Raises:
            OwnershipLost: another reader has the partition: its owner level is higher, or this reader has none.
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, AuthenticationFailed: see `Receiver`; there is
                no such hub or consumer group ("amqp:not-found") or partition ("com.microsoft:argument-out-of-range"),
                the partition has no such position ("com.microsoft:argument-error"), there are five readers already
                ("amqp:resource-limit-exceeded"), or the token does not allow listening ("amqp:unauthorized-access").
            ManagementError, TimeoutError: the service did not say where the partition ends.

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
        return self._step()

    def receive(self, *, timeout: float | None = None) -> ReceivedEvent:
        """Return the next event.

        Raises:
            OwnershipLost: another reader has taken the partition.
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost: the link is over, and why. With `reconnect` it
                comes back by itself.
            DecodeError: the event cannot be decoded; the next call returns the one after it.
            anyio.BusyResourceError: another thread is receiving from this reader.
            anyio.ClosedResourceError: the reader was closed here.

        Timeout: no event is lost: one that came stays for the next call.
        """
        return self._in_turn(timeout, "receive")

    def receive_batch(
        self, size: int, *, max_wait: float | None = None, timeout: float | None = None
    ) -> list[ReceivedEvent]:
        """Receive several events at once: 1 to `size` of them, [] only when `max_wait` passed.

        Args:
            size: the most to return; never more than the `prefetch` of the reader.
            max_wait: how long to collect, in seconds; 0: return what has arrived. None: wait for the first event, and
                return it with the others that have arrived by then.

        Raises:
            OwnershipLost, LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, DecodeError,
                anyio.BusyResourceError, anyio.ClosedResourceError: see `receive`. Events before one that cannot be
                decoded are returned first, and those after it by the next calls.
            ValueError: `size` is not positive, or `max_wait` is negative.
            TypeError: `max_wait` is not a number.

        Timeout: no event is lost: those that came stay for the next call.
        """
        return self._in_turn(timeout, "receive_batch", size, max_wait=max_wait)


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
