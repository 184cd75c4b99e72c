"""What the engines of all dialects share."""

from __future__ import annotations

import pytest

from amqp10.engine import ConnectionEnded, ConnectionTerms, Engine, dialect
from amqp10.errors import ConnectionLost, LocalProtocolError
from amqp10.sasl import Authenticator

DIALECTS = ["1.0", "0-9-1", "0-10", "fast"]


def engines(name: str) -> tuple[Engine, Engine]:
    """Return a client and a server that have not begun."""
    spoken = dialect(name)
    authenticator = Authenticator(None, anonymous=True).for_connection(secure=True)
    return spoken.client(ConnectionTerms("c"), None, True), spoken.server(ConnectionTerms("s"), authenticator)


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("role", [0, 1])
def test_opened_twice(name: str, role: int) -> None:
    """A connection is opened once; the second time raises, whatever has come of the first."""
    engine = engines(name)[role]
    engine.start()
    engine.open()
    with pytest.raises(LocalProtocolError, match="opened already"):
        engine.open()


@pytest.mark.parametrize("name", DIALECTS)
def test_a_server_that_opens_early(name: str) -> None:
    """A server may open before its client has asked to: it answers when the client does."""
    client, server = engines(name)
    for engine in (client, server):
        engine.start()
        engine.open()
    for _ in range(8):
        server.receive_data(client.data_to_send())
        client.receive_data(server.data_to_send())
    assert client.opened
    assert server.opened


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("role", [0, 1])
def test_the_transport_ends(name: str, role: int) -> None:
    """The end of the transport ends the connection once, and opening it afterwards does nothing."""
    engine = engines(name)[role]
    engine.start()
    engine.receive_eof()
    engine.receive_eof()
    (ended,) = [event for event in engine.events() if isinstance(event, ConnectionEnded)]
    assert isinstance(ended.error, ConnectionLost)
    engine.open()
    assert engine.events() == []
