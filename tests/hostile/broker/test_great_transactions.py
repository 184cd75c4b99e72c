"""Transactions with a great many messages: their end takes a few steps for each, and is whole."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from amqp10.engine import IncomingDelivery, ReceiverLink, SessionTerms
from amqp10.messaging import ACCEPTED, Message, Modified, Outcome, Rejected, Released, TransactionalState

from ...kit.broker.controller import Controller, controller
from ...kit.broker.wire import Wire, bodies, queue_of
from ...kit.inside.broker import GIVEN_BACK, QueuedMessage, VirtualHostCore
from ...kit.steps import steps

MANY = 1000
POSTED, ACCEPTED_EACH, BACK = 40, 120, 220
"""Steps that a message may take at the end of its transaction if it is posted, accepted, or comes back.

Each by itself took 150, 185 and 321.
"""


def _wire() -> tuple[Wire, Controller]:
    wire = Wire(VirtualHostCore(clock=lambda: 0.0), session=SessionTerms(incoming_window=1_000_000))
    return wire, controller(wire)


def _taken(wire: Wire, count: int) -> list[IncomingDelivery]:
    """Messages that a consumer of "q" holds."""
    wire.vhost.declare("q", "queue").take_run(
        QueuedMessage.read_run([Message(number).encode() for number in range(count)], 0, None, 0.0)
    )
    link = wire.receive_from("q", credit=count)
    _later(wire)
    return list(link.incoming)


def _later(wire: Wire) -> None:
    """Let the broker do what it has put off."""
    while wire.vhost.next_expiry is not None and wire.vhost.next_expiry <= 0:
        wire.vhost.expire()
        wire.vhost.flush()
    wire.turn()


@pytest.mark.parametrize("fail", [False, True])
def test_posts(fail: bool) -> None:
    """Messages of a transaction come to their queue together."""
    wire, control = _wire()
    sender = wire.send_to("q")
    txn_id = control.declare()
    for number in range(MANY):
        sender.send(Message(number).encode(), state=TransactionalState(txn_id))
        if not sender.credit:
            wire.turn()
    wire.turn()
    queue, transaction = queue_of(wire.vhost, "q"), wire.peer.transactions[txn_id]
    assert (queue.depth, queue.reserved) == (0, MANY)
    assert steps(transaction.roll_back if fail else transaction.commit) < (POSTED // 2 if fail else POSTED) * MANY
    wire.vhost.flush()
    assert (queue.depth, queue.reserved, queue.reserved_bytes) == (0 if fail else MANY, 0, 0)
    assert bodies(wire.receive_from("q", credit=MANY)) == ([] if fail else list(range(MANY)))


@pytest.mark.parametrize("fail", [False, True])
def test_outcomes(fail: bool) -> None:
    """So do the outcomes of messages, and messages that come back."""
    wire, control = _wire()
    deliveries = _taken(wire, MANY)
    txn_id = control.declare()
    for delivery in deliveries:
        delivery.link.settle(delivery, TransactionalState(txn_id, ACCEPTED))
    wire.turn()
    queue, transaction = queue_of(wire.vhost, "q"), wire.peer.transactions[txn_id]
    assert (queue.depth, queue.unsettled) == (MANY, MANY)
    assert steps(transaction.roll_back if fail else transaction.commit) < (BACK if fail else ACCEPTED_EACH) * MANY
    assert (queue.depth, queue.unsettled, queue.redelivered) == ((MANY, 0, MANY) if fail else (0, 0, 0))


def test_rolled_back_in_several_passes() -> None:
    """Messages that come back are handed out when all of them are there, in their order."""
    wire, control = _wire()
    many = GIVEN_BACK + 500
    deliveries = _taken(wire, many)
    txn_id = control.declare()
    for delivery in deliveries:
        delivery.link.settle(delivery, TransactionalState(txn_id, ACCEPTED))
    wire.turn()
    queue = queue_of(wire.vhost, "q")
    other = wire.receive_from("q", credit=many, name="other")
    control.discharge(txn_id, fail=True)
    assert 0 < queue.redelivered <= GIVEN_BACK
    assert not other.incoming
    _later(wire)
    assert bodies(other) == list(range(many))


class _Searched(list[Any]):
    """A list that counts how often it is searched."""

    times = 0

    def __contains__(self, item: object) -> bool:
        self.times += 1
        return super().__contains__(item)


def test_rolled_back_beside_many() -> None:
    """A detached link has many deliveries to resume: those of the transaction, as many, are not each sought there."""
    wire, control = _wire()
    deliveries = _taken(wire, 200)
    txn_id = control.declare()
    for delivery in deliveries[:100]:
        delivery.link.settle(delivery, TransactionalState(txn_id, ACCEPTED), settled=False)
    wire.turn()
    consumer = next(iter(wire.peer.links.consumers.values()))
    link = deliveries[0].link
    assert isinstance(link, ReceiverLink)
    link.detach(closed=False)
    wire.turn()
    resumable = consumer.resumable
    assert resumable is not None
    resumable.deliveries = searched = _Searched(resumable.deliveries)
    control.discharge(txn_id, fail=True)
    queue = queue_of(wire.vhost, "q")
    assert (len(searched), queue.unsettled, queue.redelivered) == (100, 100, 100)
    assert not searched.times


OUTCOMES: list[Outcome] = [
    ACCEPTED,
    Rejected(),
    Released(),
    Modified(delivery_failed=True),
    Modified(undeliverable_here=True),
]


class _Life:
    """Two queues with messages, which two consumers hold; some get an outcome, and messages come for both queues."""

    def __init__(self, seed: int, *, transaction: bool) -> None:
        random = Random(seed)
        self.wire, control = _wire()
        vhost = self.wire.vhost
        held = []
        for name in ("a", "b"):
            payloads = [Message(f"{name}{number}").encode() for number in range(20)]
            vhost.declare(name, "queue").take_run(QueuedMessage.read_run(payloads, 0, None, 0.0))
            link = self.wire.receive_from(name, credit=20)
            held += list(link.incoming)
        senders = [self.wire.send_to(name) for name in ("a", "b")]
        self._txn_id = control.declare() if transaction else None
        random.shuffle(held)
        while held:
            outcome = random.choice(OUTCOMES)
            for _ in range(random.choice([1, 1, 6])):
                if held:
                    delivery = held.pop()
                    delivery.link.settle(delivery, self._in_transaction(outcome))
            for _ in range(random.choice([0, 1, 4])):
                body = f"new {random.random()}"
                random.choice(senders).send(Message(body).encode(), state=self._in_transaction(None))
            if random.random() < 0.3:
                self.wire.turn()
        self.wire.turn()
        self.before = self._counts()
        if self._txn_id is not None:
            assert control.discharge(self._txn_id) == ACCEPTED
        _later(self.wire)

    def _in_transaction(self, outcome: Outcome | None) -> Any:
        return outcome if self._txn_id is None else TransactionalState(self._txn_id, outcome)

    def _counts(self) -> list[Any]:
        queues = [queue_of(self.wire.vhost, name) for name in ("a", "b")]
        return [(each.depth, each.unsettled, each.dequeued, each.rejected, each.redelivered) for each in queues]

    def result(self) -> list[Any]:
        """The counts of both queues, and what is in them and among the dead letters."""
        found = self._counts()
        for name in ("a", "b", "dead-letter"):
            link = self.wire.receive_from(name, credit=100, name=f"again {name}")
            messages = [Message.decode(each.payload) for each in link.incoming]
            found.append([(each.body, each.delivery_count) for each in messages])
        found[-1].sort()  # outcomes of several links in one go have no order
        return found


@pytest.mark.parametrize("seed", range(10))
def test_a_commit_is_what_it_would_be_without(seed: int) -> None:
    """Each message is where it would be if there were no transaction; until the commit nothing of it is to be seen."""
    life = _Life(seed, transaction=True)
    assert life.before == [(20, 20, 0, 0, 0)] * 2
    assert life.result() == _Life(seed, transaction=False).result()
