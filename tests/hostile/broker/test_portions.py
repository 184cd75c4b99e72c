"""What a peer sends at once is worked off in portions, so that other connections have their turn between them."""

from __future__ import annotations

import anyio
import pytest

from amqp10.broker import Broker
from amqp10.dialects.v0_9.wire.methods import BasicAck, BasicNack, BasicRecover
from amqp10.dialects.v1_0.wire.frames import encode_disposition
from amqp10.engine import ConnectionTerms, Engine, LinkAttached, LinkTerms, Session, SessionTerms, dialect
from amqp10.messaging import Accepted, Message, Modified, Outcome, Rejected, Released, Source, Target

from ...kit.broker.wire import Wire, queue_of
from ...kit.inside.broker import QueuedMessage, VirtualHostCore
from ...kit.inside.engines import COSTLY

MANY = 200
DIALECTS = ["1.0", "0-10", "0-9-1", "fast"]


def _wire(name: str) -> Wire:
    """A peer of a broker that has some queues."""
    wire = Wire(VirtualHostCore(clock=lambda: 0.0), name)
    for number in range(5):
        wire.vhost.declare(f"q{number}", "queue")
    return wire


def _attach_many(session: Session, count: int) -> None:
    """Attach many links."""
    for number in range(count):
        link = session.attach_receiver(LinkTerms(f"link-{number}", source=Source(f"q{number % 5}"), target=Target()))
        link.flow(1)  # without credit some dialects would not consume


@pytest.mark.parametrize("name", DIALECTS)
def test_attaches(name: str) -> None:
    """Attaches are worked off some at a time, and all of them in the end; each goes a way through the whole broker."""
    wire = _wire(name)
    wire.server.portion = 200
    _attach_many(wire.session, MANY)
    attached: list[int] = []
    while (there := wire.client.data_to_send()) or wire.server.behind:
        before = len(wire.peer.links.consumers)
        wire.server.receive_data(there)
        wire.settle_down()
        attached.append(len(wire.peer.links.consumers) - before)
        wire.client.receive_data(wire.server.data_to_send())
        wire.client.events()
    assert max(attached) <= 15
    assert sum(attached) == len(wire.peer.links.consumers) == MANY


@pytest.mark.parametrize("name", DIALECTS)
def test_messages(name: str) -> None:
    """Messages cost little, so that more of them make a portion; they keep their order, and so does what follows."""
    wire = _wire(name)
    link = wire.send_to("q0")
    wire.server.portion = 40
    for number in range(60):
        link.send(Message(b"%d" % number, message_id=number % 7).encode(), settled=link.settled_by_sender)
    wire.server.receive_data(wire.client.data_to_send())
    _finish(wire.server, wire)
    receiver = wire.receive_from("q0", credit=60)
    _finish(wire.server, wire)
    wire.turn()
    assert [Message.decode(each.payload).body for each in receiver.incoming] == [b"%d" % number for number in range(60)]


def _finish(server: Engine, wire: Wire) -> None:
    """Work off what came, portion by portion."""
    wire.settle_down()
    while server.behind:
        server.receive_data(b"")
        wire.settle_down()


@pytest.mark.parametrize("name", DIALECTS)
def test_the_end_within(name: str) -> None:
    """A connection that ends by a fault in the middle leaves nothing to go on with."""
    wire = _wire(name)
    wire.server.portion = 100
    _attach_many(wire.session, MANY)
    wire.server.receive_data(wire.client.data_to_send() + b"\xff" * 50)
    wire.settle_down()
    wire.server.receive_eof()
    wire.settle_down()
    wire.server.receive_data(b"")
    assert not any(isinstance(event, LinkAttached) for event in wire.server.events())
    assert wire.over


@pytest.mark.anyio
@pytest.mark.in_memory
async def test_others_have_their_turn() -> None:
    """While a broker works off thousands of attaches, other tasks run: not only before and behind all of them."""
    client = dialect("1.0").client(ConnectionTerms("client"), None, True)
    async with Broker(queues=[f"q{number}" for number in range(5)]) as broker, broker.open_stream() as stream:
        client.start()
        client.open()
        session = client.begin()
        _attach_many(session, 900)
        await stream.send(client.data_to_send())
        seen = set()
        with anyio.fail_after(60):
            while (links := sum(broker.queue(f"q{number}").consumers for number in range(5))) < 900:
                seen.add(links)
                await anyio.lowlevel.checkpoint()
        assert len(seen) >= 3  # of ten, but trio runs two tasks in any order


RANGE = 1000
"""Messages that one frame settles, of portions of 100."""


class Holder:
    """A peer that holds messages of a queue, whose server takes a portion at once."""

    def __init__(self, name: str) -> None:
        self.wire = _wire(name)
        self.queue = queue_of(self.wire.vhost, "q0")
        self.queue.take_run(QueuedMessage.read_run([Message(b"small").encode()] * RANGE, 0, None, 0.0))
        self.wire.session.end()
        self.wire.turn()
        self.wire.session = self.wire.client.begin(SessionTerms(incoming_window=1_000_000))
        self.link = self.wire.receive_from("q0", credit=RANGE)
        while self.queue.unsettled < RANGE:
            self.wire.vhost.expire()
            self.wire.vhost.flush()
        self.wire.server.portion = 100

    @property
    def channel(self) -> int:
        """The channel of the session, in 1.0."""
        return self.wire.session.channel  # type: ignore[attr-defined,no-any-return]

    @property
    def _settled(self) -> int:
        """How many messages were settled so far."""
        return self.queue.dequeued + self.queue.rejected + self.queue.redelivered

    def settled(self, octets: bytes) -> list[int]:
        """Work off these octets; return how many messages were settled in each portion."""
        counts = []
        while octets or self.wire.server.behind:
            before = self._settled
            self.wire.server.receive_data(octets)
            self.wire.settle_down()
            counts.append(self._settled - before)
            octets = b""
        return counts


OUTCOMES = [Accepted(), Released(), Rejected(), Modified(delivery_failed=True), Modified(undeliverable_here=True)]


@pytest.mark.parametrize("settled", [True, False])
@pytest.mark.parametrize("outcome", OUTCOMES, ids=["accepted", "released", "rejected", "failed", "not here"])
def test_range_1_0(outcome: Outcome, settled: bool) -> None:
    """A disposition of a great range is worked off in portions, with the same result."""
    holder = Holder("1.0")
    counts = holder.settled(encode_disposition(holder.channel, True, 0, 0x7FFF_FFFF, settled, outcome))
    assert max(counts) <= 100
    assert sum(counts) == RANGE
    queue = holder.queue
    assert queue.depth == (0 if isinstance(outcome, Accepted | Rejected) else RANGE)
    assert (queue.dequeued, queue.rejected) == (
        RANGE * isinstance(outcome, Accepted),
        RANGE * isinstance(outcome, Rejected),
    )


def test_holes_1_0() -> None:
    """Ids that are settled already cost no portion; those behind them are settled all the same."""
    holder = Holder("1.0")
    for first, last in ((0, 299), (350, 799)):
        holder.settled(encode_disposition(holder.channel, True, first, last, True, Accepted()))
    counts = holder.settled(encode_disposition(holder.channel, True, 0, 0x7FFF_FFFF, True, Released()))
    assert sum(counts) == 250
    assert len(counts) <= 6
    assert (holder.queue.depth, holder.queue.available) == (250, 250)


@pytest.mark.parametrize("method", ["nack", "ack", "recover"])
def test_multiple_0_9_1(method: str) -> None:
    """basic.nack and basic.ack of many, and basic.recover, are worked off in portions; the answer comes at the end."""
    holder = Holder("0-9-1")
    session = next(iter(holder.wire.client.channels.values()))  # type: ignore[attr-defined]
    frame = {
        "nack": BasicNack(0, multiple=True, requeue=True),
        "ack": BasicAck(RANGE, multiple=True),
        "recover": BasicRecover(True),
    }[method]
    session.write(frame)
    counts = holder.settled(holder.wire.client.data_to_send())
    assert max(counts) <= 100
    assert sum(counts) == RANGE
    assert holder.queue.depth == (0 if method == "ack" else RANGE)


@pytest.mark.parametrize("outcome", OUTCOMES[:3], ids=["accept", "release", "reject"])
def test_ranges_0_10(outcome: Outcome) -> None:
    """message.accept, message.release and message.reject of a range are worked off in portions."""
    holder = Holder("0-10")
    holder.wire.turn()
    for delivery in list(holder.link.incoming):
        holder.link.settle(delivery, outcome)
    counts = holder.settled(holder.wire.client.data_to_send())
    assert max(counts) <= 100
    assert sum(counts) == RANGE
    assert holder.queue.depth == (RANGE if isinstance(outcome, Released) else 0)


def test_ack_fast() -> None:
    """CHANNEL ACK of many is worked off in portions."""
    holder = Holder("fast")
    holder.wire.turn()
    for delivery in list(holder.link.incoming):
        holder.link.settle(delivery, Accepted())
    counts = holder.settled(holder.wire.client.data_to_send())
    assert max(counts) <= 100
    assert sum(counts) == RANGE == holder.queue.dequeued


def test_what_follows() -> None:
    """What comes behind a range that ends with its portion is worked off, too."""
    whole = 100 * 9 + 100 - COSTLY
    older = Holder("0-9-1")
    session = next(iter(older.wire.client.channels.values()))  # type: ignore[attr-defined]
    for last in (whole, RANGE):
        session.write(BasicAck(last, multiple=True))
    assert sum(older.settled(older.wire.client.data_to_send())) == RANGE
    holder = Holder("1.0")
    ranges = ((0, whole - 1), (whole, RANGE - 1))
    frames = b"".join(encode_disposition(holder.channel, True, *each, True, Accepted()) for each in ranges)
    assert sum(holder.settled(frames)) == RANGE
