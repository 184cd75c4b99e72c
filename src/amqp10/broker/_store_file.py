"""The file of a store: an SQLite database, its tables, and whether it is one of ours at all.

The journal is a write-ahead log, for a commit is then one write and one fsync; `synchronous=FULL` makes it return
after the fsync. The lock is exclusive and kept until the file is closed: nobody else has any business in it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import NamedTuple

from ..errors import StoreError

# "amqp" at a fixed place of the file tells it from other SQLite databases.
_APPLICATION = 0x616D7170
_VERSION = 1
_SCHEMA = """
    CREATE TABLE nodes (
        number INTEGER PRIMARY KEY,
        name TEXT NOT NULL UNIQUE,
        kind TEXT NOT NULL);
    CREATE TABLE subscriptions (
        number INTEGER PRIMARY KEY,
        topic TEXT NOT NULL,
        owned INTEGER NOT NULL,
        identity TEXT,
        container TEXT,
        name TEXT NOT NULL,
        kind TEXT NOT NULL,
        source BLOB NOT NULL,
        deadline REAL);
    CREATE TABLE messages (
        number INTEGER PRIMARY KEY,
        queue INTEGER NOT NULL,
        format INTEGER NOT NULL,
        failures INTEGER NOT NULL,
        held INTEGER NOT NULL,
        expires REAL,
        payload BLOB NOT NULL);
"""


class NodeRow(NamedTuple):
    """A queue or a topic."""

    number: int
    name: str
    kind: str


class SubscriptionRow(NamedTuple):
    """A durable subscription: its key (`owned`: not a global one), the encoded source, when it ends (time of day)."""

    number: int
    topic: str
    owned: bool
    identity: str | None
    container: str | None
    name: str
    kind: str
    source: bytes
    deadline: float | None


class MessageRow(NamedTuple):
    """A message of a queue or subscription; by number they are in order. `expires` is time of day, in seconds."""

    number: int
    queue: int
    format: int
    failures: int
    held: bool
    expires: float | None
    payload: bytes


class StoreFile:
    """An open store.

    Between `begin` and `commit` or `rollback` other methods write; what they raise is `sqlite3.Error`.

    Raises:
        StoreError: the file cannot be opened, is in use, is damaged, or is something else.
    """

    def __init__(self, path: str) -> None:
        try:
            # `commit` may be called in another thread, and nothing else is at the time.
            self._database = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
        except sqlite3.Error as error:
            raise StoreError(f"{path}: {error}") from error
        try:
            self._check(path)
        except sqlite3.Error as error:
            self._database.close()
            raise StoreError(f"{path}: {_reason(error)}") from error
        except BaseException:
            self._database.close()
            raise

    def _check(self, path: str) -> None:
        run = self._database.execute
        run("PRAGMA locking_mode = EXCLUSIVE")
        run("BEGIN EXCLUSIVE")
        application, version = self._pragma("application_id"), self._pragma("user_version")
        if not application and not run("SELECT 1 FROM sqlite_master").fetchone():
            for statement in _SCHEMA.split(";"):
                run(statement)
            run(f"PRAGMA application_id = {_APPLICATION}")
            run(f"PRAGMA user_version = {_VERSION}")
        elif application != _APPLICATION:
            raise StoreError(f"{path}: a database, but not the store of a broker")
        elif version != _VERSION:
            raise StoreError(f"{path}: a store of version {version}; this is version {_VERSION}")
        run("COMMIT")
        run("PRAGMA journal_mode = WAL")
        run("PRAGMA synchronous = FULL")
        found = self._pragma("quick_check(1)")
        if found != "ok":
            raise StoreError(f"{path}: the store is damaged: {found}")

    def _pragma(self, name: str) -> object:
        with closing(self._database.execute(f"PRAGMA {name}")) as cursor:
            return cursor.fetchone()[0]

    # Reading

    def nodes(self) -> Iterator[NodeRow]:
        return map(NodeRow._make, self._database.execute("SELECT * FROM nodes ORDER BY number"))

    def subscriptions(self) -> Iterator[SubscriptionRow]:
        return map(SubscriptionRow._make, self._database.execute("SELECT * FROM subscriptions ORDER BY number"))

    def messages(self) -> Iterator[MessageRow]:
        return map(MessageRow._make, self._database.execute("SELECT * FROM messages ORDER BY number"))

    def highest(self) -> int:
        """The highest number that a row has."""
        tables = ("nodes", "subscriptions", "messages")
        run = self._database.execute
        return max(int(run(f"SELECT coalesce(max(number), 0) FROM {table}").fetchone()[0]) for table in tables)

    # Writing

    def begin(self) -> None:
        self._database.execute("BEGIN")

    def put_nodes(self, rows: Iterable[NodeRow]) -> None:
        self._database.executemany("INSERT OR REPLACE INTO nodes VALUES (?, ?, ?)", rows)

    def put_subscriptions(self, rows: Iterable[SubscriptionRow]) -> None:
        self._database.executemany("INSERT OR REPLACE INTO subscriptions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)

    def put_messages(self, rows: Iterable[MessageRow]) -> None:
        self._database.executemany("INSERT OR REPLACE INTO messages VALUES (?, ?, ?, ?, ?, ?, ?)", rows)

    def mark_messages(self, marks: Iterable[tuple[int, bool, int]]) -> None:
        """Change failures and held of the message with a number."""
        self._database.executemany("UPDATE messages SET failures = ?, held = ? WHERE number = ?", marks)

    def remove_messages(self, numbers: Iterable[tuple[int]]) -> None:
        self._database.executemany("DELETE FROM messages WHERE number = ?", numbers)

    def remove_queues(self, numbers: Iterable[tuple[int]]) -> None:
        """Queues and subscriptions with what is in them."""
        for number in numbers:
            for table, column in (("messages", "queue"), ("subscriptions", "number"), ("nodes", "number")):
                self._database.execute(f"DELETE FROM {table} WHERE {column} = ?", number)

    def commit(self) -> None:
        """On return it is on the disk. May be called in another thread."""
        self._database.execute("COMMIT")

    def rollback(self) -> None:
        # Some errors have rolled back already.
        if self._database.in_transaction:
            self._database.execute("ROLLBACK")

    def close(self) -> None:
        self._database.close()


def _reason(error: sqlite3.Error) -> str:
    match getattr(error, "sqlite_errorcode", 0) & 0xFF:
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return "the store is in use, by another process or another broker of this one"
        case sqlite3.SQLITE_NOTADB:
            return "not the store of a broker"
        case sqlite3.SQLITE_CORRUPT:
            return f"the store is damaged: {error}"
        case _:
            return str(error)
