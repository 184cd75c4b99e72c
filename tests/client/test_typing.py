"""What a type checker says of the client: mypy checks these tests, and fails where `assert_type` does not hold."""

from __future__ import annotations

import inspect
from typing import assert_type

from amqp10 import Connection, ConnectionSettings, Receiver, Sender, Session, Transaction


def test_the_settings_of_a_connection() -> None:
    """`**settings: Unpack[ConnectionSettings]` has the arguments of `Connection`, with their types."""
    _, *arguments = inspect.signature(Connection).parameters.values()
    types = {each.name: each.annotation for each in arguments}
    keys = {name: hint.__forward_arg__ for name, hint in ConnectionSettings.__annotations__.items()}
    assert (keys.pop("dialect"), types.pop("dialect")) == ("DialectName | str", "DialectT")
    assert list(keys.items()) == list(types.items())


def test_the_connection_of_links() -> None:
    """It is the one that the user holds, and makes further links whose types are known."""
    connection = Connection("amqp://localhost")
    sender, receiver, session = connection.sender("q"), connection.receiver("q"), connection.session()
    for each in (sender, receiver, session):
        assert each.connection is connection
        assert_type(each.connection, Connection)
        assert_type(each.connection.sender("q"), Sender)
        assert_type(each.connection.receiver("q"), Receiver)
        assert_type(each.connection.transaction(), Transaction)
    assert_type(session, Session)
    assert_type(session.sender("q"), Sender)
