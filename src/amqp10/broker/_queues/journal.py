"""What a queue, or another part of a broker, tells the store."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .message import QueuedMessage


class QueueJournal(ABC):
    """Records what happens to the durable messages of one queue.

    Attributes:
        number: the queue's number in the store.
        dropped: whether the queue was deleted, which makes all its records void.
    """

    __slots__ = ()

    number: int
    dropped: bool

    @abstractmethod
    def record(self, entry: QueuedMessage) -> None:
        """Record that a message came or went; peers are told of it only when that is on the disk."""

    def record_run(self, entries: Sequence[QueuedMessage]) -> None:
        """Record many messages as `record` does."""
        for entry in entries:
            self.record(entry)

    @abstractmethod
    def rewritten(self, entry: QueuedMessage) -> None:
        """Record that the payload of a message has changed."""

    @abstractmethod
    def record_lazily(self, entry: QueuedMessage) -> None:
        """Record that a consumer has a message; nobody waits for that to be on the disk."""

    def record_run_lazily(self, entries: Sequence[QueuedMessage]) -> None:
        """Record many messages as `record_lazily` does."""
        for entry in entries:
            self.record_lazily(entry)

    @abstractmethod
    def came_back(self, entry: QueuedMessage) -> None:
        """Record that a consumer gave a message back, which may have come before the queue was kept."""

    def came_back_run(self, entries: Sequence[QueuedMessage]) -> None:
        """Record many messages as `came_back` does."""
        for entry in entries:
            self.came_back(entry)

    @abstractmethod
    def drop(self) -> None:
        """Record that the queue is deleted with its messages."""


class Records(Protocol):
    """Keeps values by keys, for something that is not a queue."""

    def put(self, key: str, form: Callable[[], bytes], *, lazily: bool = False) -> None:
        """Keep a value, replacing the key's old one.

        Args:
            form: returns the value when it is written; called once for all changes since the last commit.
            lazily: whether peers need not wait until the value is on the disk.
        """

    def remove(self, key: str) -> None:
        """Remove a value, if there is one."""

    def drop(self) -> None:
        """Remove all values."""
