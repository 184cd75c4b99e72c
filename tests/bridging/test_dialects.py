"""Between each two dialects, on the embedded broker."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

import amqp10
from amqp10 import Connection, MemoryDeliveryStore, Message, Reconnect, Unsupported
from amqp10.engine import dialect_names
from amqp10.testing import FaultProxy

from ..kit.broker.two_brokers import bodies, fill, messages, two_brokers
from ..kit.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.capability("bridge")]

COUNT = 200


@pytest.mark.parametrize("anyio_backend", ["trio"])  # the dialects' own tests run on both
@pytest.mark.parametrize(("source", "target"), list(product(dialect_names(), repeat=2)))
async def test_from_each_to_each(source: str, target: str) -> None:
    """All arrive in order, with the properties that every dialect has a place for, or keeps somewhere."""
    async with two_brokers() as (old, new):
        await fill(
            old,
            "a",
            (
                Message(
                    f"body {number}".encode(),
                    durable=True,
                    message_id=f"id-{number}",
                    to="not-the-target",
                    subject="greeting",
                    reply_to="/queues/answers",
                    content_type="text/plain",
                    application_properties={"number": number, "region": "eu"},
                )
                for number in range(COUNT)
            ),
        )
        async with Connection(old.url, dialect=source) as there, Connection(new.url, dialect=target) as here:
            async with here.sender("b"):  # which makes it there
                pass
            report = await amqp10.bridge((there, "a"), (here, "b"), until_empty=True, window=50)
        came = await messages(new, "b")
        assert await bodies(old, "a") == []
    assert report.moved == COUNT
    assert report.clean
    assert [message.body for message in came] == [f"body {number}".encode() for number in range(COUNT)]
    for number, message in enumerate(came):
        assert message.durable
        assert message.message_id == f"id-{number}"
        assert message.to == "not-the-target"
        assert message.subject == "greeting"
        assert message.reply_to == "/queues/answers"
        assert message.content_type == "text/plain"
        assert message.application_properties is not None
        assert message.application_properties["number"] == number
        assert message.application_properties["region"] == "eu"


@pytest.mark.slow
@pytest.mark.parametrize("anyio_backend", ["trio"])
@pytest.mark.parametrize("name", dialect_names())
async def test_through_cuts(name: str) -> None:
    """Each dialect at both ends: a cut of each connection loses nothing."""
    reconnect = Reconnect(initial_delay=0.01, max_delay=0.05, resume_timeout=0)
    async with two_brokers() as (old, new), FaultProxy(old.url) as before, FaultProxy(new.url) as behind:
        await fill(old, "a", range(COUNT))
        async with (
            Connection(before.url, dialect=name, reconnect=reconnect) as there,
            Connection(behind.url, dialect=name, reconnect=reconnect) as here,
        ):
            async with here.sender("b"):
                pass
            async with amqp10.bridge((there, "a"), (here, "b"), rate=600, window=50) as bridge:
                for proxy in (before, behind, before, behind):
                    moved = bridge.report.moved
                    await until(lambda: bridge.report.moved > moved + 20)  # noqa: B023
                    proxy.cut()
                await until(lambda: bridge.report.moved >= COUNT and not bridge.report.in_flight)
        there_now, left = await bodies(new, "b"), await bodies(old, "a")
    assert {*there_now, *left} == set(range(COUNT))
    assert len(there_now) + len(left) - COUNT <= bridge.report.duplicates


@pytest.mark.parametrize("name", [name for name in dialect_names() if name != "1.0"])
async def test_what_a_dialect_cannot(name: str) -> None:
    """It is said before a message moves."""
    async with two_brokers() as (old, new):
        await fill(old, "a", [1])
        async with Connection(old.url, dialect=name) as there, Connection(new.url) as here:
            with pytest.raises(Unsupported, match="exactly once"):
                await amqp10.bridge((there, "a"), (here, "b"), exactly_once=True)
            if "browse" not in there.capabilities:
                with pytest.raises(Unsupported, match="does not browse"):
                    await amqp10.bridge((there, "a"), (here, "b"), copy=True)
            if "rejected" not in there.capabilities:
                with pytest.raises(Unsupported, match="no outcome rejected: the source cannot be told"):
                    await amqp10.bridge((there, "a"), (here, "b"), on_refused="reject")
            if "session-resume" in there.capabilities:
                with pytest.raises(Unsupported, match="does not keep a session whose connection is lost"):
                    await amqp10.bridge((there, "a"), (here, "b"), exactly_once=True)
        assert await bodies(old, "a") == [1]


async def test_what_a_store_is_of_no_use_for() -> None:
    """Sessions that are replayed are of one process: a store is refused, for it would have nothing to tell."""
    store = MemoryDeliveryStore()
    async with two_brokers() as (old, new):
        await fill(old, "a", [1])
        async with (
            Connection(old.url, dialect="0-10", container_id="s", delivery_store=store, reconnect=Reconnect()) as there,
            Connection(new.url, container_id="t", delivery_store=store, reconnect=Reconnect()) as here,
        ):
            with pytest.raises(Unsupported, match="'0-10' resumes nothing from a store of deliveries"):
                await amqp10.bridge((there, "a"), (here, "b"), exactly_once=True)
        assert await bodies(old, "a") == [1]


@pytest.mark.parametrize("anyio_backend", ["trio"])
@pytest.mark.parametrize(("source", "target"), list(product(("1.0", "0-9-1"), repeat=2)))
async def test_carbon_copies(source: str, target: str) -> None:
    """What has copies at the source has each of them once at the target, if each queue is moved."""
    copied: dict[str, Any] = {"x-cc": ["b"]} if source == "1.0" else {"x-opt-0-9-1": {"headers": {"CC": ["b"]}}}
    async with two_brokers() as (old, new):
        async with Connection(old.url, dialect=source) as there, Connection(new.url, dialect=target) as here:
            for name in ("a", "b"):
                for connection in (there, here):
                    async with connection.sender(name):  # which makes it there
                        pass
            async with there.sender("/queues/a") as sender:
                await sender.send(Message(b"x", message_annotations=copied))
            for name in ("/queues/a", "/queues/b"):
                assert (await amqp10.bridge((there, name), (here, name), until_empty=True)).moved == 1
        for name in ("a", "b"):
            (came,) = await messages(new, name)
            assert came.message_annotations["x-opt-bridge-cc"] == ["b"]


@pytest.mark.parametrize("anyio_backend", ["trio"])
@pytest.mark.parametrize("target", ["1.0", "0-9-1", "0-9", "0-9-draft"])
@pytest.mark.parametrize("source", ["0-9-1", "0-9", "0-9-draft"])
async def test_a_subject_like_the_key(source: str, target: str) -> None:
    """It is still there when the message goes on by another key; what had none has none."""
    async with two_brokers() as (old, new):
        old_queue, new_queue = "a", "b"
        async with Connection(old.url, dialect=source) as there, Connection(new.url, dialect=target) as here:
            async with there.receiver(old_queue), here.receiver(new_queue):
                pass
            await there.native.bind(old_queue, "amq.direct", "k")
            async with there.sender("/exchanges/amq.direct/k") as sender:
                await sender.send(Message(b"one", subject="k"))
                await sender.send(Message(b"none"))
            assert (await amqp10.bridge((there, old_queue), (here, new_queue), until_empty=True)).moved == 2
        one, none = await messages(new, new_queue)
    assert one.subject == "k"
    assert none.subject == ("k" if target == "1.0" else None)
