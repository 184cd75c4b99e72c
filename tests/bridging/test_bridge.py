"""A bridge between two embedded brokers, through its public API."""

from __future__ import annotations

from datetime import timedelta

import anyio
import pytest

import amqp10
from amqp10 import Connection, MemoryDeliveryStore, Message, Selector, Source, Unsupported
from amqp10.bridging._mover import Mover
from amqp10.broker import Broker
from amqp10.client.internals import ConnectionCore
from amqp10.engine import DeliveriesReceived, Event, dialect

from ..kit.broker.two_brokers import bodies, fill, messages, two_brokers
from ..kit.client.peer import serving
from ..kit.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.capability("bridge")]


@pytest.mark.parametrize("window", [1, 7, 1000])
async def test_all_is_moved_in_order(window: int) -> None:
    """Every message is at the target, in order, and none at the source."""
    async with two_brokers() as (old, new):
        await fill(old, "a", range(2000))
        report = await amqp10.bridge((old.url, "a"), (new.url, "b"), until_empty=True, window=window)
        assert await bodies(new, "b") == list(range(2000))
        assert await bodies(old, "a") == []
    assert report.moved == 2000
    assert report.clean
    assert report.in_flight == report.returned == 0


async def test_an_empty_source() -> None:
    """It ends at once."""
    async with two_brokers() as (old, new):
        report = await amqp10.bridge((old.url, "a"), (new.url, "b"), until_empty=True)
    assert report.moved == 0


@pytest.mark.parametrize("window", [1, 3, 1000])
async def test_a_count(window: int) -> None:
    """So many are moved, the rest stays as it was; the source was asked for no more."""
    async with two_brokers() as (old, new):
        await fill(old, "a", range(100))
        report = await amqp10.bridge((old.url, "a"), (new.url, "b"), count=30, window=window)
        assert await bodies(new, "b") == list(range(30))
        assert await bodies(old, "a") == list(range(30, 100))
    assert (report.moved, report.returned) == (30, 0)


async def test_it_goes_on_until_it_is_left() -> None:
    """What comes later is moved, too; the counts can be looked at meanwhile."""
    async with two_brokers() as (old, new):
        async with amqp10.bridge((old.url, "a"), (new.url, "b")) as bridge:
            await fill(old, "a", range(10))
            await until(lambda: bridge.report.moved == 10)
            await fill(old, "a", range(10, 20))
            await until(lambda: bridge.report.moved == 20)
        assert await bodies(new, "b") == list(range(20))
        assert bridge.report.clean


async def test_connections_that_are_given() -> None:
    """They are used as they are, and left open."""
    async with two_brokers() as (old, new):
        await fill(old, "a", range(10))
        async with Connection(old.url) as source, Connection(new.url) as target:
            report = await amqp10.bridge((source, Source("a")), (target, "b"), until_empty=True)
            assert source.open
            assert target.open
        assert report.moved == 10


async def test_copying_leaves_messages() -> None:
    """All are at both ends afterwards."""
    async with two_brokers() as (old, new):
        await fill(old, "a", range(500))
        report = await amqp10.bridge((old.url, "a"), (new.url, "b"), copy=True, until_empty=True, window=50)
        assert await bodies(old, "a") == await bodies(new, "b") == list(range(500))
    assert report.moved == 500


async def test_within_one_broker_in_transactions() -> None:
    """Exactly once needs no store there: each batch is moved as a whole."""
    async with Broker() as broker:
        await fill(broker, "a", range(500))
        report = await amqp10.bridge(
            (broker.url, "a"), (broker.url, "b"), until_empty=True, exactly_once=True, window=64
        )
        assert await bodies(broker, "b") == list(range(500))
        assert await bodies(broker, "a") == []
    assert report.moved == 500
    assert report.clean


async def test_exactly_once() -> None:
    """With links that are resumed, at both ends."""
    async with two_brokers() as (old, new):
        await fill(old, "a", range(500))
        ends = (old.url, "a"), (new.url, "b")
        report = await amqp10.bridge(*ends, until_empty=True, exactly_once=True, window=64)
        assert await bodies(new, "b") == list(range(500))
        assert await bodies(old, "a") == []
    assert report.moved == 500
    assert report.clean


async def test_messages_are_passed_on_as_they_are() -> None:
    """Every section but the delivery-annotations, octet by octet, and the time that it still has to live."""
    message = Message(
        {"any": ["value"]},
        durable=True,
        priority=7,
        delivery_annotations={"x-opt-hop": 1},
        message_annotations={"x-opt-kept": 2},
        to="elsewhere",
        reply_to="replies",
        subject="s",
        application_properties={"n": 1},
        footer={"x-opt-end": 3},
    )
    async with two_brokers() as (old, new):
        await fill(old, "a", [message, Message(b"short", ttl=timedelta(hours=1))])
        await amqp10.bridge((old.url, "a"), (new.url, "b"), until_empty=True)
        came, short = await messages(new, "b")
    assert came.encode() == message.replace(delivery_annotations=None).encode()
    assert short.ttl is not None
    assert timedelta(minutes=50) < short.ttl <= timedelta(hours=1)


async def test_only_what_a_filter_lets_through() -> None:
    """The source may be a `Source`."""
    async with two_brokers() as (old, new):
        await fill(old, "a", [Message(n, application_properties={"n": n}) for n in range(10)])
        await amqp10.bridge((old.url, Source("a", filters=[Selector("n < 4")])), (new.url, "b"), until_empty=True)
        assert await bodies(new, "b") == [0, 1, 2, 3]
        assert await bodies(old, "a") == [4, 5, 6, 7, 8, 9]


async def test_each_message_goes_where_its_to_says() -> None:
    """The target None is the anonymous terminus."""
    async with two_brokers() as (old, new):
        await fill(old, "a", [Message(n, to=f"to-{n % 2}") for n in range(6)])
        report = await amqp10.bridge((old.url, "a"), (new.url, None), until_empty=True)
        assert await bodies(new, "to-0") == [0, 2, 4]
        assert await bodies(new, "to-1") == [1, 3, 5]
    assert report.moved == 6


async def test_a_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message after n others goes on no sooner than n times the interval after the first."""
    asked, paced = [], []
    pace = Mover._pace

    async def watched(mover: Mover) -> None:
        asked.append(anyio.current_time())
        await pace(mover)
        paced.append(anyio.current_time())

    monkeypatch.setattr(Mover, "_pace", watched)
    async with two_brokers() as (old, new):
        await fill(old, "a", range(10))
        report = await amqp10.bridge((old.url, "a"), (new.url, "b"), rate=20, until_empty=True)
    assert report.moved == len(paced) == 10
    assert all(at - asked[0] >= n / 20 - 1e-6 for n, at in enumerate(paced))


async def test_a_bound_of_bytes() -> None:
    """With large messages few are here at a time."""
    most = 0
    async with two_brokers() as (old, new):
        await fill(old, "a", [b"x" * 100_000] * 50)
        async with amqp10.bridge((old.url, "a"), (new.url, "b"), max_bytes=500_000) as bridge:
            mover = bridge._mover
            assert mover is not None
            add = mover.in_flight.add

            def watched(messages: list[object]) -> None:
                nonlocal most
                add(messages)  # type: ignore[arg-type]
                most = max(most, mover.in_flight.size)

            mover.in_flight.add = watched  # type: ignore[assignment,method-assign]
            await until(lambda: bridge.report.moved == 50)
    assert most <= 31 * 100_100  # the first credit is for messages of a usual size, 16 KiB


async def test_rate() -> None:
    """So many a second, and no more: between the first of 26 and the last there are 25 steps."""
    async with two_brokers() as (old, new):
        await fill(old, "a", range(26))
        report = await amqp10.bridge((old.url, "a"), (new.url, "b"), until_empty=True, rate=50)
    assert report.moved == 26
    assert report.seconds >= 0.5


async def test_what_makes_no_sense() -> None:
    """A bridge to itself, and settings that contradict each other, are refused when it is made."""
    for source, target in (("a", "a"), ("a", "/queues/a"), ("/queues/a%20b", "a b"), ("/queues/%", "/queues/%")):
        with pytest.raises(ValueError, match="to itself"):
            amqp10.bridge(("amqp://one", source), ("amqp://one", target))
    for source, target in (("", "a"), ("a", "")):
        with pytest.raises(ValueError, match="empty"):
            amqp10.bridge(("amqp://one", source), ("amqp://two", target))
    for settings in ({"window": 0}, {"count": 0}, {"rate": 0}, {"on_refused": "drop"}, {"max_bytes": 0}):
        with pytest.raises(ValueError, match=next(iter(settings))):
            amqp10.bridge(("amqp://one", "a"), ("amqp://two", "a"), **settings)
    with pytest.raises(ValueError, match="exactly_once excludes"):
        amqp10.bridge(("amqp://one", "a"), ("amqp://two", "a"), exactly_once=True, copy=True)
    with pytest.raises(ValueError, match="need exactly_once=True"):
        amqp10.bridge(("amqp://one", "a"), ("amqp://two", "a"), name="n")
    own = Connection("amqp://one", container_id="c", delivery_store=MemoryDeliveryStore())
    with pytest.raises(ValueError, match="same delivery_store"):
        amqp10.bridge((own, "a"), ("amqp://two", "a"), exactly_once=True)
    with pytest.raises(ValueError, match="exclude each other"):
        amqp10.bridge(("amqp://one", "a"), ("amqp://two", "a"), on_refused="leave", refused_to="b")


async def test_it_is_begun_once() -> None:
    """A second block is an error of the program."""
    async with two_brokers() as (old, new):
        bridge = amqp10.bridge((old.url, "a"), (new.url, "b"), until_empty=True)
        await bridge
        with pytest.raises(amqp10.LocalProtocolError):
            await bridge


async def test_an_address_that_is_refused() -> None:
    """It is raised on entering, and nothing has moved; so is a source that cannot do exactly once."""
    async with Broker(queues=["a"]) as old, Broker(auto_create=False) as new:
        await fill(old, "a", [1])
        with pytest.raises(amqp10.LinkDetached) as refused:
            await amqp10.bridge((old.url, "a"), (new.url, "nowhere"))
        assert refused.value.condition == "amqp:not-found"
        async with Connection(old.url) as source, Connection(new.url, profile="rabbitmq") as target:
            with pytest.raises(Unsupported, match="RabbitMQ does not resume links"):
                await amqp10.bridge((source, "a"), (target, "b"), exactly_once=True)
            with pytest.raises(Unsupported, match="RabbitMQ does not browse"):
                await amqp10.bridge((target, "b"), (source, "b"), copy=True)
        assert await bodies(old, "a") == [1]


async def test_a_format_of_its_own() -> None:
    """A payload that is no AMQP message, by its message-format, is passed on untouched, with that."""
    payload = b"\0\x53\x70 whatever"
    formats: list[tuple[int, bytes]] = []
    async with serving() as (origin, source), serving() as (peer, target), source, target:

        def taken(event: Event) -> bool:
            if isinstance(event, DeliveriesReceived):
                formats.extend((delivery.message_format, delivery.payload) for delivery in event.link.incoming)
            return False

        peer.on_event = taken
        async with amqp10.bridge((source, "a"), (target, "b"), count=1) as bridge:
            await until(lambda: "a" in origin.links and origin.links["a"].credit)
            origin.links["a"].send(payload, message_format=7)
            origin.pump.wake()
            await bridge.done()
    assert formats == [(7, payload)]


@pytest.mark.in_memory
async def test_a_source_that_cannot_be_drained(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is empty when nothing has come for a while."""
    capabilities = dialect("1.0").capabilities - {"drain"}
    monkeypatch.setattr("amqp10.bridging._mover.EMPTY_AFTER", 0.1)
    async with two_brokers() as (old, new):
        await fill(old, "a", range(100))
        with monkeypatch.context() as patch:
            patch.setattr(ConnectionCore, "capabilities", property(lambda self: capabilities))
            report = await amqp10.bridge((old.url, "a"), (new.url, "b"), until_empty=True, window=30)
        assert await bodies(new, "b") == list(range(100))
    assert report.moved == 100


async def test_the_end_can_be_asked_for() -> None:
    """`stop` ends it as an exception of its own does not: `done` returns, and what was not sent goes back."""
    async with two_brokers() as (old, new):
        await fill(old, "a", range(1000))
        with pytest.raises(ZeroDivisionError):
            async with amqp10.bridge((old.url, "a"), (new.url, "b"), rate=1000) as bridge:
                await until(lambda: bridge.report.moved > 5)
                bridge.stop()
                assert (await bridge.done()).moved >= 5
                raise ZeroDivisionError  # leaves the block as it is
        there, left = await bodies(new, "b"), await bodies(old, "a")
    assert there + left == list(range(1000))
    assert bridge.report.moved == len(there)
    assert str(bridge.report).startswith(f"{len(there)} moved")
