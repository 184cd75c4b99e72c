"""Unsettled deliveries in a file, so that links are resumed by the next process."""

from __future__ import annotations

import itertools
import sqlite3
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.to_thread

from ..._arguments import checked
from ..._sqlite import Database, Format
from ...errors import DecodeError, StoreError
from ...types import decode_composite, encode
from .store import LinkKey, MemoryDeliveryStore, StoredDelivery

if TYPE_CHECKING:
    from ...messaging import Outcome

_FORMAT: Final = Format(
    "a store of deliveries",
    application=0x616D7163,  # "amqc"
    version=1,
    schema="""
        CREATE TABLE deliveries (
            number INTEGER PRIMARY KEY,
            container TEXT NOT NULL,
            link TEXT NOT NULL,
            role TEXT NOT NULL,
            tag BLOB NOT NULL,
            format INTEGER NOT NULL,
            payload BLOB NOT NULL,
            outcome BLOB);
    """,
)


@checked
class SQLiteDeliveryStore(MemoryDeliveryStore):
    """Keeps deliveries in an SQLite file; on the return of `commit` they are on the disk.

        with SQLiteDeliveryStore("deliveries.db") as store:
            async with Connection(url, container_id="orders-1", delivery_store=store) as connection: ...

    What came since the last commit is one transaction, for all links and connections that use the store: many
    messages share one fsync, which is done in a thread. What came and was settled in between is never written.

    Args:
        path: the file; made if it is not there. One store at a time.

    Raises:
        StoreError: it cannot be opened, is in use, is damaged, or is something else.
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        super().__init__()
        self._path = fspath(path)
        self._numbers = itertools.count(1)
        self._rows: dict[StoredDelivery, int] = {}  # in the file, or being written to it
        self._unwritten: dict[StoredDelivery, LinkKey] = {}
        self._deleted: list[int] = []
        self._changes = 0  # how often something was told
        self._committed = 0  # what `_changes` was at the last commit
        self._busy: anyio.Event | None = None  # set when the commit that is under way has ended
        self._file = Database(self._path, _FORMAT)
        try:
            self._load()
        except (DecodeError, sqlite3.Error) as error:
            self._file.close()
            raise StoreError(f"{self._path}: {error}") from error

    def __repr__(self) -> str:
        return f"<SQLiteDeliveryStore {self._path}>"

    def _load(self) -> None:
        row: Any
        for row in self._file.run("SELECT * FROM deliveries ORDER BY number"):
            number, container, link, role, tag, message_format, payload, outcome = row
            state: Any = decode_composite(outcome)[0] if outcome is not None else None
            delivery = StoredDelivery(tag, payload, message_format, state)
            self._links.setdefault(LinkKey(container, link, role), {})[tag] = delivery
            self._rows[delivery] = number
            self._numbers = itertools.count(number + 1)

    def outcome(self, link: LinkKey, tag: bytes, outcome: Outcome) -> None:
        encode(outcome)  # it is kept in this form
        super().outcome(link, tag, outcome)

    def _added(self, link: LinkKey, delivery: StoredDelivery) -> None:
        self._unwritten[delivery] = link
        self._changes += 1

    def _removed(self, delivery: StoredDelivery) -> None:
        if self._unwritten.pop(delivery, None) is None:
            self._deleted.append(self._rows.pop(delivery))
        self._changes += 1

    async def commit(self) -> None:
        """Return when all that was told before this call is on the disk.

        Raises:
            StoreError: it is not: a full disk, for one. It is tried again by the next call.

        Cancelling: what was told stays told; a commit that has begun is not cut off.
        """
        changes = self._changes
        while self._committed < changes:
            if self._busy is not None:
                await self._busy.wait()
                continue
            self._busy = anyio.Event()
            try:
                await self._commit()
            finally:
                self._busy.set()
                self._busy = None

    async def _commit(self) -> None:
        unwritten, deleted, changes = self._begin()
        try:
            with anyio.CancelScope(shield=True):
                # Not in line behind what the program does in threads.
                await anyio.to_thread.run_sync(self._file.commit, limiter=anyio.CapacityLimiter(1))
        except sqlite3.Error as error:
            raise self._failed(error, unwritten, deleted) from error
        self._committed = changes

    def _begin(self) -> tuple[dict[StoredDelivery, LinkKey], list[int], int]:
        unwritten, deleted = self._unwritten, self._deleted
        # Formed first: whatever raises here, nothing is forgotten.
        rows = [self._row(link, delivery) for delivery, link in unwritten.items()]
        self._unwritten, self._deleted = {}, []
        self._rows.update((delivery, row[0]) for delivery, row in zip(unwritten, rows, strict=True))
        try:
            self._file.begin()
            self._file.run_many("INSERT INTO deliveries VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
            self._file.run_many("DELETE FROM deliveries WHERE number = ?", [(number,) for number in deleted])
        except sqlite3.Error as error:
            raise self._failed(error, unwritten, deleted) from error
        return unwritten, deleted, self._changes

    def _row(self, link: LinkKey, delivery: StoredDelivery) -> tuple[Any, ...]:
        outcome = encode(delivery.outcome) if delivery.outcome is not None else None
        place = (next(self._numbers), link.container_id, link.name, link.role)
        return (*place, delivery.tag, delivery.message_format, delivery.payload, outcome)

    def _failed(self, error: sqlite3.Error, unwritten: dict[StoredDelivery, LinkKey], deleted: list[int]) -> StoreError:
        """Mark all of it as unwritten, so that the next commit writes what has not gone since."""
        again = {delivery: link for delivery, link in unwritten.items() if self._rows.pop(delivery, None) is not None}
        self._unwritten = again | self._unwritten
        self._deleted = deleted + self._deleted
        try:
            self._file.rollback()
        except sqlite3.Error:
            pass  # the next begin says why
        return StoreError(f"{self._path}: {error}")

    def close(self) -> None:
        """Commit the rest, and close the file; nothing happens the second time.

        Raises:
            StoreError: the rest could not be committed; the file is closed.
        """
        try:
            if self._committed < self._changes:
                unwritten, deleted, changes = self._begin()
                try:
                    self._file.commit()
                except sqlite3.Error as error:
                    raise self._failed(error, unwritten, deleted) from error
                self._committed = changes
        finally:
            self._file.close()
