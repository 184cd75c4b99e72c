"""Files that hold messages are their owner's alone, and databases from elsewhere are not trusted."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, suppress
from pathlib import Path
from typing import Any

import pytest

from amqp10._files import create_private, private
from amqp10.client import SQLiteDeliveryStore
from amqp10.errors import StoreError

from .kit.inside.broker import MessageRow, StoreFile

posix = pytest.mark.skipif(os.name != "posix", reason="there are no such rights here")

Open = Callable[[Path], AbstractContextManager[Any]]
KINDS: dict[str, Open] = {
    "broker": lambda path: closing(StoreFile(str(path))),
    "deliveries": lambda path: closing(SQLiteDeliveryStore(path)),
}


@pytest.fixture
def usual_umask() -> Iterator[None]:
    """Everybody may read what is created without further ado."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture(params=list(KINDS))
def opened(request: pytest.FixtureRequest) -> Open:
    return KINDS[request.param]


def rights(folder: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}


@posix
def test_created_for_the_owner(
    tmp_path: Path, usual_umask: None, opened: Open, caplog: pytest.LogCaptureFixture
) -> None:
    """The file of a store and its log have the rights 0600 from the beginning: none had to be taken away."""
    with opened(tmp_path / "store"):
        found = rights(tmp_path)
        assert found == {"store": 0o600, "store-wal": 0o600}
    assert not caplog.records


@posix
def test_rights_are_taken_away(
    tmp_path: Path, usual_umask: None, opened: Open, caplog: pytest.LogCaptureFixture
) -> None:
    """A store of before that others may read is theirs no more; the log says so."""
    path = tmp_path / "store"
    with opened(path):
        pass
    path.chmod(0o664)
    with opened(path):
        assert rights(tmp_path) == {"store": 0o600, "store-wal": 0o600}
    with opened(path):
        pass
    said = {each.getMessage() for each in caplog.records if each.name == "amqp10.files"}
    assert said == {
        f"{path}{suffix}: others than its owner could read or write it (mode 664); now they cannot"
        for suffix in ("", "-wal")
    }
    assert len(caplog.records) == len(said)


@posix
def test_log_of_a_crash(tmp_path: Path, usual_umask: None) -> None:
    """A log that a crash left behind is made private with its file."""
    path = tmp_path / "store"
    with closing(StoreFile(str(path))) as file:
        file.begin()
        file.put(MessageRow, [MessageRow(1, 1, 0, 0, False, None, b"secret", None)])
        file.commit()
        copies = {each.name: each.read_bytes() for each in tmp_path.iterdir()}
    crashed = tmp_path / "crashed"
    crashed.mkdir()
    for name, content in copies.items():
        (crashed / name).write_bytes(content)
    with closing(StoreFile(str(crashed / "store"))) as file:
        assert [each.payload for each in file.rows(MessageRow)] == [b"secret"]
        assert rights(crashed) == {"store": 0o600, "store-wal": 0o600}


@posix
def test_others_files_keep_their_rights(tmp_path: Path, usual_umask: None, opened: Open) -> None:
    """A file that is something else is left as it is."""
    path = tmp_path / "theirs"
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE theirs (x)")
    with pytest.raises(StoreError, match="but not"):
        opened(path).__enter__()
    assert rights(tmp_path) == {"theirs": 0o644}


@posix
@pytest.mark.parametrize("linked", [False, True])
def test_what_is_no_regular_file(tmp_path: Path, opened: Open, linked: bool) -> None:
    """A pipe, or a device such as /dev/null, is refused before anything is done to it: its rights stay as they were."""
    path = tmp_path / "store"
    os.mkfifo(tmp_path / "pipe" if linked else path)
    if linked:
        path.symlink_to("pipe")
    path.chmod(0o666)
    with pytest.raises(StoreError, match="store: not a regular file"), opened(path):
        pytest.fail("it is no file")
    assert set(rights(tmp_path).values()) == {0o666}
    assert len(rights(tmp_path)) == 1 + linked


@posix
def test_through_a_link(tmp_path: Path, usual_umask: None) -> None:
    """A symbolic link to a file that is not there yet makes that file, for its owner."""
    (tmp_path / "link").symlink_to(tmp_path / "real")
    create_private(str(tmp_path / "link"))
    assert rights(tmp_path)["real"] == 0o600


@posix
def test_private_files(tmp_path: Path, usual_umask: None) -> None:
    """What is opened so is created for its owner."""
    with open(tmp_path / "file", "xb", opener=private):
        assert rights(tmp_path) == {"file": 0o600}


FOREIGN = {
    "view 'deliveries'": "DROP TABLE deliveries; CREATE VIEW deliveries AS "
    "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n",
    "trigger 'spy'": "CREATE TRIGGER spy AFTER INSERT ON deliveries BEGIN DELETE FROM deliveries; END",
    "table 'more'": "CREATE TABLE more (x)",
    "index 'shortcut'": "CREATE INDEX shortcut ON deliveries (tag)",
    "table 'deliveries'": "DROP TABLE deliveries; CREATE TABLE deliveries (number TEXT, tag TEXT)",
    "table 'deliveries' is missing": "DROP TABLE deliveries",
}


@pytest.mark.parametrize("octets", [b"\xff", b"\0", b"("])
def test_damaged_octets_of_definitions(tmp_path: Path, opened: Open, octets: bytes) -> None:
    """A store is refused wherever its definitions have such an octet, whatever SQLite and Python make of it."""
    path = tmp_path / "store"
    with opened(path):
        pass
    whole = path.read_bytes()
    begin = whole.index(b"tabledeliveriesdeliveries")
    for at in range(begin - 4, begin + 30):
        path.write_bytes(whole[:at] + octets + whole[at + 1 :])
        with suppress(StoreError), opened(path):  # blanks and sizes may be such that nothing is different
            pass
    path.write_bytes(whole[:begin] + octets + whole[begin + 1 :])
    with pytest.raises(StoreError), opened(path):
        pass


@pytest.mark.parametrize("named", FOREIGN)
def test_foreign_definitions(tmp_path: Path, opened: Open, named: str) -> None:
    """A store that defines what ours does not is refused before anything of it runs, and what it is is named."""
    path = tmp_path / "store"
    with opened(path):
        pass
    with closing(sqlite3.connect(path)) as other:
        other.executescript(FOREIGN[named])
    before = path.read_bytes()
    with pytest.raises(StoreError, match=f"with contents that this program never writes: {named}"):
        opened(path).__enter__()
    assert path.read_bytes() == before


def test_foreign_definitions_of_an_earlier_version(tmp_path: Path) -> None:
    """They are found before the file is made one of this version."""
    path = tmp_path / "store"
    StoreFile(str(path)).close()
    with closing(sqlite3.connect(path)) as other:
        other.executescript(
            "CREATE TRIGGER spy AFTER INSERT ON messages BEGIN DELETE FROM messages; END; PRAGMA user_version = 1"
        )
    with pytest.raises(StoreError, match="trigger 'spy'"):
        StoreFile(str(path))
    with closing(sqlite3.connect(path)) as other:
        assert other.execute("PRAGMA user_version").fetchone() == (1,)


def test_analyzed(tmp_path: Path, opened: Open) -> None:
    """What SQLite itself adds, when somebody has it look at the tables, is no harm."""
    path = tmp_path / "store"
    with opened(path):
        pass
    with closing(sqlite3.connect(path)) as other:
        other.executescript("ANALYZE; VACUUM")
        assert other.execute("SELECT name FROM sqlite_master WHERE name = 'sqlite_stat1'").fetchall()
    with opened(path):
        pass


def test_defenses(tmp_path: Path) -> None:
    """The settings with which SQLite defends itself against a file."""
    with closing(StoreFile(str(tmp_path / "store"))) as file:
        found = {name: file.pragma(name) for name in ("trusted_schema", "cell_size_check", "mmap_size")}
        assert found == {"trusted_schema": 0, "cell_size_check": 1, "mmap_size": 0}
