"""What one entry, one link or one timer makes the broker raise costs nobody else anything.

The faults here are made up: no message is known that causes them. That messages do not, `test_one_message` says.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from amqp10 import Connection
from amqp10.broker import Broker
from amqp10.broker._log import attempt, report
from amqp10.broker._virtual_host_core import VirtualHostCore
from amqp10.messaging import ACCEPTED, RELEASED, Error, Message, Rejected
from amqp10.types import Symbol

from ..kit.broker.queue_doubles import Giver, Taker, attach, entry, fill, more
from ..kit.broker.wire import Wire
from ..kit.clock import Clock
from ..kit.inside.broker import (
    Candidate,
    Queue,
    QueueDeclaration,
    QueuedMessage,
    QueueSettings,
    Topic,
    VirtualHostSettings,
    listeners,
)


class Fault(Exception):
    """A fault of the broker."""


def fails(*arguments: object, **named: object) -> Any:
    raise Fault("made up")


class Odd(Taker):
    """A consumer that cannot be given the message that ends in 1."""

    def deliver(self, entry: QueuedMessage, payload: bytes) -> bool:
        if payload[-1] == 1:
            fails()
        return super().deliver(entry, payload)


class Ill(Taker):
    """A consumer whose link fails whenever it is told anything."""

    fed = nothing_left = node_deleted = fails


class IllGiver(Giver):
    """A producer whose link fails whenever it is told anything."""

    grant = relaxed = node_deleted = fails


def queue_of(vhost: VirtualHostCore, name: str = "q", **arguments: Any) -> Queue:
    terms = {f"x-{word.replace('_', '-')}": value for word, value in arguments.items()}
    return vhost.declare_queue(name, QueueDeclaration(arguments=terms))


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]


@pytest.mark.parametrize("arguments", [{}, {"max_priority": 3}], ids=["plain", "priorities"])
@pytest.mark.parametrize("settles", [False, True])
def test_delivery(vhost: VirtualHostCore, arguments: dict[str, Any], settles: bool) -> None:
    """A message that cannot be given leaves its queue for the quarantine, once; those before and behind are given."""
    queue = queue_of(vhost, **arguments)
    fill(queue, 0, 1, 2)
    attach(queue, odd := Odd(10, settles=settles))
    assert odd.numbers == [0, 2]
    assert [message.payload for message in vhost.quarantine] == [entry(1).payload]
    for each in [] if settles else odd.taken:
        queue.settle(each, odd, ACCEPTED)
    assert (queue.depth, queue.bytes, queue.unsettled, queue.dequeued) == (0, 0, 0, 2)


def test_delivery_again(vhost: VirtualHostCore) -> None:
    """One that came back is set aside as well, and leaves no trace in the queue's order."""
    queue = queue_of(vhost)
    fill(queue, 1)
    attach(queue, good := Taker(1))
    queue.settle(good.taken[0], good, RELEASED)
    attach(queue, odd := Odd(1))
    fill(queue, 2)
    queue.run()
    assert (odd.numbers, queue.depth, len(vhost.quarantine)) == ([2], 1, 1)


def test_browser_and_reader(vhost: VirtualHostCore, caplog: pytest.LogCaptureFixture) -> None:
    """Who only looks, at a queue or in a stream, takes nothing from others by its fault, and sees what is behind."""
    for queue in (queue_of(vhost), queue_of(vhost, "s", queue_type="stream")):
        attach(queue, odd := Odd(10, copies=True))
        fill(queue, 0, 1, 2)
        queue.run()
        if queue.name == "s":
            assert odd.numbers == [0, 2]
        assert len(odd.taken) == 2
        assert queue.depth == 3
    assert len(vhost.quarantine) == 0
    assert len(errors(caplog)) == 2


def test_links(vhost: VirtualHostCore) -> None:
    """A link that fails when it is told something holds up no other: consumers, those that drain, producers."""
    queue = queue_of(vhost)
    ill, well = Ill(1), Taker(1)
    attach(queue, ill, well)
    fill(queue, 0, 1, 2, 3)
    queue.run()
    assert (len(ill.taken), len(well.taken), well.passes) == (1, 1, 1)
    for taker in (ill, well):
        taker.credit = 5
        queue.in_line(taker, drain=True)
    queue.run()
    assert well.told_nothing_left == 1
    good, bad = Giver(), IllGiver()
    for giver in (bad, good):
        queue.add_producer(giver)
    vhost.flush()
    assert good.granted > 0
    vhost.delete(queue)
    assert (well.error, good.error) != (None, None)


def test_topic_deleted(vhost: VirtualHostCore) -> None:
    """Those who subscribe to a topic hear of its end, whatever another does."""
    topic = vhost.declare("t", "topic")
    assert isinstance(topic, Topic)
    ill, well, good = Ill(1), Taker(1), Giver()
    for taker in (ill, well):
        attach(topic.subscribe(), taker)
    for giver in (IllGiver(), good):
        topic.add_producer(giver)
    vhost.delete(topic)
    assert (well.error, good.error) != (None, None)


def test_dead_letters(vhost: VirtualHostCore, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot become a dead letter is set aside: when it expires, is rejected, or there is no room."""
    settings = {"dead_letter_exchange": "amq.headers"}
    dying, full, work, refusing = (
        queue_of(vhost, "dying", message_ttl=100, **settings),
        queue_of(vhost, "full", max_length=0, **settings),
        queue_of(vhost, "work", **settings),
        queue_of(vhost, "refusing", max_length=0, overflow="reject-publish-dlx", **settings),
    )
    monkeypatch.setattr(vhost.topology, "route", fails)
    attach(work, taker := Taker(1))
    for queue in (dying, full, work):
        fill(queue, 1)
    vhost.flush()
    clock.now += 1
    vhost.expire()
    work.settle(taker.taken[0], taker, Rejected())
    with pytest.raises(Exception, match="is full"):
        fill(refusing, 1)
    assert sorted(message.node for message in vhost.quarantine) == ["dying", "full", "refusing", "work"]
    for queue in (dying, full, work, refusing):
        assert (queue.depth, queue.bytes, queue.unsettled, queue.dead_lettered) == (0, 0, 0, 0)


def test_passes(vhost: VirtualHostCore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """A node whose pass fails keeps no other from its own, and has another pass when it changes again."""
    ill, well = queue_of(vhost, "ill"), queue_of(vhost, "well")
    attach(well, taker := Taker(2))
    for _ in range(2):
        with monkeypatch.context() as patched:
            patched.setattr(ill, "_regulate", fails)
            fill(ill, 1)
            fill(well, 1)
            vhost.flush()
    assert taker.numbers == [1, 1]
    assert errors(caplog) == 2 * ["the pass of 'ill' failed: 'Fault: made up'"]
    more(ill, late := Taker(), 0)
    attach(ill, late)
    more(ill, late, 2)
    assert late.numbers == [1, 1]


@pytest.mark.parametrize("timed", ["links", "subscriptions", "transactions", "sessions", "queue"])
def test_expiring(vhost: VirtualHostCore, clock: Clock, monkeypatch: pytest.MonkeyPatch, timed: str) -> None:
    """What fails to expire keeps nothing else from it, and is tried again a little later, not at once for ever."""
    ill = queue_of(vhost, "ill")
    dying = queue_of(vhost, "dying", message_ttl=100)
    fill(dying, 1)
    clock.now += 1
    failing = ill if timed == "queue" else getattr(vhost, timed)
    vhost.alarm(failing, clock.now)
    monkeypatch.setattr(failing, "expire", fails)
    assert vhost.expire() == clock.now + 1
    assert dying.depth == 0


def test_ends_of_links(vhost: VirtualHostCore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection is lost: each of its links ends, though one fails to, and what they held is there for others."""
    queue_of(vhost, "a")
    queue_of(vhost, "b")
    wire, sending = Wire(vhost), Wire(vhost)
    for name in ("a", "b"):
        sending.send_to(name).send(Message(name).encode())
        sending.turn()
        wire.receive_from(name, credit=1)
    ended = list(wire.peer.links.consumers.values())
    monkeypatch.setattr(ended[0], "end", fails)
    wire.peer.lost()
    assert wire.over
    assert (vhost.nodes["a"].unsettled, vhost.nodes["b"].unsettled) == (1, 0)  # type: ignore[attr-defined]


def test_filter(vhost: VirtualHostCore, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """A filter that fails lets the message pass to nobody by it; others have it."""
    monkeypatch.setattr(Candidate, "application_properties", property(fails))
    from amqp10.types import Described

    from ..kit.inside.broker import read_filters

    _, filtering = read_filters({Symbol("f"): Described(Symbol("apache.org:selector-filter:string"), "a = 1")}, 1)
    queue = queue_of(vhost)
    attach(queue, picky := Taker(5, filtering=filtering), anyone := Taker(5))
    fill(queue, 1)
    queue.run()
    assert (picky.numbers, anyone.numbers) == ([], [1])
    assert errors(caplog) == ["a filter failed; the message does not pass it: 'Fault: made up'"]


def test_attempt(caplog: pytest.LogCaptureFixture) -> None:
    """What is attempted is done; what it raises is reported, with the traceback the first time only."""
    done: list[int] = []
    attempt("adding", done.append, 1)
    for _ in range(2):
        attempt("failing", fails)
    report("without a traceback", Fault("x\ny"))
    assert done == [1]
    assert errors(caplog) == [*2 * ["failing failed: 'Fault: made up'"], r"without a traceback: 'Fault: x\ny'"]
    with pytest.raises(KeyboardInterrupt):
        attempt("what is no fault", interrupt)


def interrupt() -> None:
    raise KeyboardInterrupt


@pytest.mark.anyio
async def test_the_application_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker is embedded in a program: a timer and a pass that fail end neither, and cut no connection off."""
    async with (
        Broker(queues={"ill": {"x-message-ttl": 1}, "well": {}}) as broker,
        Connection(broker.url) as connection,
        connection.sender("ill") as sender,
        connection.sender("well") as other,
    ):
        with anyio.fail_after(60):
            with monkeypatch.context() as patched:
                patched.setattr(Queue, "expire", fails)
                patched.setattr(Queue, "_regulate", fails)
                patched.setattr("amqp10.broker._virtual_host_core.RETRY", 0.001)
                await sender.send("x")
                await other.send("y")
            async with connection.receiver("well") as receiver:
                delivery = await receiver.receive()
                assert delivery.message.body == "y"
                delivery.accept()


# Cycles


def fed_back(vhost: VirtualHostCore, clock: Clock, make: Callable[[], bytes], *, hops: int) -> int:
    """Put a message into "one", and see to it that nothing is left; how often it went on."""
    queues = [node for node in vhost.nodes.values() if isinstance(node, Queue)]
    first = vhost.nodes["one"]
    first.put(QueuedMessage.read(make(), 0, vhost.clock()))
    for _ in range(200):
        vhost.flush()
        clock.now += 1
        vhost.expire()
    assert [(queue.depth, queue.bytes) for queue in queues] == [(0, 0)] * len(queues)
    went = sum(queue.dead_lettered for queue in queues)
    assert went <= hops
    return went


UNREADABLE = b"\x00\x53\x72\xc1\x02\x01\xa3\x00\x53\x75\xa0\x01x"
REJECTED_BEFORE = [{"queue": "elsewhere", "reason": "rejected", "count": 1}]
FORMS: dict[str, Callable[[], bytes]] = {
    "annotations that cannot be read": lambda: UNREADABLE,
    "a claim to be rejected": lambda: Message(b"x", message_annotations={Symbol("x-death"): REJECTED_BEFORE}).encode(),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("limit", [{"max_length": 0}, {"max_length_bytes": 0}, {"message_ttl": 0}], ids=str)
@pytest.mark.parametrize("size", [1, 2, 5])
def test_ring(vhost: VirtualHostCore, clock: Clock, size: int, limit: dict[str, Any], form: str) -> None:
    """Queues that send on what they do not hold, in a ring, end with it: whatever the message says of itself."""
    names = ["one", "two", "three", "four", "five"][:size]
    for name, following in zip(names, [*names[1:], names[0]], strict=True):
        queue_of(vhost, name, dead_letter_exchange="", dead_letter_routing_key=following, **limit)
    assert fed_back(vhost, clock, FORMS[form], hops=64) == 64


@pytest.mark.parametrize("form", FORMS)
def test_fanout(vhost: VirtualHostCore, clock: Clock, form: str) -> None:
    """Each of many sends to all of them: that ends as well, after some copies for each, not after any number."""
    vhost.topology.declare("all", "fanout")
    for name in ("one", *map(str, range(9))):
        queue = queue_of(vhost, name, max_length=0, dead_letter_exchange="all")
        vhost.topology.bind(vhost.topology.find("all"), queue, "")
    assert fed_back(vhost, clock, FORMS[form], hops=1 + 10 + 100) > 10


def test_well_formed(vhost: VirtualHostCore, clock: Clock) -> None:
    """As on RabbitMQ, a message that says where it was ends when it comes there a second time by itself."""
    queue_of(vhost, "one", max_length=0, dead_letter_exchange="", dead_letter_routing_key="one")
    assert fed_back(vhost, clock, Message(b"x").encode, hops=1) == 1


def test_rejected(vhost: VirtualHostCore) -> None:
    """A consumer that rejects has work with it: such rounds have no end, as on RabbitMQ."""
    work = queue_of(vhost, "work", dead_letter_exchange="", dead_letter_routing_key="work")
    fill(work, 1)
    for _ in range(100):
        attach(work, taker := Taker(1))
        work.settle(taker.taken[0], taker, Rejected())
        work.remove_consumer(taker)
    assert (work.depth, work.dead_lettered) == (1, 100)


def test_refusing_to_itself(vhost: VirtualHostCore) -> None:
    """A queue that refuses, whose dead letters come to it, refuses them too; it does not ask itself for ever."""
    queue_of(vhost, "one", max_length=0, overflow="reject-publish-dlx", dead_letter_exchange="")
    bound = queue_of(vhost, "two", dead_letter_exchange="", dead_letter_routing_key="one")
    attach(bound, taker := Taker(1))
    fill(bound, 1)
    bound.run()
    bound.settle(taker.taken[0], taker, Rejected())
    assert (bound.depth, len(vhost.quarantine)) == (0, 0)


def test_broker_dead_letters_in_a_ring(clock: Clock) -> None:
    """The broker's own queue of dead letters may have a ring made of it, which no annotation tells."""
    vhost = VirtualHostCore(VirtualHostSettings(dead_letter_expired=True), clock=clock)
    queue_of(vhost, "dead-letter", max_length=0, dead_letter_exchange="", dead_letter_routing_key="one")
    queue_of(vhost, "one", message_ttl=0)
    assert fed_back(vhost, clock, lambda: UNREADABLE, hops=64) == 64


def test_exchanges(vhost: VirtualHostCore) -> None:
    """Exchanges bound in a ring, and alternates that lead back, are gone through once."""
    topology = vhost.topology
    for name, alternate in (("a", "b"), ("b", "a"), ("c", "c")):
        topology.declare(name, "direct", arguments={"alternate-exchange": alternate})
    for name in ("x", "y"):
        topology.declare(name, "fanout")
    topology.bind(topology.find("x"), topology.find("y"), "")
    topology.bind(topology.find("y"), topology.find("x"), "")
    topology.bind(topology.find("x"), topology.find("x"), "")
    queue = queue_of(vhost)
    topology.bind(topology.find("y"), queue, "")
    payload = Message(b"x").encode()
    assert [topology.route(topology.find(name), "k", payload).nodes for name in "abc"] == [(), (), ()]
    assert topology.route(topology.find("x"), "k", payload).nodes == (queue,)


def test_a_pass_is_bounded(vhost: VirtualHostCore) -> None:
    """One pass drops what was there when it began, not what comes back to it meanwhile."""
    queue = queue_of(vhost, "one", max_length=0, dead_letter_exchange="", dead_letter_routing_key="one")
    for _ in range(3):
        queue.put(QueuedMessage.read(UNREADABLE, 0, vhost.clock()))
    queue.run()
    assert (queue.depth, queue.dead_lettered) == (3, 3)


def test_error_is_kept() -> None:
    """Without a quarantine a queue hides no fault: of tests that make one by itself."""
    queue = Queue("q", QueueSettings(clock=Clock(), touch=lambda node: None))
    fill(queue, 1)
    with pytest.raises(Fault):
        attach(queue, Odd(1))
    assert isinstance(Error(Symbol("a:b")), Error)


@pytest.mark.anyio
@pytest.mark.parametrize("stage", ["accept", "accept_websocket"])
async def test_taking_a_connection(
    stage: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a handshake raises costs the connection that made it, which is closed; others are served, and come in."""
    async with Broker(websocket=True) as broker, Connection(broker.url) as served:
        host, port = broker.url.removeprefix("amqp://").split(":")
        with monkeypatch.context() as patched:
            patched.setattr(listeners, stage, fails)
            async with await anyio.connect_tcp(host, int(port)) as stranger:
                with anyio.fail_after(60), pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
                    await stranger.receive()
        async with served.sender("q") as sender:
            await sender.send("served")
        async with Connection(broker.url):
            assert broker.connections == 2
    assert caplog.text.count("taking a connection failed") == 1
