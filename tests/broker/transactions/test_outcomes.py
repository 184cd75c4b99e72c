"""Outcomes given in a transaction, of what was received (§4.4.2), by a client engine that says anything."""

from __future__ import annotations

import pytest

from amqp10.dialects.v1_0.wire.frames import encode_frame
from amqp10.dialects.v1_0.wire.performatives import Disposition
from amqp10.messaging import (
    ACCEPTED,
    RELEASED,
    Message,
    Modified,
    Outcome,
    Rejected,
    Source,
)

from ...kit.broker.controller import ROLLBACK, UNKNOWN, Controller, ended, stock
from ...kit.broker.wire import Wire, bodies, queue_of


@pytest.mark.spec("4.4.2", "the outcome is applied when the transaction is committed")
@pytest.mark.spec("4.4.2", "the delivery need not be part of any transaction itself")
@pytest.mark.parametrize("settled", [False, True])
@pytest.mark.parametrize(
    ("outcome", "depth", "again"),
    [
        (ACCEPTED, 0, []),
        (Rejected(), 0, []),
        (RELEASED, 1, [0]),
        (Modified(delivery_failed=True), 1, [1]),
    ],
)
def test_retire(wire: Wire, control: Controller, settled: bool, outcome: Outcome, depth: int, again: list[int]) -> None:
    """Until then the message stays with the consumer; after it the delivery is settled on both ends."""
    stock(wire, "x")
    receiver = wire.receive_from("q", credit=1)
    delivery = receiver.incoming.popleft()
    txn_id = control.declare()
    control.retire(delivery, txn_id, outcome, settled=settled)
    queue = queue_of(wire.vhost, "q")
    assert (queue.depth, queue.unsettled) == (1, 1)
    assert delivery.remote_settled is False
    assert control.discharge(txn_id) == ACCEPTED
    assert delivery.local_settled
    assert (queue.depth, queue.unsettled) == (depth, 0)
    receiver.flow(1)
    wire.turn()
    assert [Message.decode(each.payload).delivery_count for each in receiver.incoming] == again


@pytest.mark.spec("4.4.2", "after a rollback the delivery is live, and its outcome still to be given")
@pytest.mark.spec("4.4.4.2", "an outcome that did not settle is as if it had not been")
@pytest.mark.parametrize("then", ["plain", "another transaction", "nothing"])
def test_rolled_back_unsettled(wire: Wire, control: Controller, then: str) -> None:
    """It is settled by a plain outcome, by another transaction, or comes again when the link ends."""
    stock(wire, "x")
    receiver = wire.receive_from("q", credit=10)
    delivery = receiver.incoming.popleft()
    txn_id = control.declare()
    control.retire(delivery, txn_id, settled=False)
    control.discharge(txn_id, fail=True)
    queue = queue_of(wire.vhost, "q")
    assert (queue.depth, queue.unsettled) == (1, 1)
    assert bodies(receiver) == []
    if then == "plain":
        receiver.settle(delivery, ACCEPTED)
        wire.turn()
    elif then == "another transaction":
        txn_id = control.declare()
        control.retire(delivery, txn_id, settled=False)
        assert control.discharge(txn_id) == ACCEPTED
    else:
        receiver.detach()
        wire.turn()
    assert (queue.depth, queue.unsettled) == (1 if then == "nothing" else 0, 0)


@pytest.mark.spec("4.4.4.2", "after a rollback a delivery that the controller settled ends in the default outcome")
@pytest.mark.parametrize(("default", "count"), [(None, 1), (RELEASED, 0), (Modified(delivery_failed=True), 1)])
def test_rolled_back_settled(wire: Wire, control: Controller, default: Outcome | None, count: int) -> None:
    """That of the source, or a failed attempt."""
    stock(wire, "x")
    receiver = wire.receive_from(Source("q", default_outcome=default), credit=2)
    txn_id = control.declare()
    control.retire(receiver.incoming.popleft(), txn_id, settled=True)
    control.discharge(txn_id, fail=True)
    assert [Message.decode(each.payload).delivery_count for each in receiver.incoming] == [count]


@pytest.mark.parametrize("settled", [False, True])
@pytest.mark.parametrize("fail", [False, True])
def test_the_receivers_link_ends(wire: Wire, control: Controller, settled: bool, fail: bool) -> None:
    """The outcome that was named before does not hang on the link."""
    stock(wire, "x")
    receiver = wire.receive_from("q", credit=1)
    txn_id = control.declare()
    control.retire(receiver.incoming.popleft(), txn_id, settled=settled)
    receiver.detach()
    wire.turn()
    queue = queue_of(wire.vhost, "q")
    assert queue.depth == 1
    control.discharge(txn_id, fail=fail)
    assert (queue.depth, queue.unsettled) == (1 if fail else 0, 0)
    if fail:
        again = wire.receive_from("q", credit=1, name="again")
        assert bodies(again) == ["x"]


@pytest.mark.spec("2.6.4", "outcomes may come after a detach that does not close the link")
@pytest.mark.parametrize("acquired", [False, True])
def test_an_outcome_comes_after_the_rollback(wire: Wire, control: Controller, acquired: bool) -> None:
    """The detached link has given the message back: what is said of it now does not concern who has it."""
    stock(wire, "x")
    receiver = wire.receive_from("q", credit=0 if acquired else 1)
    txn_id = control.declare()
    if acquired:
        control.acquire(receiver, 1, txn_id)
    delivery = receiver.incoming.popleft()
    control.retire(delivery, txn_id, settled=False)
    receiver.detach(closed=False)
    wire.turn()
    control.discharge(txn_id, fail=True)
    again = wire.receive_from("q", credit=1, name="again")
    assert bodies(again) == ["x"]
    assert delivery.delivery_id is not None
    late = Disposition(role=True, first=delivery.delivery_id, settled=True, state=RELEASED)
    wire.take(encode_frame(0, late))
    queue = queue_of(wire.vhost, "q")
    assert (queue.depth, queue.unsettled) == (1, 1)
    again.settle(again.incoming.popleft(), ACCEPTED)
    wire.turn()
    assert (queue.depth, queue.unsettled, queue.dequeued) == (0, 0, 1)


@pytest.mark.spec(
    "4.4.2", "a delivery in one transaction and its outcome in another end the control link, with rollback"
)
@pytest.mark.parametrize("how", ["another transaction", "plain"])
@pytest.mark.parametrize("acquired", [False, True])
def test_outcome_elsewhere(wire: Wire, control: Controller, how: str, acquired: bool) -> None:
    """Retired or acquired, it is part of the first one until that is discharged; both are rolled back."""
    stock(wire, "x")
    receiver = wire.receive_from("q")
    first, second = control.declare(), control.declare()
    if acquired:
        control.acquire(receiver, 1, first)
    else:
        receiver.flow(1)
        wire.turn()
        control.retire(receiver.incoming[0], first, settled=False)
    delivery = receiver.incoming.popleft()
    if how == "plain":
        receiver.settle(delivery, ACCEPTED)
        wire.turn()
    else:
        control.retire(delivery, second, settled=False)
    error = ended(wire, control.link)
    assert error is not None
    assert error.condition == ROLLBACK
    assert wire.peer.transactions == {}
    assert queue_of(wire.vhost, "q").depth == 1


def test_named_again(wire: Wire, control: Controller) -> None:
    """In its own transaction an outcome may be named again, and be settled later: the last one counts."""
    stock(wire, "x")
    receiver = wire.receive_from("q", credit=2)
    delivery = receiver.incoming.popleft()
    txn_id = control.declare()
    control.retire(delivery, txn_id, ACCEPTED, settled=False)
    control.retire(delivery, txn_id, RELEASED, settled=True)
    assert control.discharge(txn_id) == ACCEPTED
    assert bodies(receiver) == ["x"]


@pytest.mark.parametrize("settled", [False, True])
def test_outcome_of_no_transaction(wire: Wire, control: Controller, settled: bool) -> None:
    """An outcome cannot be rejected, so the link is what ends; the message is lost to nobody."""
    stock(wire, "x")
    receiver = wire.receive_from("q", credit=1)
    control.retire(receiver.incoming.popleft(), b"never", settled=settled)
    error = ended(wire, receiver)
    assert error is not None
    assert error.condition == UNKNOWN
    queue = queue_of(wire.vhost, "q")
    assert (queue.depth, queue.unsettled) == (1, 0)
    assert control.declare()
