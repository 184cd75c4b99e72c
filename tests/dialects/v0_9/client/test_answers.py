"""Each thing that a server may answer, octet by octet, and what the owner of the engine is told of it: nothing else."""

from __future__ import annotations

import gc
import pickle
import weakref
from typing import Any

import pytest

from amqp10.dialects.v0_9 import FINAL, GetMessage, Recover, UpdateSecret
from amqp10.dialects.v0_9.codes import Fault
from amqp10.dialects.v0_9.wire.frames import FrameReader
from amqp10.dialects.v0_9.wire.method_table import Method
from amqp10.dialects.v0_9.wire.methods import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsumeOk,
    BasicDeliver,
    BasicGetEmpty,
    BasicGetOk,
    BasicNack,
    BasicQosOk,
    BasicRecover,
    BasicRecoverOk,
    BasicReturn,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpenOk,
    ConfirmSelectOk,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionTune,
    ConnectionUpdateSecretOk,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDeleteOk,
    TxCommitOk,
    TxSelectOk,
)
from amqp10.dialects.v0_9.wire.properties import BasicProperties
from amqp10.dialects.v0_9.wire.rare_methods import BasicRecoverSync
from amqp10.dialects.v0_9.wire.variant import V0_9, V0_9_1
from amqp10.engine import (
    ConnectionEnded,
    ConnectionTerms,
    DeclareQueue,
    DeliveriesUnresumed,
    LinkEnded,
    LinkTerms,
    OutcomesReceived,
    OutgoingDelivery,
    PendingRequest,
)
from amqp10.errors import LinkDetached, LocalProtocolError, RemoteProtocolError
from amqp10.messaging import (
    ACCEPTED,
    AmqpValue,
    Coordinator,
    Declare,
    Declared,
    Discharge,
    Message,
    Rejected,
    Returned,
    Source,
    Target,
    TransactionalState,
)
from amqp10.sasl import Anonymous

from ....kit.dialects.v0_9.client_engine import CAN, frames, hear, opened, publishing, said
from ....kit.dialects.v0_9.consumer import deliver, deliver_all, receiving
from ....kit.dialects.v0_9.method_peer import channel_of
from ....kit.steps import steps


@pytest.mark.parametrize(
    ("answer", "states"),
    [
        (BasicAck(2, True), [ACCEPTED, ACCEPTED, None]),
        (BasicAck(2), [None, ACCEPTED, None]),
        (BasicAck(0, True), [ACCEPTED, ACCEPTED, ACCEPTED]),
        (BasicNack(2, True), [Rejected, Rejected, None]),
        (BasicNack(2), [None, Rejected, None]),
        (BasicNack(0, True), [Rejected, Rejected, Rejected]),
    ],
)
def test_confirms(answer: BasicAck | BasicNack, states: list[object]) -> None:
    """An ack or nack is of one publish, with `multiple` of all before it, too, and with 0 of all that there are."""
    engine = opened(**CAN)
    link, deliveries = publishing(engine, 3)
    (told,) = [event for event in hear(engine, 1, answer) if isinstance(event, OutcomesReceived)]
    for delivery, state in zip(deliveries, states, strict=True):
        found = delivery.remote_state
        assert found is state or type(found) is state
        assert (delivery in told.deliveries) == (state is not None)
        assert (delivery.tag not in link.unsettled) == (state is not None)


def test_a_nack_says_why() -> None:
    """A message that the server could not take is rejected by its number; without nack, it had no queue."""
    for capabilities, kind, code in ((CAN, Rejected, 541), ({}, Returned, 312)):
        engine = opened(**capabilities)
        _, (delivery,) = publishing(engine, 1)
        hear(engine, 1, BasicNack(1))
        state = delivery.remote_state
        assert type(state) is kind
        assert state.error is not None
        assert state.error.info == {"reply-code": code}


@pytest.mark.parametrize(("code", "kind"), [(312, Returned), (313, Returned), (311, Rejected), (403, Rejected)])
def test_returns(code: int, kind: type[Rejected | Returned]) -> None:
    """Whatever the code of a return is, the ack behind it does not make the message one that was taken."""
    engine = opened(**CAN)
    _, deliveries = publishing(engine, 2)
    back = V0_9_1.framing.frame(1, 1, V0_9_1.methods.encode(BasicReturn(code, "no", "", "q")))
    properties = BasicProperties(headers={"x-opt-amqp10-to": "q"}).encode(V0_9_1.tables)
    engine.receive_data(back + V0_9_1.framing.message(1, 60, properties, b"1", 4096))
    hear(engine, 1, BasicAck(2, True))
    taken, refused = [delivery.remote_state for delivery in deliveries]
    assert taken is ACCEPTED
    assert isinstance(refused, kind)
    assert refused.error is not None
    assert refused.error.info == {"reply-code": code, "exchange": "", "routing-key": "q"}


def test_of_two_alike_the_older_came_back() -> None:
    """Nobody can say which of them it was; the order of their outcomes is that of their sending."""
    engine = opened(**CAN)
    link = engine.begin().attach_sender(LinkTerms("s", Source(), Target("q")))
    hear(engine, 1, ChannelOpenOk(), QueueDeclareOk("q"), ConfirmSelectOk())
    first, second = (link.send(Message(b"alike").encode()) for _ in range(2))
    back = V0_9_1.framing.frame(1, 1, V0_9_1.methods.encode(BasicReturn(312, "no", "", "q")))
    engine.receive_data(back + V0_9_1.framing.message(1, 60, BasicProperties().encode(V0_9_1.tables), b"alike", 4096))
    hear(engine, 1, BasicAck(2, True))
    assert isinstance(first.remote_state, Returned)
    assert second.remote_state is ACCEPTED


def test_the_most_similar_publish_came_back() -> None:
    """The same body says more than the same properties, and both more than the address alone."""
    engine = opened(**CAN)
    link = engine.begin().attach_sender(LinkTerms("s", Source(), Target("q")))
    hear(engine, 1, ChannelOpenOk(), QueueDeclareOk("q"), ConfirmSelectOk())
    subjects = {name: BasicProperties(message_id=name).encode(V0_9_1.tables) for name in ("x", "y", "z")}
    sent = [link.send(Message(body, message_id=subject).encode()) for body, subject in ((b"1", "x"), (b"2", "y"))]
    back = V0_9_1.framing.frame(1, 1, V0_9_1.methods.encode(BasicReturn(312, "no", "", "q")))
    for subject, body in (("x", b"2"), ("z", b"3")):
        engine.receive_data(back + V0_9_1.framing.message(1, 60, subjects[subject], body, 4096))
        returned = [each for each in sent if each.remote_state is not None]
        assert returned == (sent[1:] if subject == "x" else sent)


def test_returns_of_many_publishes() -> None:
    """A return costs as much with four times as many publishes, whether it looks like one of them or not."""

    def cost(count: int, body: bytes) -> int:
        engine = opened(**CAN)
        publishing(engine, count)
        properties = BasicProperties(headers={"x-opt-amqp10-to": "q"}).encode(V0_9_1.tables)
        back = V0_9_1.framing.frame(1, 1, V0_9_1.methods.encode(BasicReturn(312, "no", "", "q")))
        back += V0_9_1.framing.message(1, 60, properties, body, 4096)
        engine.receive_data(back)
        return steps(lambda: engine.receive_data(back * 10))

    for body in (b"90", b"none of them"):
        cost(20, body)
        assert cost(400, body) < 1.1 * cost(100, body)


def test_confirmed_publishes_are_not_kept_for_returns() -> None:
    """After a return, the publishes that are held are at most twice those without a confirm."""

    class Traced(OutgoingDelivery):
        """One of which is known when it is no longer held."""

    engine = opened(**CAN)
    link = engine.begin().attach_sender(LinkTerms("s", Source(), Target("q")))
    link.delivery_type = Traced
    hear(engine, 1, ChannelOpenOk(), QueueDeclareOk("q"), ConfirmSelectOk())
    held = weakref.WeakSet(link.send(Message(b"%d" % number).encode()) for number in range(100))
    properties = BasicProperties(headers={"x-opt-amqp10-to": "q"}).encode(V0_9_1.tables)
    back = V0_9_1.framing.frame(1, 1, V0_9_1.methods.encode(BasicReturn(312, "no", "", "q")))
    for first, last in ((1, 60), (61, 99), (100, 100)):
        engine.receive_data(back + V0_9_1.framing.message(1, 60, properties, b"%d" % (last - 1), 4096))
        for number in range(first, last + 1):
            (told,) = [event for event in hear(engine, 1, BasicAck(number)) if isinstance(event, OutcomesReceived)]
            (delivery,) = told.deliveries
            assert isinstance(delivery.remote_state, Returned) == (number == last)
            del told, delivery
            assert len(held) <= 2 * (100 - number) + 1  # the last one that was told is in the engine's hands
    hear(engine, 1)
    assert len(held) <= 1


def test_a_confirm_of_what_was_never_sent() -> None:
    """It closes the channel (406), and is nobody's outcome."""
    engine = opened(**CAN)
    _, (delivery,) = publishing(engine, 1)
    hear(engine, 1, BasicAck(2, True))
    (close,) = said(engine)
    assert close.reply_code == 406
    assert not delivery.remote_settled


def test_what_is_sent_again_has_a_new_outcome() -> None:
    """It came back, and the link was lost before the confirm: what counts is what is said of it the second time."""
    engine = opened(**CAN)
    _, (delivery,) = publishing(engine, 1)
    back = V0_9_1.framing.frame(1, 1, V0_9_1.methods.encode(BasicReturn(312, "no", "", "q")))
    engine.receive_data(back + V0_9_1.framing.message(1, 60, BasicProperties().encode(V0_9_1.tables), b"0", 4096))
    assert delivery.remote_state is not None
    again = opened(**CAN)
    link = again.begin().attach_sender(LinkTerms("s", Source(), Target("q")), resuming=[delivery])
    hear(again, 1, ChannelOpenOk(), QueueDeclareOk("q"), ConfirmSelectOk())
    link.resend(delivery)
    hear(again, 1, BasicAck(1))
    assert delivery.remote_state is ACCEPTED


def test_recover() -> None:
    """Nothing is said any more of what was out before: those numbers are nobody's, and an ack of one is an error."""
    engine = opened(**CAN)
    link = receiving(engine, 4)
    first, second, third, fourth = link.incoming
    link.settle(third, ACCEPTED)  # behind two that are open: kept back
    engine.data_to_send()
    pending = link.session.request(Recover(link))
    engine.data_to_send()
    events = hear(engine, 1, BasicRecoverOk())
    assert pending.answered
    (lost,) = [event for event in events if isinstance(event, DeliveriesUnresumed)]
    assert list(lost.deliveries) == [first, second, fourth]
    for number in (5, 6):
        deliver(engine, link.properties["tag"], number)
    for delivery in link.incoming:
        link.settle(delivery, ACCEPTED)
    assert [each for each in said(engine) if isinstance(each, BasicAck)] == [BasicAck(6, True)]


@pytest.mark.parametrize("runs", [True, False])
def test_recover_while_a_consumer_is_being_cancelled(runs: bool) -> None:
    """The recover gives messages beyond the credit back to the peer. To reject them would name unknown numbers."""
    engine = opened(**CAN)
    link = receiving(engine, 0)
    channel_of(link).has_runs = runs
    link.refills = False
    deliver_all(engine, link, *range(1, 6))
    link.materialize(5)
    for delivery in list(link.incoming):
        link.settle(delivery, ACCEPTED)
    assert said(engine) == [BasicAck(5, True)]
    deliver_all(engine, link, *range(6, 13))
    pending = link.session.request(Recover(link))
    assert said(engine) == [BasicCancel("r"), BasicRecover(True)]
    hear(engine, 1, BasicCancelOk("r"))
    assert said(engine) == []
    hear(engine, 1, BasicRecoverOk())
    assert pending.answered
    link.flow(10)
    hear(engine, 1, BasicQosOk(), BasicConsumeOk("r.2"))
    said(engine)
    link.properties = {"tag": "r.2"}
    deliver_all(engine, link, 13, 14)
    link.materialize(2)
    for delivery in list(link.incoming)[-2:]:
        link.settle(delivery, ACCEPTED)
    assert said(engine) == [BasicAck(14, True)]


@pytest.mark.parametrize("capabilities", [{}, {"basic.nack": True}])
def test_recover_in_0_9(capabilities: dict[str, bool]) -> None:
    """The specification has another method for it, that Qpid knows; RabbitMQ, which tells capabilities, has 0-9-1's."""
    engine = FINAL.client(ConnectionTerms("client"), (Anonymous(),), True)
    engine.start()
    engine.open()
    start = ConnectionStart(server_properties={"capabilities": capabilities}, mechanisms=b"ANONYMOUS")
    engine.receive_data(frames(V0_9, 0, start, ConnectionTune(100, 131072, 0), ConnectionOpenOk()))
    link = engine.begin().attach_receiver(LinkTerms("r", Source("q"), Target()))
    engine.receive_data(frames(V0_9, 1, ChannelOpenOk(), QueueDeclareOk("q")))
    engine.data_to_send()
    link.session.request(Recover(link))
    reader = FrameReader(V0_9.framing, 1 << 20)
    reader.feed(engine.data_to_send())
    (method,) = [V0_9.methods.decode(payload) for _, _, payload in reader.frames()]
    assert method == (BasicRecover(True) if capabilities else BasicRecoverSync(True))


@pytest.mark.parametrize("committed", [True, False])
def test_a_transaction_whose_channel_dies(committed: bool) -> None:
    """It is committed when the server says so, and rolled back with the server's words when it closes the channel."""
    engine = opened(**CAN)
    session = engine.begin()
    sender = session.attach_sender(LinkTerms("s", Source(), Target("q")))
    hear(engine, 1, ChannelOpenOk(), QueueDeclareOk("q"), ConfirmSelectOk())
    coordinator = session.attach_sender(LinkTerms("c", Source(), Coordinator()))
    declared = coordinator.send(Message(AmqpValue(Declare())).encode()).remote_state
    assert isinstance(declared, Declared)
    sender.send(Message(b"m").encode(), state=TransactionalState(declared.txn_id))
    outcome = coordinator.send(Message(AmqpValue(Discharge(declared.txn_id, False))).encode())
    hear(engine, 2, ChannelOpenOk(), TxSelectOk())
    assert not outcome.remote_settled
    hear(engine, 2, TxCommitOk() if committed else ChannelClose(541, "the disk is full"))
    if committed:
        assert outcome.remote_state is ACCEPTED
    else:
        assert isinstance(outcome.remote_state, Rejected)
        assert outcome.remote_state.error is not None
        assert outcome.remote_state.error.condition == "amqp:transaction:rollback"
        assert "disk is full" in str(outcome.remote_state.error.description)


def test_a_message_above_the_limit() -> None:
    """One octet more than the receiver takes ends its link before the octets are read; as many as it takes do not."""
    engine = opened(**CAN)
    link = receiving(engine, 0, max_message_size=100)
    deliver(engine, link.properties["tag"], 1, body=b"m" * 100)
    assert len(link.incoming) == 1
    deliver(engine, link.properties["tag"], 2, body=b"m" * 101)
    assert len(link.incoming) == 1
    (close,) = [method for method in said(engine) if isinstance(method, ChannelClose)]
    assert close.reply_code == 311
    (ended,) = [event for event in engine.events() if isinstance(event, LinkEnded)]
    assert isinstance(ended.error, LinkDetached)
    assert ended.error.condition == "amqp:link:message-size-exceeded"


def test_a_new_secret() -> None:
    """Each is answered in turn; nothing is told before."""
    engine = opened(**CAN)
    session = engine.begin()
    first, second = (session.request(UpdateSecret(secret)) for secret in ("a", "b"))
    assert not first.answered
    hear(engine, 0, ConnectionUpdateSecretOk())
    assert (first.answered, second.answered) == (True, False)
    hear(engine, 0, ConnectionUpdateSecretOk())
    assert second.answered
    assert second.error is None


@pytest.mark.parametrize(
    "request_", [UpdateSecret("s" * 200_000), UpdateSecret("s", "r" * 256)], ids=["secret", "reason"]
)
def test_a_secret_that_fits_nowhere(request_: UpdateSecret) -> None:
    """It is refused here; nothing is written, and the next one is answered."""
    engine = opened(**CAN)
    session = engine.begin()
    said(engine)
    with pytest.raises(LocalProtocolError):
        session.request(request_)
    assert said(engine) == []
    pending = session.request(UpdateSecret("a"))
    hear(engine, 0, ConnectionUpdateSecretOk())
    assert pending.answered


@pytest.mark.parametrize("number", [0, 1, 2])
def test_delivery_tags_that_do_not_grow(number: int) -> None:
    """They cannot be told apart from what was acknowledged "up to": the channel is closed over that."""
    engine = opened(**CAN)
    link = receiving(engine, 0)
    deliver(engine, link.properties["tag"], 1)
    deliver(engine, link.properties["tag"], 2)
    deliver(engine, link.properties["tag"], number)
    assert len(link.incoming) == 2
    (close,) = [method for method in said(engine) if isinstance(method, ChannelClose)]
    assert (close.reply_code, close.method_id) == (406, 60)
    assert [event.link for event in engine.events() if isinstance(event, LinkEnded)] == [link]


@pytest.mark.parametrize("runs", [True, False])
@pytest.mark.parametrize("after", [[1], [0], [1] * 10, [2**64 - 1, 1]])
def test_the_last_delivery_tag_of_all(runs: bool, after: list[int]) -> None:
    """No number comes after 2^64-1: the channel is closed over what claims to, and the connection goes on."""
    engine = opened(**CAN)
    link = receiving(engine, 0)
    channel_of(link).has_runs = runs
    deliver_all(engine, link, 2**64 - 3, 2**64 - 2, 2**64 - 1, *after)
    link.materialize(link.unmaterialized)
    assert [each.delivery_id for each in link.incoming] == [2**64 - 3, 2**64 - 2, 2**64 - 1]
    (close,) = [method for method in said(engine) if not isinstance(method, BasicCancel)]
    assert (type(close), close.reply_code, close.method_id) == (ChannelClose, 406, 60)
    assert engine.opened


def test_cancelled_by_the_server() -> None:
    """It has deleted the queue: the link is over, and its channel is closed."""
    engine = opened(**CAN)
    link = receiving(engine, 0)
    (ended,) = hear(engine, 1, BasicCancel(link.properties["tag"], True))
    assert isinstance(ended, LinkEnded)
    assert isinstance(ended.error, LinkDetached)
    assert (ended.link, ended.error.condition) == (link, "amqp:resource-deleted")
    assert [type(method) for method in said(engine)] == [ChannelClose]
    assert hear(engine, 1, ChannelCloseOk()) == []


def test_what_was_handed_out_is_acked_before_a_close() -> None:
    """The close of the channel is the last that is said on it: an ack behind it is on a channel that is not open."""
    engine = opened(**CAN)
    link = receiving(engine, 0, settle_mode="settled")
    tag = link.properties["tag"]
    hear(engine, 1, BasicDeliver(tag, 1, False, "", "q"), BasicCancel(tag, True))
    assert said(engine) == [BasicAck(1), ChannelClose(200)]


@pytest.mark.parametrize("cause", ["cancel", "fault", "too large", "detach"])
def test_acceptances_come_before_our_close(cause: str) -> None:
    """Whatever this side closes the channel for, what the user has accepted before is said, and nothing after it."""
    engine = opened(**CAN)
    link = receiving(engine, 2, max_message_size=100)
    tag = link.properties["tag"]
    for delivery in list(link.incoming):
        link.settle(delivery, ACCEPTED)
    if cause == "cancel":
        hear(engine, 1, BasicCancel(tag, True))
    elif cause == "fault":
        deliver(engine, tag, 1)
    elif cause == "too large":
        deliver(engine, tag, 3, body=b"m" * 101)
    else:
        link.detach()
    ack, close = said(engine)
    assert (ack, type(close)) == (BasicAck(2, True), ChannelClose)


def test_nothing_is_said_on_a_channel_that_the_server_has_closed() -> None:
    """The acceptances that were not said yet are the server's to send again: the answer to its close is the last."""
    engine = opened(**CAN)
    link = receiving(engine, 2)
    for delivery in list(link.incoming):
        link.settle(delivery, ACCEPTED)
    hear(engine, 1, ChannelClose(541, "gone"))
    assert said(engine) == [ChannelCloseOk()]


def test_a_close_of_the_server_is_answered_while_a_commit_waits() -> None:
    """Frames kept back until the commit is answered do not delay the answer to a close."""
    engine = opened(**CAN)
    session = engine.begin()
    sender = session.attach_sender(LinkTerms("s", Source(), Target("q")))
    hear(engine, 1, ChannelOpenOk(), QueueDeclareOk("q"), ConfirmSelectOk())
    coordinator = session.attach_sender(LinkTerms("c", Source(), Coordinator()))
    declared = coordinator.send(Message(AmqpValue(Declare())).encode()).remote_state
    assert isinstance(declared, Declared)
    sender.send(Message(b"m").encode(), state=TransactionalState(declared.txn_id))
    coordinator.send(Message(AmqpValue(Discharge(declared.txn_id, False))).encode())
    hear(engine, 2, ChannelOpenOk(), TxSelectOk())
    engine.data_to_send()
    hear(engine, 2, ChannelClose(541, "the disk is full"))
    assert said(engine) == [ChannelCloseOk()]


# Requests


@pytest.mark.parametrize("answer", [QueueBindOk(), QueueDeleteOk(3), BasicGetEmpty()], ids=repr)
def test_another_answer_than_was_asked_for(answer: Method) -> None:
    """It answers nothing: the connection ends by the server's fault, and the request with it."""
    engine = opened()
    pending = engine.begin().request(DeclareQueue("q"))
    hear(engine, 1, ChannelOpenOk(), answer)
    assert isinstance(pending.error, RemoteProtocolError)
    assert pending.error.condition == "amqp:illegal-state"


@pytest.mark.parametrize("asked", [DeclareQueue("q"), None])
def test_a_message_that_nobody_asked_for(asked: DeclareQueue | None) -> None:
    """It is no answer to another request, nor to none."""
    engine = opened()
    request: Any = asked or GetMessage("q")
    pending: PendingRequest[Any] = engine.begin().request(request)
    hear(engine, 1, ChannelOpenOk(), *([BasicGetEmpty()] if asked is None else []))
    events = hear(engine, 1, BasicGetOk(1, False, "", "q", 0))
    (end,) = [each.error for each in events if isinstance(each, ConnectionEnded)]
    assert isinstance(end, RemoteProtocolError)
    assert end.condition == "amqp:illegal-state"
    assert pending.error is (None if asked is None else end)


def test_a_request_for_which_no_channel_is_free() -> None:
    """It raises, and is not made behind one's back when a channel is free again."""
    engine = opened()
    for each in range(100):
        engine.begin().attach_sender(LinkTerms(f"s{each}", Source(), Target("q"), settle_mode="mixed"))
    session = engine.begin()
    with pytest.raises(LocalProtocolError, match="all are in use"):
        session.request(DeclareQueue("never"))
    engine.data_to_send()
    hear(engine, 1, ChannelClose(404, "gone"))
    pending = session.request(DeclareQueue("q"))
    declared = [each.queue for each in said(engine) if isinstance(each, QueueDeclare)]
    assert declared == ["q"]
    assert not pending.answered


def test_sessions_that_committed_are_forgotten() -> None:
    """Nothing holds them when they are over."""
    engine = opened(**CAN)
    session = engine.begin()
    sender = session.attach_sender(LinkTerms("s", Source(), Target("q")))
    hear(engine, 1, ChannelOpenOk(), QueueDeclareOk("q"), ConfirmSelectOk())
    coordinator = session.attach_sender(LinkTerms("c", Source(), Coordinator()))
    declared = coordinator.send(Message(AmqpValue(Declare())).encode()).remote_state
    assert isinstance(declared, Declared)
    sender.send(Message(b"m").encode(), state=TransactionalState(declared.txn_id))
    outcome = coordinator.send(Message(AmqpValue(Discharge(declared.txn_id, False))).encode())
    hear(engine, 2, ChannelOpenOk(), TxSelectOk(), TxCommitOk())
    assert outcome.remote_state is ACCEPTED
    session.end()
    hear(engine, 1, ChannelCloseOk())
    hear(engine, 2, ChannelCloseOk())
    gone = weakref.ref(session)
    del session, sender, coordinator, outcome
    gc.collect()
    assert gone() is None
    assert engine.opened


@pytest.mark.parametrize("soft", [True, False])
def test_faults_are_copied_whole(soft: bool) -> None:
    """Also what says whether they cost the channel or the connection."""
    fault = pickle.loads(pickle.dumps(Fault(406, "no", (50, 10), soft=soft)))
    assert (fault.code, str(fault), fault.method, fault.soft) == (406, "no", (50, 10), soft)
    assert fault.condition == "amqp:precondition-failed"


@pytest.mark.parametrize("answer", [BasicConsumeOk("r"), BasicCancelOk("r")])
def test_an_answer_about_the_consumer_that_nobody_asked_for(answer: Method) -> None:
    """A consumer begins and ends when the client asks for it: any other answer breaks the protocol."""
    engine = opened(**CAN)
    receiving(engine, 1)
    (ended,) = [event for event in hear(engine, 1, answer) if isinstance(event, ConnectionEnded)]
    assert "which was not asked for" in str(ended.error)
