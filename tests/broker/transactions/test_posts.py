"""Messages sent in a transaction (§4.4.1), by a client engine that says anything."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from amqp10.engine import (
    LinkTerms,
    OutcomesReceived,
)
from amqp10.messaging import (
    ACCEPTED,
    RELEASED,
    Accepted,
    AmqpValue,
    Discharge,
    Message,
    Rejected,
    Source,
    Target,
    TransactionalState,
)

from ...kit.broker.controller import ROLLBACK, UNKNOWN, Controller, controller, ended, stock
from ...kit.broker.wire import Wire, bodies, queue_of
from ...kit.clock import Clock
from ...kit.inside.broker import Limits, QueueDeclaration, VirtualHostCore, VirtualHostSettings


@pytest.mark.spec("4.4.1", "a message is not available at its node before the discharge")
@pytest.mark.parametrize("fail", [False, True])
def test_post(wire: Wire, control: Controller, fail: bool) -> None:
    """Committed it is there, rolled back it never was."""
    sender, receiver = wire.send_to("q"), wire.receive_from("q", credit=10)
    txn_id = control.declare()
    control.post(sender, "a", txn_id)
    control.post(sender, "b", txn_id)
    assert bodies(receiver) == []
    assert control.discharge(txn_id, fail=fail) == ACCEPTED
    assert bodies(receiver) == ([] if fail else ["a", "b"])


@pytest.mark.spec("4.4.1", "the outcome of a message in a transaction names the transaction")
def test_provisional_outcome(wire: Wire, control: Controller) -> None:
    """So does one that is not accepted, and the transaction goes on without it."""
    anonymous = wire.send_to(Target(), name="anonymous")
    txn_id = control.declare()
    good = anonymous.send(Message("x", to="q").encode(), state=TransactionalState(txn_id))
    lost = anonymous.send(Message("x").encode(), state=TransactionalState(txn_id))
    broken = wire.send_to("q").send(b"\x00\x53\x70\xff", state=TransactionalState(txn_id))
    wire.turn()
    assert good.remote_state == TransactionalState(txn_id, Accepted())
    for refused, condition in ((lost, "amqp:not-found"), (broken, "amqp:decode-error")):
        assert isinstance(refused.remote_state, TransactionalState)
        assert refused.remote_state.txn_id == txn_id
        assert isinstance(refused.remote_state.outcome, Rejected)
        assert refused.remote_state.outcome.error is not None
        assert refused.remote_state.outcome.error.condition == condition
    assert control.discharge(txn_id) == ACCEPTED
    assert queue_of(wire.vhost, "q").depth == 1


@pytest.mark.spec("4.4.1", "the outcomes of messages are told before the discharge is accepted")
def test_order_of_outcomes(wire: Wire, control: Controller) -> None:
    """Even where all of it comes and goes in one read, and on two sessions."""
    other = wire.client.begin()
    sender = wire.send_to("q")
    second = other.attach_sender(LinkTerms("second", source=Source(), target=Target("q")))
    wire.turn()
    txn_id = control.declare()
    plain = sender.send(Message("plain").encode())
    posts = [sender.send(Message("a").encode(), state=TransactionalState(txn_id))]
    posts.append(second.send(Message("b").encode(), state=TransactionalState(txn_id)))
    discharge = control.link.send(Message(AmqpValue(Discharge(txn_id, False))).encode())
    told = [
        delivery
        for event in wire.turn()
        if isinstance(event, OutcomesReceived)
        for delivery in event.deliveries
        if delivery is not plain
    ]
    assert told[-1] is discharge
    assert set(told) == {*posts, discharge}


@pytest.mark.spec("4.4.1", "a discharge while a message of the transaction is not whole ends the link, with rollback")
@pytest.mark.parametrize("fail", [False, True])
def test_partial_post(wire: Wire, control: Controller, fail: bool) -> None:
    """The rest of the message is of a transaction that is over."""
    sender = wire.send_to("q")
    txn_id = control.declare()
    payload = Message(b"x" * 1000).encode()
    delivery = sender.send(payload[:500], state=TransactionalState(txn_id), more=True)
    wire.turn()
    control.discharge(txn_id, fail=fail)
    error = ended(wire, control.link)
    assert error is not None
    assert error.condition == ROLLBACK
    sender.send_more(delivery, payload[500:])
    wire.turn()
    assert isinstance(delivery.remote_state, Rejected)
    assert queue_of(wire.vhost, "q").depth == 0


@pytest.mark.spec("4.4.4.1", "a message that is sent settled and cannot be processed prevents the commit")
def test_settled_post_that_cannot_be(wire: Wire, control: Controller) -> None:
    """The sender learns of it only from the discharge."""
    sender = wire.send_to("q", settle_mode="mixed", name="mixed")
    txn_id = control.declare()
    control.post(sender, "good", txn_id, settled=True)
    sender.send(b"\x00\x53\x70\xff", settled=True, state=TransactionalState(txn_id))
    wire.turn()
    state = control.discharge(txn_id)
    assert isinstance(state, Rejected)
    assert state.error is not None
    assert state.error.condition == ROLLBACK
    assert "decode-error" in (state.error.description or "")
    assert queue_of(wire.vhost, "q").depth == 0
    txn_id = control.declare()
    control.post(sender, "good", txn_id, settled=True)
    assert control.discharge(txn_id) == ACCEPTED
    assert queue_of(wire.vhost, "q").depth == 1


@pytest.mark.spec("4.4.4.1", "a message that is sent settled and that no queue takes prevents the commit")
def test_settled_post_that_no_queue_takes(wire: Wire, control: Controller) -> None:
    """The message is not dropped silently: nothing of the transaction happens."""
    exchange = wire.send_to("/exchanges/amq.direct/nobody", settle_mode="settled", name="exchange")
    queue = wire.send_to("q", name="queue")
    txn_id = control.declare()
    control.post(queue, "with it", txn_id)
    control.post(exchange, "unroutable", txn_id, settled=True)
    state = control.discharge(txn_id)
    assert isinstance(state, Rejected)
    assert state.error is not None
    assert state.error.condition == ROLLBACK
    assert "no queue takes" in (state.error.description or "")
    assert queue_of(wire.vhost, "q").depth == 0


def test_settled_post_of_no_transaction(wire: Wire, control: Controller) -> None:
    """It cannot be rejected, so the link is what ends."""
    sender = wire.send_to("q", settle_mode="settled", name="settled")
    control.post(sender, "x", b"never", settled=True)
    error = ended(wire, sender)
    assert error is not None
    assert error.condition == UNKNOWN
    assert control.declare()


def test_the_queue_is_deleted(wire: Wire, control: Controller) -> None:
    """What was promised cannot be kept: the commit is a rollback, of the rest too."""
    first, second = wire.send_to("q"), wire.send_to("other")
    txn_id = control.declare()
    control.post(first, "a", txn_id)
    control.post(second, "b", txn_id)
    wire.vhost.delete(queue_of(wire.vhost, "q"))
    wire.turn()
    state = control.discharge(txn_id)
    assert isinstance(state, Rejected)
    assert state.error is not None
    assert state.error.condition == ROLLBACK
    assert queue_of(wire.vhost, "other").depth == 0


def test_the_senders_link_ends(wire: Wire, control: Controller) -> None:
    """What it posted does not hang on it."""
    sender = wire.send_to("q")
    txn_id = control.declare()
    control.post(sender, "a", txn_id)
    sender.detach()
    wire.turn()
    assert control.discharge(txn_id) == ACCEPTED
    assert queue_of(wire.vhost, "q").depth == 1


@pytest.mark.parametrize("address", ["q", "topic.t"])
def test_room_is_reserved(clock: Clock, address: str) -> None:
    """What open transactions hold counts as held; a commit drops nothing, a rollback gives the room back."""
    wire = Wire(VirtualHostCore(VirtualHostSettings(limits=Limits(messages=10, credit=5)), clock=clock))
    control = controller(wire)
    receiver = wire.receive_from(address)
    sender = wire.send_to(address)
    txn_id = control.declare()
    posted = 0
    while sender.credit > 0:
        control.post(sender, posted, txn_id)
        posted += 1
    assert 10 <= posted <= 11
    control.discharge(txn_id, fail=True)
    assert sender.credit > 0
    txn_id = control.declare()
    for number in range(10):
        control.post(sender, number, txn_id)
    assert control.discharge(txn_id) == ACCEPTED
    receiver.flow(100)
    wire.turn()
    assert bodies(receiver) == list(range(10))


@pytest.mark.spec(
    "4.4.1", "a commit is whole: what was accepted for a transaction cannot be refused when it is discharged"
)
@pytest.mark.parametrize("prepared", [False, True])
def test_given_back_meanwhile(wire: Wire, control: Controller, prepared: bool) -> None:
    """A consumer gives a message back to a queue that refuses more than one: it holds both after the commit."""
    terms = QueueDeclaration(arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    queue = wire.vhost.declare_queue("full", terms)
    full, other = wire.send_to("full"), wire.send_to("other")
    full.send(Message("first").encode())
    wire.turn()
    receiver = wire.receive_from("full", credit=1)
    txn_id = control.declare()
    for sender in (full, other):
        control.post(sender, "second", txn_id)
    receiver.settle(receiver.incoming.popleft(), RELEASED)
    wire.turn()
    if prepared:
        branch, prepared_branches = (1, b"global", b"branch"), wire.vhost.prepared
        assert prepared_branches.prepare(None, branch, wire.peer.transactions[txn_id])
        assert prepared_branches.complete(None, branch, commit=True) is True
    else:
        assert control.discharge(txn_id) == ACCEPTED
    assert (queue.depth, queue.reserved, queue_of(wire.vhost, "other").depth) == (2, 0, 1)


@pytest.mark.parametrize("prepared", [False, True])
def test_a_commit_is_whole(
    wire: Wire, control: Controller, prepared: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What one message or one outcome makes the broker raise keeps nothing else of the transaction from being done."""
    senders = [wire.send_to(name) for name in ("one", "bad", "two")]
    stock(wire, "first", "second")
    receiver = wire.receive_from("q", credit=2)
    txn_id = control.declare()
    for sender in senders:
        control.post(sender, "posted", txn_id)
    for delivery in list(receiver.incoming):
        control.retire(delivery, txn_id)
    queue, bad = queue_of(wire.vhost, "q"), queue_of(wire.vhost, "bad")

    def fails(*_: object) -> None:
        raise ValueError("what nobody thought of")

    times: Iterator[Any] = iter([fails, queue.settle])
    monkeypatch.setattr(queue, "settle", lambda *arguments: next(times)(*arguments))
    monkeypatch.setattr(bad, "insert", fails)
    if prepared:
        branch, prepared_branches = (1, b"global", b"branch"), wire.vhost.prepared
        assert prepared_branches.prepare(None, branch, wire.peer.transactions[txn_id])
        assert prepared_branches.complete(None, branch, commit=True) is True
    else:
        assert control.discharge(txn_id) == ACCEPTED
    nodes = [queue_of(wire.vhost, name) for name in ("one", "bad", "two")]
    assert [(each.depth, each.reserved) for each in nodes] == [(1, 0), (0, 0), (1, 0)]
    (aside,) = wire.vhost.quarantine
    assert (aside.node, Message.decode(aside.payload).body) == ("bad", "posted")
    assert (queue.depth, queue.dequeued) == (1, 1)
    assert "one part of it failed, the others are done" in caplog.text
