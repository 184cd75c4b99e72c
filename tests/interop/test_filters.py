"""Filters on the brokers: what each applies, what it says of the rest, and whether all mean the same by a selector."""

from __future__ import annotations

import sys

import anyio
import pytest

from amqp10 import (
    AmqpError,
    ApplicationPropertiesFilter,
    Connection,
    DirectBinding,
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
    StreamOffset,
    TopicBinding,
)
from amqp10.types import Symbol

from ..kit.inside.broker import QueuedMessage, read_filters
from ._matrix import Peer, fresh_name
from ._selectors import AGREED, DEPARTURES, MESSAGES
from .brokers import Server

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.interop,
    pytest.mark.timeout(600),
    # What the brokers do says nothing about our event loop.
    pytest.mark.parametrize("anyio_backend", ["trio"]),
    pytest.mark.capability("filters"),
]

SIX = [
    Message(n, subject=f"order.{n}", application_properties={"n": n, "region": ("eu", "us")[n % 2]}) for n in range(6)
]


async def bodies(receiver: Receiver) -> list[int]:
    """What the peer has for this receiver now, accepted."""
    receiver.add_credit(100)
    with anyio.fail_after(60):
        await receiver.drain()
    got: list[int] = []
    for delivery in await receiver.receive_batch(100, max_wait=0):
        got.append(delivery.message.body)
        delivery.accept()
    return got


async def filled(connection: Connection, peer: Peer, messages: list[Message]) -> str:
    """A new queue with these messages."""
    address = await peer.queue(connection)
    async with connection.sender(address) as sender:
        await sender.send_many(messages)
    return address


def selected(selector: str) -> list[int]:
    """What the embedded broker's own evaluation selects."""
    _, filtering = read_filters({Symbol("s"): Selector(selector).described}, 0)
    assert filtering is not None
    return [message.body for message in MESSAGES if filtering.passes(QueuedMessage(message.encode()))]


async def not_applied(connection: Connection, source: Source, peer: Peer) -> None:
    """RabbitMQ 4.3 leaves the filter out of its answer: the user is told, and nothing is taken."""
    with pytest.raises(FilterNotApplied):
        async with connection.receiver(source, credit=0):
            pytest.fail("it has entered")
    peer.lacks("`FilterNotApplied`")


@pytest.mark.matrix("JMS selector")
async def test_selector(peer: Peer) -> None:
    """The receiver gets what passes, in order, and the rest waits for others."""
    async with Connection(peer.url()) as connection:
        address = await filled(connection, peer, SIX)
        source = Source(address, filters=[Selector("region = :r AND n > :n", r="eu", n=0)])
        if peer.newest:
            await not_applied(connection, source, peer)
            return
        async with connection.receiver(source, credit=0) as receiver:
            got = await bodies(receiver)
        async with connection.receiver(address, credit=0) as receiver:
            rest = await bodies(receiver)
        if peer.name == "rabbitmq":
            assert (sorted(got), rest) == ([0, 1, 2, 3, 4, 5], [])
            peer.lacks("4.0 says that it applies it, and does not")
            return
        assert (got, rest) == ([2, 4], [0, 1, 3, 5])


@pytest.mark.matrix("a selector that is none is refused")
async def test_wrong_selector(peer: Peer) -> None:
    """The link is refused with `amqp:invalid-field`."""
    async with Connection(peer.url()) as connection:
        address = await peer.queue(connection)
        wrong = connection.receiver(Source(address, filters=[Selector("region =")]), credit=0)
        if peer.newest:
            await not_applied(connection, Source(address, filters=[Selector("region =")]), peer)
            return
        if peer.name == "rabbitmq":
            async with wrong:
                peer.lacks("takes any text")
            return
        with pytest.raises(LinkDetached) as caught:
            async with wrong:
                pytest.fail("it has entered")
        assert caught.value.condition == "amqp:invalid-field"
        if peer.name == "embedded":
            assert "character 9" in str(caught.value.description)


@pytest.mark.matrix("selectors mean the same everywhere")
async def test_agreement(peer: Peer) -> None:
    """118 selectors over twelve messages: each broker selects what the embedded broker does, or departs as is known."""
    if peer.name == "rabbitmq":
        peer.lacks("no selectors")
        return
    wrong: dict[str, object] = {}
    async with Connection(peer.url()) as connection:
        address = await filled(connection, peer, MESSAGES)
        for selector in [*AGREED, *DEPARTURES]:
            source = Source(address, distribution_mode="copy", filters=[Selector(selector)])
            async with connection.receiver(source, credit=0) as receiver:
                got = await bodies(receiver)
            expected = DEPARTURES.get(selector, {}).get(peer.name, selected(selector))
            if sorted(got) != expected:
                wrong[selector] = (got, expected)
    assert wrong == {}
    if departing := sum(peer.name in brokers for brokers in DEPARTURES.values()):
        peer.note(f"departs in {departing} of {len(AGREED) + len(DEPARTURES)}")


@pytest.mark.matrix("browse with a selector")
async def test_browse(peer: Peer) -> None:
    """Copies of what passes come, and all messages stay."""
    async with Connection(peer.url()) as connection:
        address = await filled(connection, peer, SIX)
        source = Source(address, distribution_mode="copy", filters=[Selector("n >= 4")])
        if peer.newest:
            await not_applied(connection, source, peer)
            return
        async with connection.receiver(source, credit=0) as receiver:
            got = await bodies(receiver)
        async with connection.receiver(address, credit=0) as receiver:
            left = await bodies(receiver)
        if peer.name == "rabbitmq":
            assert (sorted(got), left) == ([0, 1, 2, 3, 4, 5], [])
            peer.lacks("4.0 says that it copies what passes, and gives everything away")
            return
        assert (got, left) == ([4, 5], [0, 1, 2, 3, 4, 5])


@pytest.mark.matrix("no-local")
async def test_no_local(peer: Peer) -> None:
    """A subscriber does not hear what its own connection sends."""
    # Of Broker-J a queue, for its topics are exchanges.
    address = fresh_name() if peer.name == "broker_j" else f"topic.{fresh_name()}"
    capabilities = () if peer.name == "broker_j" else ("topic",)
    async with Connection(peer.url()) as mine, Connection(peer.url()) as other:
        if peer.newest:
            await not_applied(mine, Source(await peer.queue(mine), filters=[NoLocal()]), peer)
            return
        if peer.name == "rabbitmq":
            async with mine.receiver(Source(await peer.queue(mine), filters=[NoLocal()]), credit=0) as receiver:
                assert receiver.source is not None
                assert receiver.source.filter
            peer.lacks("4.0 says that it applies it, and does not")
            return
        source = Source(address, filters=[NoLocal()], capabilities=capabilities)
        async with mine.receiver(source, credit=10) as receiver:
            async with mine.sender(address) as here, other.sender(address) as there:
                await here.send("mine")
                await there.send("another's")
                await here.send("mine again")
            with anyio.fail_after(60):
                delivery = await receiver.receive()
            assert delivery.message.body == "another's"
            delivery.accept()
            assert await receiver.receive_batch(1, max_wait=0.3) == []


@pytest.mark.matrix("`amqp10 browse` takes nothing away")
async def test_the_command_browse(peer: Peer) -> None:
    """Not even where the broker does, that was asked to copy: nothing is accepted."""
    async with Connection(peer.url()) as connection:
        address = await filled(connection, peer, SIX)
        command = [sys.executable, "-m", "amqp10", "browse", peer.url(), address, "--selector", "n = 4"]
        ended = await anyio.run_process(command, check=not peer.newest)
        if peer.newest:
            assert b"the peer does not browse" in ended.stderr
            peer.lacks("it says that the broker does not browse")
        else:
            assert "order.4: 4" in ended.stdout.decode().splitlines()
        async with connection.receiver(address, credit=0) as receiver:
            assert sorted(await bodies(receiver)) == [0, 1, 2, 3, 4, 5]


UNKNOWN_TO: dict[str, list[Filter]] = {
    "property filters": [PropertiesFilter(subject="order.1"), ApplicationPropertiesFilter({"n": 1})],
    "SQL filter": [SqlFilter("n = 1")],
    "bindings as filters of a queue": [
        DirectBinding("order.1"),
        TopicBinding("*.1"),
        HeadersBinding({"n": 1}),
    ],
}


@pytest.mark.parametrize(
    "row", [pytest.param(row, marks=pytest.mark.matrix(row), id=row.replace(" ", "-")) for row in UNKNOWN_TO]
)
async def test_other_filters(peer: Peer, row: str) -> None:
    """Applied, or else the user sees that they are not.

    RabbitMQ claims what it does not do: 4.0 with all of them, 4.3 with those that it has for streams.
    """
    async with Connection(peer.url()) as connection:
        for each in UNKNOWN_TO[row]:
            address = await filled(connection, peer, SIX)
            receiver = connection.receiver(Source(address, filters=[each]), credit=0)
            if peer.name == "embedded":
                async with receiver:
                    assert await bodies(receiver) == [1]
            elif peer.name == "rabbitmq" and not (peer.newest and row.startswith("bindings")):
                async with receiver:
                    assert len(await bodies(receiver)) == 6
            else:
                with pytest.raises(AmqpError) as caught:
                    async with receiver:
                        pytest.fail("it has entered")
                refused = isinstance(caught.value, LinkDetached) and caught.value.condition == "amqp:not-implemented"
                assert refused or isinstance(caught.value, FilterNotApplied)
                assert not refused or peer.name == "broker_j"
    if peer.name != "embedded":
        known = {"artemis": "not applied", "broker_j": "refused", "rabbitmq": "4.0 claims to apply them"}
        if peer.newest:
            bindings = row.startswith("bindings")
            known["rabbitmq"] = "not applied" if bindings else "applied to a stream; to a queue it only claims so"
        peer.lacks(known[peer.name])


@pytest.mark.matrix("stream filters where there are no streams")
async def test_stream_filters_elsewhere(peer: Peer) -> None:
    """Nobody else takes RabbitMQ's filters for applied."""
    if peer.name == "rabbitmq":
        peer.note("has streams")
        return
    async with Connection(peer.url()) as connection:
        address = await peer.queue(connection)
        with pytest.raises(AmqpError) as caught:
            async with connection.receiver(Source(address, filters=[StreamOffset("first")]), credit=0):
                pytest.fail("it has entered")
        expected = FilterNotApplied if peer.name == "artemis" else LinkDetached
        assert type(caught.value) is expected
        peer.lacks("the user is told")


async def test_bindings_of_an_exchange(broker_j: Server) -> None:
    """Over Broker-J's exchanges the legacy filters are bindings: of a direct exchange by key, of a topic by pattern."""
    async with Connection(broker_j.url()) as connection:
        for exchange, given in (("amq.topic", TopicBinding("order.*")), ("amq.direct", DirectBinding("order.1"))):
            async with connection.receiver(Source(exchange, filters=[given]), credit=10) as receiver:
                async with connection.sender(exchange) as sender:
                    for subject in ("news.1", "order.1"):
                        await sender.submit(Message(subject, subject=subject))
                with anyio.fail_after(60):
                    delivery = await receiver.receive()
                assert delivery.message.body == "order.1"
                delivery.accept()
                assert await receiver.receive_batch(1, max_wait=0.3) == []
