"""Qpid's JMS client, in AMQP 0-10, against the embedded broker; against Broker-J to know that the tests are right."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from amqp10 import Connection, Message

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
    pytest.mark.capability("AMQP 0-10"),
]


@pytest.fixture(params=["broker_j", "embedded"])
def server(request: pytest.FixtureRequest) -> Server:
    """Both brokers that speak 0-10, in turn."""
    found: Server = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def jms(qpid_client: Kept) -> Client:
    """The client in 0-10."""
    return partial(qpid_client.run, "0-10")


def url(server: Server) -> str:
    """As the client spells it."""
    port = server.url().rpartition(":")[2]
    return f"amqp://user:secret@test/?brokerlist='tcp://localhost:{port}'"


def line(number: int, size: int, redelivered: bool = False) -> dict[str, Any]:
    body = f"message {number}".ljust(size, "x")[:20]
    size = max(size, 9)
    return {"body": body, "size": size, "redelivered": redelivered, "n": number, "correlation": f"c{number}"}


async def test_it_sends(server: Server, jms: Client, address: str) -> None:
    """What it sends arrives in order and whole, with its properties, here in 0-10 and in 1.0."""
    size = 200_000
    assert await jms("send", url(server), address, 4, size) == [{"outcome": "accepted"}] * 4
    for dialect, numbers in (("0-10", (0, 1)), ("1.0", (2, 3))):
        async with Connection(server.url(), dialect=dialect) as connection:
            async with connection.receiver(address, credit=2) as receiver:
                for number in numbers:
                    with await receiver.receive() as message:
                        assert bytes(message.body) == f"message {number}".encode().ljust(size, b"x")
                        assert message.correlation_id == f"c{number}"
                        assert message.application_properties["n"] == number
                        assert message.application_properties["text"] == f"t{number}"


@pytest.mark.parametrize("dialect", ["0-10", "1.0"])
async def test_it_receives(server: Server, jms: Client, address: str, dialect: str) -> None:
    """What we send in either dialect arrives at it, with its properties; what it accepts is gone."""
    async with Connection(server.url(), dialect=dialect) as connection:
        async with connection.sender(address) as sender:
            for number in range(3):
                body = f"message {number}".encode()
                await sender.send(Message(body, correlation_id=f"c{number}", application_properties={"n": number}))
            taken = await jms("receive", url(server), address, 3, "accept")
            assert taken == [line(number, 9) for number in range(3)]
            await sender.send("the next")
        async with connection.receiver(address) as receiver:
            with await receiver.receive() as message:
                assert message.body == "the next"


async def test_it_selects(server: Server, jms: Client, address: str) -> None:
    """Its selector is ours."""
    async with Connection(server.url(), dialect="0-10") as connection, connection.sender(address) as sender:
        for number in range(3):
            await sender.send(
                Message(f"message {number}".encode(), correlation_id=f"c{number}", application_properties={"n": number})
            )
        assert await jms("receive", url(server), address, 1, "accept", "n = 2") == [line(2, 9)]


async def test_its_transactions(server: Server, jms: Client, address: str) -> None:
    """What it commits is there, what it rolls back is not; what it received and rolled back comes again."""
    await jms("transact", url(server), address, 2, "commit")
    await jms("transact", url(server), address, 2, "rollback")
    assert await jms("receive", url(server), address, 2, "rollback") == [line(0, 9), line(1, 9)]
    again = await jms("receive", url(server), address, 2, "accept")
    assert again == [line(0, 9, redelivered=True), line(1, 9, redelivered=True)]
    async with Connection(server.url(), dialect="0-10") as connection:
        facts = await connection.native.queue(address)
        assert facts is not None
        assert facts.messages == 0
