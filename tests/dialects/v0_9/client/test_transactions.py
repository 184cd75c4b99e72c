"""What a client's transactions come to, octet by octet: none is told as committed that the server has not committed."""

from __future__ import annotations

import pytest

from amqp10.dialects.v0_9.wire.methods import (
    BasicAck,
    BasicNack,
    BasicPublish,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    ConfirmSelectOk,
    QueueDeclareOk,
    TxCommit,
    TxCommitOk,
    TxSelect,
    TxSelectOk,
)
from amqp10.engine import LinkTerms, OutcomesReceived
from amqp10.errors import LocalProtocolError
from amqp10.messaging import (
    ACCEPTED,
    AmqpValue,
    Discharge,
    Message,
    Rejected,
    Source,
    Target,
    TransactionalState,
)

from ....kit.dialects.v0_9.client_engine import CAN, hear, opened, publishing, said
from ....kit.dialects.v0_9.consumer import receiving
from ....kit.dialects.v0_9.coordinator import coordinating, declare, discharge, why_rolled_back
from ....kit.parents import session_of


def test_a_sender_is_gone() -> None:
    """The link of one of its messages ended before the commit: all of it is rolled back, and nothing was written."""
    engine = opened(**CAN)
    sender, _ = publishing(engine, 0)
    coordinator = coordinating(engine, sender)
    txn_id = declare(coordinator)
    sender.send(Message(b"m").encode(), state=TransactionalState(txn_id))
    hear(engine, 1, ChannelClose(404, "no queue 'q'"))
    said(engine)
    outcome = discharge(coordinator, txn_id)
    assert why_rolled_back(outcome) == "the sender 's' is gone: amqp:not-found: no queue 'q'"
    assert said(engine) == []


@pytest.mark.parametrize("answered", [False, True])
def test_a_sender_that_was_closed(answered: bool) -> None:
    """Messages sent before this side closed the link are committed, as in the other dialects."""
    engine = opened(**CAN)
    sender, _ = publishing(engine, 0)
    coordinator = coordinating(engine, sender)
    txn_id = declare(coordinator)
    sender.send(Message(b"m").encode(), state=TransactionalState(txn_id))
    sender.detach()
    if answered:
        hear(engine, 1, ChannelCloseOk())
    said(engine)
    outcome = discharge(coordinator, txn_id)
    assert [type(each) for each in said(engine)] == [ChannelOpen, TxSelect, BasicPublish, TxCommit]
    hear(engine, 2, ChannelOpenOk(), TxSelectOk(), TxCommitOk())
    assert outcome.remote_state is ACCEPTED


def test_the_receiver_is_gone() -> None:
    """The link whose delivery it accepts ended before the commit: the message that would have gone with it does not."""
    engine = opened(**CAN)
    receiver = receiving(engine, 1)
    session = session_of(receiver)
    sender = session.attach_sender(LinkTerms("s", Source(), Target("q")))
    hear(engine, 2, ChannelOpenOk(), QueueDeclareOk("q"), ConfirmSelectOk())
    coordinator = coordinating(engine, receiver)
    txn_id = declare(coordinator)
    sender.send(Message(b"m").encode(), state=TransactionalState(txn_id))
    receiver.settle(receiver.incoming.popleft(), TransactionalState(txn_id, ACCEPTED))
    hear(engine, 1, ChannelClose(541, "the queue's node is down"))
    said(engine)
    assert "the queue's node is down" in why_rolled_back(discharge(coordinator, txn_id))
    assert said(engine) == []


def test_one_that_cannot_be_said() -> None:
    """A message fits no frame by now: the commit says so, none was written, and what it was to settle comes again."""
    engine = opened(**CAN)
    receiver = receiving(engine, 1)
    sender = session_of(receiver).attach_sender(LinkTerms("s", Source(), Target("q")))
    hear(engine, 2, ChannelOpenOk(), QueueDeclareOk("q"), ConfirmSelectOk())
    said(engine)
    coordinator = coordinating(engine, receiver)
    txn_id = declare(coordinator)
    receiver.settle(receiver.incoming.popleft(), TransactionalState(txn_id, ACCEPTED))
    sender.send(Message(b"first").encode(), state=TransactionalState(txn_id))
    delivery = sender.send(Message(b"second").encode(), state=TransactionalState(txn_id))
    delivery.payload = Message(b"second", message_id="m", application_properties={"n": "v" * 200_000}).encode()
    outcome = discharge(coordinator, txn_id)
    assert "the properties have" in why_rolled_back(outcome)
    assert said(engine) == [BasicNack(1, False, True)]


def test_no_channel_for_the_commit() -> None:
    """All channels are in use: the discharge is answered, as any commit that fails, and is not left unsettled."""
    engine = opened(**CAN)
    sender, _ = publishing(engine, 0)
    for _ in range(99):
        engine.begin().attach_sender(LinkTerms("more", Source(), Target("q")))
    coordinator = coordinating(engine, sender)
    txn_id = declare(coordinator)
    sender.send(Message(b"m").encode(), state=TransactionalState(txn_id))
    said(engine)
    assert "100 channels on a connection, and all are in use" in why_rolled_back(discharge(coordinator, txn_id))
    assert not coordinator.unsettled
    assert said(engine) == []


def test_a_tag_that_is_in_use() -> None:
    """A discharge whose tag another one has is refused, and that one is answered."""
    engine = opened(**CAN)
    sender, _ = publishing(engine, 0)
    coordinator = coordinating(engine, sender)
    txn_id = declare(coordinator)
    sender.send(Message(b"m").encode(), state=TransactionalState(txn_id))
    message = Message(AmqpValue(Discharge(txn_id))).encode()
    outcome = coordinator.send(message, tag=b"same")
    with pytest.raises(LocalProtocolError, match=r"the delivery-tag b'same' is in use"):
        coordinator.send(message, tag=b"same")
    hear(engine, 2, ChannelOpenOk(), TxSelectOk(), TxCommitOk())
    assert outcome.remote_state == ACCEPTED


def test_what_is_rolled_back_comes_again() -> None:
    """Deliveries of a transaction go back to the queue at its rollback, and its messages are not written."""
    engine = opened(**CAN)
    receiver = receiving(engine, 2)
    coordinator = coordinating(engine, receiver)
    txn_id = declare(coordinator)
    first, second = receiver.incoming
    receiver.settle(first, TransactionalState(txn_id, ACCEPTED))
    receiver.settle(second, ACCEPTED)
    outcome = discharge(coordinator, txn_id, fail=True)
    assert outcome.remote_state is ACCEPTED
    assert {method.delivery_tag: type(method) for method in said(engine)} == {1: BasicNack, 2: BasicAck}


def test_a_coordinator_that_goes() -> None:
    """The end of the link rolls back what is open on it: what was to be settled comes again, and the id is nobody's."""
    engine = opened(**CAN)
    receiver = receiving(engine, 1)
    coordinator = coordinating(engine, receiver)
    other = coordinating(engine, receiver)
    txn_id = declare(coordinator)
    state = TransactionalState(txn_id, ACCEPTED)
    receiver.settle(receiver.incoming.popleft(), state)
    coordinator.detach()
    assert [each for each in said(engine) if isinstance(each, BasicNack)] == [BasicNack(1, False, True)]
    outcome = discharge(other, txn_id)
    assert isinstance(outcome.remote_state, Rejected)
    assert outcome.remote_state.error is not None
    assert outcome.remote_state.error.condition == "amqp:transaction:unknown-id"


def test_the_order_on_the_channel() -> None:
    """Messages, acks, then the commit; what is said while the answer is out waits for it, and is told apart."""
    engine = opened(**CAN)
    receiver = receiving(engine, 3)
    sender = session_of(receiver).attach_sender(LinkTerms("s", Source(), Target("q")))
    hear(engine, 2, ChannelOpenOk(), QueueDeclareOk("q"), ConfirmSelectOk())
    said(engine)
    coordinator = coordinating(engine, receiver)
    first, second, third = receiver.incoming
    txn_id = declare(coordinator)
    receiver.settle(first, TransactionalState(txn_id, ACCEPTED))
    sender.send(Message(b"m").encode(), state=TransactionalState(txn_id))
    outcome = discharge(coordinator, txn_id)
    kinds = [type(each) for each in said(engine)]
    assert kinds == [TxSelect, BasicPublish, BasicAck, TxCommit]
    receiver.settle(second, ACCEPTED)
    assert said(engine) == []  # RabbitMQ has an error for what comes before the answer
    hear(engine, 1, TxSelectOk(), TxCommitOk())
    assert outcome.remote_state is ACCEPTED
    assert said(engine) == [BasicAck(2), TxCommit()]
    later = declare(coordinator)
    receiver.settle(third, TransactionalState(later, ACCEPTED))
    waiting = discharge(coordinator, later)
    assert said(engine) == []
    hear(engine, 1, TxCommitOk())
    assert not waiting.remote_settled  # that was the answer to the ack alone
    assert said(engine) == [BasicAck(3), TxCommit()]
    (told,) = [each for each in hear(engine, 1, TxCommitOk()) if isinstance(each, OutcomesReceived)]
    assert list(told.deliveries) == [waiting]
    assert waiting.remote_state is ACCEPTED


def test_a_commit_that_crosses_our_close() -> None:
    """The server has committed what it had of a channel that this side was closing: its answer still counts."""
    engine = opened(**CAN)
    receiver = receiving(engine, 1)
    coordinator = coordinating(engine, receiver)
    txn_id = declare(coordinator)
    receiver.settle(receiver.incoming.popleft(), TransactionalState(txn_id, ACCEPTED))
    outcome = discharge(coordinator, txn_id)
    receiver.detach()
    assert not outcome.remote_settled
    hear(engine, 1, TxSelectOk(), TxCommitOk())
    assert outcome.remote_state is ACCEPTED
    hear(engine, 1, ChannelCloseOk())
    assert outcome.remote_state is ACCEPTED


def test_the_next_one_after_a_dead_channel() -> None:
    """A channel that died is not used again: the next transaction opens another, and is committed there."""
    engine = opened(**CAN)
    sender, _ = publishing(engine, 0)
    coordinator = coordinating(engine, sender)
    outcomes = []
    for channel, answer in ((2, ChannelClose(406, "no")), (3, TxCommitOk())):
        txn_id = declare(coordinator)
        sender.send(Message(b"m").encode(), state=TransactionalState(txn_id))
        outcomes.append(discharge(coordinator, txn_id))
        hear(engine, channel, ChannelOpenOk(), TxSelectOk(), answer)
    assert why_rolled_back(outcomes[0]) == "no"
    assert outcomes[1].remote_state is ACCEPTED


def test_two_receivers() -> None:
    """Acks of two channels cannot be committed together: the second is refused before a byte of it is written."""
    engine = opened(**CAN)
    receiver = receiving(engine, 1)
    coordinator = coordinating(engine, receiver)
    txn_id = declare(coordinator)
    receiver.settle(receiver.incoming.popleft(), TransactionalState(txn_id, ACCEPTED))
    other = session_of(receiver).attach_receiver(LinkTerms("other", Source("q"), Target()))
    hear(engine, 2, ChannelOpenOk(), QueueDeclareOk("q"))
    delivery = other.delivery_type(other, 1, b"\0" * 8, Message(b"m").encode(), False)
    other.unsettled[delivery.tag] = delivery
    with pytest.raises(LocalProtocolError, match="only one receiver"):
        other.settle(delivery, TransactionalState(txn_id, ACCEPTED))
    assert not delivery.local_settled
