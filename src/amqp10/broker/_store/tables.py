"""The tables of a store, row by row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import starmap
from typing import Any, Final, NamedTuple, TypeVar, get_args, get_type_hints

from ..._sqlite import Database, Format

_TOPOLOGY: Final = """
        CREATE TABLE declarations (
            number INTEGER PRIMARY KEY,
            auto_delete INTEGER NOT NULL,
            arguments BLOB NOT NULL);
        CREATE TABLE exchanges (
            number INTEGER PRIMARY KEY,
            name TEXT NOT NULL UNIQUE,
            kind TEXT NOT NULL,
            auto_delete INTEGER NOT NULL,
            internal INTEGER NOT NULL,
            arguments BLOB NOT NULL);
        CREATE TABLE bindings (
            number INTEGER PRIMARY KEY,
            exchange TEXT NOT NULL,
            to_exchange INTEGER NOT NULL,
            destination TEXT NOT NULL,
            key TEXT NOT NULL,
            arguments BLOB NOT NULL);"""

_BRANCHES: Final = """
        CREATE TABLE branches (
            number INTEGER PRIMARY KEY,
            identity TEXT,
            format INTEGER NOT NULL,
            global_id BLOB NOT NULL,
            branch_id BLOB NOT NULL);
        CREATE TABLE work (
            branch INTEGER NOT NULL,
            place INTEGER NOT NULL,
            node INTEGER NOT NULL,
            message INTEGER,
            outcome BLOB,
            format INTEGER,
            failures INTEGER,
            expires REAL,
            payload BLOB,
            PRIMARY KEY (branch, place)) WITHOUT ROWID;"""

_QUARANTINE: Final = """
        CREATE TABLE quarantine (
            number INTEGER PRIMARY KEY,
            node TEXT NOT NULL,
            moment REAL NOT NULL,
            reason TEXT NOT NULL,
            format INTEGER NOT NULL,
            payload BLOB NOT NULL,
            origin TEXT,
            content BLOB);"""

_RECORDS: Final = """
        CREATE TABLE records (
            number INTEGER PRIMARY KEY,
            owner TEXT NOT NULL,
            key TEXT NOT NULL,
            content BLOB NOT NULL,
            UNIQUE (owner, key));"""

_CLOCK: Final = """
        CREATE TABLE clock (
            number INTEGER PRIMARY KEY,
            ahead REAL NOT NULL);"""

_FORMAT: Final = Format(
    "the store of a broker",
    application=0x616D7170,  # "amqp"
    version=8,
    upgrades={
        1: _TOPOLOGY,
        2: "ALTER TABLE messages ADD COLUMN arrived REAL;",
        3: _BRANCHES,
        4: _QUARANTINE,
        5: "ALTER TABLE messages ADD COLUMN place INTEGER;",
        6: _RECORDS,
        7: _CLOCK,
    },
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
            payload BLOB NOT NULL,
            arrived REAL,
            place INTEGER);
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
            PRIMARY KEY (link, tag)) WITHOUT ROWID;"""
    + _TOPOLOGY
    + _BRANCHES
    + _QUARANTINE
    + _RECORDS
    + _CLOCK,
)

_CACHE: Final = 16_384
"""KiB of the file that SQLite caches, so that the page of a message need not be read again when it is removed soon."""

_LOG_PAGES: Final = 4000
"""Pages (16 MiB) in the log at which SQLite copies it into the file: a page that changes often is copied only once.

A commit is durable in the log, and does not wait for this copying.
"""


class NodeRow(NamedTuple):
    """A queue or a topic."""

    number: int
    name: str
    kind: str


class DeclarationRow(NamedTuple):
    """The declaration of a queue; a queue that nobody declared has no such row. The arguments are an encoded map."""

    number: int
    auto_delete: bool
    arguments: bytes


class ExchangeRow(NamedTuple):
    """A declared exchange; predeclared ones have no row."""

    number: int
    name: str
    kind: str
    auto_delete: bool
    internal: bool
    arguments: bytes


class BindingRow(NamedTuple):
    """A binding of an exchange to a queue or to another exchange, by their names."""

    number: int
    exchange: str
    to_exchange: bool
    destination: str
    key: str
    arguments: bytes


class SubscriptionRow(NamedTuple):
    """A durable subscription: its key (`owned`: not global), the encoded source, and when it ends (time of day)."""

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
    """A message of a queue or subscription; the order of numbers is that of the queue.

    `expires` is a time of day in seconds. Messages of streams also have `arrived`, a time of day, and `place`, their
    offset; those written before version 6 have the offset only in their annotations, if at all.
    """

    number: int
    queue: int
    format: int
    failures: int
    held: bool
    expires: float | None
    payload: bytes
    arrived: float | None
    place: int | None = None


class LinkRow(NamedTuple):
    """A resumable link; `node` is None for the anonymous terminus."""

    number: int
    identity: str | None
    container: str
    name: str
    direction: str
    node: int | None
    policy: str
    timeout: int


class DeliveryRow(NamedTuple):
    """An unsettled delivery of a link: the number of a consumer's message, or the encoded outcome for a producer."""

    link: int
    tag: bytes
    message: int | None
    outcome: bytes | None


class BranchRow(NamedTuple):
    """A prepared branch of a distributed transaction, and its user."""

    number: int
    identity: str | None
    format: int
    global_id: bytes
    branch_id: bytes


class WorkRow(NamedTuple):
    """One step of committing a branch: a message of the node gets an outcome, or a new message comes to the node."""

    branch: int
    place: int
    node: int
    message: int | None
    outcome: bytes | None
    format: int | None
    failures: int | None
    expires: float | None
    payload: bytes | None


class RecordRow(NamedTuple):
    """A value by key, of something that is not a queue."""

    number: int
    owner: str
    key: str
    content: bytes


class QuarantineRow(NamedTuple):
    """A message in quarantine since `moment`, a time of day.

    A row that could not be restored has the name of its table in `origin`, and its columns in `content` as an encoded
    map. If it is not a message, the payload is a message with this map as its body.
    """

    number: int
    node: str
    moment: float
    reason: str
    format: int
    payload: bytes
    origin: str | None
    content: bytes | None


class ClockRow(NamedTuple):
    """The seconds by which the time of day has jumped ahead, in all, since the store was made.

    Moments in the rows of messages, subscriptions and work are by a time of day that has never jumped.
    """

    number: int
    ahead: float


_TABLES: Final[dict[type[tuple[Any, ...]], tuple[str, str]]] = {
    NodeRow: ("nodes", "number"),
    DeclarationRow: ("declarations", "number"),
    ExchangeRow: ("exchanges", "number"),
    BindingRow: ("bindings", "number"),
    SubscriptionRow: ("subscriptions", "number"),
    MessageRow: ("messages", "number"),
    LinkRow: ("links", "number"),
    DeliveryRow: ("deliveries", "link, message"),
    BranchRow: ("branches", "number"),
    WorkRow: ("work", "branch, place"),
    QuarantineRow: ("quarantine", "number"),
    RecordRow: ("records", "owner, key"),
    ClockRow: ("clock", "number"),
}
"""The table of each kind of row, and the columns that give the order in which its rows are read."""
_INSERTS: Final = {
    kind: f"INSERT OR REPLACE INTO {table} VALUES ({', '.join('?' * len(kind.__annotations__))})"
    for kind, (table, _) in _TABLES.items()
}
_REMOVED: Final[dict[type[tuple[Any, ...]], tuple[str, ...]]] = {
    NodeRow: (
        *("messages WHERE queue = ?", "subscriptions WHERE number = ?"),
        *("nodes WHERE number = ?", "declarations WHERE number = ?"),
    ),
    ExchangeRow: ("exchanges WHERE number = ?",),
    BindingRow: ("bindings WHERE number = ?",),
    MessageRow: ("messages WHERE number = ?",),
    LinkRow: ("deliveries WHERE link = ?", "links WHERE number = ?"),
    DeliveryRow: ("deliveries WHERE link = ? AND tag = ?",),
    BranchRow: ("work WHERE branch = ?", "branches WHERE number = ?"),
    QuarantineRow: ("quarantine WHERE number = ?",),
    RecordRow: ("records WHERE owner = ? AND key = ?",),
}
"""What is removed by the key of a row: the row, and the rows of other tables that belong to it."""
_KEYS: Final = {
    # `_sqlite` says why: a file from elsewhere may have the tag as text.
    "deliveries": "link = ? AND CAST(tag AS BLOB) = CAST(? AS BLOB)",
    "work": "branch = ? AND place = ?",
}
"""Conditions for one row by its first columns, for tables without a number."""

Row = TypeVar("Row", bound=tuple[Any, ...])


def table_of(kind: type[tuple[Any, ...]]) -> str:
    """Return the name of the table for a kind of row."""
    return _TABLES[kind][0]


def check_row(row: tuple[Any, ...]) -> None:
    """Check that the values of a row have the types of its columns, because SQLite takes any value in any column.

    Raises:
        TypeError: a value has the wrong type.
    """
    for name, value, types in zip(columns_of(row), row, _types(type(row)), strict=True):
        if not isinstance(value, types):
            raise TypeError(f"{name} cannot be {value!r:.60}")


def columns_of(row: tuple[Any, ...]) -> Iterable[str]:
    """Return the names of the columns of a row."""
    return type(row).__annotations__


@cache
def _types(kind: type) -> list[tuple[type, ...]]:
    return [get_args(hint) or ((int,) if hint is bool else (hint,)) for hint in get_type_hints(kind).values()]


class StoreFile(Database):
    """An open store.

    Raises:
        StoreError: the file cannot be opened, is in use, is damaged, or is not a store.
    """

    def __init__(self, path: str) -> None:
        super().__init__(path, _FORMAT)
        self.run(f"PRAGMA cache_size = -{_CACHE}")
        self.run(f"PRAGMA wal_autocheckpoint = {_LOG_PAGES}")

    def rows(self, kind: type[Row]) -> Iterator[Row]:
        """Read all rows of a kind."""
        table, order = _TABLES[kind]
        return starmap(kind, self.run(f"SELECT * FROM {table} ORDER BY {order}"))

    def highest(self) -> int:
        """Return the highest number of a row."""
        tables = ("nodes", "subscriptions", "messages", "links", "exchanges", "bindings", "branches")
        return max(int(self.run(f"SELECT coalesce(max(number), 0) FROM {table}").fetchone()[0]) for table in tables)

    def put(self, kind: type[tuple[Any, ...]], rows: Iterable[tuple[Any, ...]]) -> None:
        """Write rows of a kind, each as a tuple of its columns."""
        self.run_many(_INSERTS[kind], rows)

    def mark_messages(self, marks: Iterable[tuple[int, bool, int]]) -> None:
        """Set `failures` and `held` of messages: (failures, held, number)."""
        self.run_many("UPDATE messages SET failures = ?, held = ? WHERE number = ?", marks)

    def remove(self, kind: type[tuple[Any, ...]], keys: Sequence[tuple[Any, ...]]) -> None:
        """Remove rows by their keys, with what belongs to them, such as the messages of a queue."""
        for rows in _REMOVED[kind]:
            self.run_many(f"DELETE FROM {rows}", keys)

    def remove_owners(self, owners: Iterable[tuple[str]]) -> None:
        """Remove all values of these owners."""
        self.run_many("DELETE FROM records WHERE owner = ?", owners)

    def remove_rows(self, rows: Iterable[tuple[Any, ...]]) -> None:
        """Remove rows that could not be restored."""
        for row in rows:
            table = table_of(type(row))
            condition = _KEYS.get(table, "number = ?")
            self.run(f"DELETE FROM {table} WHERE {condition}", row[: condition.count("?")])
