"""Messages acquired in a transaction (§4.4.3), by a client engine that says anything."""

from __future__ import annotations

import pytest

from amqp10.engine import (
    SessionTerms,
)
from amqp10.messaging import (
    ACCEPTED,
    Message,
    Source,
    TransactionalState,
)

from ...kit.broker.controller import UNKNOWN, Controller, controller, ended, stock
from ...kit.broker.wire import Wire, bodies, queue_of
from ...kit.inside.broker import VirtualHostCore


@pytest.mark.spec("4.4.3", "a flow with a txn-id acquires in that transaction, and its transfers say so")
@pytest.mark.spec("4.4.3", "when the transaction is discharged, the link's txn-id is cleared")
def test_acquire(wire: Wire, control: Controller) -> None:
    """What was accepted in it is gone with the commit; what has no outcome is a plain delivery from then on."""
    stock(wire, 1, 2, 3)
    receiver = wire.receive_from("q")
    txn_id = control.declare()
    control.acquire(receiver, 2, txn_id)
    first, second = receiver.incoming
    assert first.remote_state == second.remote_state == TransactionalState(txn_id)
    control.retire(first, txn_id, settled=False)
    queue = queue_of(wire.vhost, "q")
    assert queue.depth == 3
    assert control.discharge(txn_id) == ACCEPTED
    assert (queue.depth, queue.unsettled) == (2, 1)
    receiver.flow(1)
    wire.turn()
    assert receiver.incoming[-1].remote_state is None
    again = control.declare()
    control.retire(second, again, settled=False)
    control.discharge(again, fail=True)
    receiver.settle(second, ACCEPTED)
    wire.turn()
    assert (queue.depth, queue.unsettled) == (1, 1)


@pytest.mark.spec("4.4.4.3", "a rollback undoes acquiring and outcome")
@pytest.mark.parametrize("mode", ["unsettled", "settled"])
@pytest.mark.parametrize("outcome", [True, False])
def test_acquire_rolled_back(wire: Wire, control: Controller, mode: str, outcome: bool) -> None:
    """The messages are there again, in order, as if nobody had had them; sent settled, too."""
    stock(wire, 1, 2)
    receiver = wire.receive_from("q", settle_mode=mode)
    txn_id = control.declare()
    control.acquire(receiver, 2, txn_id)
    assert len(receiver.incoming) == 2
    if outcome and mode == "unsettled":
        control.retire(receiver.incoming[1], txn_id)
    queue = queue_of(wire.vhost, "q")
    assert (queue.depth, queue.unsettled) == (2, 2)
    control.discharge(txn_id, fail=True)
    assert (queue.depth, queue.unsettled, len(receiver.unsettled)) == (2, 0, 0)
    again = wire.receive_from("q", credit=2, name="again")
    assert bodies(again) == [1, 2]
    assert [Message.decode(each.payload).delivery_count for each in again.incoming] == [0, 0]


@pytest.mark.spec("4.4.4.3", "a message that is sent settled in a transaction leaves the queue at the commit")
def test_acquire_settled(wire: Wire, control: Controller) -> None:
    """It does not leave the queue earlier. A message sent after the transaction leaves at once."""
    stock(wire, 1, 2)
    receiver = wire.receive_from("q", settle_mode="settled")
    txn_id = control.declare()
    control.acquire(receiver, 1, txn_id)
    queue = queue_of(wire.vhost, "q")
    assert (queue.depth, queue.unsettled) == (2, 1)
    control.discharge(txn_id)
    assert (queue.depth, queue.unsettled) == (1, 0)
    receiver.flow(1)
    wire.turn()
    assert (queue.depth, queue.dequeued) == (0, 2)


@pytest.mark.spec("4.4.3", "a message that is sent in part when its transaction fails is aborted or completed before")
def test_acquired_in_part(vhost: VirtualHostCore) -> None:
    """Where the window has no room for the rest of it, it is aborted, and there for others."""
    wire = Wire(vhost, session=SessionTerms(incoming_window=4), max_frame_size=512)
    control = controller(wire)
    stock(wire, b"x" * 5000)
    receiver = wire.receive_from("q")
    receiver.streaming = True  # nobody reads: the window is used up
    txn_id = control.declare()
    control.acquire(receiver, 1, txn_id)
    (delivery,) = receiver.incoming
    assert not delivery.stream.whole
    control.discharge(txn_id, fail=True)
    queue = queue_of(wire.vhost, "q")
    assert (queue.depth, queue.unsettled) == (1, 0)
    while receiver.read(delivery) is not None:
        wire.turn()
    wire.turn()
    assert delivery.stream.aborted
    assert control.declare()


@pytest.mark.spec("4.4.3", "a link that cannot acquire in a transaction is ended with not-implemented")
def test_browsers_acquire_nothing(wire: Wire, control: Controller) -> None:
    """Who only looks at messages does not acquire them."""
    stock(wire, 1)
    browser = wire.receive_from(Source("q", distribution_mode="copy"), name="browser")
    control.acquire(browser, 1, control.declare())
    error = ended(wire, browser)
    assert error is not None
    assert error.condition == "amqp:not-implemented"


def test_acquire_in_no_transaction(wire: Wire, control: Controller) -> None:
    """A flow for a transaction that is not open ends the link; null is for none."""
    stock(wire, 1)
    receiver = wire.receive_from("q")
    control.acquire(receiver, 1, None)
    assert receiver.incoming[0].remote_state is None
    control.acquire(receiver, 1, b"never")
    error = ended(wire, receiver)
    assert error is not None
    assert error.condition == UNKNOWN


def test_the_acquiring_link_ends(wire: Wire, control: Controller) -> None:
    """What it held without an outcome comes again at once; what it had retired waits for the discharge."""
    stock(wire, 1, 2)
    receiver = wire.receive_from("q")
    txn_id = control.declare()
    control.acquire(receiver, 2, txn_id)
    control.retire(receiver.incoming[0], txn_id, settled=False)
    receiver.detach()
    wire.turn()
    queue = queue_of(wire.vhost, "q")
    assert (queue.depth, queue.unsettled) == (2, 1)
    assert control.discharge(txn_id) == ACCEPTED
    assert (queue.depth, queue.unsettled) == (1, 0)
    assert bodies(wire.receive_from("q", credit=1, name="again")) == [2]
