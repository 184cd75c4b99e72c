"""The programs that remember what they have done are killed, at their worst moments, and do each thing once."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import anyio
import pytest

from amqp10 import Connection
from amqp10.testing import BackgroundBroker

from .kit.processes.programs import run_program

EXAMPLES = Path(__file__).parent.parent / "examples"


def without_its_end(name: str) -> str:
    """Return a program without its last statement, which runs it with a file of its own."""
    return (EXAMPLES / name).read_text().partition("\nwith tempfile.")[0]


def kill(name: str, dying: str, url: str, path: Path) -> None:
    """Run a program that kills itself by what `dying` changes in it."""
    code = f"import os, signal\n{without_its_end(name)}\n{dying}\nanyio.run(main, URL, Path(sys.argv[2]))\n"
    done = subprocess.run([sys.executable, "-c", code, url, str(path)], timeout=120, check=False, capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()


def again(name: str, url: str, path: Path) -> str:
    """Run a program as it is, on a file that is there."""
    code = f"{without_its_end(name)}\nanyio.run(main, URL, Path(sys.argv[2]))\n"
    return run_program(code, name, url, str(path))


def count(path: Path, table: str) -> int:
    with closing(sqlite3.connect(path)) as database:
        (found,) = database.execute(f"SELECT COUNT(*) FROM {table}").fetchone()
    return int(found)


WITHIN = """
class Dying(sqlite3.Connection):
    def execute(self, statement, *parameters):
        if "INTO bookings" in statement:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().execute(statement, *parameters)

connect = sqlite3.connect
sqlite3.connect = lambda path: connect(path, factory=Dying)
"""
AFTER = """
class Account(Account):
    def book(self, message):
        super().book(message)
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize(("dying", "booked"), [(WITHIN, 0), (AFTER, 1)], ids=["within", "after"])
def test_inbox(dying: str, booked: int, tmp_path: Path) -> None:
    """A process that is killed within the transaction, or before it accepts, books the payment once all the same."""
    path = tmp_path / "account.db"
    with BackgroundBroker() as broker:
        kill("inbox.py", dying, broker.url, path)
        assert count(path, "bookings") == count(path, "inbox") == booked
        assert broker.queue("payments").depth == 2  # neither message is lost
        assert again("inbox.py", broker.url, path) == "the balance is 10\n" * 2
        assert count(path, "bookings") == 1


NOT_DELETED = """
class Shop(Shop):
    def sent(self, last):
        os.kill(os.getpid(), signal.SIGKILL)
"""
NOT_SENT = """
async def relay(shop, sender):
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize(("dying", "ids"), [(NOT_DELETED, [1, 2, 1, 2, 3, 4]), (NOT_SENT, [1, 2, 3, 4])])
def test_outbox(dying: str, ids: list[int], tmp_path: Path) -> None:
    """A process that is killed before or after it sends loses no message; what comes twice has the same id."""
    path = tmp_path / "shop.db"

    async def received(url: str) -> list[str]:
        async with Connection(url) as connection, connection.browser("outbox-orders") as browser:
            return [str(each.message.message_id) async for each in browser]

    with BackgroundBroker() as broker:
        kill("outbox.py", dying, broker.url, path)
        assert count(path, "orders") == count(path, "outbox") == 2
        written = again("outbox.py", broker.url, path)
        assert written == "order-1 is tea\norder-2 is cake\n"
        assert count(path, "outbox") == 0
        left = anyio.run(received, broker.url)
    assert ["order-1", "order-2", *left] == [f"order-{number}" for number in ids]
