"""Broker-J's own ways in 0-9-1 and 0-9: what is sent in one dialect is the same in the others."""

from __future__ import annotations

import gzip
from datetime import UTC, datetime

import anyio
import pytest

from amqp10 import Connection, Message

from ._matrix import fresh_name
from .brokers import Server

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.interop,
    pytest.mark.timeout(600),
    pytest.mark.parametrize("anyio_backend", ["trio"]),
    pytest.mark.parametrize("receiving", ["0-9-1", "0-9", "1.0"]),
    pytest.mark.parametrize("sending", ["0-9-1", "0-9", "1.0"]),
]


async def passed_on(server: Server, sending: str, receiving: str, message: Message) -> Message:
    """The message, sent in one dialect and received in another."""
    queue = fresh_name()
    async with (
        Connection(server.url(), dialect=sending) as one,
        Connection(server.url(), dialect=receiving) as other,
        one.sender(queue) as sender,
    ):
        await sender.send(message)
        async with other.receiver(queue) as receiver:
            with anyio.fail_after(60):
                with await receiver.receive() as got:
                    return got


@pytest.mark.parametrize("body", [gzip.compress(b"hello" * 100), b"body"], ids=["gzip", "not gzip"])
async def test_compressed(broker_j: Server, sending: str, receiving: str, body: bytes) -> None:
    """What its sender has compressed Broker-J inflates, but from 1.0 to 1.0; what only says so it leaves alone."""
    got = await passed_on(broker_j, sending, receiving, Message(body, content_encoding="gzip"))
    if sending == receiving == "1.0":
        assert (got.body, got.content_encoding) == (body, "gzip")
    elif body == b"body":
        assert (got.body, got.content_encoding) == (body, None if receiving == "1.0" else "gzip")
    else:
        assert (got.body, got.content_encoding) == (b"hello" * 100, None)


async def test_moments(broker_j: Server, sending: str, receiving: str) -> None:
    """The time of its making is the same moment, and so is one among its properties; to 1.0 that is a number there."""
    moment = datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)
    got = await passed_on(
        broker_j, sending, receiving, Message(b"x", creation_time=moment, application_properties={"t": moment})
    )
    assert got.creation_time == moment
    kept = receiving != "1.0" or sending == "1.0"
    assert got.application_properties == {"t": moment if kept else int(moment.timestamp() * 1000)}
