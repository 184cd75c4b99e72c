"""A target that does not accept: the message is rejected, left or sent aside, and never lost or taken for moved."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import amqp10
from amqp10 import Accepted, Connection, Data, Error, Message, MessageRejected, Modified, Rejected, Released, Symbol
from amqp10.broker import Broker
from amqp10.engine import DeliveriesReceived, Event, LinkAttached, dialect_names

from ..kit.broker.two_brokers import NO, bodies, fill, messages, numbers, picky
from ..kit.client.peer import Peer, serving
from ..kit.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.capability("bridge")]


@pytest.mark.parametrize(
    ("outcome", "error"),
    [(NO, MessageRejected), (Released(), amqp10.MessageReleased), (Modified(), amqp10.MessageModified)],
)
async def test_it_stops(outcome: Any, error: type[Exception]) -> None:
    """By default at the first one, which is raised; it stays at the source, and so does what was not sent."""
    async with Broker() as old, serving() as (peer, target), target, Connection(old.url) as source:
        accepted = picky(peer, outcome)
        await fill(old, "a", [0, 2, 3, 4])
        with pytest.raises(error) as refused:
            await amqp10.bridge((source, "a"), (target, "b"), until_empty=True, window=1)
        assert refused.value.__notes__[-1] == "bridge: 2 moved, 1 refused, 1 given back"
        assert numbers(accepted["b"]) == [0, 2]
        assert await bodies(old, "a") == [3, 4]


async def test_what_was_out_at_that_moment() -> None:
    """It has its outcome, too, and is told to the source: nothing is there twice."""
    async with Broker() as old, serving() as (peer, target), target, Connection(old.url) as source:
        accepted = picky(peer)
        await fill(old, "a", range(100))
        with pytest.raises(MessageRejected):
            async with amqp10.bridge((source, "a"), (target, "b"), until_empty=True, window=20) as bridge:
                await bridge.done()
        there, left = numbers(accepted["b"]), await bodies(old, "a")
        assert sorted(there + left) == list(range(100))
        assert bridge.report.moved == len(there)
        assert bridge.report.duplicates == bridge.report.in_flight == 0


async def test_it_rejects_them_at_the_source() -> None:
    """The source may have a dead-letter queue for that; the others go on."""
    async with serving() as (origin, source), serving() as (peer, target), source, target:
        accepted = picky(peer)
        async with amqp10.bridge((source, "a"), (target, "b"), on_refused="reject") as bridge:
            await until(lambda: "a" in origin.links and origin.links["a"].credit)
            origin.send("a", *range(10))
            await until(lambda: len(origin.outcomes) == 10)
        assert numbers(accepted["b"]) == [0, 2, 4, 6, 8]
        told = [delivery.remote_state for delivery in origin.outcomes]
        assert [type(state) for state in told] == [Accepted, Rejected] * 5
        rejected = told[1]
        assert isinstance(rejected, Rejected)
        assert rejected.error is not None
        assert rejected.error.condition == "amqp:not-allowed"
        assert "odd ones" in str(rejected.error.description)
        assert (bridge.report.moved, bridge.report.refused) == (5, 5)


async def test_it_leaves_them() -> None:
    """They are back at the source when the bridge has ended, and it goes on without them."""
    async with Broker() as old, serving() as (peer, target), target, Connection(old.url) as source:
        accepted = picky(peer)
        await fill(old, "a", range(100))
        report = await amqp10.bridge((source, "a"), (target, "b"), until_empty=True, on_refused="leave")
        assert numbers(accepted["b"]) == list(range(0, 100, 2))
        assert await bodies(old, "a") == list(range(1, 100, 2))
        assert (report.moved, report.refused, report.returned) == (50, 50, 50)


async def test_it_leaves_no_more_than_the_window() -> None:
    """Memory is bounded: when all places are taken by them the bridge stops."""
    async with Broker() as old, serving() as (peer, target), target, Connection(old.url) as source:
        picky(peer)
        await fill(old, "a", [1] * 100)
        with pytest.raises(MessageRejected):
            await amqp10.bridge((source, "a"), (target, "b"), until_empty=True, on_refused="leave", window=10)
        assert await bodies(old, "a") == [1] * 100


async def test_they_go_aside() -> None:
    """To another address at the target, marked with the reason; the source is told that they are taken."""
    async with Broker() as old, serving() as (peer, target), target, Connection(old.url) as source:
        accepted = picky(peer)
        await fill(old, "a", range(10))
        report = await amqp10.bridge((source, "a"), (target, "b"), until_empty=True, refused_to="parked")
        assert numbers(accepted["b"]) == [0, 2, 4, 6, 8]
        assert numbers(accepted["parked"]) == [1, 3, 5, 7, 9]
        assert accepted["parked"][0].message_annotations == {
            "x-opt-bridge-refused": "amqp:not-allowed: odd ones are not wanted"
        }
        assert await bodies(old, "a") == []
        assert (report.moved, report.refused) == (5, 5)


def touchy(peer: Peer, condition: str) -> list[int]:
    """Have the peer end its link over an odd number at the address "b"; what else it accepted there."""
    accepted: list[int] = []

    def on_event(event: Event) -> bool:
        if not isinstance(event, DeliveriesReceived):
            return False
        link: Any = event.link
        while link.incoming:
            delivery = link.incoming.popleft()
            number = Message.decode(delivery.payload).body
            if link.remote.target.address == "b" and number % 2:
                link.incoming.clear()
                link.detach(error=Error(condition, f"{number} is odd"))
                break
            accepted.append(number)
            link.settle(delivery, Accepted())
        return True

    peer.on_event = on_event
    return accepted


@pytest.mark.parametrize("settings", [{"on_refused": "reject"}, {"on_refused": "leave"}, {"refused_to": "parked"}])
@pytest.mark.parametrize("condition", ["amqp:precondition-failed", "amqp:unauthorized-access"])
async def test_a_target_that_ends_its_link_over_a_message(settings: dict[str, Any], condition: str) -> None:
    """As those of 0-9-1 do: the message is found, and handled like any other that is refused; all others arrive."""
    async with Broker() as old, serving() as (peer, target), target, Connection(old.url) as source:
        accepted = touchy(peer, condition)
        await fill(old, "a", [0, 2, 3, 4, 6, 7, 8])
        report = await amqp10.bridge((source, "a"), (target, "b"), until_empty=True, **settings)
        assert report.refused == 2
        parked = [3, 7] if "refused_to" in settings else []
        assert set(accepted) == {0, 2, 4, 6, 8, *parked}
        assert len(accepted) - len(set(accepted)) <= report.duplicates
        assert await bodies(old, "a") == ([3, 7] if settings.get("on_refused") == "leave" else [])
        assert report.moved == 5


@pytest.mark.parametrize(
    ("condition", "on_refused"), [("amqp:unauthorized-access", "reject"), ("amqp:not-found", "leave")]
)
async def test_a_target_that_ends_its_link_for_another_reason(condition: str, on_refused: Any) -> None:
    """Of an address that one may not send to no message is refused: the bridge ends with what the target said."""
    async with Broker() as old, serving() as (peer, target), target, Connection(old.url) as source:
        touchy(peer, condition)
        await fill(old, "a", [1, 3])
        with pytest.raises(amqp10.LinkDetached, match="is odd"):
            await amqp10.bridge((source, "a"), (target, "b"), until_empty=True, on_refused=on_refused)
        assert await bodies(old, "a") == [1, 3]


@pytest.mark.parametrize("name", dialect_names())
async def test_what_cannot_be_sent_in_the_targets_dialect(name: str) -> None:
    """An address that is none, said by the message itself: it is refused here, and the others go on."""
    async with Broker() as old, Broker() as new, new.connect(dialect=name) as target:
        await fill(old, "a", [Message(1, to="b"), Message(2), Message(3, to="b")])
        async with new.connect() as making, making.receiver("b", credit=0):
            ends = (old.url, "a"), (target, None)
            report = await amqp10.bridge(*ends, until_empty=True, on_refused="leave")
        assert (report.moved, report.refused) == (2, 1)
        assert await bodies(old, "a") == [2]
        assert await bodies(new, "b") == [1, 3]


@pytest.mark.parametrize("name", dialect_names())
async def test_what_nobody_takes(name: str) -> None:
    """An exchange that routes it nowhere: it stays at the source, whatever the form of its body."""
    shapes = [Message(b"b", footer={Symbol("x-f"): 1}), Message(Data(b"a", b"c")), Message("text"), Message(b"plain")]
    async with Broker() as old, Broker() as new, new.connect(dialect=name) as target:
        await fill(old, "a", shapes)
        ends = (old.url, "a"), (target, "/exchanges/amq.direct/nowhere")
        report = await amqp10.bridge(*ends, until_empty=True, on_refused="leave")
        assert (report.moved, report.refused) == (0, 4)
        assert len(await bodies(old, "a")) == 4


async def test_a_message_larger_than_the_target_takes() -> None:
    """It is refused here, before it is sent, and handled like any other."""
    async with Broker() as old, Broker(max_message_size=10_000) as new:
        await fill(old, "a", [b"small", b"x" * 20_000, b"small, too"])
        with pytest.raises(MessageRejected, match="amqp:link:message-size-exceeded"):
            await amqp10.bridge((old.url, "a"), (new.url, "b"), until_empty=True)
        report = await amqp10.bridge((old.url, "a"), (new.url, "b"), until_empty=True, on_refused="leave")
        assert await bodies(new, "b") == [b"small", b"small, too"]
        assert await bodies(old, "a") == [b"x" * 20_000]
        assert report.refused == 1


async def test_within_one_broker() -> None:
    """In transactions a batch with a message that is not accepted is rolled back whole."""
    async with Broker() as broker:
        await fill(broker, "a", range(10))
        async with Connection(broker.url) as connection:
            bridge = amqp10.bridge((connection, "a"), (connection, None), until_empty=True, exactly_once=True)
            with pytest.raises(amqp10.MessageNotAccepted):
                await bridge
        assert sorted(await bodies(broker, "a")) == list(range(10))
        assert bridge.report.moved == 0


async def test_a_source_that_sends_settled() -> None:
    """At least once cannot be, for it keeps nothing: it is left before a message moves."""
    async with Broker() as new, serving() as (origin, source), source:

        def settled(event: Event) -> bool:
            if not isinstance(event, LinkAttached):
                return False
            assert event.link.remote is not None
            event.link.attach(replace(event.link.remote, settle_mode="settled", unsettled=None))
            return True

        origin.on_event = settled
        with pytest.raises(amqp10.Unsupported, match="settled"):
            await amqp10.bridge((source, "a"), (new.url, "b"))


async def test_messages_at_the_end() -> None:
    """A target that never answers: leaving takes one deadline, and what is out goes back, counted."""
    async with Broker() as old, serving() as (peer, target), target, Connection(old.url) as source:
        peer.outcome = None
        await fill(old, "a", range(10))
        async with amqp10.bridge((source, "a"), (target, "b"), window=5, close_timeout=0.5) as bridge:
            await until(lambda: len(peer.received) == 5)
        report = bridge.report
        assert (report.moved, report.in_flight, report.returned, report.duplicates) == (0, 5, 5, 5)
        assert len(await messages(old, "a")) == 10
