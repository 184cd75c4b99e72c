"""Independent clients against the embedded broker: sending, receiving, settling; see clients/README.md."""

from __future__ import annotations

import anyio
import pytest

from amqp10 import Connection, Error, Message, ScramSha256, Symbol
from amqp10.types import encode

from ._matrix import Embedded
from .clients import Kept, Program, ProgramFailed

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.interop,
    pytest.mark.timeout(600),
    # They say nothing about our event loop: one backend is enough.
    pytest.mark.parametrize("anyio_backend", ["trio"]),
    pytest.mark.capability("embedded broker"),
]

DEAD = "dead-letter"


def body(number: int, size: int) -> bytes:
    """The body that the clients make."""
    return f"message {number}".encode().ljust(size, b"x")


@pytest.mark.parametrize("size", [1, 1000, 1 << 20])
async def test_they_send(embedded: Embedded, client: Program | Kept, address: str, size: int) -> None:
    """What a client sends arrives in order and whole, over one frame and over many, and it sees each accepted."""
    assert await client.run("send", embedded.url(), address, 5, size) == [{"outcome": "accepted"}] * 5
    async with Connection(embedded.url()) as connection, connection.receiver(address) as receiver:
        for number in range(5):
            with await receiver.receive() as message:
                assert message.body == body(number, size)


@pytest.mark.parametrize("size", [1, 1000, 1 << 20])
async def test_they_receive(embedded: Embedded, client: Program | Kept, address: str, size: int) -> None:
    """What we send arrives at a client in order and whole; what it accepts is gone."""
    async with Connection(embedded.url()) as connection, connection.sender(address) as sender:
        await sender.send_many(Message(body(number, size)) for number in range(5))
        taken = await client.run("receive", embedded.url(), address, 5, "accept")
        assert taken == [
            {"body": body(number, size)[:20].decode(), "size": max(size, 9), "deliveryCount": 0} for number in range(5)
        ]
        await sender.send("the next")
        async with connection.receiver(address) as receiver:
            with await receiver.receive() as message:
                assert message.body == "the next"


@pytest.mark.parametrize(("outcome", "failed"), [("release", 0), ("modify", 1)])
async def test_they_give_back(
    embedded: Embedded, client: Program | Kept, address: str, outcome: str, failed: int
) -> None:
    """Released messages come again as they were, modified ones count the failure; both in their order."""
    async with Connection(embedded.url()) as connection, connection.sender(address) as sender:
        await sender.send_many(Message(body(number, 9)) for number in range(3))
        await client.run("receive", embedded.url(), address, 3, outcome)
        async with connection.receiver(address) as receiver:
            for number in range(3):
                with await receiver.receive() as message:
                    assert (message.body, message.delivery_count or 0) == (body(number, 9), failed)


async def test_they_reject(embedded: Embedded, client: Program | Kept, address: str) -> None:
    """What a client rejects is in the dead-letter queue, with its words."""
    async with Connection(embedded.url()) as connection, connection.sender(address) as sender:
        await sender.send(b"not good")
        await client.run("receive", embedded.url(), address, 1, "reject")
        async with connection.receiver(DEAD) as receiver:
            with anyio.fail_after(60):
                while True:
                    with await receiver.receive() as message:
                        if message.message_annotations.get("x-opt-dead-letter-source") == address:
                            break
        assert message.message_annotations["x-opt-dead-letter-condition"] == "test:rejected"
        assert Error.decode(encode(message.delivery_annotations[Symbol("rejected")])).condition == "test:rejected"


@pytest.mark.parametrize("user", [None, "user"])
async def test_they_log_in(embedded: Embedded, client: Program | Kept, address: str, user: str | None) -> None:
    """By name and without one."""
    assert await client.run("send", embedded.url(user=user), address, 1, 1) == [{"outcome": "accepted"}]


async def test_they_are_refused(embedded: Embedded, client: Program | Kept, address: str) -> None:
    """A wrong password keeps a client out, and it ends in bounded time; the broker serves on."""
    with pytest.raises(ProgramFailed), anyio.fail_after(60):
        await client.run("send", embedded.url(password="wrong"), address, 1, 1)
    async with Connection(embedded.url(), sasl=ScramSha256("user", "secret")) as connection:
        async with connection.sender(address) as sender:
            await sender.send("still here")


async def test_protonj2_streams_to_us(embedded: Embedded, protonj2: Kept, address: str) -> None:
    """What an independent client writes in pieces is read in pieces, whole."""
    size = 5 << 20
    assert await protonj2.run("stream-send", embedded.url(), address, 2, size) == [{"outcome": "accepted"}] * 2
    async with Connection(embedded.url()) as connection, connection.receiver(address, stream=True) as receiver:
        for number in range(2):
            delivery = await receiver.receive()
            assert b"".join([chunk async for chunk in delivery.iter_body()]) == body(number, size)
            delivery.accept()


async def test_protonj2_reads_our_stream(embedded: Embedded, protonj2: Kept, address: str) -> None:
    """What we send in pieces is read in pieces by an independent client, whole, as one data section and as many."""
    pieces = [bytes([65 + number % 26]) * 50_000 for number in range(100)]
    async with Connection(embedded.url()) as connection, connection.sender(address) as sender:
        assert await sender.send_stream(None, pieces) == 5_000_000
        assert await sender.send_stream(None, b"x" * 5_000_000) == 5_000_000
    taken = await protonj2.run("stream-receive", embedded.url(), address, 2, "accept")
    assert [each["size"] for each in taken] == [5_000_000] * 2
