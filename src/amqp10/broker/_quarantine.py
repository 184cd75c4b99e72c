"""The quarantine: messages that the broker could not handle, set aside so that they do not block their queues.

An exception that a message causes in the broker is a fault of the broker. It must cost only that message its place in
the queue, and no connection: the message is kept here with the reason until an operator releases or drops it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Protocol

from ._log import report

if TYPE_CHECKING:
    from ._queues.message import Clock
    from ._queues.node import Node

_log = logging.getLogger("amqp10.broker")

MAX_MESSAGES: Final = 10_000
MAX_BYTES: Final = 64 * 1024 * 1024
"""How much a quarantine keeps before it drops the oldest messages. The newest always stays."""

_MAX_REASON_LENGTH: Final = 1000


@dataclass(frozen=True, slots=True)
class QuarantinedMessage:
    """A message in quarantine.

    Attributes:
        number: its number in the quarantine, never used again.
        node: the name of the queue that it was in or on its way to.
        time: when it was set aside (UTC).
        reason: the type and text of the exception that it caused.
        payload: the encoded message, as it was in the queue.
        message_format: 0 for a standard AMQP message (§3.2).
        durable: whether a store keeps it.
    """

    number: int
    node: str
    time: datetime
    reason: str
    payload: bytes
    message_format: int
    durable: bool


class QuarantineJournal(Protocol):
    """Keeps the durable messages of a quarantine. It is told of each change in the same pass."""

    def added(self, message: QuarantinedMessage) -> None:
        """Record that a durable message was set aside; its queue forgot it in the same pass."""

    def removed(self, message: QuarantinedMessage) -> None:
        """Record that a durable message was released or dropped, or made room for a newer one."""


Release = Callable[[QuarantinedMessage, "Node | None", "str | None"], None]


class Quarantine:
    """The messages in quarantine, oldest first: iterate over it, or take one by its number.

    Beyond 10,000 messages or 64 MiB the oldest are dropped, with a warning in the log; the newest always stays,
    whatever its size. Messages restored from a store are not counted, and stay until somebody releases or drops them.

    Attributes:
        journal: records durable messages that come and go; None: there is no store.
    """

    journal: QuarantineJournal | None = None

    def __init__(
        self,
        release: Release,
        *,
        most_messages: int = MAX_MESSAGES,
        most_bytes: int = MAX_BYTES,
        wall: Clock = time.time,
    ) -> None:
        self._release = release
        self._most_messages = most_messages
        self._most_bytes = most_bytes
        self._wall = wall
        self._messages: dict[int, QuarantinedMessage] = {}  # by number, so in order
        self._nodes: dict[int, Node] = {}  # of messages set aside since the start
        self._size = 0
        self._sizes: dict[int, int] = {}  # of those set aside since the start, by number
        self._size_since = 0
        self._highest = 0

    def __repr__(self) -> str:
        return f"<Quarantine of {len(self)} messages>"

    def __len__(self) -> int:
        return len(self._messages)

    def __iter__(self) -> Iterator[QuarantinedMessage]:
        return iter(list(self._messages.values()))

    def __getitem__(self, number: int) -> QuarantinedMessage:
        """Return the message of that number.

        Raises:
            KeyError: the quarantine has no message of that number.
        """
        return self._messages[number]

    @property
    def size(self) -> int:
        """The encoded size of all messages in the quarantine."""
        return self._size

    def release(self, number: int, to: str | None = None) -> None:
        """Put a message back at the end of its queue as if it were new; its failed attempts are forgotten.

        If it causes the same fault again, it is set aside again under a new number.

        Args:
            number: the number of the message.
            to: another address to send it to, such as "errors" or "/exchanges/NAME/KEY"; created if it does not exist.

        Raises:
            KeyError: the quarantine has no message of that number.
            ValueError: the queue is gone or full, or the address is unknown. The message stays here.
        """
        message = self._messages[number]
        self._release(message, self._nodes.get(number), to)
        if number in self._messages:  # it may have been set aside again, and then dropped as the oldest
            self._remove(message)

    def drop(self, number: int) -> None:
        """Drop a message.

        Raises:
            KeyError: the quarantine has no message of that number.
        """
        self._remove(self._messages[number])

    # For the broker

    def set_aside(
        self,
        name: str,
        payload: bytes,
        message_format: int,
        error: Exception,
        *,
        durable: bool = False,
        node: Node | None = None,
    ) -> QuarantinedMessage:
        """Set a message aside because of `error`; the caller forgets it.

        Args:
            name: the name of the node that it was in.
            node: the node itself, if it exists. A subscription has no address, so its name alone would not find it
                again.
        """
        reason = f"{type(error).__name__}: {error}"[:_MAX_REASON_LENGTH]
        moment = datetime.fromtimestamp(self._wall(), UTC)
        message = QuarantinedMessage(self._highest + 1, name, moment, reason, payload, message_format, durable)
        self._add(message)
        self._sizes[message.number] = len(payload)
        self._size_since += len(payload)
        if node is not None:
            self._nodes[message.number] = node
        report(f"a message in {name!r} could not be handled and is in the quarantine as number {message.number}", error)
        if durable and self.journal is not None:
            self.journal.added(message)
        self._make_room()
        return message

    def restore(self, message: QuarantinedMessage) -> None:
        """Add a message that a store kept or could not restore, in the order of numbers."""
        self._add(message)

    def _add(self, message: QuarantinedMessage) -> None:
        self._messages[message.number] = message
        self._size += len(message.payload)
        self._highest = max(self._highest, message.number)

    def _remove(self, message: QuarantinedMessage) -> None:
        del self._messages[message.number]
        self._nodes.pop(message.number, None)
        self._size -= len(message.payload)
        self._size_since -= self._sizes.pop(message.number, 0)
        if message.durable and self.journal is not None:
            self.journal.removed(message)

    def _make_room(self) -> None:
        sizes = self._sizes
        while len(sizes) > 1 and (len(sizes) > self._most_messages or self._size_since > self._most_bytes):
            oldest = self._messages[next(iter(sizes))]
            _log.warning("the quarantine is full: number %d, of %r, is dropped", oldest.number, oldest.node)
            self._remove(oldest)
