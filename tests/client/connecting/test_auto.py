"""`dialect="auto"`: the connection speaks the highest dialect that its server does."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from unittest.mock import Mock

import pytest
from anyio.abc import ByteStream

from amqp10 import Connection, Message, Unsupported
from amqp10.broker import Broker
from amqp10.engine import Dialect, dialect
from amqp10.net import ask

from ...kit.inside.net import probe

pytestmark = pytest.mark.anyio

V1_0 = dialect("1.0")


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that is slow to answer on a busy machine is not taken for one that does not speak the dialect."""
    monkeypatch.setattr(probe, "ask", partial(ask, wait=60.0))


async def test_speaks_what_the_server_speaks(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that the server does not know is passed over; the name and the capabilities are those of the one taken."""
    newer = replace(V1_0, name="2.0", headers=(b"AMQP\x00\x02\x00\x00",))

    def known() -> list[Dialect]:
        return [newer, V1_0]

    monkeypatch.setattr("amqp10.client._connecting.supervisor.dialects", known)
    async with Broker() as broker:
        connection = Connection(broker.url, dialect="auto")
        assert (connection.dialect, connection.capabilities) == ("auto", frozenset())
        async with connection, connection.sender("orders") as sender:
            assert (connection.dialect, connection.capabilities) == ("1.0", V1_0.capabilities)
            await sender.send(Message("here"))


@pytest.mark.parametrize(
    ("spoken", "taken"),
    [(["fast"], "fast"), (["fast", "0-9-1"], "0-9-1"), (["0-9-1", "0-10"], "0-10"), (["0-9-1", "1.0", "fast"], "1.0")],
)
async def test_takes_the_highest_of_several(spoken: list[str], taken: str) -> None:
    """Of the dialects that a broker speaks, whatever it answers strangers with."""
    async with Broker(dialects=spoken) as broker, Connection(broker.url, dialect="auto") as connection:
        assert connection.dialect == taken
        async with connection.sender("orders") as sender:
            await sender.send(Message("here"))


async def test_a_broker_speaks_what_it_is_told_to() -> None:
    """One that is named and not spoken is refused; none at all makes no broker."""
    async with Broker(dialects=["1.0"]) as broker:
        with pytest.raises(Unsupported):
            await Connection(broker.url, dialect="0-9-1").__aenter__()
    with pytest.raises(ValueError, match="one or more dialects"):
        Broker(dialects=[])


async def test_unknown_name() -> None:
    """The names of dialects are checked before anything is connected."""
    with pytest.raises(Unsupported, match="no dialect '3'"):
        Connection("amqp://localhost", dialect="3")


async def test_not_over_a_stream() -> None:
    """A stream that is given can be used once: what is spoken on it is to be named."""
    with pytest.raises(ValueError, match="the dialect cannot be detected"):
        Connection.over(Mock(ByteStream), dialect="auto")
