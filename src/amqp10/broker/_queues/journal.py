"""What a queue, or something else of a broker, tells the store that keeps it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from .message import QueuedMessage


class QueueJournal(ABC):
    """Records what happens to the durable messages of one queue.

    Attributes:
        number: the queue's number in the store.
        dropped: the queue is deleted, and all that was recorded of it is void.
    """

    __slots__ = ()

    number: int
    dropped: bool

    @abstractmethod
    def record(self, entry: QueuedMessage) -> None:
        """Record that a message came or went; no peer is told of it before that is on the disk."""

    @abstractmethod
    def rewritten(self, entry: QueuedMessage) -> None:
        """Record that the payload of a message has changed."""

    @abstractmethod
    def record_lazily(self, entry: QueuedMessage) -> None:
        """Record that a consumer has a message; nobody waits for that to be on the disk."""

    @abstractmethod
    def came_back(self, entry: QueuedMessage) -> None:
        """Record that a consumer gave a message back; it may have come before the queue was kept."""

    @abstractmethod
    def drop(self) -> None:
        """Record that the queue is deleted, with what is in it."""


class Records(ABC):
    """Keeps what something that is no queue has to remember: values, each by a key."""

    @abstractmethod
    def put(self, key: str, form: Callable[[], bytes], *, lazily: bool = False) -> None:
        """Keep a value, in place of the one that the key had.

        Args:
            form: makes the value, as soon as it is written; once for all changes since the last time.
            lazily: no peer has to wait until that is on the disk.
        """

    @abstractmethod
    def remove(self, key: str) -> None:
        """Remove a value, if there is one."""

    @abstractmethod
    def drop(self) -> None:
        """Remove all values."""
