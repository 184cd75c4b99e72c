"""The driver's own connection: there between calls, back after a loss, and gone with the process."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("pyspark")


from amqp10 import Connection, ConnectionLost
from amqp10.spark import Options
from amqp10.spark._connection.driver_connection import DriverConnection


async def itself(connection: Connection) -> Connection:
    return connection


def test_it_stays_and_comes_back(broker_url: str) -> None:
    """Two calls have one connection; after it was lost the next has another."""
    driver_connection = DriverConnection(Options.parse({"url": broker_url}))
    first = driver_connection.call(itself)
    assert driver_connection.call(itself) is first

    async def lose(connection: Connection) -> str:
        if connection is first:
            raise ConnectionLost("as if")
        return "came back"

    assert driver_connection.call(lose) == "came back"
    driver_connection.close()


def test_it_does_not_keep_its_process() -> None:
    """Nobody closes it where Spark ends its process after an error: that process ends all the same."""
    program = """
from amqp10.spark import Options
from amqp10.spark._connection.driver_connection import DriverConnection

async def there(connection):
    return connection.open

DriverConnection(Options.parse({"url": "amqp://127.0.0.1:1", "connectTimeout": "0.1"})).call(there)
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=50, check=False)
    assert ended.stderr.splitlines()[-1].startswith("amqp10.errors.ConnectionLost: cannot connect")
    assert ended.returncode == 1
