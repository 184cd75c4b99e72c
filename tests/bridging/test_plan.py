"""A dry run says what would be moved, and how, or why not; and it leaves everything as it was."""

from __future__ import annotations

from dataclasses import replace

import pytest

import amqp10
from amqp10 import (
    Connection,
    LinkDetached,
    MemoryDeliveryStore,
    Message,
    Reconnect,
    Selector,
    Source,
    Target,
    Unsupported,
)
from amqp10.bridging import _plan
from amqp10.broker import Broker
from amqp10.engine import Event, LinkAttached, dialect_names

from ..kit.broker.two_brokers import bodies, fill, two_brokers
from ..kit.client.peer import serving

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("name", dialect_names())
async def test_each_dialect_tells_how_many_there_are(name: str) -> None:
    """Asked after, or looked at; all are still there, and the same bridge moves them then."""
    async with two_brokers() as (old, new):
        await fill(old, "a", range(25))
        async with Connection(old.url, dialect=name) as there, Connection(new.url) as here:
            bridge = amqp10.bridge((there, "a"), (here, "b"), until_empty=True, window=7)
            plan = await bridge.plan()
            assert (plan.messages, plan.more, plan.guarantee) == (25, False, "at-least-once")
            assert plan.undecoded is (name == "1.0")
            assert (plan.source.url, plan.source.address, plan.source.dialect) == (there.url, "a", name)
            assert (plan.target.url, plan.target.address, plan.target.dialect) == (here.url, "b", "1.0")
            assert plan.source.peer.startswith("amqp10")
            assert "25 messages wait; they would be moved at least once" in str(plan)
            assert (await bodies(old, "a"), await bodies(new, "b")) == (list(range(25)), [])
            assert (await bridge).moved == 25
        assert (await bodies(old, "a"), await bodies(new, "b")) == ([], list(range(25)))


async def test_of_a_selection_the_selected_are_counted() -> None:
    """They are looked at, for what a queue says of itself is all of it."""
    async with two_brokers() as (old, new):
        messages = [Message(n, application_properties={"n": n}) for n in range(10)]
        await fill(old, "a", messages)
        for name in ("1.0", "0-10"):
            async with Connection(old.url, dialect=name) as there:
                source = Source("a", filters=[Selector("n < 4")])
                plan = await amqp10.bridge((there, source), (new.url, "b")).plan()
                assert (plan.messages, plan.more) == (4, False)


async def test_many_are_not_all_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither so many messages nor so many bytes are looked at."""
    monkeypatch.setattr(_plan, "MAX_BROWSED", 10)
    async with two_brokers() as (old, new):
        await fill(old, "a", [b"x" * 1000] * 11)
        plan = await amqp10.bridge((old.url, "a"), (new.url, "b")).plan()
        assert (plan.messages, plan.more) == (10, True)
        assert "10 or more messages wait" in str(plan)
        plan = await amqp10.bridge((old.url, "a"), (new.url, "b"), max_bytes=2500).plan()
        assert (plan.messages, plan.more) == (3, True)


async def test_a_source_that_does_not_tell() -> None:
    """It neither answers questions nor lets messages be looked at: the number is not known, the rest is."""
    async with serving() as (origin, source), source, Broker() as new:

        def takes(event: Event) -> bool:
            if not isinstance(event, LinkAttached):
                return False
            asked = event.link.remote
            assert asked is not None
            event.link.attach(replace(asked, source=Source("a"), unsettled=None))
            return True

        origin.on_event = takes
        plan = await amqp10.bridge((source, "a"), (new.url, None)).plan()
        assert plan.messages is None
        assert plan.source.peer == "a server that does not say its name"
        assert plan.target.address is None
        assert "an unknown number of messages wait" in str(plan)


async def test_exactly_once() -> None:
    """It says by what; neither the links that are kept nor the store know of it afterwards."""
    store = MemoryDeliveryStore()
    async with two_brokers() as (old, new):
        await fill(old, "a", range(3))
        bridge = amqp10.bridge((old.url, "a"), (new.url, "b"), exactly_once=True, delivery_store=store)
        assert (await bridge.plan()).guarantee == "resume"
        within = await amqp10.bridge((old.url, "a"), (old.url, "b"), exactly_once=True).plan()
        assert within.guarantee == "transactions"
        assert not [link for broker in (old, new) for link in broker._hosts.usual.links._all]
        assert await bodies(old, "a") == [0, 1, 2]
        async with Connection(old.url, dialect="0-9-1", reconnect=Reconnect()) as there:
            with pytest.raises(
                Unsupported, match=r"exactly once is not possible: .*'0-9-1'.* Try to move at least once"
            ):
                await amqp10.bridge((there, "a"), (new.url, "b"), exactly_once=True).plan()


async def test_what_would_not_work() -> None:
    """The error is that of the bridge: an end's refusal, or what it cannot do."""
    async with two_brokers() as (old, new):
        await fill(old, "a", range(3))
        with pytest.raises(LinkDetached):
            await amqp10.bridge((old.url, "a"), (new.url, Target("/exchanges/nowhere/key"))).plan()
        with pytest.raises(LinkDetached):
            await amqp10.bridge((old.url, "a"), (new.url, "b"), refused_to="/exchanges/nowhere/key").plan()
        async with Connection(old.url, dialect="0-9-1") as there:
            with pytest.raises(Unsupported, match="does not browse"):
                await amqp10.bridge((there, "a"), (new.url, "b"), copy=True).plan()
            with pytest.raises(Unsupported, match="part by part"):
                await amqp10.bridge((there, "a"), (new.url, "b"), stream=True).plan()
        streamed = await amqp10.bridge((old.url, "a"), (new.url, "b"), stream=True).plan()
        assert streamed.messages == 3
        assert await bodies(old, "a") == [0, 1, 2]
