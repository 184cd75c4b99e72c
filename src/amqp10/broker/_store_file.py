"""The tables of a store, row by row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from .._sqlite import Database, Format

_FORMAT: Final = Format(
    "the store of a broker",
    application=0x616D7170,  # "amqp"
    version=1,
    schema="""
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
        CREATE TABLE links (
            number INTEGER PRIMARY KEY,
            identity TEXT,
            container TEXT NOT NULL,
            name TEXT NOT NULL,
            direction TEXT NOT NULL,
            node INTEGER,
            policy TEXT NOT NULL,
            timeout INTEGER NOT NULL);
        CREATE TABLE deliveries (
            link INTEGER NOT NULL,
            tag BLOB NOT NULL,
            message INTEGER,
            outcome BLOB,
            PRIMARY KEY (link, tag)) WITHOUT ROWID;
    """,
)


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


class LinkRow(NamedTuple):
    """A link that can be resumed; `node` None: that of the anonymous terminus."""

    number: int
    identity: str | None
    container: str
    name: str
    direction: str
    node: int | None
    policy: str
    timeout: int


class DeliveryRow(NamedTuple):
    """What a link holds unsettled: a consumer's the message with a number, a producer's the encoded outcome."""

    link: int
    tag: bytes
    message: int | None
    outcome: bytes | None


class StoreFile(Database):
    """An open store.

    Raises:
        StoreError: the file cannot be opened, is in use, is damaged, or is something else.
    """

    def __init__(self, path: str) -> None:
        super().__init__(path, _FORMAT)

    # Reading

    def nodes(self) -> Iterator[NodeRow]:
        return map(NodeRow._make, self.run("SELECT * FROM nodes ORDER BY number"))

    def subscriptions(self) -> Iterator[SubscriptionRow]:
        return map(SubscriptionRow._make, self.run("SELECT * FROM subscriptions ORDER BY number"))

    def messages(self) -> Iterator[MessageRow]:
        return map(MessageRow._make, self.run("SELECT * FROM messages ORDER BY number"))

    def links(self) -> Iterator[LinkRow]:
        return map(LinkRow._make, self.run("SELECT * FROM links ORDER BY number"))

    def deliveries(self) -> Iterator[DeliveryRow]:
        """In the order of their messages."""
        return map(DeliveryRow._make, self.run("SELECT * FROM deliveries ORDER BY link, message"))

    def highest(self) -> int:
        """The highest number that a row has."""
        tables = ("nodes", "subscriptions", "messages", "links")
        return max(int(self.run(f"SELECT coalesce(max(number), 0) FROM {table}").fetchone()[0]) for table in tables)

    # Writing

    def put_nodes(self, rows: Iterable[NodeRow]) -> None:
        self.run_many("INSERT OR REPLACE INTO nodes VALUES (?, ?, ?)", rows)

    def put_subscriptions(self, rows: Iterable[SubscriptionRow]) -> None:
        self.run_many("INSERT OR REPLACE INTO subscriptions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)

    def put_messages(self, rows: Iterable[MessageRow]) -> None:
        self.run_many("INSERT OR REPLACE INTO messages VALUES (?, ?, ?, ?, ?, ?, ?)", rows)

    def mark_messages(self, marks: Iterable[tuple[int, bool, int]]) -> None:
        """Change failures and held of the message with a number."""
        self.run_many("UPDATE messages SET failures = ?, held = ? WHERE number = ?", marks)

    def remove_messages(self, numbers: Iterable[tuple[int]]) -> None:
        self.run_many("DELETE FROM messages WHERE number = ?", numbers)

    def remove_queues(self, numbers: Iterable[tuple[int]]) -> None:
        """Queues and subscriptions with what is in them."""
        for number in numbers:
            for table, column in (("messages", "queue"), ("subscriptions", "number"), ("nodes", "number")):
                self.run(f"DELETE FROM {table} WHERE {column} = ?", number)

    def put_links(self, rows: Iterable[LinkRow]) -> None:
        self.run_many("INSERT OR REPLACE INTO links VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)

    def put_deliveries(self, rows: Iterable[DeliveryRow]) -> None:
        self.run_many("INSERT OR REPLACE INTO deliveries VALUES (?, ?, ?, ?)", rows)

    def remove_deliveries(self, keys: Iterable[tuple[int, bytes]]) -> None:
        """By link and tag."""
        self.run_many("DELETE FROM deliveries WHERE link = ? AND tag = ?", keys)

    def remove_links(self, numbers: Iterable[tuple[int]]) -> None:
        """Links, with what they hold."""
        for number in numbers:
            self.run("DELETE FROM deliveries WHERE link = ?", number)
            self.run("DELETE FROM links WHERE number = ?", number)
