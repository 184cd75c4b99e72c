"""Sending events and batches to a hub, to one of its partitions, or as a publisher."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable
from typing import Final, Self

from ..._arguments import checked
from ...client import Sender
from ...messaging import Message
from .._batch import PARTITION_KEY, MessageBatch
from .._client import NamespaceSender

_MAX_KEY_LENGTH: Final = 128


class EventBatch(MessageBatch):
    """Events that one partition takes together or not at all; made by `sender.batch()`.

    `add` returns whether there was room for an event.

    Attributes:
        key: the key that chooses the partition; None: the sender's partition, or the next one in turn.
    """

    def __init__(self, max_size: int | None, key: str | None, prepared: Callable[[Message], Message]) -> None:
        super().__init__(max_size, prepared=prepared)
        self.key = key

    def add(self, message: object) -> bool:
        """Add an event if there is room for it; return whether it was added.

        Args:
            message: a `Message`, or any other value as the body of one.

        Raises:
            EncodeError: the event cannot be encoded.
            ValueError: the event is too large even for an empty batch.
        """
        return super().add(_keyed(message, self.key))


class EventSender(NamespaceSender):
    """Sends to a hub; made by `hub.sender()`, attached by `async with`.

    Any number of tasks may send at once. Events with equal keys go to one partition, in the order in which they are
    sent.

    Attributes:
        sender: the link that carries the events.
    """

    def __init__(self, sender: Sender, *, keyed: bool) -> None:
        super().__init__(sender)
        self._keyed = keyed

    async def __aenter__(self) -> Self:
        """Attach the link.

        Raises:
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, AuthenticationFailed: see `Sender`; there is
                no such hub ("amqp:not-found") or partition ("com.microsoft:argument-out-of-range"), or the token does
                not allow sending ("amqp:unauthorized-access").

        Cancelling: the link is detached as soon as the service's answer comes.
        """
        await self.sender.__aenter__()
        return self

    async def send(self, event: object, *, key: str | None = None) -> None:
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

        Cancelling: as for `Sender.send`.
        """
        if isinstance(event, MessageBatch):
            if key is not None:
                raise ValueError("a batch gets its key when it is made: sender.batch(key=...)")
        else:
            event = _keyed(event, self._checked(key))
        await self._send(event)

    @checked
    async def send_many(
        self, events: Iterable[object] | AsyncIterable[object], *, key: str | None = None, window: int = 1000
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

        Cancelling: as for `Sender.send_many`.
        """
        if self._checked(key) is None:
            return await self.sender.send_many(events, window=window)
        return await self.sender.send_many(_each_keyed(events, key), window=window)

    @checked
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
        return EventBatch(self._batch_limit(max_size), self._checked(key), self.sender.traced)

    def _checked(self, key: str | None) -> str | None:
        if key is not None and not isinstance(key, str):
            raise TypeError(f"key must be a str, not {type(key).__name__}: use key=str(...)")
        if key is not None and not self._keyed:
            raise ValueError(f"a sender for a partition or publisher accepts no key: {key!r:.200}")
        if key is not None and not 1 <= len(key) <= _MAX_KEY_LENGTH:
            raise ValueError(f"a key must have 1 to {_MAX_KEY_LENGTH} characters, not {len(key)}")
        return key


def _keyed(event: object, key: str | None) -> Message:
    """Return an event as a message that carries the key."""
    message = event if isinstance(event, Message) else Message(event)
    if key is None:
        return message
    return message.replace(message_annotations={**message.message_annotations, PARTITION_KEY: key})


async def _each_keyed(events: Iterable[object] | AsyncIterable[object], key: str | None) -> AsyncIterator[Message]:
    if isinstance(events, AsyncIterable):
        async for event in events:
            yield _keyed(event, key)
    else:
        for event in events:
            yield _keyed(event, key)
