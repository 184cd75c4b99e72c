"""Several messages that are sent as one delivery."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from .._arguments import check_range, check_type
from ..messaging import Data, Message
from ..types import Symbol

BATCH_FORMAT: Final = 0x8001_3700
"""The message-format of a batch."""
PARTITION_KEY: Final = Symbol("x-opt-partition-key")
_SHORT: Final = 5
_LONG: Final = 8
"""Octets that the encoding of a batch adds to a message: of up to 255 octets, and of more."""


class MessageBatch:
    """Messages that Service Bus takes together or not at all, made by `sender.batch()`.

        batch = sender.batch()
        for order in orders:
            if not batch.add(Message(order)):
                await sender.send(batch)
                batch = sender.batch()
                batch.add(Message(order))
        await sender.send(batch)

    All messages of a batch must have the same session where the entity has sessions, and the same partition key where
    it has partitions.

    Attributes:
        size: octets of the batch as it is now.
        max_size: the most octets it may have; None: the service named no limit.
        max_count: the most messages it may have; None: no limit.

    Args:
        prepared: turns each message into the one that is sent.
    """

    def __init__(
        self,
        max_size: int | None,
        max_count: int | None = None,
        prepared: Callable[[Message], Message] = lambda message: message,
    ) -> None:
        for name, most in (("max_size", max_size), ("max_count", max_count)):
            check_type(name, most, int | None)
            check_range(name, most if most is not None else 1, 1)
        self.max_size = max_size
        self.max_count = max_count
        self.size: int = 0
        self._prepared = prepared
        self._outer = Message()
        self._payloads: list[bytes] = []

    def add(self, message: object) -> bool:
        """Add a message if there is room for it; return whether it was added.

        Args:
            message: a `Message`, or any other value as the body of one.

        Raises:
            EncodeError: the message cannot be encoded.
            ValueError: the message is too large even for an empty batch.
        """
        if self.max_count is not None and len(self._payloads) >= self.max_count:
            return False
        message = self._prepared(message if isinstance(message, Message) else Message(message))
        payload = message.encode()
        outer = self._outer if self._payloads else _outer_of(message)
        beside = self.size if self._payloads else len(outer.replace(body=b"").encode()) - _SHORT
        size = beside + len(payload) + (_LONG if len(payload) > 255 else _SHORT)
        if self.max_size is not None and size > self.max_size:
            if not self._payloads:
                raise ValueError(
                    f"a batch must have at most {self.max_size} octets, and this message alone makes it {size}"
                )
            return False
        self._outer, self.size = outer, size
        self._payloads.append(payload)
        return True

    def __len__(self) -> int:
        return len(self._payloads)

    def encode(self) -> bytes:
        """Return the payload to send with message-format 0x80013700.

        Raises:
            ValueError: the batch is empty.
        """
        if not self._payloads:
            raise ValueError("a batch must have at least one message to be sent")
        return self._outer.replace(body=Data(*self._payloads)).encode()

    def __repr__(self) -> str:
        return f"<MessageBatch of {len(self)} messages, {self.size} octets>"


def _outer_of(first: Message) -> Message:
    """Return an empty message with the message-id, group-id and partition key of the first message."""
    properties: dict[str, Any] = {}
    if first.message_id is not None:
        properties["message_id"] = first.message_id
    if first.group_id is not None:
        properties["group_id"] = first.group_id
    key = first.message_annotations.get(PARTITION_KEY)
    if key is not None:
        properties["message_annotations"] = {PARTITION_KEY: key}
    return Message(**properties)
