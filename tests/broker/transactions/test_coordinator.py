"""The broker as transactional resource: what Part 4 asks of it, by a client engine that says anything."""

from __future__ import annotations

import pytest

from amqp10.engine import (
    LinkTerms,
    Session,
)
from amqp10.messaging import (
    ACCEPTED,
    AmqpValue,
    Coordinator,
    Declare,
    Declared,
    Discharge,
    Message,
    Outcome,
    Rejected,
    Released,
    Source,
    Target,
)

from ...kit.broker.controller import UNKNOWN, Controller, controller, ended, stock
from ...kit.broker.wire import Wire, bodies, queue_of
from ...kit.inside.broker import VirtualHostCore, coordinator

pytestmark = pytest.mark.capability("transactions")


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
@pytest.mark.spec("4.3", "a discharge that is sent settled ends the link")
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
    assert queue_of(wire.vhost, "q").reserved == 0


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


@pytest.mark.spec("4.3", "if the source does not support rejected, the link is detached with the transaction-error")
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
    monkeypatch.setattr(coordinator, "MAX_TRANSACTIONS", 2)
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
    queue = queue_of(wire.vhost, "q")
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
    assert queue_of(wire.vhost, "q").depth == 0


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
    assert [queue_of(wire.vhost, name).depth for name in ("q", "out0", "out1")] == [1, 0, 0]
    assert control.discharge(txn_id) == ACCEPTED
    assert [queue_of(wire.vhost, name).depth for name in ("q", "out0", "out1")] == [0, 1, 1]


def test_a_transaction_is_its_connections(vhost: VirtualHostCore) -> None:
    """No other connection can work in it."""
    one, two = Wire(vhost), Wire(vhost)
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
