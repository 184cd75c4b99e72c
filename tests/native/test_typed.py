"""The types of `connection.native`: mypy checks this file, and fails where `assert_type` does not hold."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any, assert_type

import pytest
from anyio.abc import ByteStream

from amqp10 import Connection, ConnectionSettings, Message, Unsupported, amqp010, amqp091, amqpfast, sync
from amqp10.broker import Broker
from amqp10.engine import QueueFacts


def test_a_native_api_has_its_type() -> None:
    """`connection.native` has the type of the dialect that the program names, and is what `native` returns."""
    older = Connection("amqp://localhost", dialect="0-9-1")
    assert_type(older.native, amqp091.Native)
    assert_type(amqp091.native(older), amqp091.Native)
    assert amqp091.native(older) is older.native
    assert_type(Connection("amqp://localhost", dialect="0-9").native, amqp091.Native)
    assert_type(Connection("amqp://localhost", dialect="0-9-draft").native, amqp091.Native)
    middle = Connection("amqp://localhost", dialect="0-10")
    assert_type(middle.native, amqp010.Native)
    assert_type(amqp010.native(middle), amqp010.Native)
    assert amqp010.native(middle) is middle.native
    fast = Connection("amqp://localhost", dialect="fast")
    assert_type(fast.native, amqpfast.Native)
    assert_type(amqpfast.native(fast), amqpfast.Native)
    assert amqpfast.native(fast) is fast.native


def test_a_dialect_that_is_not_named() -> None:
    """Of a connection whose dialect a setting has, `amqp091.native` says the type."""
    for name in ("0-9-1", "0-9", "0-9-draft"):
        connection: Connection = Connection("amqp://localhost", dialect=str(name))
        assert_type(connection.native, Any)
        assert_type(amqp091.native(connection), amqp091.Native)
        assert amqp091.native(connection) is connection.native


class Subclass(Connection[str]):
    """A connection of the user's own class."""

    def __init__(self, host: str, port: int) -> None:
        super().__init__(f"amqp://{host}:{port}")


def test_a_class_of_the_user() -> None:
    """It stays itself, with arguments of its own."""
    assert_type(Subclass("localhost", 5672), Subclass)


async def given(stream: ByteStream, broker: Broker, settings: ConnectionSettings) -> None:
    """Use streams that are there: only type checkers come here."""
    assert_type(Connection.over(stream, dialect="0-9-1").native, amqp091.Native)
    assert_type(Connection.over(stream, dialect="0-10", secure=True).native, amqp010.Native)
    assert_type(Connection.over(stream, dialect="fast").native, amqpfast.Native)
    assert_type(Connection.over(stream, "amqp://me:pw@host", idle_timeout=5), Connection)
    assert_type(Connection.over(stream, **settings), Connection)
    assert_type(broker.connect(dialect="0-9", idle_timeout=5).native, amqp091.Native)
    assert_type(broker.connect(dialect="0-10").native, amqp010.Native)
    assert_type(broker.connect("amqp://me:pw@host", dialect="fast").native, amqpfast.Native)
    assert_type(broker.connect(dialect="1.0"), Connection)
    assert_type(broker.connect(dialect=str(stream)).native, Any)
    assert_type(broker.connect(**settings), Connection)


async def declare(url: str) -> None:
    """Declare a queue: only type checkers come here."""
    async with Connection(url, dialect="0-9-1") as connection:
        facts = await connection.native.declare_queue("orders", durable=True)
        assert_type(facts, QueueFacts)
    with sync.Connection(url, dialect="0-9-1") as waiting:
        assert_type(waiting.native.declare_queue("orders", timeout=5), QueueFacts)
        assert_type(waiting.native.get("orders"), Message | None)
    with sync.Connection(url, dialect="fast") as waiting_fast:
        assert_type(waiting_fast.native.list("orders"), amqpfast.Index)
    with sync.Connection(url, dialect="0-10") as waiting_middle, waiting_middle.native.xa() as xa:
        assert_type(xa.start(amqp010.Xid(1, b"g", b"b")), amqp010.XAStatus)


@pytest.mark.slow
def test_checkers_agree() -> None:
    """pyright knows the same types as mypy, which checks all tests: it finds no `assert_type` here that fails."""
    run = subprocess.run(
        [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, __file__],
        env={**os.environ, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout


def test_another_dialect() -> None:
    """An API that the connection's dialect does not have is refused, with the names of both."""
    connection = Connection("amqp://localhost", dialect="0-10")
    with pytest.raises(Unsupported, match="the connection speaks '0-10'; this API needs 0-9-1, 0-9 and "):
        amqp091.native(connection)
    with pytest.raises(Unsupported, match=r"dialect '1\.0' has no native API; amqp10.rabbitmq.management declares"):
        amqp010.native(Connection("amqp://localhost"))
