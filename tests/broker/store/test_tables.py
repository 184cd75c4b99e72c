"""Files that are stores, and files that are none."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from amqp10.broker._store.tables import MessageRow, NodeRow, StoreFile, SubscriptionRow
from amqp10.errors import StoreError


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "store")


def test_rows_come_back(path: str) -> None:
    """What is committed is read again, what is rolled back is not."""
    with closing(StoreFile(path)) as file:
        file.begin()
        file.put(NodeRow, [NodeRow(1, "q", "queue")])
        file.put(MessageRow, [MessageRow(2, 1, 0, 3, True, 4.5, b"payload", 6.5, 7)])
        file.commit()
        file.begin()
        file.remove(MessageRow, [(2,)])
        file.rollback()
        file.rollback()
    with closing(StoreFile(path)) as file:
        assert list(file.rows(NodeRow)) == [(1, "q", "queue")]
        assert list(file.rows(MessageRow)) == [(2, 1, 0, 3, 1, 4.5, b"payload", 6.5, 7)]
        assert list(file.rows(SubscriptionRow)) == []


def test_every_commit_is_synchronous(path: str) -> None:
    """The settings on which the promise stands: a write-ahead log, FULL synchronous."""
    with closing(StoreFile(path)) as file:
        assert file.pragma("journal_mode") == "wal"
        assert file.pragma("synchronous") == 2


def test_in_use_here(path: str) -> None:
    """Two brokers of one process cannot have the same file."""
    with closing(StoreFile(path)), pytest.raises(StoreError, match="the store of a broker is in use"):
        StoreFile(path)


@pytest.mark.slow
def test_in_use_elsewhere(path: str) -> None:
    """Neither can another process."""
    program = f"from amqp10.broker._store.tables import StoreFile; StoreFile({path!r})"
    with closing(StoreFile(path)):
        ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=50)
    assert ended.stderr.splitlines()[-1].endswith("the store of a broker is in use, in another process or in this one")
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True, timeout=50)


def test_foreign_files(path: str) -> None:
    """A database of something else, and a file that is none, are left as they are."""
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE theirs (x)")
    before = Path(path).read_bytes()
    with pytest.raises(StoreError, match="not the store of a broker"):
        StoreFile(path)
    assert Path(path).read_bytes() == before
    Path(path).write_text("some text " * 1000)
    with pytest.raises(StoreError, match="not the store of a broker"):
        StoreFile(path)
    assert Path(path).read_text() == "some text " * 1000


def test_damaged(path: str) -> None:
    """A store whose pages are overwritten is refused."""
    with closing(StoreFile(path)) as file:
        file.begin()
        file.put(MessageRow, [MessageRow(n, 1, 0, 0, False, None, b"x" * 1000, None) for n in range(100)])
        file.commit()
    content = bytearray(Path(path).read_bytes())
    content[8 * 4096 : 12 * 4096] = b"\xff" * (4 * 4096)
    Path(path).write_bytes(content)
    with pytest.raises(StoreError, match="the store of a broker is damaged"):
        StoreFile(path)


def test_another_version(path: str) -> None:
    """A store of a later version is refused, and by its number."""
    StoreFile(path).close()
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA user_version = 99")
    with pytest.raises(StoreError, match="the store of a broker, of version 99; this is version 8"):
        StoreFile(path)


def put(file: StoreFile, number: int) -> None:
    file.put(MessageRow, [MessageRow(number, 1, 0, 0, False, None, b"", None, None)])


def numbers_after_kill(path: str, elsewhere: Path) -> list[int]:
    """The messages that a process would find if the one that has the file open were killed now."""
    elsewhere.mkdir()
    for each in (path, f"{path}-wal"):
        if os.path.exists(each):
            shutil.copy(each, elsewhere)
    with closing(StoreFile(str(elsewhere / Path(path).name))) as file:
        return [message.number for message in file.rows(MessageRow)]


@pytest.mark.parametrize("replaced", [False, True])
@pytest.mark.parametrize("linked", [False, True])
def test_the_log_was_removed(path: str, tmp_path: Path, replaced: bool, linked: bool) -> None:
    """Nothing is committed into a log that is gone with the process: the next one begins with what was in that."""
    name = path
    if linked:
        name = str(tmp_path / "link")
        os.symlink(path, name)
    log = Path(f"{path}-wal")

    def remove() -> None:
        log.unlink()
        if replaced:
            log.touch()

    with closing(StoreFile(name)) as file:
        file.begin()
        put(file, 1)
        file.commit()
        remove()
        file.begin()
        put(file, 2)
        file.commit()
        assert numbers_after_kill(path, tmp_path / "first") == [1, 2]
        file.begin()
        put(file, 3)
        remove()
        with pytest.raises(sqlite3.OperationalError, match="the log was removed while it was open"):
            file.commit()
        file.rollback()
        file.begin()
        put(file, 4)
        file.commit()
        assert numbers_after_kill(path, tmp_path / "second") == [1, 2, 4]
    with closing(StoreFile(name)) as file:
        assert [message.number for message in file.rows(MessageRow)] == [1, 2, 4]


def test_the_log_cannot_be_made_again(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With no room to copy it, nothing is committed, and nothing is lost: it is tried again."""
    with closing(StoreFile(path)) as file:
        file.begin()
        put(file, 1)
        file.commit()
        os.unlink(f"{path}-wal")
        with monkeypatch.context() as patch:
            patch.setattr(file, "pragma", lambda name: "wal")
            with pytest.raises(sqlite3.OperationalError, match="and cannot be made again"):
                file.begin()
        file.begin()
        put(file, 2)
        file.commit()
        assert numbers_after_kill(path, tmp_path / "killed") == [1, 2]


FORKS = """
import os, sys
from amqp10.broker._store.tables import MessageRow, StoreFile

def put(first):
    file.begin()
    file.put(MessageRow, [MessageRow(number, 1, 0, 0, False, None, b"", None) for number in range(first, first + 10)])
    file.commit()

file = StoreFile(sys.argv[1])
put(0)
if not os.fork():
    try:
        put(100)
    except Exception as error:
        print(error, flush=True)
    if sys.argv[2] == "closes":
        file.close()
    sys.exit()
os.wait()
put(10)
os.kill(os.getpid(), 9)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
@pytest.mark.parametrize("child", ["closes", "ends"])
def test_forked(path: str, child: str) -> None:
    """A child cannot write, and neither its closing nor its end takes away what the parent writes after that."""
    ended = subprocess.run([sys.executable, "-c", FORKS, path, child], capture_output=True, text=True, timeout=50)
    assert (ended.stdout, ended.stderr) == ("the file is open in the process that this one was forked from\n", "")
    with closing(StoreFile(path)) as file:
        assert [message.number for message in file.rows(MessageRow)] == list(range(20))


@pytest.mark.parametrize("name", ["", ":memory:"])
def test_names_of_databases_that_do_not_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """What SQLite would keep until the end of the process only is refused, or is the name of a file."""
    monkeypatch.chdir(tmp_path)
    if name:
        StoreFile(name).close()
        assert (tmp_path / name).stat().st_size
    else:
        with pytest.raises(StoreError, match="not a regular file"):
            StoreFile(name)


def test_nowhere(tmp_path: Path) -> None:
    """A directory that is not there is named."""
    with pytest.raises(StoreError, match=r"missing.*unable to open.*: make its directory, .*missing$"):
        StoreFile(str(tmp_path / "missing" / "store"))


def test_no_file_name() -> None:
    """A path that no file can have is refused with the rule."""
    with pytest.raises(StoreError, match=r"the path of the store of a broker must not have NUL, as 'a\\x00b' has"):
        StoreFile("a\0b")


@pytest.mark.parametrize("what", ["file", "directory"])
def test_not_to_be_written(path: str, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    """What SQLite calls an I/O error is said in words, with what to do."""
    StoreFile(path).close()
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR
    refused = path if what == "file" else os.path.dirname(path)

    def failing(*_: object) -> None:
        raise error

    monkeypatch.setattr(StoreFile, "_check", failing)
    monkeypatch.setattr(os, "access", lambda name, mode: name != refused)
    rule = "read and write it" if what == "file" else "write into .*, where a log is made beside it$"
    with pytest.raises(StoreError, match=f"disk I/O error: this user must be able to {rule}"):
        StoreFile(path)
    monkeypatch.setattr(os, "access", lambda name, mode: True)
    with pytest.raises(StoreError, match=r"disk I/O error$"):
        StoreFile(path)
