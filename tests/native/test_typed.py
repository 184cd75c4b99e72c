"""The types of `connection.native`: mypy checks this file, and fails where `assert_type` does not hold."""

from __future__ import annotations

from typing import assert_type

import pytest

from amqp10 import Connection, Unsupported, amqp010, amqp091, amqpfast


def test_a_native_api_has_its_type() -> None:
    """It is the object that `connection.native` is, whichever name of the dialect was given."""
    for name in ("0-9-1", "0-9", "0-9-draft"):
        connection = Connection("amqp://localhost", dialect=name)
        older = amqp091.native(connection)
        assert_type(older, amqp091.Native)
        assert older is connection.native
    connection = Connection("amqp://localhost", dialect="0-10")
    assert_type(amqp010.native(connection), amqp010.Native)
    assert amqp010.native(connection) is connection.native
    connection = Connection("amqp://localhost", dialect="fast")
    assert_type(amqpfast.native(connection), amqpfast.Native)
    assert amqpfast.native(connection) is connection.native


def test_another_dialect() -> None:
    """An API that the connection's dialect does not have is refused, with the names of both."""
    connection = Connection("amqp://localhost", dialect="0-10")
    with pytest.raises(Unsupported, match="the connection speaks '0-10'; this API needs 0-9-1, 0-9 and "):
        amqp091.native(connection)
    with pytest.raises(Unsupported, match=r"dialect '1\.0' has no native API"):
        amqp010.native(Connection("amqp://localhost"))
