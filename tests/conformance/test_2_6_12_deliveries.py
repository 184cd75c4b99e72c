"""Deliveries (§2.6.11 to §2.6.14, §2.7.5, §2.7.6): transfers, settlement, dispositions, large and aborted messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import pytest

from amqp10.engine import (
    ConnectionTerms,
    DeliveriesReceived,
    LinkEnded,
    LinkTerms,
    OutcomesReceived,
    ReceiverLink,
    SenderLink,
    SessionTerms,
    SettlementsReceived,
)
from amqp10.errors import LocalProtocolError, RemoteProtocolError
from amqp10.messaging import ACCEPTED, RELEASED, Error, Modified, Received, Rejected, Source, Target
from amqp10.testing import Detach, Disposition, End, EnginePair, EngineScript, Flow, Transfer

Play = Callable[..., EngineScript]
Side = Literal["client", "server"]
SIDES: list[Side] = ["client", "server"]
OUTCOMES: list[Any] = [
    ACCEPTED,
    RELEASED,
    Rejected(Error("amqp:decode-error", "why")),
    Modified(delivery_failed=True, undeliverable_here=True, message_annotations={"x-opt-a": 1}),
]


def condition_is(condition: str) -> Callable[[Error], bool]:
    """Judges an error by its condition."""
    return lambda error: error is not None and error.condition == condition


@pytest.fixture
def sending(play_client: Play) -> tuple[EngineScript, SenderLink]:
    """A sender of the engine with credit 100, at a peer that takes frames of 512 bytes."""
    script = play_client(peer={"max_frame_size": 512})
    return script, script.sender(script.session(), credit=100)


@pytest.fixture
def receiving(play_client: Play) -> tuple[EngineScript, ReceiverLink]:
    """A receiver of the engine with credit 100."""
    script = play_client()
    return script, script.receiver(script.session(), credit=100)


@pytest.fixture
def second(play_client: Play) -> tuple[EngineScript, ReceiverLink]:
    """A receiver of the engine with credit 100, receiver-settle-mode second."""
    script = play_client()
    terms = LinkTerms("r", Source("q"), Target("q"), receiver_settle_mode="second")
    return script, script.receiver(script.session(), terms, credit=100)


# Sending


@pytest.mark.spec("2.7.5", "the first transfer of a delivery has its delivery-id, tag and format")
def test_first_transfer(sending: tuple[EngineScript, SenderLink]) -> None:
    """Ids count up from 0 in a session, tags differ, and nothing is settled."""
    script, link = sending
    for _ in range(3):
        link.send(b"payload")
    tags = set()
    for number in range(3):
        transfer, payload = script.expect_payload(Transfer, handle=0, delivery_id=number, more=False, aborted=False)
        assert payload == b"payload"
        assert not transfer.settled
        assert transfer.message_format == 0
        tags.add(transfer.delivery_tag)
    assert len(tags) == 3


@pytest.mark.spec("2.6.12", "the sender may choose the delivery-tag, at most 32 bytes, unique among unsettled ones")
def test_tag(sending: tuple[EngineScript, SenderLink]) -> None:
    """A tag too long or in use is refused, and takes neither credit nor a place in the unsettled map."""
    script, link = sending
    link.send(b"", tag=b"t" * 32)
    script.expect(Transfer, delivery_tag=b"t" * 32)
    for tag in (b"t" * 33, b"t" * 32):
        with pytest.raises(LocalProtocolError):
            link.send(b"", tag=tag)
    assert link.credit == 99
    assert list(link.unsettled) == [b"t" * 32]
    script.expect_nothing()


@pytest.mark.spec("2.7.5", "message-format, state and batchable are carried")
def test_transfer_fields(sending: tuple[EngineScript, SenderLink]) -> None:
    """What the application says of a delivery is on the wire."""
    script, link = sending
    link.send(b"a", message_format=7)
    script.expect(Transfer, message_format=7)
    link.send(b"b", batchable=True)
    script.expect(Transfer, batchable=True)
    link.send(b"c", state=Received(section_number=1, section_offset=2))
    script.expect(Transfer, state=Received(section_number=1, section_offset=2))


@pytest.mark.spec("2.8.2", "settled and unsettled deliveries are as the settle mode allows")
@pytest.mark.parametrize(
    ("mode", "settled", "allowed"),
    [
        ("settled", True, True),
        ("settled", False, False),
        ("unsettled", True, False),
        ("unsettled", False, True),
        ("mixed", True, True),
        ("mixed", False, True),
    ],
)
def test_settle_modes(play_client: Play, mode: Any, settled: bool, allowed: bool) -> None:
    """What the mode does not allow is refused before a byte is written."""
    script = play_client()
    link = script.sender(script.session(), LinkTerms("s", Source("q"), Target("q"), settle_mode=mode), credit=5)
    if allowed:
        delivery = link.send(b"x", settled=settled)
        assert bool(script.expect(Transfer).settled) is settled
        assert delivery.local_settled is settled
        assert bool(link.unsettled) is not settled
    else:
        with pytest.raises(LocalProtocolError, match="settle"):
            link.send(b"x", settled=settled)
        assert link.credit == 5
        script.expect_nothing()


@pytest.mark.spec("2.7.3", "a message larger than the peer's max-message-size is not sent")
def test_max_message_size_obeyed(play_client: Play) -> None:
    """The limit itself is sent."""
    script = play_client()
    link = script.sender(script.session(), credit=5, max_message_size=100)
    link.send(bytes(100))
    script.expect(Transfer)
    with pytest.raises(LocalProtocolError, match="100"):
        link.send(bytes(101))
    assert link.credit == 4


# Large messages


@pytest.mark.spec("2.6.14", "a message is cut into frames no larger than the peer's max-frame-size")
@pytest.mark.parametrize("size", [0, 1, 400, 511, 512, 513, 5000])
@pytest.mark.parametrize("limit", [512, 513, 1000])
def test_multi_frame(play_client: Play, size: int, limit: int) -> None:
    """Pitfall 24: frames of at most that size, `more` on all but the last, fields only on the first."""
    script = play_client(peer={"max_frame_size": limit})
    link = script.sender(script.session(), credit=5)
    payload = bytes(number % 251 for number in range(size))
    link.send(payload)
    data = script.engine.data_to_send()
    at = 0
    while at < len(data):
        length = int.from_bytes(data[at : at + 4], "big")
        assert 8 < length <= limit
        at += length
    script.transcript.feed(data)
    joined = b""
    first = True
    while True:
        transfer, part = script.expect_payload(Transfer, handle=0)
        assert (transfer.delivery_id, transfer.delivery_tag is None) == ((0, False) if first else (None, True))
        joined, first = joined + part, False
        if not transfer.more:
            break
    assert joined == payload
    script.expect_nothing()


@pytest.mark.spec("2.6.14", "a delivery may be sent in parts as they are there")
def test_streamed(sending: tuple[EngineScript, SenderLink]) -> None:
    """Parts are one delivery; nothing else goes on the link in between."""
    script, link = sending
    delivery = link.send(b"one", more=True)
    script.expect(Transfer, delivery_id=0, more=True)
    with pytest.raises(LocalProtocolError):
        link.send(b"other")
    link.send_more(delivery, b"two", more=True)
    assert script.expect_payload(Transfer, delivery_id=None, more=True)[1] == b"two"
    link.send_more(delivery, b"three")
    assert script.expect_payload(Transfer, more=False)[1] == b"three"
    assert delivery.on_wire
    link.send(b"other")
    script.expect(Transfer, delivery_id=1)


@pytest.mark.spec("2.6.14", "transfers of one delivery may be interleaved with other links'")
def test_interleaved_links(play_client: Play) -> None:
    """Each link puts its own delivery together."""
    script = play_client()
    session = script.session()
    one = script.receiver(session, credit=5)
    two = script.receiver(session, credit=5)
    script.transfer(0, b"1a", handle=0, more=True)
    script.transfer(1, b"2a", handle=1, more=True)
    script.send(Transfer(handle=0, more=True), b"1b")
    script.send(Transfer(handle=1), b"2b")
    script.send(Transfer(handle=0), b"1c")
    assert [delivery.payload for delivery in one.incoming] == [b"1a1b1c"]
    assert [delivery.payload for delivery in two.incoming] == [b"2a2b"]


@pytest.mark.spec("2.7.5", "later transfers may repeat the delivery-id and tag")
def test_repeated_fields(receiving: tuple[EngineScript, ReceiverLink]) -> None:
    """Pitfall 24: some peers do."""
    script, link = receiving
    script.transfer(0, b"a", more=True)
    script.transfer(0, b"b")
    assert [delivery.payload for delivery in link.incoming] == [b"ab"]


@pytest.mark.spec("2.7.5", "a new delivery within an unfinished one is an error of the link")
def test_interleaved_deliveries(receiving: tuple[EngineScript, ReceiverLink]) -> None:
    """Deliveries of one link must not be interleaved."""
    script, link = receiving
    script.transfer(0, b"a", more=True)
    script.transfer(1, b"b")
    script.expect(Detach, closed=True, error=lambda error: error is not None)
    assert not link.incoming


@pytest.mark.spec("2.7.5", "the first transfer must have a delivery-id and a tag")
@pytest.mark.parametrize("missing", ["delivery_id", "delivery_tag"])
def test_missing_fields(receiving: tuple[EngineScript, ReceiverLink], missing: str) -> None:
    """Without one of them the link is detached with an error."""
    script, link = receiving
    fields: dict[str, Any] = {missing: None}
    script.transfer(0, **fields)
    script.expect(Detach, closed=True, error=condition_is("amqp:invalid-field"))
    assert not link.incoming


@pytest.mark.spec("2.7.5", "settled is sticky: once said of a delivery, on any transfer, it holds")
@pytest.mark.parametrize("which", [0, 1, 2])
def test_settled_is_sticky(receiving: tuple[EngineScript, ReceiverLink], which: int) -> None:
    """A delivery of three transfers that says so on one of them is settled."""
    script, link = receiving
    for number in range(3):
        fields: dict[str, Any] = {"settled": True} if number == which else {}
        if number == 0:
            script.transfer(0, b"x", more=True, **fields)
        else:
            script.send(Transfer(handle=0, more=number < 2, **fields), b"x")
    (delivery,) = link.incoming
    assert delivery.local_settled
    assert delivery.remote_settled
    assert link.unsettled == {}


@pytest.mark.spec("2.7.3", "a message larger than our max-message-size detaches the link")
@pytest.mark.parametrize("frames", [1, 3])
def test_message_size_exceeded(play_client: Play, frames: int) -> None:
    """As soon as the size is exceeded, in one frame or in the course of many; the message is not handed out."""
    script = play_client()
    terms = LinkTerms("r", Source("q"), Target("q"), max_message_size=100)
    link = script.receiver(script.session(), terms, credit=5)
    script.transfer(0, bytes(100))
    assert len(link.incoming) == 1
    if frames == 1:
        script.transfer(1, bytes(101))
    else:
        script.transfer(1, bytes(60), more=True)
        script.expect_nothing()
        script.send(Transfer(handle=0, more=True), bytes(60))
    script.expect(Detach, closed=True, error=condition_is("amqp:link:message-size-exceeded"))
    assert len(link.incoming) == 1


# Aborted deliveries


@pytest.mark.spec("2.7.5", "an aborted delivery is forgotten, and settled with that")
@pytest.mark.parametrize("more", [False, True])
def test_aborted(receiving: tuple[EngineScript, ReceiverLink], more: bool) -> None:
    """Pitfall 24: `more` beside `aborted` does not count; the credit is used, the next delivery is whole."""
    script, link = receiving
    script.transfer(0, b"half", more=True)
    script.send(Transfer(handle=0, aborted=True, more=more), b"ignored")
    assert not link.incoming
    assert link.unsettled == {}
    assert link.credit == 99
    script.transfer(1, b"whole")
    assert [delivery.payload for delivery in link.incoming] == [b"whole"]
    script.expect_nothing()


@pytest.mark.spec("2.7.5", "a delivery may be aborted in its only transfer")
def test_aborted_at_once(receiving: tuple[EngineScript, ReceiverLink]) -> None:
    """There is nothing to forget, and nothing is handed out."""
    script, link = receiving
    script.transfer(0, b"x", aborted=True)
    script.transfer(1, b"next")
    assert [delivery.payload for delivery in link.incoming] == [b"next"]


@pytest.mark.spec("2.6.14", "the sender may abort a delivery that is not whole on the wire")
def test_abort(sending: tuple[EngineScript, SenderLink]) -> None:
    """A transfer says so, the delivery is settled, and the link goes on."""
    script, link = sending
    delivery = link.send(b"one", more=True)
    script.expect(Transfer, more=True)
    link.abort(delivery)
    script.expect(Transfer, handle=0, aborted=True)
    assert delivery.local_settled
    assert link.unsettled == {}
    link.send(b"next")
    script.expect(Transfer, delivery_id=1)
    with pytest.raises(LocalProtocolError):
        link.abort(link.send(b"whole"))


@pytest.mark.spec("2.6.14", "a delivery that is aborted before its first frame costs nothing")
def test_abort_before_first_frame(play_client: Play) -> None:
    """Pitfall 13: held back by the window, it leaves no trace: credit is back, no id is used."""
    script = play_client()
    session = script.session(incoming_window=0)
    link = script.sender(session)
    script.flow(incoming_window=0, handle=0, link_credit=2, delivery_count=0)
    delivery = link.send(b"one")
    assert link.credit == 1
    link.abort(delivery)
    assert link.credit == 2
    link.send(b"two")
    script.flow(incoming_window=10)
    assert script.expect_payload(Transfer, delivery_id=0)[1] == b"two"
    script.expect_nothing()


@pytest.mark.spec("2.6.14", "a delivery that is held back after its first frames is aborted by a frame of its own")
def test_abort_in_the_middle(play_client: Play) -> None:
    """The abort waits for the window like any transfer, in place of the rest of the payload."""
    script = play_client(peer={"max_frame_size": 512})
    link = script.sender(script.session(incoming_window=2))
    script.flow(incoming_window=2, handle=0, link_credit=5, delivery_count=0)
    delivery = link.send(bytes(5000))
    script.expect(Transfer, more=True)
    script.expect(Transfer, more=True)
    link.abort(delivery)
    script.expect_nothing()
    script.flow(next_incoming_id=2, incoming_window=10)
    script.expect(Transfer, aborted=True)
    script.expect_nothing()


@pytest.mark.spec("2.6.4", "a delivery half on the wire is aborted before its link is detached")
def test_detach_aborts(sending: tuple[EngineScript, SenderLink]) -> None:
    """The receiver never sees a truncated message."""
    script, link = sending
    link.send(b"half", more=True)
    script.expect(Transfer, more=True)
    link.detach()
    script.expect(Transfer, aborted=True)
    script.expect(Detach, closed=True)


@pytest.mark.parametrize("sender", SIDES)
@pytest.mark.parametrize("chunk", [1, 7, None])
@pytest.mark.spec("2.6.14", "messages of any size cross windows and frames of any size, whole and in order")
def test_everything_arrives(sender: Side, chunk: int | None) -> None:
    """Sizes from nothing to 5 kB through frames of 512 bytes, windows of 3 frames, and portions of any size."""
    pair = EnginePair(
        client=ConnectionTerms("client", max_frame_size=512),
        server=ConnectionTerms("server", max_frame_size=512),
        chunk=chunk,
    )
    pair.open()
    mine, _ = pair.begin(SessionTerms(incoming_window=3), SessionTerms(incoming_window=3))
    out, back = pair.attach(session=mine, credit=100, sender=sender)
    sizes = [0, 1, 100, 480, 500, 512, 1000, 5000, 0, 3]
    for size in sizes:
        out.send(bytes([size % 256]) * size)
    pair.run()
    assert [delivery.payload for delivery in back.incoming] == [bytes([size % 256]) * size for size in sizes]


# Settlement, receiver-settle-mode first


@pytest.mark.spec("3.4", "an outcome that the receiver settles with reaches the sender")
@pytest.mark.parametrize("outcome", OUTCOMES)
@pytest.mark.parametrize("sender", SIDES)
def test_outcomes(outcome: Any, sender: Side) -> None:
    """All four, with all their fields; both sides forget the delivery."""
    pair = EnginePair()
    pair.open()
    out, back = pair.attach(credit=5, sender=sender)
    sent = out.send(b"x")
    pair.run()
    back.settle(back.incoming.popleft(), outcome)
    pair.run()
    events = pair.client_events if sender == "client" else pair.server_events
    (told,) = [event for event in events if isinstance(event, OutcomesReceived)]
    assert list(told.deliveries) == [sent]
    assert sent.remote_state == outcome
    assert sent.remote_settled
    assert sent.local_settled
    assert not out.unsettled
    assert not back.unsettled


@pytest.mark.spec("2.6.12", "settling twice does nothing")
def test_settle_twice(receiving: tuple[EngineScript, ReceiverLink]) -> None:
    """The first outcome stands, and one disposition is sent."""
    script, link = receiving
    script.transfer(0)
    delivery = link.incoming.popleft()
    link.settle(delivery, ACCEPTED)
    link.settle(delivery, RELEASED)
    script.expect(Disposition, first=0, state=ACCEPTED, settled=True)
    script.expect_nothing()


@pytest.mark.spec("2.6.12", "what was sent settled needs no disposition")
def test_settle_presettled(receiving: tuple[EngineScript, ReceiverLink]) -> None:
    """Nothing is written for it."""
    script, link = receiving
    script.transfer(0, settled=True)
    link.settle(link.incoming.popleft(), ACCEPTED)
    script.expect_nothing()


@pytest.mark.spec("2.6.12", "a receiver that tells an outcome without settling has it settled by the sender")
def test_sender_settles(sending: tuple[EngineScript, SenderLink]) -> None:
    """The owner hears of the outcome, and the sender's settlement goes out."""
    script, link = sending
    sent = link.send(b"x")
    script.expect(Transfer)
    script.send(Disposition(role=True, first=0, state=ACCEPTED, settled=False))
    assert list(script.expect_event(OutcomesReceived).deliveries) == [sent]
    assert (sent.remote_state, sent.remote_settled) == (ACCEPTED, False)
    script.expect(Disposition, role=False, first=0, settled=True)
    assert link.unsettled == {}


@pytest.mark.spec("2.6.12", "a state that is no outcome settles nothing")
def test_received_state(sending: tuple[EngineScript, SenderLink]) -> None:
    """`received` is told to the owner, and the delivery stays open."""
    script, link = sending
    sent = link.send(b"x")
    script.expect(Transfer)
    script.send(Disposition(role=True, first=0, state=Received(section_number=0, section_offset=1)))
    script.expect_event(OutcomesReceived)
    assert sent.remote_state == Received(section_number=0, section_offset=1)
    assert list(link.unsettled.values()) == [sent]
    script.expect_nothing()
    script.send(Disposition(role=True, first=0, state=ACCEPTED, settled=True))
    assert sent.remote_settled


@pytest.mark.spec("2.6.12", "a settlement without a state is a settlement")
def test_settled_without_state(sending: tuple[EngineScript, SenderLink]) -> None:
    """The delivery is settled, with no outcome."""
    script, link = sending
    sent = link.send(b"x")
    script.expect(Transfer)
    script.send(Disposition(role=True, first=0, settled=True))
    assert list(script.expect_event(OutcomesReceived).deliveries) == [sent]
    assert sent.remote_settled
    assert sent.remote_state is None
    assert link.unsettled == {}


# Settlement, receiver-settle-mode second


@pytest.mark.spec("2.8.3", "mode second: the receiver tells the outcome, the sender settles, then the receiver does")
def test_second(second: tuple[EngineScript, ReceiverLink]) -> None:
    """The full exchange: an unsettled disposition, the sender's settlement, and the owner told."""
    script, link = second
    script.transfer(0)
    delivery = link.incoming.popleft()
    link.settle(delivery, ACCEPTED)
    script.expect(Disposition, role=True, first=0, settled=False, state=ACCEPTED)
    assert link.unsettled
    script.send(Disposition(role=False, first=0, settled=True, state=ACCEPTED))
    assert list(script.expect_event(SettlementsReceived).deliveries) == [delivery]
    assert delivery.local_settled
    assert delivery.remote_settled
    assert link.unsettled == {}


@pytest.mark.spec("2.8.3", "mode second between two engines ends with both sides settled")
@pytest.mark.parametrize("sender", SIDES)
def test_second_between_engines(sender: Side) -> None:
    """Both unsettled maps are empty at the end, and each owner was told once."""
    pair = EnginePair()
    pair.open()
    terms = LinkTerms("x", Source("q"), Target("q"), settle_mode="unsettled", receiver_settle_mode="second")
    out, back = pair.attach(terms=terms, credit=10, sender=sender)
    for _ in range(10):
        out.send(b"x")
    pair.run()
    for delivery in back.incoming:
        back.settle(delivery, ACCEPTED)
    pair.run()
    assert not out.unsettled
    assert not back.unsettled
    events = pair.client_events + pair.server_events
    assert sum(len(event.deliveries) for event in events if isinstance(event, OutcomesReceived)) == 10
    assert sum(len(event.deliveries) for event in events if isinstance(event, SettlementsReceived)) == 10


@pytest.mark.spec("2.8.3", "mode second: the sender may wait with its settlement")
def test_second_without_auto_settle(play_client: Play) -> None:
    """With auto_settle off, the outcome is told and the delivery stays until the owner settles."""
    script = play_client()
    terms = LinkTerms("s", Source("q"), Target("q"), receiver_settle_mode="second")
    link = script.sender(script.session(), terms, credit=5)
    link.auto_settle = False
    sent = link.send(b"x")
    script.expect(Transfer)
    script.send(Disposition(role=True, first=0, state=ACCEPTED))
    script.expect_event(OutcomesReceived)
    script.expect_nothing()
    assert list(link.unsettled.values()) == [sent]
    link.settle(sent, ACCEPTED)
    script.expect(Disposition, role=False, first=0, settled=True, state=ACCEPTED)
    assert link.unsettled == {}


@pytest.mark.spec("2.7.6", "a sender may settle what it has not sent whole: with the last frame it is settled")
@pytest.mark.parametrize("span", [(0, None), (0, 7), (0xFFFF_FFFF, 0)])
def test_settled_in_part(second: tuple[EngineScript, ReceiverLink], span: tuple[int, int | None]) -> None:
    """By a disposition for it, or for a range around it; one for others means others."""
    script, link = second
    script.send(Transfer(handle=0, delivery_id=0, delivery_tag=b"t", more=True), b"\x00\x53\x75\xa0\x02a")
    script.send(Disposition(role=False, first=1, last=7, settled=True))
    script.send(Disposition(role=False, first=span[0], last=span[1], settled=True, state=ACCEPTED))
    script.send(Transfer(handle=0, more=False), b"b")
    (delivery,) = link.incoming
    assert (delivery.local_settled, delivery.remote_state, link.unsettled) == (True, ACCEPTED, {})
    script.send(Transfer(handle=0, delivery_id=1, delivery_tag=b"u", more=True), b"\x00\x53\x75\xa0\x02a")
    script.send(Disposition(role=False, first=2, settled=True))
    script.send(Transfer(handle=0, more=False), b"b")
    assert not link.incoming[1].local_settled


@pytest.mark.spec("2.7.5", "rcv-settle-mode first in a transfer overrules the link's second")
def test_first_on_second_link(second: tuple[EngineScript, ReceiverLink]) -> None:
    """That delivery is settled at once, the next one is not."""
    script, link = second
    script.transfer(0, rcv_settle_mode=0)
    script.transfer(1)
    link.settle(link.incoming.popleft(), ACCEPTED)
    script.expect(Disposition, first=0, settled=True)
    link.settle(link.incoming.popleft(), ACCEPTED)
    script.expect(Disposition, first=1, settled=False)


@pytest.mark.spec("2.7.5", "rcv-settle-mode second in a transfer is illegal where the link settles first")
def test_second_on_first_link(receiving: tuple[EngineScript, ReceiverLink]) -> None:
    """The link is detached with an error."""
    script, _ = receiving
    script.transfer(0, rcv_settle_mode=1)
    script.expect(Detach, closed=True, error=condition_is("amqp:invalid-field"))


@pytest.mark.spec("2.6.12", "the sender may settle on its own accord")
def test_sender_settles_first(receiving: tuple[EngineScript, ReceiverLink]) -> None:
    """The receiver's owner is told, and its later word is not sent."""
    script, link = receiving
    script.transfer(0)
    script.send(Disposition(role=False, first=0, settled=True))
    (delivery,) = script.expect_event(SettlementsReceived).deliveries
    assert delivery.remote_settled
    link.settle(link.incoming.popleft(), ACCEPTED)
    script.expect_nothing()


# Dispositions


@pytest.mark.spec("2.7.6", "neighbors with one outcome are one range")
def test_range_out(receiving: tuple[EngineScript, ReceiverLink]) -> None:
    """Pitfall 22: a hundred settlements are one frame; a gap or another outcome begins a new one."""
    script, link = receiving
    for number in range(100):
        script.transfer(number)
    deliveries = list(link.incoming)
    for delivery in deliveries[:40] + deliveries[41:]:
        link.settle(delivery, ACCEPTED)
    link.settle(deliveries[40], RELEASED)
    spoken = {}
    while (item := script.read()) is not None:
        frame = script.transcript.check(item, Disposition, None, {"role": True, "settled": True})
        spoken[frame.first] = (frame.last if frame.last is not None else frame.first, type(frame.state))
    assert spoken == {0: (39, type(ACCEPTED)), 40: (40, type(RELEASED)), 41: (99, type(ACCEPTED))}


@pytest.mark.spec("2.7.6", "settled out of order, ranges are still ranges")
def test_range_out_of_order(receiving: tuple[EngineScript, ReceiverLink]) -> None:
    """The order of settling makes no difference within one write."""
    script, link = receiving
    for number in range(10):
        script.transfer(number)
    for delivery in sorted(link.incoming, key=lambda delivery: ((delivery.delivery_id or 0) * 7) % 10):
        link.settle(delivery, ACCEPTED)
    script.expect(Disposition, first=0, last=9)
    script.expect_nothing()


@pytest.mark.spec("2.7.6", "a range names deliveries of any link of the session")
def test_range_in_over_links(play_client: Play) -> None:
    """One disposition settles what two links have sent, each owner is told of its own."""
    script = play_client()
    session = script.session()
    one = script.sender(session, credit=10)
    two = script.sender(session, credit=10)
    for number in range(6):
        (one, two)[number % 2].send(b"")
        script.expect(Transfer, delivery_id=number)
    script.send(Disposition(role=True, first=0, last=5, settled=True, state=ACCEPTED))
    told = [event for event in script.take_events() if isinstance(event, OutcomesReceived)]
    assert {event.link: len(event.deliveries) for event in told} == {one: 3, two: 3}
    assert one.unsettled == two.unsettled == {}


@pytest.mark.spec("2.7.6", "a range may go beyond what is unsettled, as far as it likes")
def test_range_beyond(sending: tuple[EngineScript, SenderLink]) -> None:
    """Ids that are settled or were never sent are passed over, however many."""
    script, link = sending
    for number in range(3):
        link.send(b"")
        script.expect(Transfer, delivery_id=number)
    script.send(Disposition(role=True, first=1, last=1, settled=True, state=RELEASED))
    script.send(Disposition(role=True, first=2**32 - 5, last=2**31 - 10, settled=True, state=ACCEPTED))
    assert link.unsettled == {}
    told = [event for event in script.take_events() if isinstance(event, OutcomesReceived)]
    assert [len(event.deliveries) for event in told] == [1, 2]


@pytest.mark.spec("2.7.6", "dispositions of deliveries that are unknown or settled are ignored")
def test_unknown_deliveries(sending: tuple[EngineScript, SenderLink]) -> None:
    """No event, no answer, no fault; also in the wrong role."""
    script, link = sending
    link.send(b"", settled=True)
    script.expect(Transfer)
    script.send(Disposition(role=True, first=0, settled=True, state=ACCEPTED))
    script.send(Disposition(role=True, first=77, last=99, settled=True, state=ACCEPTED))
    script.send(Disposition(role=False, first=0, last=9, settled=True))
    assert script.take_events() == []
    script.expect_nothing()
    assert link.attached


@pytest.mark.spec("2.7.6", "a range whose last is before its first is an error of the session")
def test_backward_range(sending: tuple[EngineScript, SenderLink]) -> None:
    """By RFC 1982, whose half of the circle is too far."""
    script, _ = sending
    script.send(Disposition(role=True, first=5, last=4, settled=True))
    script.expect(End, error=condition_is("amqp:invalid-field"))


@pytest.mark.spec("2.7.6", "batchable dispositions are taken like others")
def test_batchable(sending: tuple[EngineScript, SenderLink]) -> None:
    """It is a hint, no more."""
    script, link = sending
    link.send(b"")
    script.expect(Transfer)
    script.send(Disposition(role=True, first=0, settled=True, state=ACCEPTED, batchable=True))
    assert link.unsettled == {}


@pytest.mark.spec("2.6.12", "a delivery-tag that is in use by an unsettled delivery is an error of the link")
def test_tag_in_use(receiving: tuple[EngineScript, ReceiverLink]) -> None:
    """Two unsettled deliveries with one tag could not be told apart when the link is resumed."""
    script, link = receiving
    script.transfer(0, delivery_tag=b"same")
    script.transfer(1, delivery_tag=b"same")
    script.expect(Detach, closed=True, error=condition_is("amqp:invalid-field"))
    assert len(link.incoming) == 1


@pytest.mark.spec("2.6.12", "a delivery-tag is free again once its delivery is settled")
def test_tag_reuse(receiving: tuple[EngineScript, ReceiverLink]) -> None:
    """Peers that count tags in a byte do so."""
    script, link = receiving
    for number in range(3):
        script.transfer(number, delivery_tag=b"same")
        link.settle(link.incoming.popleft(), ACCEPTED)
        script.expect(Disposition, first=number)


@pytest.mark.spec("2.6.4", "settling on a link that is gone is refused")
def test_settle_after_detach(receiving: tuple[EngineScript, ReceiverLink]) -> None:
    """Pitfall 10: at once, with an error, nothing hangs and nothing is written."""
    script, link = receiving
    script.transfer(0)
    delivery = link.incoming.popleft()
    script.send(Detach(handle=0, closed=True))
    script.expect(Detach)
    with pytest.raises(LocalProtocolError):
        link.settle(delivery, ACCEPTED)
    script.expect_nothing()


@pytest.mark.spec("2.6.12", "settlements go out before what ends their link")
def test_settled_before_detach(receiving: tuple[EngineScript, ReceiverLink]) -> None:
    """What was settled is told, although dispositions are collected until the output is taken."""
    script, link = receiving
    script.transfer(0)
    link.settle(link.incoming.popleft(), ACCEPTED)
    link.detach()
    script.expect(Disposition, first=0, settled=True)
    script.expect(Detach)


@pytest.mark.parametrize("ending", ["end", "close"])
@pytest.mark.spec("2.6.12", "settlements go out before what ends their session or connection")
def test_settled_before_end(play_client: Play, ending: str) -> None:
    """As for the link."""
    script = play_client()
    session = script.session()
    link = script.receiver(session, credit=5)
    script.transfer(0)
    link.settle(link.incoming.popleft(), ACCEPTED)
    if ending == "end":
        session.end()
    else:
        script.engine.close()
    script.expect(Disposition, first=0, settled=True)


@pytest.mark.spec("2.7.5", "a transfer on a link whose sender we are ends the session")
def test_transfer_to_sender(sending: tuple[EngineScript, SenderLink]) -> None:
    """The peer is the receiver there."""
    script, link = sending
    script.transfer(0)
    script.expect(End, error=condition_is("amqp:not-allowed"))
    error = script.expect_event(LinkEnded).error
    assert isinstance(error, RemoteProtocolError)
    assert not link.attached


@pytest.mark.spec("2.6.12", "deliveries are told once a link and pass")
def test_one_event_for_many(receiving: tuple[EngineScript, ReceiverLink]) -> None:
    """A thousand deliveries in one portion of bytes are one event."""
    script, link = receiving
    parts: list[Any] = [
        (Transfer(handle=0, delivery_id=number, delivery_tag=bytes([number])), b"x") for number in range(50)
    ]
    script.send_together(*parts)
    events = [event for event in script.take_events() if isinstance(event, DeliveriesReceived)]
    assert [event.link for event in events] == [link]
    assert len(link.incoming) == 50


@pytest.mark.spec("2.6.13", "the state that resuming needs is kept until settlement")
def test_unsettled_state_is_kept(sending: tuple[EngineScript, SenderLink]) -> None:
    """Payload and tag stay with the sender while the link is lost, for the attach that resumes it."""
    script, link = sending
    sent = link.send(b"keep me", tag=b"tag")
    script.expect(Transfer)
    script.end_of_stream()
    assert link.unsettled == {b"tag": sent}
    assert sent.payload == b"keep me"
    assert sent.remote_state is None


@pytest.mark.spec("2.6.7", "the window counts an aborted transfer, too")
def test_window_counts_aborts(play_client: Play) -> None:
    """Transfer-ids go on with every frame."""
    script = play_client()
    session = script.session(SessionTerms(incoming_window=4))
    script.receiver(session, credit=5)
    script.transfer(0, b"x", more=True)
    script.send(Transfer(handle=0, aborted=True))
    script.expect(Flow, handle=None, next_incoming_id=2)
