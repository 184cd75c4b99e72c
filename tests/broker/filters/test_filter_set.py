"""Filters of the embedded broker, from the link's attach to the messages that come."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

import anyio
import pytest

from amqp10 import (
    ApplicationPropertiesFilter,
    Connection,
    Described,
    DirectBinding,
    EventPosition,
    Filter,
    FilterNotApplied,
    HeadersBinding,
    LinkDetached,
    Message,
    NoLocal,
    PropertiesFilter,
    Receiver,
    Selector,
    Source,
    SqlFilter,
    StartsWith,
    StreamOffset,
    Symbol,
    TopicBinding,
    ULong,
)
from amqp10.broker import Broker
from amqp10.broker._filters.filter_set import read_filters

from ...kit.inside.broker import Candidate, QueuedMessage

pytestmark = pytest.mark.anyio


def order(number: int, **fields: Any) -> Message:
    """A message that says its number, the region by turns, and what else is asked for."""
    return Message(
        number,
        subject=f"order.{number}",
        application_properties={"n": number, "region": ("eu", "us")[number % 2]},
        **fields,
    )


async def fill(connection: Connection, address: str, count: int = 6) -> None:
    """Send orders 0 to `count` - 1."""
    async with connection.sender(address) as sender:
        await sender.send_many([order(number) for number in range(count)])


async def take(receiver: Receiver, count: int) -> list[Any]:
    """The bodies of the next messages, accepted."""
    bodies = []
    for _ in range(count):
        with await receiver.receive() as message:
            bodies.append(message.body)
    return bodies


async def none_left(receiver: Receiver) -> bool:
    """Whether the broker has nothing more for this receiver."""
    await receiver.drain()
    return receiver.buffered == 0


EU_ONLY: list[Filter] = [
    Selector("region = 'eu'"),
    SqlFilter('region = "eu"'),
    ApplicationPropertiesFilter({"region": "eu"}),
    HeadersBinding({"region": "eu"}),
    Selector("region = 'eu'").named("by another name"),
]


@pytest.mark.parametrize("given", EU_ONLY, ids=lambda each: str(each.name))
async def test_a_queue(given: Filter) -> None:
    """Pitfall 27: under whatever name, the receiver gets what passes, in order, the answer echoes it, others wait."""
    async with Broker() as broker, Connection(broker.url) as connection:
        await fill(connection, "q")
        async with connection.receiver(Source("q", filters=[given])) as receiver:
            assert receiver.source is not None
            assert receiver.source.filter == {given.name: given.described}
            assert await take(receiver, 3) == [0, 2, 4]
            assert await none_left(receiver)
        async with connection.receiver("q") as receiver:
            assert await take(receiver, 3) == [1, 3, 5]


@pytest.mark.parametrize(
    ("given", "bodies"),
    [
        (DirectBinding("order.3"), [3]),
        (TopicBinding("order.*"), [0, 1, 2, 3, 4, 5]),
        (TopicBinding("*.5"), [5]),
        (PropertiesFilter(subject=StartsWith("order.1")), [1]),
    ],
)
async def test_by_subject(given: Filter, bodies: list[int]) -> None:
    """Bindings and property filters on the subject."""
    async with Broker() as broker, Connection(broker.url) as connection:
        await fill(connection, "q")
        async with connection.receiver(Source("q", filters=[given])) as receiver:
            assert await take(receiver, len(bodies)) == bodies
            assert await none_left(receiver)


@pytest.mark.spec("3.5.8", "a message passes a filter set only if it passes each of its filters")
async def test_every_filter_has_to_let_a_message_pass() -> None:
    """ "A message will pass through a filter-set if and only if it passes through each of the named filters"."""
    async with Broker() as broker, Connection(broker.url) as connection:
        await fill(connection, "q")
        filters = [Selector("n > 1"), ApplicationPropertiesFilter({"region": "us"}), SqlFilter("n < 5")]
        async with connection.receiver(Source("q", filters=filters)) as receiver:
            assert await take(receiver, 1) == [3]
            assert await none_left(receiver)


async def test_by_number() -> None:
    """The numeric descriptor says the same as the symbol, and is echoed as it came."""
    async with Broker() as broker, Connection(broker.url) as connection:
        await fill(connection, "q")
        asked = {Symbol("s"): Described(ULong(0x0000468C_00000004), "n = 4")}
        async with connection.receiver(Source("q", filter=asked)) as receiver:
            assert receiver.source is not None
            assert receiver.source.filter == asked
            assert await take(receiver, 1) == [4]


@pytest.mark.spec("3.5.3", "the filter answered is the filter in place")
@pytest.mark.parametrize("given", [StreamOffset("first"), Selector("n = 1")])
async def test_the_answer_says_exactly_what_is_applied(given: Filter) -> None:
    """What the broker does not know is missing in its answer: the client raises, unless told not to."""
    unknown = Described(Symbol("example:unknown"), 1)
    source = Source("q", filter={"unknown": unknown}, filters=[given])
    async with Broker(queues=["q"]) as broker, Connection(broker.url) as connection:
        with pytest.raises(FilterNotApplied) as caught:
            async with connection.receiver(source):
                pytest.fail("it has entered")
        assert caught.value.filters["unknown"] == unknown
        async with connection.receiver(source, require_filters=False) as receiver:
            assert receiver.source is not None
            assert (receiver.source.filter or {}).keys() == source.filter.keys() - caught.value.filters.keys()  # type: ignore[union-attr]


REFUSED: list[tuple[dict[Any, Any], str]] = [
    ({"s": Selector("region = ").described}, "character 10: expected a value or a name: region = >>>"),
    ({"s": Described(Symbol("apache.org:selector-filter:string"), 5)}, "a selector must be a string"),
    ({"s": SqlFilter("a BETWEEN 1 AND 2").described}, "SQL filter, character 3"),
    ({"s": SqlFilter("").described}, "SQL filter, character 1"),
    ({"s": "region = 'eu'"}, "must be a described value"),
    (
        {"s": PropertiesFilter(subject="x").described, "t": Described(Symbol("amqp:properties-filter"), [])},
        "must be a map",
    ),
    ({"e": EventPosition.latest().described}, "character 1: amqp has no field"),
    ({f"f{n}": Selector("a = 1").described for n in range(17)}, "more than 16 filters"),
]


@pytest.mark.spec("3.5.8", "a filter that is not a set of described values is refused")
@pytest.mark.parametrize(("asked", "why"), REFUSED, ids=[why for _, why in REFUSED])
async def test_malformed_filters_are_refused(asked: dict[Any, Any], why: str) -> None:
    """The link is refused with `amqp:invalid-field`, and the description points to the place."""
    async with Broker() as broker, Connection(broker.url) as connection:
        with pytest.raises(LinkDetached) as caught:
            async with connection.receiver(Source("q", filter=asked)):
                pytest.fail("it has entered")
        assert caught.value.condition == "amqp:invalid-field"
        assert why in str(caught.value.description)
        async with connection.receiver("q") as receiver:
            assert receiver.open


@pytest.mark.spec("1.5", "a descriptor that is neither symbol nor ulong is that of no filter")
@pytest.mark.parametrize("descriptor", [[], {}, None, 0x468C_0000_0004, "apache.org:selector-filter:string"])
def test_descriptors_of_other_types(descriptor: Any) -> None:
    """Such a filter is left out of the answer, as one of an unknown kind is."""
    assert read_filters({Symbol("f"): Described(descriptor, "n > 1")}, 1) == (None, None)


@pytest.mark.spec("3.5.8", "a null filter acts as if its key were not there")
async def test_an_empty_selector_is_none() -> None:
    """As Jakarta Messaging has it; a null filter acts as if it were not there (§3.5.8)."""
    async with Broker() as broker, Connection(broker.url) as connection:
        await fill(connection, "q", 2)
        async with connection.receiver(Source("q", filter={"null": None}, filters=[Selector(" ")])) as receiver:
            assert await take(receiver, 2) == [0, 1]


async def test_browsing() -> None:
    """A browser sees what passes, and nothing is taken."""
    async with Broker() as broker, Connection(broker.url) as connection:
        await fill(connection, "q")
        source = Source("q", distribution_mode="copy", filters=[Selector("n >= 4")])
        async with connection.receiver(source) as browser:
            assert await take(browser, 2) == [4, 5]
            assert await none_left(browser)
        async with connection.receiver("q") as receiver:
            assert await take(receiver, 6) == [0, 1, 2, 3, 4, 5]


async def test_a_topic() -> None:
    """Each subscriber has copies of what passes its own filter."""
    async with Broker() as broker, Connection(broker.url) as connection:
        async with (
            connection.receiver(Source("topic.orders", filters=[Selector("region = 'eu'")])) as eu,
            connection.receiver(Source("topic.orders", filters=[Selector("n > 3")])) as late,
            connection.receiver("topic.orders") as all_,
        ):
            await fill(connection, "topic.orders")
            assert await take(eu, 3) == [0, 2, 4]
            assert await take(late, 2) == [4, 5]
            assert await take(all_, 6) == [0, 1, 2, 3, 4, 5]
            assert await none_left(eu)
            assert await none_left(late)


@pytest.mark.parametrize("address", ["q", "topic.news"])
async def test_no_local(address: str) -> None:
    """Nothing comes back over the connection that it was sent by, of another connection everything."""
    async with Broker() as broker, Connection(broker.url) as mine, Connection(broker.url) as other:
        async with mine.receiver(Source(address, filters=[NoLocal()])) as receiver:
            assert receiver.source is not None
            assert receiver.source.filter == {"no-local": NoLocal().described}
            async with mine.sender(address) as here, other.sender(address) as there, mine.sender(None) as anonymous:
                await here.send("mine")
                await anonymous.send(Message("mine too", to=address))
                await there.send("another's")
            assert await take(receiver, 1) == ["another's"]
            assert await none_left(receiver)
        if address == "q":
            async with other.receiver(Source(address, filters=[NoLocal()])) as receiver:
                assert await take(receiver, 2) == ["mine", "mine too"]


async def test_priority_and_redelivery() -> None:
    """What the broker itself counts is filtered by as it is at that time."""
    async with Broker() as broker, Connection(broker.url) as connection:
        async with connection.sender("q") as sender:
            await sender.send_many([order(0, priority=9), order(1, durable=True)])
        async with connection.receiver(Source("q", filters=[Selector("JMSPriority > 4")])) as urgent:
            delivery = await urgent.receive()
            delivery.modify(delivery_failed=True)
        async with connection.receiver(Source("q", filters=[Selector("JMSRedelivered")])) as again:
            assert (await again.receive()).message.body == 0
        async with connection.receiver(Source("q", filters=[Selector("JMSDeliveryMode = 'PERSISTENT'")])) as durable:
            assert await take(durable, 1) == [1]


def test_messages_that_nobody_can_read() -> None:
    """A message whose properties are broken passes no filter that looks at them."""
    broken = b"\x00\x53\x74\xc1\x04\x02\xa1\x05n\x00\x53\x75\xa0\x01x"  # a map that ends in mid-key
    _, filtering = read_filters({Symbol("s"): Selector("n IS NULL").described}, 1)
    assert filtering is not None
    assert not filtering.passes(QueuedMessage(broken))
    assert filtering.passes(QueuedMessage(Message("x").encode()))


def test_equal_filters_have_equal_keys() -> None:
    """So that consumers share the looking; by connection, where that makes a difference."""

    def key(connection: int, *filters: Filter) -> object:
        filtering = read_filters({each.name: each.described for each in filters}, connection)[1]
        assert filtering is not None
        return filtering.key

    assert key(1, Selector("a = 1")) == key(2, Selector("a = 1")) != key(1, Selector("a = 2"))
    assert key(1, Selector("a = 1"), NoLocal()) != key(2, Selector("a = 1"), NoLocal())
    assert key(1, NoLocal()) == key(1, NoLocal())


def test_long_filters_cost_more() -> None:
    """The longest selector takes as long as looks at many messages, and counts so; ordinary ones do not count."""
    for count, cost in ((1, 0), (1000, 50)):
        selector = Selector(" OR ".join(["weight=10"] * count))
        _, filtering = read_filters({selector.name: selector.described}, 0)
        assert filtering is not None
        assert filtering.cost == cost


async def test_competing_with_filters() -> None:
    """Many consumers with many filters: every message goes to one whom it is for, and none waits for nothing."""
    got: dict[int, list[int]] = {remainder: [] for remainder in range(4)}
    async with Broker() as broker, Connection(broker.url) as connection:

        async def consume(remainder: int) -> None:
            selector = Selector("n % 4 = :remainder", remainder=remainder)
            async with connection.receiver(Source("q", filters=[selector]), credit=3) as receiver:
                got[remainder] += await take(receiver, 25)

        async with anyio.create_task_group() as tasks:
            for remainder in got:
                tasks.start_soon(consume, remainder)
            await fill(connection, "q", 100)
    assert got == {remainder: list(range(remainder, 100, 4)) for remainder in range(4)}


async def test_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many subscribe to a topic with filters of their own, a message is read once for all of them."""
    read = []

    class Counting(Candidate):
        def __init__(self, entry: QueuedMessage) -> None:
            read.append(entry)
            super().__init__(entry)

    monkeypatch.setattr("amqp10.broker._filters.filter_set.Candidate", Counting)
    async with Broker() as broker, broker.connect() as connection, AsyncExitStack() as stack:
        receivers = [
            await stack.enter_async_context(connection.receiver(Source("topic.x", filters=[Selector(f"n = {number}")])))
            for number in range(10)
        ]
        async with connection.sender("topic.x") as sender:
            await sender.send(order(7))
            await sender.send(order(8))
        assert await take(receivers[7], 1) == [7]
        assert await take(receivers[8], 1) == [8]
    assert len(read) == 2
