"""What AMQP 0-9-1 and its kin cannot say is refused before a byte is written, and costs nobody else anything."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from amqp10 import Connection, LinkDetached, LocalProtocolError, Message, Receiver, Sender, TransactionRolledBack
from amqp10.broker import Broker
from amqp10.messaging import Data

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory]

FAMILY = ["0-9-1", "0-9", "0-9-draft"]
LARGE = {"n": "x" * 200_000}
"""Properties that no frame of 128 KiB can hold, and they may not be spread."""


@pytest.fixture(params=FAMILY)
def name(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@asynccontextmanager
async def links(name: str) -> AsyncIterator[tuple[Broker, Connection, Sender, Receiver]]:
    """A sender without an address, and a receiver from "q", which in the end is empty."""
    async with Broker() as broker, Connection(broker.url, dialect=name) as connection:
        async with connection.receiver("q") as receiver, connection.sender(None) as sender:
            yield broker, connection, sender, receiver
        assert broker.queue("q").depth == 0


UNSAYABLE: list[dict[str, Any]] = [
    {"to": f"/exchanges/amq.topic/{'k' * 300}"},
    {"to": "/queues/q", "application_properties": LARGE},
    {"to": "/queues/a/b"},
    {},
]


@pytest.mark.parametrize("fields", UNSAYABLE, ids=["key", "properties", "address", "nowhere"])
async def test_a_message(name: str, fields: dict[str, Any]) -> None:
    """The one message is refused, alone or in a transaction, where it leaves nothing of what was sent before it."""
    async with links(name) as (_, connection, sender, receiver):
        before = await sender.submit(Message(b"before", to="/queues/q"))
        with pytest.raises(LocalProtocolError):
            await sender.send(Message(b"m", **fields))
        with pytest.raises(LocalProtocolError):
            async with connection.transaction() as transaction:
                await sender.send(Message(b"rolled back", to="/queues/q"), transaction=transaction)
                await sender.send(Message(b"m", **fields), transaction=transaction)
        async with connection.transaction() as transaction:
            await sender.send(Message(b"after", to="/queues/q"), transaction=transaction)
        await before.outcome()
        for body in (b"before", b"after"):
            with await receiver.receive() as message:
                assert message.body == body


async def test_what_cannot_be_committed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """If it is found out only then, nothing was written: the next transaction has nothing of it, nor has the next ack;
    and what was to be settled comes again."""
    async with links(name) as (_, connection, sender, receiver):
        await sender.send(Message(b"settled", to="/queues/q"))
        delivery = await receiver.receive()
        link = sender._core.link
        with pytest.raises(TransactionRolledBack):
            async with connection.transaction() as transaction:
                await sender.send(Message(b"1", to="/queues/q"), transaction=transaction)
                await sender.send(Message(b"2", to="/queues/q"), transaction=transaction)
                delivery.accept(transaction=transaction)
                writer = type(link.writer)  # type: ignore[union-attr]
                frames = writer.frames

                def fails(self: object, payload: bytes, channel: int) -> bytes:
                    if payload.endswith(b"2"):
                        raise LocalProtocolError("it cannot be said")
                    return frames(self, payload, channel)  # type: ignore[no-any-return]

                monkeypatch.setattr(writer, "frames", fails)
        again = await receiver.receive()
        assert again.message.body == b"settled"
        again.accept()
        async with connection.transaction() as transaction:
            await sender.send(Message(b"3", to="/queues/q"), transaction=transaction)
        with await receiver.receive() as message:
            assert message.body == b"3"


@pytest.mark.parametrize("what", [{"name": "é" * 200}, {"name": "n" * 5000}], ids=["octets", "long"])
async def test_a_link_name(name: str, what: dict[str, Any]) -> None:
    """However long, it is good enough: what is told the broker is cut."""
    async with links(name) as (_, connection, sender, _), connection.receiver("other", **what) as receiver:
        await sender.send(Message(b"m", to="/queues/other"))
        with await receiver.receive() as message:
            assert message.body == b"m"


LINKS: list[tuple[str, dict[str, Any]]] = [
    ("x" * 300, {}),
    ("q", {"properties": {"x-argument": object()}}),
    ("q", {"properties": {"x-argument": "x" * 200_000}}),
]


@pytest.mark.parametrize(
    ("name", "address", "settings"),
    [
        (name, address, settings)
        for name in FAMILY
        for address, settings in LINKS
        if name != "0-9-draft" or not settings  # whose consumers have no arguments
    ],
)
async def test_a_link(name: str, address: str, settings: dict[str, Any]) -> None:
    """It is refused alone; the others of the connection go on."""
    async with links(name) as (_, connection, sender, receiver):
        with pytest.raises(LinkDetached) as refused:
            async with connection.receiver(address, **settings):
                pass
        assert refused.value.condition == "amqp:invalid-field"
        await sender.send(Message(b"m", to="/queues/q"))
        (await receiver.receive()).accept()


@pytest.mark.parametrize("body", [b"m", "text", Data(b"a", b"b"), {"a": 1}], ids=["bytes", "text", "parts", "map"])
async def test_what_a_consumer_cannot_be_told(name: str, body: Any) -> None:
    """A message of 1.0 that says more of itself than a frame can hold reaches consumers of the older dialects whole,
    for it comes as the sections that it is; and nobody is cut off for it."""
    sent = Message(body, subject="s", application_properties=LARGE, footer={"x-f": 1})
    async with links(name) as (broker, _, _, receiver), broker.connect() as modern:
        async with modern.sender("q") as sender:
            await sender.send(sent)
            await sender.send(b"next")
        with await receiver.receive() as message:
            assert message.body == (b"ab" if isinstance(body, Data) else body) or message.body == body
            assert (message.subject, message.application_properties, message.footer) == ("s", LARGE, {"x-f": 1})
        with await receiver.receive() as message:
            assert message.body == b"next"
