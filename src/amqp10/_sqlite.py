"""SQLite files of the package: opened by one owner at a time, told from other files, durable when a commit returns.

The journal is a write-ahead log, so that a commit is one write and one fsync; `synchronous=FULL` makes it return
after the fsync. The lock is exclusive and held until the file is closed, because no other process should use the file.

A file may come from elsewhere and is not trusted: its definitions are compared with the schema before any use, because
SQLite would run its triggers on writes and read its views in place of tables.

If the log is removed while the file is open, the next commit makes it again (`Database.begin`). A process that is
killed before has lost the log: its octets end with the last descriptor, and looking at idle times would only shorten
that time.

Files hold messages, so only their owner may read them. SQLite gives the log the mode of the file.

A forked child must not use the file either, nor close its copy of the connection: SQLite would take it for the last
one, and remove the log that the parent still writes.
"""

from __future__ import annotations

import ctypes
import os
import re
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, NoReturn
from weakref import WeakSet

from ._files import create_private, make_private
from .errors import StoreError


@dataclass(frozen=True, slots=True)
class Format:
    """The kind of a file.

    Attributes:
        name: the name in errors, such as "the store of a broker".
        application: SQLite's `application_id`, which tells the file from other databases.
        version: version of the schema. A file of another version is refused, unless `upgrades` leads to this one.
        schema: statements that create the tables.
        upgrades: for a version, the statements that upgrade a file to the next version.
    """

    name: str
    application: int
    version: int
    schema: str
    upgrades: Mapping[int, str] = field(default_factory=dict)


class Database:
    """An open file. `run` and `run_many` write between `begin` and `commit` or `rollback`; all raise `sqlite3.Error`.

    Raises:
        StoreError: the file cannot be opened, is in use, is damaged, or is something else.
    """

    def __init__(self, path: str, form: Format) -> None:
        if "\0" in path:
            raise StoreError(f"the path of {form.name} must not have NUL, as {path!r:.200} has")
        create_private(path)
        file = os.path.abspath(path)  # SQLite takes "" and ":memory:" for databases that end with the process
        if os.path.exists(file) and not os.path.isfile(file):
            # SQLite would write to a device, and what takes rights from others would take those to the device.
            raise StoreError(f"{path or file}: not a regular file, so it cannot be {form.name}")
        try:
            # `commit` may run in another thread, while no other call is made.
            self._connection = sqlite3.connect(file, timeout=0, isolation_level=None, check_same_thread=False)
        except sqlite3.Error as error:
            raise StoreError(f"{path}: {_reason(error, form, file)}") from error
        self.run = self._connection.execute
        self.run_many = self._connection.executemany
        self._connection.text_factory = _text
        self._file = file
        self._log = f"{os.path.realpath(file)}-wal"  # SQLite follows links
        _open.add(self)
        try:
            self._check(path, form)
            self._identity = os.stat(file)
            self._log_identity = self._stat_log()
        except sqlite3.Error as error:
            self.close()
            raise StoreError(f"{path}: {_reason(error, form, file)}") from error
        except (
            UnicodeDecodeError
        ) as error:  # Python could not read the text of an error of SQLite, which quotes the file
            self.close()
            raise StoreError(f"{path}: {form.name} is damaged: its definitions are not UTF-8") from error
        except BaseException:
            self.close()
            raise

    def _check(self, path: str, form: Format) -> None:
        run = self.run
        self._distrust()
        run("PRAGMA locking_mode = EXCLUSIVE")
        run("BEGIN EXCLUSIVE")
        application, version = self.pragma("application_id"), int(self.pragma("user_version"))
        if not application and not run("SELECT 1 FROM sqlite_master").fetchone():
            self._make(form.schema, form.version)
            run(f"PRAGMA application_id = {form.application}")
            version = form.version
        elif application != form.application:
            raise StoreError(f"{path}: a database, but not {form.name}")
        self._refuse_foreign(path, form, version)
        while version != form.version and version in form.upgrades:
            self._make(form.upgrades[version], version := version + 1)
        if version != form.version:
            raise StoreError(f"{path}: {form.name}, of version {version}; this is version {form.version}")
        self._refuse_foreign(path, form, version)
        for suffix in ("", "-wal", "-shm", "-journal"):
            make_private(path + suffix)
        run("COMMIT")
        run("PRAGMA journal_mode = WAL")
        run("PRAGMA synchronous = FULL")
        run("PRAGMA fullfsync = ON")  # for macOS, where fsync alone does not reach the disk
        found = self.pragma("quick_check(1)")
        if found != "ok":
            raise StoreError(f"{path}: {form.name} is damaged: {found}")

    def _distrust(self) -> None:
        """Make SQLite distrust the file, as far as this version of SQLite and Python can."""
        self.run("PRAGMA trusted_schema = OFF")
        self.run("PRAGMA cell_size_check = ON")
        self.run("PRAGMA mmap_size = 0")
        for name, value in (("DEFENSIVE", True), ("ENABLE_TRIGGER", False), ("ENABLE_VIEW", False)):
            option = getattr(sqlite3, f"SQLITE_DBCONFIG_{name}", None)  # since Python 3.12
            if option is not None:
                self._connection.setconfig(option, value)  # type: ignore[attr-defined, unused-ignore]

    def _refuse_foreign(self, path: str, form: Format, version: int) -> None:
        """Refuse a file whose definitions differ from the schema; a file of an earlier version may only have tables."""
        ours = _definitions(form.schema)
        foreign = []
        for (kind, name), sql in self._definitions().items():
            if version != form.version:
                good = kind == "table" and "virtual table" not in sql.lower()
            else:
                good = ours.pop((kind, name), None) == sql
            if not good:
                foreign.append(f"{kind} {name!r:.60}")
        if foreign or (version == form.version and ours):
            missing = [f"{kind} {name!r} is missing" for kind, name in ours] if not foreign else []
            raise StoreError(
                f"{path}: {form.name}, but with contents that this program never writes: "
                f"{', '.join(foreign + missing)}; it was changed by something else, or made to deceive"
            )

    def _definitions(self) -> dict[tuple[str, str], str]:
        rows = self.run("SELECT type, name, sql FROM sqlite_master")
        return {(kind, name): _plain(sql) for kind, name, sql in rows if not _is_sqlites(kind, name, sql)}

    def _make(self, statements: str, version: int) -> None:
        for statement in statements.split(";"):
            self.run(statement)
        self.run(f"PRAGMA user_version = {version}")

    def pragma(self, name: str) -> int | str:
        """Return the value of a pragma."""
        with closing(self.run(f"PRAGMA {name}")) as cursor:
            value: int | str = cursor.fetchone()[0]
            return value

    def begin(self) -> None:
        if self._log_is_gone() and self._is_here():
            self._make_log_again()
        self.run("BEGIN")

    def commit(self) -> None:
        """Write the transaction to the disk. Another thread may call this.

        SQLite would go on writing a file or a log that was removed, and what is written there would be gone with the
        process.
        """
        if not self._is_here():
            raise sqlite3.OperationalError("the file was moved or removed while it was open: put it back")
        if self._log_is_gone():
            raise sqlite3.OperationalError("the log was removed while it was open; the next commit makes it again")
        self.run("COMMIT")

    def _is_here(self) -> bool:
        try:
            there = os.stat(self._file)
        except OSError:
            return False
        return there.st_ino == self._identity.st_ino and there.st_dev == self._identity.st_dev

    def _stat_log(self) -> os.stat_result | None:
        try:
            return os.stat(self._log)
        except OSError:
            return None

    def _log_is_gone(self) -> bool:
        before = self._log_identity
        if before is None:
            return False
        try:
            there = os.stat(self._log)
        except OSError:
            return True
        return there.st_ino != before.st_ino or there.st_dev != before.st_dev

    def _make_log_again(self) -> None:
        """Copy the log, which SQLite still reads, into the file, and begin another log."""
        with closing(self.run("PRAGMA wal_checkpoint(TRUNCATE)")) as cursor:
            busy, _, _ = cursor.fetchone()
        if busy or self.pragma("journal_mode = DELETE") != "delete" or self.pragma("journal_mode = WAL") != "wal":
            raise sqlite3.OperationalError("the log was removed while it was open, and cannot be made again")
        self.pragma("user_version")  # SQLite makes the log when it first reads
        self._log_identity = self._stat_log()

    def empty_log(self) -> None:
        """Copy the log into the file, and give its room back to the disk. Another thread may call this."""
        self.pragma("wal_checkpoint(TRUNCATE)")

    def rollback(self) -> None:
        # Some errors have already rolled back.
        if self._connection.in_transaction:
            self.run("ROLLBACK")

    def close(self) -> None:
        _open.discard(self)
        self._connection.close()

    def _let_go(self) -> None:
        """Drop the connection in a forked child without closing it: it belongs to the parent."""
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._connection))
        self._connection = _Nothing()  # type: ignore[assignment]
        self.run = self.run_many = _not_ours


_open: WeakSet[Database] = WeakSet()


class _Nothing:
    """Replaces the connection in a forked child. It never calls SQLite, as another thread may have been in a call."""

    in_transaction = False

    def close(self) -> None: ...


def _not_ours(*_: Any) -> NoReturn:
    raise sqlite3.ProgrammingError("the file is open in the process that this one was forked from")


def _in_child() -> None:
    for database in list(_open):
        database._let_go()
    _open.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


def _definitions(schema: str) -> dict[tuple[str, str], str]:
    """Return the definitions that `Database` reads from a file made by the statements `schema`."""
    with closing(sqlite3.connect(":memory:")) as database:
        database.executescript(schema)
        rows = database.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
    return {(kind, name): _plain(sql) for kind, name, sql in rows if not _is_sqlites(kind, name, sql)}


def _text(octets: bytes) -> str | bytes:
    """Return `octets` as text, or unchanged if they are not UTF-8: one such row does not make the table unreadable."""
    try:
        return octets.decode()
    except UnicodeDecodeError:
        return octets


def _is_sqlites(kind: object, name: object, sql: object) -> bool:
    """Return True for objects that SQLite creates itself: indexes of unique columns, and the statistics of ANALYZE."""
    return (kind == "index" and sql is None) or (kind == "table" and str(name).startswith("sqlite_stat"))


def _plain(sql: object) -> str:
    """Return a definition without meaningless blanks, since a column added later has fewer of them.

    In a damaged file it may be anything.
    """
    return re.sub(r" ?([(),]) ?", r"\1", " ".join(str(sql or "").split()))


def _reason(error: sqlite3.Error, form: Format, file: str) -> str:
    match getattr(error, "sqlite_errorcode", 0) & 0xFF:
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return f"{form.name} is in use, in another process or in this one"
        case sqlite3.SQLITE_NOTADB:
            return f"not {form.name}"
        case sqlite3.SQLITE_CORRUPT:
            return f"{form.name} is damaged: {error}"
        case sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_IOERR | sqlite3.SQLITE_READONLY:
            return f"{error}{_cure(file)}"
        case _:
            return str(error)


def _cure(file: str) -> str:
    """Say what keeps this process from writing a file, if that is seen without opening it (see `create_private`)."""
    folder = os.path.dirname(os.path.realpath(file))
    if not os.path.isdir(folder):
        return f": make its directory, {folder}"
    if os.path.exists(file) and not os.access(file, os.R_OK | os.W_OK):
        return ": this user must be able to read and write it, on a file system that is not read-only"
    if not os.access(folder, os.W_OK | os.X_OK):
        return f": this user must be able to write into {folder}, where a log is made beside it"
    return ""
