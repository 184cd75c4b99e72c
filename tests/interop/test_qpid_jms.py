"""Qpid's JMS client in AMQP 0-9-1 and 0-9 against the embedded broker; and Broker-J, to know that the tests are right.

In AMQP 0-10 it is asked in test_amqp_0_10_clients.py.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from amqp10 import Connection, Message
from amqp10.types import Int

from ._matrix import Embedded
from .brokers import Server
from .clients import Kept

Client = Callable[..., Awaitable[list[dict[str, Any]]]]

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    # It says nothing about our event loop: one backend is enough.
    pytest.mark.parametrize("anyio_backend", ["trio"]),
    pytest.mark.capability("embedded broker"),
]


@pytest.fixture(params=["broker_j", "embedded"])
def server(request: pytest.FixtureRequest) -> Server:
    """Both brokers that speak 0-9, in turn."""
    found: Server = request.getfixturevalue(request.param)
    return found


@pytest.fixture(params=["0-91", "0-9"])
def jms(request: pytest.FixtureRequest, qpid_client: Kept) -> Client:
    """The client, in each version."""
    return partial(qpid_client.run, request.param)


def url(server: Server | Embedded) -> str:
    """As the client spells it."""
    port = server.url().rpartition(":")[2]
    return f"amqp://user:secret@test/?brokerlist='tcp://localhost:{port}?sasl_mechs='PLAIN''&sync_publish='all'"


def line(number: int, size: int = 9, *, redelivered: bool = False) -> dict[str, Any]:
    """What the client prints of a message."""
    body = f"message {number}".ljust(size, "x")[:20]
    size = max(size, 9)
    return {"body": body, "size": size, "redelivered": redelivered, "n": number, "correlation": f"c{number}"}


@pytest.mark.parametrize("size", [9, 1_000_000])
async def test_there_and_back(server: Server, jms: Client, address: str, size: int) -> None:
    """What it sends, confirmed one by one, it receives in order and whole; what it acknowledged is gone."""
    await jms("send", url(server), address, 3, size)
    assert await jms("receive", url(server), address, 3, "accept") == [line(number, size) for number in range(3)]
    await jms("send", url(server), address, 1, 9)
    assert await jms("receive", url(server), address, 1, "accept") == [line(0)]


async def test_rolled_back(server: Server, jms: Client, address: str) -> None:
    """What it sends and rolls back never was; what it receives and rolls back comes again, marked."""
    await jms("transact", url(server), address, 3, "rollback")
    await jms("transact", url(server), address, 2, "commit")
    assert await jms("receive", url(server), address, 2, "rollback") == [line(0), line(1)]
    again = [line(number, redelivered=True) for number in range(2)]
    assert await jms("receive", url(server), address, 2, "accept") == again


async def test_beside_1_0(embedded: Embedded, jms: Client, address: str) -> None:
    """It and a client of 1.0 understand each other: bodies, properties, correlation."""
    await jms("send", url(embedded), address, 1, 9)
    async with Connection(embedded.url()) as connection:
        async with connection.receiver(address) as receiver:
            with await receiver.receive() as message:
                assert (message.body, message.correlation_id) == (b"message 0", "c0")
                assert (message.application_properties["n"], message.application_properties["text"]) == (0, "t0")
        async with connection.sender(address) as sender:
            await sender.send(Message(b"message 0", correlation_id="c0", application_properties={"n": Int(0)}))
    assert await jms("receive", url(embedded), address, 1, "accept") == [line(0)]
