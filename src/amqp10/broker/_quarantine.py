"""The quarantine: messages that the broker could not handle, set aside so that nobody else has to wait behind them.

What a message makes the broker raise is a fault of the broker. It costs that one message its place in its queue, and
nobody a connection: the message is kept here, with the reason, until an operator releases or drops it.
"""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from ._log import report

if TYPE_CHECKING:
    from ._queues.message import Clock
    from ._queues.node import Node

_log = logging.getLogger("amqp10.broker")

MOST_MESSAGES: Final = 10_000
MOST_BYTES: Final = 64 * 1024 * 1024
"""Messages, and their encoded bytes, that a quarantine keeps. Beyond that the oldest go; the newest always stays."""

_LONGEST_REASON: Final = 1000


@dataclass(frozen=True, slots=True)
class QuarantinedMessage:
    """A message that was set aside.

    Attributes:
        number: names it in the quarantine; never used again.
        node: the name of the queue it was in, or was to come into.
        time: when it was set aside (UTC).
        reason: type and text of the exception that it caused.
        payload: the encoded message, as it was in the queue.
        message_format: 0 for a standard AMQP message (§3.2).
        durable: it survives the broker, where there is a store.
    """

    number: int
    node: str
    time: datetime
    reason: str
    payload: bytes
    message_format: int
    durable: bool


class QuarantineJournal(ABC):
    """Keeps the durable messages of a quarantine, so that they survive the broker; told at once, in the same pass."""

    @abstractmethod
    def added(self, message: QuarantinedMessage) -> None:
        """Record that a durable message was set aside; its queue has forgotten it in the same pass."""

    @abstractmethod
    def removed(self, message: QuarantinedMessage) -> None:
        """Record that a durable message was released or dropped, or made room for a newer one."""


Release = Callable[[QuarantinedMessage, "Node | None", "str | None"], None]


class Quarantine:
    """The messages that a broker has set aside, the oldest first: iterate over it, or take one by its number.

    It is bounded: beyond 10,000 messages or 64 MiB the oldest are dropped, with a warning in the log. The newest is
    always kept, whatever its size. What comes back from a store is not counted, and stays until somebody releases or
    drops it.

    Attributes:
        journal: told of durable messages that come and go; None where there is no store.
    """

    journal: QuarantineJournal | None = None

    def __init__(
        self,
        release: Release,
        *,
        most_messages: int = MOST_MESSAGES,
        most_bytes: int = MOST_BYTES,
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

    def __len__(self) -> int:
        return len(self._messages)

    def __iter__(self) -> Iterator[QuarantinedMessage]:
        return iter(list(self._messages.values()))

    def __getitem__(self, number: int) -> QuarantinedMessage:
        """Return the message with that number.

        Raises:
            KeyError: no message in the quarantine has that number.
        """
        return self._messages[number]

    @property
    def size(self) -> int:
        """The encoded size of all messages in it."""
        return self._size

    def release(self, number: int, to: str | None = None) -> None:
        """Put a message back into its queue, at the end, as if it came now; its failed attempts are forgotten.

        If it causes the same fault again, it is set aside again, under a new number.

        Args:
            number: of the message.
            to: the address where it is to go instead, such as "errors" or "/exchanges/NAME/KEY"; made if need be.

        Raises:
            KeyError: there is no message of that number.
            ValueError: the queue is gone or full, or the address leads nowhere; the message stays here.
        """
        message = self._messages[number]
        self._release(message, self._nodes.get(number), to)
        if number in self._messages:  # it may have been set aside again, and as the oldest have made room for itself
            self._remove(message)

    def drop(self, number: int) -> None:
        """Forget a message.

        Raises:
            KeyError: there is no message of that number.
        """
        self._remove(self._messages[number])

    # What the broker asks for

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
        """Take a message that caused `error`; whoever had it forgets it.

        Args:
            name: of the node that it was in.
            node: that node itself, where it is there: a subscription is no address, so only this finds it again.
        """
        reason = f"{type(error).__name__}: {error}"[:_LONGEST_REASON]
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
        """Take what the journal had kept of the broker before, or could not restore; in order of number."""
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
