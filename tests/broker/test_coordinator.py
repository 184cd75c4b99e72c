"""The broker as transactional resource: what Part 4 asks of it, by a client engine that says anything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from amqp10.broker._node import Limits
from amqp10.broker._router import Router
from amqp10.engine import (
    IncomingDelivery,
    LinkEnded,
    LinkTerms,
    OutcomesReceived,
    OutgoingDelivery,
    ReceiverLink,
    SenderLink,
    Session,
    SessionTerms,
)
from amqp10.errors import LinkDetached
from amqp10.messaging import (
    ACCEPTED,
    RELEASED,
    TXN_ID,
    Accepted,
    AmqpValue,
    Coordinator,
    Declare,
    Declared,
    Discharge,
    Message,
    Modified,
    Outcome,
    Rejected,
    Released,
    Source,
    Target,
    TransactionalState,
)

from .conftest import Clock
from .test_connection import Wire, bodies, queue_of

UNKNOWN = "amqp:transaction:unknown-id"
ROLLBACK = "amqp:transaction:rollback"
ALL = ("amqp:accepted:list", "amqp:rejected:list")


@dataclass
class Controller:
    """The client's side of transactions, on a wire."""

    wire: Wire
    link: SenderLink

    def say(self, body: object, **options: Any) -> OutgoingDelivery:
        delivery = self.link.send(Message(AmqpValue(body)).encode(), **options)
        self.wire.turn()
        return delivery

    def declare(self) -> bytes:
        state = self.say(Declare()).remote_state
        assert isinstance(state, Declared)
        return state.txn_id

    def discharge(self, txn_id: bytes, *, fail: bool = False) -> Any:
        return self.say(Discharge(txn_id, fail)).remote_state

    def post(self, sender: SenderLink, body: object, txn_id: bytes, *, settled: bool = False) -> OutgoingDelivery:
        delivery = sender.send(Message(body).encode(), settled=settled, state=TransactionalState(txn_id))
        self.wire.turn()
        return delivery

    def retire(
        self, delivery: IncomingDelivery, txn_id: bytes, outcome: Outcome = ACCEPTED, *, settled: bool = True
    ) -> None:
        delivery.link.settle(delivery, TransactionalState(txn_id, outcome), settled=settled)
        self.wire.turn()

    def acquire(self, link: ReceiverLink, credit: int, txn_id: bytes | None) -> None:
        link.flow(credit, properties={TXN_ID: txn_id})
        self.wire.turn()


@pytest.fixture
def wire(router: Router) -> Wire:
    """A client of a broker with the usual settings."""
    return Wire(router)


@pytest.fixture
def control(wire: Wire) -> Controller:
    """A control link, attached."""
    return controller(wire)


def controller(wire: Wire, name: str = "control", outcomes: tuple[str, ...] = ALL, **terms: Any) -> Controller:
    link = wire.session.attach_sender(LinkTerms(name, source=Source(outcomes=outcomes), target=Coordinator(), **terms))
    wire.turn()
    return Controller(wire, link)


def ended(wire: Wire, link: object) -> LinkDetached | None:
    """Why that link ended, if it did."""
    for event in wire.events:
        if isinstance(event, LinkEnded) and event.link is link:
            assert isinstance(event.error, LinkDetached)
            return event.error
    return None


def stock(wire: Wire, *messages: object, name: str = "stock") -> SenderLink:
    """A sender to q that has sent these."""
    link = wire.send_to("q", name=name)
    for body in messages:
        link.send(Message(body).encode())
    wire.turn()
    return link


# Declaring and discharging


@pytest.mark.spec("4.5.1", "the coordinator answers with the capabilities that it has")
@pytest.mark.spec("4.5.7", "local transactions, several on a session, and over several sessions")
def test_capabilities(control: Controller) -> None:
    """Whatever was asked for, the answer is what is there."""
    assert control.link.remote is not None
    target = control.link.remote.target
    assert isinstance(target, Coordinator)
    assert set(target.capabilities) == {
        "amqp:local-transactions",
        "amqp:multi-txns-per-ssn",
        "amqp:multi-ssns-per-txn",
    }
    assert control.link.credit > 0


@pytest.mark.spec("4.2", "a declare is answered with an identifier, in the outcome declared")
@pytest.mark.spec("4.5.4", "a transaction-id is at most 32 octets")
def test_declare(control: Controller) -> None:
    """Each has its own."""
    first, second = control.declare(), control.declare()
    assert first != second
    assert 0 < len(first) <= 32


@pytest.mark.spec("4.2", "a declare that is sent settled ends the link")
@pytest.mark.spec("4.3", "so does a discharge that is sent settled")
@pytest.mark.parametrize("body", [Declare(), Discharge(b"x", False)])
def test_sent_settled(wire: Wire, body: object) -> None:
    """Nobody would hear the answer; what was declared on the link is rolled back."""
    control = controller(wire, settle_mode="mixed")
    sender = wire.send_to("q")
    control.post(sender, "never", control.declare())
    control.say(body, settled=True)
    assert not control.link.attached
    assert ended(wire, control.link) is not None
    assert wire.peer.transactions == {}
    assert queue_of(wire.router, "q").reserved == 0


@pytest.mark.spec("4.5.2", "a global-id needs the capability of distributed transactions")
def test_distributed(control: Controller) -> None:
    """There are none here."""
    state = control.say(Declare(global_id="x")).remote_state
    assert isinstance(state, Rejected)
    assert control.link.attached


@pytest.mark.parametrize("payload", [b"\x00\x53\x77\xff", Message("hello").encode(), Message(b"data").encode()])
def test_neither_declare_nor_discharge(wire: Wire, control: Controller, payload: bytes) -> None:
    """Anything else is rejected, and the link lives on."""
    delivery = control.link.send(payload)
    wire.turn()
    assert isinstance(delivery.remote_state, Rejected)
    assert control.declare()


@pytest.mark.spec("4.2", "other sections of a declare are ignored")
def test_other_sections(wire: Wire, control: Controller) -> None:
    """Header and properties change nothing."""
    message = Message(AmqpValue(Declare()), durable=True, subject="x", application_properties={"a": 1})
    delivery = control.link.send(message.encode())
    wire.turn()
    assert isinstance(delivery.remote_state, Declared)


@pytest.mark.spec("4.3", "a discharge that cannot be done is rejected with a transaction-error")
@pytest.mark.spec("4.5.8", "an id that does not exist is unknown-id")
@pytest.mark.parametrize("fail", [False, True])
def test_unknown_discharge(control: Controller, fail: bool) -> None:
    """One that was never declared, and one that is over."""
    over = control.declare()
    assert control.discharge(over) == ACCEPTED
    for txn_id in (b"never", over):
        state = control.discharge(txn_id, fail=fail)
        assert isinstance(state, Rejected)
        assert state.error is not None
        assert state.error.condition == UNKNOWN


@pytest.mark.spec("4.3", "where the source does not support rejected, the link is detached with the transaction-error")
def test_without_rejected(wire: Wire) -> None:
    """The error comes with the detach."""
    control = controller(wire, outcomes=("amqp:accepted:list",))
    control.say(Discharge(b"never", False))
    error = ended(wire, control.link)
    assert error is not None
    assert error.condition == UNKNOWN


def test_other_links_transaction(wire: Wire, control: Controller) -> None:
    """A transaction is discharged on the link that declared it."""
    other = controller(wire, "other")
    txn_id = control.declare()
    assert isinstance(other.discharge(txn_id), Rejected)
    assert control.discharge(txn_id) == ACCEPTED


def test_too_many(wire: Wire, control: Controller, monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer that declares and declares is told so."""
    monkeypatch.setattr("amqp10.broker._coordinator.MOST", 2)
    control.declare()
    txn_id = control.declare()
    assert isinstance(control.say(Declare()).remote_state, Rejected)
    control.discharge(txn_id)
    control.declare()


@pytest.mark.spec("4.1", "when the control link ends, what it declared and did not discharge is rolled back")
@pytest.mark.parametrize("how", ["detach", "close", "end", "connection", "transport"])
def test_the_control_link_ends(wire: Wire, control: Controller, how: str) -> None:
    """However it does: nothing of it was."""
    sender = stock(wire, "kept")
    receiver = wire.receive_from("q", credit=1)
    txn_id = control.declare()
    control.post(sender, "never", txn_id)
    control.retire(receiver.incoming.popleft(), txn_id)
    queue = queue_of(wire.router, "q")
    assert (queue.depth, queue.reserved) == (1, 1)
    if how == "detach":
        control.link.detach(closed=False)
    elif how == "close":
        control.link.detach()
    elif how == "end":
        wire.session.end()
    elif how == "connection":
        wire.client.close()
    else:
        wire.server.receive_eof()
        wire.peer.handle(wire.server.events())
    wire.turn()
    assert (queue.depth, queue.reserved, queue.unsettled) == (1, 0, 0)
    assert wire.peer.transactions == {}


@pytest.mark.spec("4.1", "further work in a transaction that is rolled back fails")
def test_work_after_the_end(wire: Wire, control: Controller) -> None:
    """A message is rejected as of no known transaction; so is one of an id that never was."""
    sender = wire.send_to("q")
    txn_id = control.declare()
    control.discharge(txn_id, fail=True)
    for unknown in (txn_id, b"never"):
        state = control.post(sender, "x", unknown).remote_state
        assert isinstance(state, Rejected)
        assert state.error is not None
        assert state.error.condition == UNKNOWN
    assert queue_of(wire.router, "q").depth == 0


# Posting (§4.4.1)


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
    assert queue_of(wire.router, "q").depth == 1


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
    assert queue_of(wire.router, "q").depth == 0


@pytest.mark.spec("4.4.4.1", "what is sent settled and cannot be processed keeps its transaction from being committed")
def test_settled_post_that_cannot_be(wire: Wire, control: Controller) -> None:
    """The sender does not hear of it but by the discharge."""
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
    assert queue_of(wire.router, "q").depth == 0
    txn_id = control.declare()
    control.post(sender, "good", txn_id, settled=True)
    assert control.discharge(txn_id) == ACCEPTED
    assert queue_of(wire.router, "q").depth == 1


@pytest.mark.spec("4.4.4.1", "what is sent settled and no queue takes keeps its transaction from being committed")
def test_settled_post_that_no_queue_takes(wire: Wire, control: Controller) -> None:
    """It is not dropped in silence: nothing of the transaction happens."""
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
    assert queue_of(wire.router, "q").depth == 0


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
    wire.router.delete(queue_of(wire.router, "q"))
    wire.turn()
    state = control.discharge(txn_id)
    assert isinstance(state, Rejected)
    assert state.error is not None
    assert state.error.condition == ROLLBACK
    assert queue_of(wire.router, "other").depth == 0


def test_the_senders_link_ends(wire: Wire, control: Controller) -> None:
    """What it posted does not hang on it."""
    sender = wire.send_to("q")
    txn_id = control.declare()
    control.post(sender, "a", txn_id)
    sender.detach()
    wire.turn()
    assert control.discharge(txn_id) == ACCEPTED
    assert queue_of(wire.router, "q").depth == 1


@pytest.mark.parametrize("address", ["q", "topic.t"])
def test_room_is_reserved(clock: Clock, address: str) -> None:
    """What open transactions hold counts as held; a commit drops nothing, a rollback gives the room back."""
    wire = Wire(Router(clock=clock, limits=Limits(messages=10, credit=5)))
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


# Retiring (§4.4.2)


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
    queue = queue_of(wire.router, "q")
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
    queue = queue_of(wire.router, "q")
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
    queue = queue_of(wire.router, "q")
    assert queue.depth == 1
    control.discharge(txn_id, fail=fail)
    assert (queue.depth, queue.unsettled) == (1 if fail else 0, 0)
    if fail:
        again = wire.receive_from("q", credit=1, name="again")
        assert bodies(again) == ["x"]


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
    assert queue_of(wire.router, "q").depth == 1


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
    queue = queue_of(wire.router, "q")
    assert (queue.depth, queue.unsettled) == (1, 0)
    assert control.declare()


# Acquiring (§4.4.3)


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
    queue = queue_of(wire.router, "q")
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
    queue = queue_of(wire.router, "q")
    assert (queue.depth, queue.unsettled) == (2, 2)
    control.discharge(txn_id, fail=True)
    assert (queue.depth, queue.unsettled, len(receiver.unsettled)) == (2, 0, 0)
    again = wire.receive_from("q", credit=2, name="again")
    assert bodies(again) == [1, 2]
    assert [Message.decode(each.payload).delivery_count for each in again.incoming] == [0, 0]


@pytest.mark.spec("4.4.4.3", "what is sent settled in a transaction leaves the queue with the commit")
def test_acquire_settled(wire: Wire, control: Controller) -> None:
    """Not before; and what comes after the transaction leaves at once."""
    stock(wire, 1, 2)
    receiver = wire.receive_from("q", settle_mode="settled")
    txn_id = control.declare()
    control.acquire(receiver, 1, txn_id)
    queue = queue_of(wire.router, "q")
    assert (queue.depth, queue.unsettled) == (2, 1)
    control.discharge(txn_id)
    assert (queue.depth, queue.unsettled) == (1, 0)
    receiver.flow(1)
    wire.turn()
    assert (queue.depth, queue.dequeued) == (0, 2)


@pytest.mark.spec("4.4.3", "a message that is sent in part when its transaction fails is aborted or completed before")
def test_acquired_in_part(router: Router) -> None:
    """Where the window has no room for the rest of it, it is aborted, and there for others."""
    wire = Wire(router, session=SessionTerms(incoming_window=4), max_frame_size=512)
    control = controller(wire)
    stock(wire, b"x" * 5000)
    receiver = wire.receive_from("q")
    receiver.streaming = True  # nobody reads: the window is used up
    txn_id = control.declare()
    control.acquire(receiver, 1, txn_id)
    (delivery,) = receiver.incoming
    assert not delivery.stream.whole
    control.discharge(txn_id, fail=True)
    queue = queue_of(wire.router, "q")
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
    queue = queue_of(wire.router, "q")
    assert (queue.depth, queue.unsettled) == (2, 1)
    assert control.discharge(txn_id) == ACCEPTED
    assert (queue.depth, queue.unsettled) == (1, 0)
    assert bodies(wire.receive_from("q", credit=1, name="again")) == [2]


# Several


@pytest.mark.spec("4.1", "work on any link of any session of the connection may be in one transaction")
def test_links_and_sessions(wire: Wire, control: Controller) -> None:
    """Two senders and a receiver on three sessions, in one transaction; another one is not concerned."""
    stock(wire, "in")
    sessions: list[Session] = [wire.client.begin(), wire.client.begin()]
    senders = [
        session.attach_sender(LinkTerms(f"s{number}", source=Source(), target=Target(f"out{number}")))
        for number, session in enumerate(sessions)
    ]
    receiver = sessions[1].attach_receiver(LinkTerms("r", source=Source("q"), target=Target()))
    receiver.flow(1)
    wire.turn()
    txn_id, other = control.declare(), control.declare()
    for sender in senders:
        control.post(sender, "x", txn_id)
        control.post(sender, "y", other)
    control.retire(receiver.incoming.popleft(), txn_id)
    control.discharge(other, fail=True)
    assert [queue_of(wire.router, name).depth for name in ("q", "out0", "out1")] == [1, 0, 0]
    assert control.discharge(txn_id) == ACCEPTED
    assert [queue_of(wire.router, name).depth for name in ("q", "out0", "out1")] == [0, 1, 1]


def test_a_transaction_is_its_connections(router: Router) -> None:
    """No other connection can work in it."""
    one, two = Wire(router), Wire(router)
    first, second = controller(one), controller(two)
    txn_id = first.declare()
    assert isinstance(second.post(two.send_to("q"), "x", txn_id).remote_state, Rejected)
    assert isinstance(second.discharge(txn_id), Rejected)
    assert first.discharge(txn_id) == ACCEPTED


@pytest.mark.parametrize("outcome", [ACCEPTED, Released(), Rejected()])
def test_on_a_topic(wire: Wire, control: Controller, outcome: Outcome) -> None:
    """Posts are copied at the commit; what a subscriber retires is its own copy."""
    receiver = wire.receive_from("topic.t", credit=1)
    sender = wire.send_to("topic.t")
    txn_id = control.declare()
    control.post(sender, "x", txn_id)
    late = wire.receive_from("topic.t", credit=1, name="late")
    control.discharge(txn_id)
    assert bodies(receiver) == bodies(late) == ["x"]
    txn_id = control.declare()
    control.retire(receiver.incoming.popleft(), txn_id, outcome, settled=False)
    receiver.detach()
    wire.turn()
    assert control.discharge(txn_id) == ACCEPTED
    assert bodies(late) == ["x"]
