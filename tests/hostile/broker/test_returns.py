"""A peer that gives many messages back at once stops nobody else: each is cheap, or its turn comes later."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import anyio
import pytest

from amqp10.broker import Broker
from amqp10.dialects.v1_0.wire.frames import encode_disposition
from amqp10.engine import SessionTerms
from amqp10.messaging import Message, Modified, Outcome, Rejected, Released

from ...kit.broker.wire import Wire, queue_of
from ...kit.inside.broker import Queue, QueueDeclaration, QueuedMessage, VirtualHostCore
from ...kit.steps import steps

MANY = 2000
LOST, RANGE = 450, 350
"""Steps that a message may take that comes back: half of them make an object of its delivery."""
CUT = 120
"""Steps that a message may take whose connection is lost, so that no object is made of its delivery."""
LARGE = 10_000
FAILED = 800
"""Steps that a message may take that goes out again after it failed: most of them write its header."""
PAYLOAD = Message(b"small").encode()


class Holder:
    """A peer that holds messages of a queue."""

    def __init__(self, count: int, arguments: Mapping[str, Any] | None = None, dialect: str = "1.0") -> None:
        self.now = 0.0
        self._dialect = dialect
        self.vhost = VirtualHostCore(clock=lambda: self.now)
        self._count = count
        self.queue: Queue
        if arguments is not None:
            self.vhost.declare_queue("q", QueueDeclaration(arguments=dict(arguments)))
        self.connect("first")
        self.queue = queue_of(self.vhost, "q")
        entries = QueuedMessage.read_run([PAYLOAD] * count, 0, None, 0.0)
        if self.queue.takes_runs:
            self.queue.take_run(entries)
        else:
            for each in entries:
                self.queue.put(each)
        self.vhost.flush()

    def connect(self, name: str) -> None:
        self.wire = Wire(self.vhost, self._dialect, session=SessionTerms(incoming_window=1_000_000))
        self.link = self.wire.receive_from("q", name=name)

    def ask(self) -> None:
        """Ask for all messages; the client does not read them."""
        self.link.flow(self._count)
        self.wire.server.receive_data(self.wire.client.data_to_send())
        self.wire.settle_down()

    def take(self) -> None:
        """Take all messages; the client does not read them."""
        self.ask()
        self.later()
        assert self.queue.unsettled == self._count

    def settle(self, outcome: Outcome) -> None:
        """Settle all of them by one frame."""
        self.wire.server.receive_data(encode_disposition(0, True, 0, self._count - 1, True, outcome))
        self.wire.settle_down()

    def end(self, how: str) -> None:
        """End the connection, the session or the link, which holds messages."""
        if how == "cut":
            self.wire.server.receive_eof()
        else:
            if how == "session":
                self.wire.session.end()
            else:
                self.link.detach()
            self.wire.server.receive_data(self.wire.client.data_to_send())
        self.wire.settle_down()

    def later(self, passes: float = math.inf) -> int:
        """Let the broker do what it has put off, in so many passes at most; return how many there were."""
        done = 0
        while done < passes and self.vhost.next_expiry is not None and self.vhost.next_expiry <= self.now:
            self.vhost.expire()
            self.vhost.flush()
            done += 1
        return done


def test_lost_connection() -> None:
    """What its connection held comes back together: it took 600 steps a message."""
    holder = Holder(300)
    holder.take()
    assert steps(holder.wire.peer.lost) < LOST * 300
    assert holder.queue.available == holder.queue.redelivered == 300


@pytest.mark.parametrize("how", ["cut", "session", "detach"])
def test_end(how: str) -> None:
    """What ends with its link never becomes a delivery: it took 500 steps a message."""
    holder = Holder(300)
    holder.take()
    assert steps(lambda: holder.end(how)) < CUT * 300
    assert holder.queue.available == holder.queue.redelivered == 300


@pytest.mark.parametrize("how", ["cut", "session", "detach"])
def test_end_with_very_many(how: str) -> None:
    """Very many come back in several passes; meanwhile nothing goes out before its turn, and nothing twice."""
    holder = Holder(LARGE)
    holder.take()
    queue = holder.queue
    holder.end(how)
    assert 0 < queue.available <= LARGE // 2
    assert queue.returning == queue.unsettled == LARGE - queue.available
    queue.take_run(QueuedMessage.read_run([PAYLOAD] * 10, 0, None, 0.0))  # which are behind those that come back
    holder.connect("second")
    holder.ask()
    assert not holder.wire.server.data_to_send()
    assert holder.later() >= 3
    assert (queue.returning, queue.redelivered, queue.unsettled) == (0, LARGE, LARGE)
    holder.wire.turn()
    assert {Message.decode(each.payload).delivery_count for each in holder.link.incoming} == {1}
    assert len(holder.link.incoming) == LARGE
    assert queue.available == 10


def test_deleted_before_all_came_back() -> None:
    """A queue that is deleted while messages come back forgets them."""
    holder = Holder(LARGE)
    holder.take()
    holder.end("cut")
    holder.vhost.delete(holder.queue)
    holder.later()
    assert (holder.queue.depth, holder.queue.returning) == (0, 0)


@pytest.mark.parametrize("outcome", [Released(), Modified(delivery_failed=True)], ids=["released", "failed"])
def test_one_range(outcome: Outcome) -> None:
    """One frame gives all of it back: it took 380 and 450 steps a message."""
    holder = Holder(300)
    holder.take()
    assert steps(lambda: holder.settle(outcome)) < RANGE * 300
    assert holder.queue.available == holder.queue.redelivered == 300


def test_taken_again() -> None:
    """What came back goes out in runs, as it did the first time."""
    holder = Holder(300)
    first = steps(holder.take)
    holder.settle(Released())
    holder.connect("second")
    assert steps(holder.take) < 2 * first


def test_failed_taken_again() -> None:
    """What failed goes out in runs, too, with its delivery-count; by itself each took 1050 steps."""
    holder = Holder(300)
    holder.take()
    holder.settle(Modified(delivery_failed=True))
    holder.connect("second")
    assert steps(holder.take) < FAILED * 300
    holder.wire.turn()
    assert [Message.decode(each.payload).delivery_count for each in holder.link.incoming] == [1] * 300


@pytest.mark.parametrize("name", ["1.0", "0-10", "0-9-1", "fast"])
def test_one_by_one(name: str) -> None:
    """What goes out one by one does so in many passes, with the turns of others between, whatever the dialect."""
    holder = Holder(MANY, {"x-queue-type": "quorum"}, dialect=name)
    holder.ask()
    assert 0 < holder.queue.unsettled <= MANY // 2
    assert holder.later() >= 2
    assert holder.queue.unsettled == MANY


def test_not_for_this_link() -> None:
    """Each message that comes back for others finds its place among those: it had all of them sorted."""
    costs = []
    for count in (50, 150):
        holder = Holder(count)
        holder.take()
        costs.append(steps(lambda holder=holder: holder.settle(Modified(undeliverable_here=True))))  # type: ignore[misc]
    assert costs[1] < 3.2 * costs[0]


@pytest.mark.parametrize("end", ["rejected", "lost"])
def test_dead_letters(end: str) -> None:
    """Dead letters take long: those of one frame, or of one lost connection, are moved in many passes, in order."""
    holder = Holder(MANY, {"x-delivery-limit": 0})
    holder.take()
    if end == "lost":
        holder.wire.peer.lost()
    else:
        holder.settle(Rejected())
    dead = queue_of(holder.vhost, "dead-letter")
    assert 0 < dead.depth <= MANY // 2
    assert holder.queue.depth == holder.queue.unsettled == MANY - dead.depth
    passes = 0
    while holder.queue.depth:
        before = dead.depth
        holder.vhost.expire()
        holder.vhost.flush()
        assert before < dead.depth <= before + MANY // 2
        passes += 1
    assert passes >= 3
    assert (dead.depth, holder.queue.unsettled, holder.queue.dead_lettered) == (MANY, 0, MANY)


def test_many_small_ranges() -> None:
    """Many frames in one pass are no way around: together they have as many outcomes applied as one frame."""
    holder = Holder(MANY)
    holder.take()
    for first in range(0, MANY, 100):
        frame = encode_disposition(0, True, first, first + 99, True, Rejected())
        holder.wire.server.receive_data(frame)
    holder.wire.settle_down()
    assert holder.queue.depth >= MANY // 2
    holder.later()
    assert (holder.queue.depth, queue_of(holder.vhost, "dead-letter").depth) == (0, MANY)


def test_quorum() -> None:
    """Each message of a quorum queue is counted in its annotations, which takes long."""
    holder = Holder(MANY, {"x-queue-type": "quorum"})
    holder.take()
    holder.wire.peer.lost()
    assert 0 < holder.queue.available <= MANY // 2
    holder.later()
    assert holder.queue.available == MANY
    holder.connect("second")
    holder.take()


def test_deleted_meanwhile() -> None:
    """The queue is deleted before all outcomes are applied."""
    holder = Holder(MANY)
    holder.take()
    holder.settle(Rejected())
    holder.vhost.delete(holder.queue)
    holder.later()
    assert queue_of(holder.vhost, "dead-letter").depth <= MANY // 2


@pytest.mark.anyio
@pytest.mark.in_memory
async def test_running_broker() -> None:
    """A broker applies all of it by itself; at its end, what is left at once."""
    with anyio.fail_after(60):
        async with Broker(queues=["q"]) as broker, broker.connect() as connection:
            async with connection.sender("q") as sender:
                assert await sender.send_many([b"small"] * MANY) == MANY
            async with connection.receiver("q", credit=MANY) as receiver:
                for delivery in [await receiver.receive() for _ in range(MANY)]:
                    delivery.reject()
            async with connection.receiver("dead-letter", credit=MANY) as receiver:
                for _ in range(MANY):
                    (await receiver.receive()).accept()
        assert broker.queue("q").depth == broker.queue("dead-letter").depth == 0
