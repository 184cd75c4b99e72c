"""The changes of a store that are not in its file yet."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Protocol

from .._queues.journal import QueueJournal
from .tables import NodeRow

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .._queues.message import QueuedMessage
    from .._retained.links import ResumableLink
    from .._retained.subscriptions import RetainedSubscription


@dataclass(slots=True, eq=False)
class StoredLink:
    """A link in the store, with what it holds by tag: the message of a consumer, or the outcome sent to a producer."""

    number: int
    link: ResumableLink
    held: dict[bytes, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Changes:
    """Changes that are not in the file yet; rows are formed when they are written.

    Attributes:
        noted: how many changes were noted since the broker's start that peers have to wait for.
        rows: rows that do not change until they are written.
        removed: rows to remove, each by its kind and number.
        unrestored: rows that could not be restored.
    """

    noted: int = 0
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    removed: list[tuple[type[tuple[Any, ...]], int]] = field(default_factory=list)
    subscriptions: dict[RetainedSubscription, None] = field(default_factory=dict)
    messages: dict[QueuedMessage, StoredQueue] = field(default_factory=dict)
    rewritten: set[QueuedMessage] = field(default_factory=set)
    links: dict[StoredLink, None] = field(default_factory=dict)
    deliveries: dict[tuple[StoredLink, bytes], None] = field(default_factory=dict)
    unrestored: list[tuple[Any, ...]] = field(default_factory=list)
    records: dict[tuple[StoredRecords, str], Callable[[], bytes] | None] = field(default_factory=dict)  # None: removed
    emptied: list[str] = field(default_factory=list)  # owners of records

    def _by_kind(self) -> list[Any]:
        return [getattr(self, name) for name in _KINDS]

    def __bool__(self) -> bool:
        return any(self._by_kind())

    def before(self, later: Changes) -> Changes:
        """Return these changes, which could not be written, merged with later ones."""
        pairs = zip(self._by_kind(), later._by_kind(), strict=True)
        return Changes(later.noted, *(one + other if isinstance(one, list) else one | other for one, other in pairs))


_KINDS = tuple(each.name for each in fields(Changes) if each.name != "noted")


class ChangeRecorder(Protocol):
    """Collects changes until they are written.

    Attributes:
        changes: what is not in the file yet.
    """

    changes: Changes

    def number(self, above: int = 0) -> int:
        """Return a number above `above` that no row has."""

    def note(self) -> None:
        """Record a change that must be on the disk before any peer is told of it."""

    def wake(self) -> None:
        """Start writing the changes."""


class StoredQueue(QueueJournal):
    """Records what happens to the durable messages of one queue."""

    __slots__ = ("_recorder", "dropped", "number")

    def __init__(self, recorder: ChangeRecorder, number: int) -> None:
        self._recorder = recorder
        self.number = number
        self.dropped = False

    def record(self, entry: QueuedMessage) -> None:
        recorder = self._recorder
        if not entry.row:
            entry.row = recorder.number()
        recorder.changes.messages[entry] = self
        recorder.note()

    def record_run(self, entries: Sequence[QueuedMessage]) -> None:
        recorder = self._recorder
        for entry in entries:
            if not entry.row:
                entry.row = recorder.number()
        recorder.changes.messages.update(dict.fromkeys(entries, self))
        if entries:
            recorder.note()

    def rewritten(self, entry: QueuedMessage) -> None:
        self._recorder.changes.rewritten.add(entry)
        self.record(entry)

    def record_lazily(self, entry: QueuedMessage) -> None:
        recorder = self._recorder
        recorder.changes.messages[entry] = self
        recorder.wake()

    def record_run_lazily(self, entries: Sequence[QueuedMessage]) -> None:
        self._recorder.changes.messages.update(dict.fromkeys(entries, self))
        if entries:
            self._recorder.wake()

    def came_back(self, entry: QueuedMessage) -> None:
        if entry.row:
            self.record_lazily(entry)
        else:
            self.record(entry)

    def came_back_run(self, entries: Sequence[QueuedMessage]) -> None:
        self.record_run_lazily([entry for entry in entries if entry.row])
        self.record_run([entry for entry in entries if not entry.row])

    def drop(self) -> None:
        self.dropped = True
        self._recorder.changes.removed.append((NodeRow, self.number))
        self._recorder.note()


class StoredRecords:
    """Records the values of one owner.

    Attributes:
        dropped: whether all of them are void.
    """

    __slots__ = ("_recorder", "dropped", "owner")

    def __init__(self, recorder: ChangeRecorder, owner: str) -> None:
        self._recorder = recorder
        self.owner = owner
        self.dropped = False

    def put(self, key: str, form: Callable[[], bytes], *, lazily: bool = False) -> None:
        self._recorder.changes.records[self, key] = form
        if lazily:
            self._recorder.wake()
        else:
            self._recorder.note()

    def remove(self, key: str) -> None:
        self._recorder.changes.records[self, key] = None
        self._recorder.note()

    def drop(self) -> None:
        self.dropped = True
        self._recorder.changes.emptied.append(self.owner)
        self._recorder.note()
