"""Sending to a queue or topic: messages, batches, scheduled messages."""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterable
from datetime import datetime
from typing import Any, Final, Self
from uuid import uuid4

from ..._arguments import checked
from ...client import Sender, Transaction
from ...messaging import Message
from ...types import Array, Symbol
from .._arguments import check_time, numbers_of
from .._batch import PARTITION_KEY, MessageBatch
from .._client import NamespaceSender
from ._errors import ServiceBusError, own_errors
from ._management import EntityManagement, listed

_MAX_BATCH_SIZE: Final = Symbol("com.microsoft:max-message-batch-size")
_SCHEDULED_FOR: Final = Symbol("x-opt-scheduled-enqueue-time")
_MAX_IN_BATCH: Final = 4500


class ServiceBusSender(NamespaceSender):
    """Sends to a queue or topic; made by `bus.sender()`, attached by `async with`.

    Any number of tasks may send at once. The `group_id` of a message is its session, its `message_id` is used to find
    duplicates, and its annotation "x-opt-partition-key" chooses its partition.

    Attributes:
        sender: the link that carries the messages.
    """

    def __init__(self, sender: Sender, node: EntityManagement, *, via: bool = False) -> None:
        super().__init__(sender)
        self._node = node
        self._via = via

    async def __aenter__(self) -> Self:
        """Attach the link.

        Raises:
            ServiceBusError: the service refused the link, as `ServerBusy`.
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, AuthenticationFailed: see `Sender`; there is
                no such entity ("amqp:not-found"), or the token does not allow sending ("amqp:unauthorized-access").

        Cancelling: the link is detached as soon as the service's answer comes.
        """
        with own_errors():
            if self._via:
                await self._node.open()  # the service requires the tokens of both entities
            await self.sender.__aenter__()
        return self

    async def send(self, message: object, *, transaction: Transaction | None = None) -> None:
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

        Cancelling: as for `Sender.send`.
        """
        await self._send(message, transaction)

    @checked
    async def send_many(self, messages: Iterable[object] | AsyncIterable[object], *, window: int = 1000) -> int:
        """Send messages one after the other without waiting for each outcome; return how many were sent.

        Args:
            messages: an iterable or async iterable of anything `send` takes except batches.
            window: the most messages without an outcome at a time.

        Raises:
            MessageRejected, MessageReleased, MessageModified, LinkDetached, SessionEnded, ConnectionClosed,
                ConnectionLost, DeliveryUncertain, EncodeError, LocalProtocolError, TypeError,
                anyio.ClosedResourceError: see `Sender.send_many`.

        Cancelling: as for `Sender.send_many`.
        """
        return await self.sender.send_many(messages, window=window)

    @checked
    def batch(self, max_size: int | None = None) -> MessageBatch:
        """Make an empty batch of up to 4,500 messages, which `send` sends as a whole.

        Args:
            max_size: the most octets it may have; None: as many as the service takes.

        Raises:
            ValueError: the service takes fewer octets than `max_size`.
            LocalProtocolError: the sender is not attached yet.
        """
        largest = self._batch_limit(max_size, _MAX_BATCH_SIZE)
        return MessageBatch(largest, _MAX_IN_BATCH, self.sender.traced)

    @checked
    async def schedule(self, message: object, at: datetime, *, transaction: Transaction | None = None) -> int:
        """Schedule a message; return its sequence number, which `cancel_scheduled` takes.

        Args:
            message, at, transaction: see `schedule_many`.

        Raises:
            TypeError, ValueError, ServiceBusError, DeliveryUncertain, LinkDetached, SessionEnded, ConnectionClosed,
                ConnectionLost, TimeoutError, EncodeError, LocalProtocolError, TransactionRolledBack: see
                `schedule_many`.

        Cancelling: the message may be scheduled.
        """
        [number] = await self.schedule_many([message], at, transaction=transaction)
        return number

    @checked
    async def schedule_many(
        self, messages: Iterable[object], at: datetime, *, transaction: Transaction | None = None
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

        Cancelling: the messages may be scheduled.
        """
        check_time("at", at)
        entries = [_scheduled(self.sender.traced(_message(each)), at) for each in messages]
        if not entries:
            return []
        answer = await self._node.ask(
            "schedule-message", {"messages": entries}, link=self.sender.name, transaction=transaction
        )
        numbers = listed(answer, "sequence-numbers")
        if len(numbers) != len(entries) or not all(isinstance(each, int) for each in numbers):
            raise ServiceBusError(None, f"the answer must have {len(entries)} sequence numbers, not {numbers!r:.200}")
        return [int(each) for each in numbers]

    async def cancel_scheduled(self, *sequence_numbers: int | Iterable[int]) -> None:
        """Cancel scheduled messages.

        Args:
            sequence_numbers: what `schedule` or `schedule_many` returned: numbers, or lists of numbers.

        Raises:
            TypeError, ValueError: an argument is not a sequence number.
            MessageNotFound: a message is not scheduled, or has become available already.
            ServiceBusError, DeliveryUncertain, LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost,
                TimeoutError: see `schedule_many`.

        Cancelling: the messages may be cancelled.
        """
        if numbers := numbers_of(sequence_numbers):
            request = {"sequence-numbers": Array("long", numbers)}
            await self._node.ask("cancel-scheduled-message", request, link=self.sender.name)


def _message(given: object) -> Message:
    return given if isinstance(given, Message) else Message(given)


def _scheduled(message: Message, at: datetime) -> dict[str, Any]:
    """Return a message in the form of a request to schedule it."""
    message = message.replace(
        message_id=message.message_id if message.message_id is not None else uuid4().hex,
        message_annotations={**message.message_annotations, _SCHEDULED_FOR: at},
    )
    entry: dict[str, Any] = {"message-id": str(message.message_id), "message": message.encode()}
    if message.group_id is not None:
        entry["session-id"] = message.group_id
    if (key := message.message_annotations.get(PARTITION_KEY)) is not None:
        entry["partition-key"] = key
    return entry
