"""Sending to a queue or topic: messages, batches, schedules."""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterable
from datetime import datetime
from typing import Any, Final, Self
from uuid import uuid4

from ...client import Sender, Transaction
from ...messaging import Message
from ...types import Array, Symbol
from .._arguments import check_time, numbers_of
from .._batch import PARTITION_KEY, MessageBatch
from .._client import NamespaceSender
from ._errors import ServiceBusError, own_errors
from ._management import EntityManagement, listed

_LARGEST_BATCH: Final = Symbol("com.microsoft:max-message-batch-size")
_SCHEDULED_FOR: Final = Symbol("x-opt-scheduled-enqueue-time")
_MOST_IN_BATCH: Final = 4500


class ServiceBusSender(NamespaceSender):
    """Sends to a queue or topic; made by `bus.sender()`, attached by `async with`.

    Any number of tasks may send at once. A message's `group_id` is its session, its `message_id` what duplicates are
    known by, its annotation "x-opt-partition-key" what chooses its partition.

    Attributes:
        sender: the link that it sends on.
    """

    def __init__(self, sender: Sender, node: EntityManagement, *, via: bool = False) -> None:
        super().__init__(sender)
        self._node = node
        self._via = via

    async def __aenter__(self) -> Self:
        """Attach the link.

        Raises:
            ServiceBusError: the service refuses it for a reason of its own, as `ServerBusy`.
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, AuthenticationFailed: see `Sender`; there is
                no such entity ("amqp:not-found"), or the token does not allow to send ("amqp:unauthorized-access").

        Cancelling: the link is detached as soon as the service's answer comes.
        """
        with own_errors():
            if self._via:
                await self._node.open()  # the service asks for the token of either entity
            await self.sender.__aenter__()
        return self

    async def send(self, message: object, *, transaction: Transaction | None = None) -> None:
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

        Cancelling: as for `Sender.send`.
        """
        await self._send(message, transaction)

    async def send_many(self, messages: Iterable[object] | AsyncIterable[object], *, window: int = 1000) -> int:
        """Send messages one after the other, many of them on their way at a time; return how many there were.

        Args:
            messages: any iterable or async iterable of what `send` takes, but for batches.
            window: the most messages without an outcome at a time.

        Raises:
            MessageRejected, MessageReleased, MessageModified, LinkDetached, SessionEnded, ConnectionClosed,
                ConnectionLost, DeliveryUncertain, EncodeError, LocalProtocolError, TypeError,
                anyio.ClosedResourceError: see `Sender.send_many`.

        Cancelling: as for `Sender.send_many`.
        """
        return await self.sender.send_many(messages, window=window)

    def batch(self, max_size: int | None = None) -> MessageBatch:
        """Make an empty batch, which `send` sends as a whole. It has room for 4,500 messages at most.

        Args:
            max_size: octets that it may have; None: as many as the service takes.

        Raises:
            ValueError: the service takes fewer than that.
            LocalProtocolError: the sender is not attached yet.
        """
        largest = self._batch_limit(max_size, self.sender.remote.properties.get(_LARGEST_BATCH))
        return MessageBatch(largest, _MOST_IN_BATCH, self.sender.prepared)

    async def schedule(self, message: object, at: datetime, *, transaction: Transaction | None = None) -> int:
        """Schedule a message; return its sequence number, which `cancel_scheduled` takes.

        Args:
            message, at, transaction: see `schedule_many`.

        Raises:
            TypeError, ValueError, ServiceBusError, DeliveryUncertain, LinkDetached, SessionEnded, ConnectionClosed,
                ConnectionLost, TimeoutError, EncodeError, LocalProtocolError, TransactionRolledBack: see
                `schedule_many`.

        Cancelling: it may be scheduled.
        """
        [number] = await self.schedule_many([message], at, transaction=transaction)
        return number

    async def schedule_many(
        self, messages: Iterable[object], at: datetime, *, transaction: Transaction | None = None
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

        Cancelling: they may be scheduled.
        """
        check_time("at", at)
        asked = [_scheduled(self.sender.prepared(_message(each)), at) for each in messages]
        if not asked:
            return []
        answer = await self._node.ask(
            "schedule-message", {"messages": asked}, link=self.sender.name, transaction=transaction
        )
        numbers = listed(answer, "sequence-numbers")
        if len(numbers) != len(asked) or not all(isinstance(each, int) for each in numbers):
            raise ServiceBusError(None, f"the answer must have {len(asked)} sequence numbers, not {numbers!r:.200}")
        return [int(each) for each in numbers]

    async def cancel_scheduled(self, *sequence_numbers: int | Iterable[int]) -> None:
        """Cancel messages that were scheduled.

        Args:
            sequence_numbers: what `schedule` returned, one by one, or as `schedule_many` returned them.

        Raises:
            TypeError, ValueError: one of them is no sequence number.
            MessageNotFound: one of them is not scheduled, or is there already.
            ServiceBusError, DeliveryUncertain, LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost,
                TimeoutError: see `schedule_many`.

        Cancelling: they may be cancelled.
        """
        if numbers := numbers_of(sequence_numbers):
            asked = {"sequence-numbers": Array("long", numbers)}
            await self._node.ask("cancel-scheduled-message", asked, link=self.sender.name)


def _message(given: object) -> Message:
    return given if isinstance(given, Message) else Message(given)


def _scheduled(message: Message, at: datetime) -> dict[str, Any]:
    """Return a message as a request to schedule has it."""
    message = message.replace(
        message_id=message.message_id if message.message_id is not None else uuid4().hex,
        message_annotations={**message.message_annotations, _SCHEDULED_FOR: at},
    )
    said: dict[str, Any] = {"message-id": str(message.message_id), "message": message.encode()}
    if message.group_id is not None:
        said["session-id"] = message.group_id
    if (key := message.message_annotations.get(PARTITION_KEY)) is not None:
        said["partition-key"] = key
    return said
