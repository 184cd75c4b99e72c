"""Deliveries that are handed out while they come in (§2.6.14, §2.7.5), and the window that bounds them (§2.5.6)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from amqp10.engine import (
    DeliveriesReceived,
    Event,
    FlowReceived,
    IncomingDelivery,
    LinkEnded,
    LinkTerms,
    PartsReceived,
    ReceiverLink,
    SessionTerms,
    SettlementsReceived,
)
from amqp10.errors import LocalProtocolError
from amqp10.messaging import ACCEPTED, Error, Rejected, Source, Target
from amqp10.testing import Detach, Disposition, End, EngineScript, Flow, Transfer

from ..kit.parents import session_of

Play = Callable[..., EngineScript]


@pytest.fixture
def stream(play_client: Play) -> tuple[EngineScript, ReceiverLink]:
    """A receiver that streams, on a session with a window of 8, with credit 100."""
    return streaming(play_client)


def streaming(play: Play, window: int = 8, **terms: Any) -> tuple[EngineScript, ReceiverLink]:
    script = play()
    session = script.session(SessionTerms(incoming_window=window))
    link = script.receiver(session, LinkTerms("r", Source("q"), Target("q"), **terms) if terms else None, credit=100)
    link.streaming = True
    script.events.clear()
    return script, link


def told(script: EngineScript, kind: type[Event]) -> int:
    """How many events of the kind there were since the last time."""
    count = sum(isinstance(event, kind) for event in script.events)
    script.events.clear()
    return count


def read_all(link: ReceiverLink, delivery: IncomingDelivery) -> list[bytes]:
    parts = []
    while (part := link.read(delivery)) is not None:
        parts.append(part)
    return parts


@pytest.mark.spec("2.6.14", "a delivery is handed out with its first transfer, and read as more come")
def test_handed_out_in_parts(stream: tuple[EngineScript, ReceiverLink]) -> None:
    """The owner hears of the first part, of more when it had read all, and of the end."""
    script, link = stream
    script.transfer(0, b"one", more=True)
    (delivery,) = link.incoming
    assert told(script, DeliveriesReceived) == 1
    script.send(Transfer(handle=0, more=True), b"two")
    assert told(script, PartsReceived) == 0
    assert read_all(link, delivery) == [b"one", b"two"]
    script.send(Transfer(handle=0, more=True), b"three")
    assert told(script, PartsReceived) == 1
    script.send(Transfer(handle=0), b"")
    assert told(script, PartsReceived) == 1
    assert delivery.stream.whole
    assert read_all(link, delivery) == [b"three"]
    assert delivery.stream.size == 11
    assert delivery.payload == b""


@pytest.mark.spec("2.6.14", "several deliveries of one link may wait to be read, in order")
def test_several(stream: tuple[EngineScript, ReceiverLink]) -> None:
    """Each has its own parts; a transfer without payload is no part."""
    script, link = stream
    script.transfer(0, b"a")
    script.transfer(1, b"", more=True)
    script.send(Transfer(handle=0), b"b")
    first, second = link.incoming
    assert read_all(link, second) == [b"b"]
    assert read_all(link, first) == [b"a"]
    assert list(link.unsettled.values()) == [first, second]


@pytest.mark.spec("2.5.6", "transfers that nobody has read keep their place in the incoming window")
def test_the_window_waits_for_the_reader(stream: tuple[EngineScript, ReceiverLink]) -> None:
    """The window is used up and stays so; half of it read, half of it is granted again."""
    script, link = stream
    script.transfer(0, b"0", more=True)
    for number in range(1, 8):
        script.send(Transfer(handle=0, more=True), b"%d" % number)
    script.expect_nothing()
    (delivery,) = link.incoming
    for _ in range(4):
        link.read(delivery)
    script.expect_nothing()  # the part that was read last is still in use
    link.read(delivery)
    script.expect(Flow, next_incoming_id=8, incoming_window=4)
    assert read_all(link, delivery) == [b"5", b"6", b"7"]
    script.expect(Flow, next_incoming_id=8, incoming_window=8)
    script.expect_nothing()


@pytest.mark.spec("2.5.6", "for a reader that keeps up, the window is granted by halves, not for each transfer")
def test_a_quick_reader(stream: tuple[EngineScript, ReceiverLink]) -> None:
    """Sixteen transfers, each read as it comes, cost four flows."""
    script, link = stream
    script.transfer(0, b"0", more=True)
    (delivery,) = link.incoming
    flows = 0
    for number in range(1, 17):
        assert len(read_all(link, delivery)) == 1
        if script.engine.output_size:
            script.expect(Flow, next_incoming_id=number, incoming_window=8)
            flows += 1
        script.send(Transfer(handle=0, more=number < 16), b"%d" % number)
    assert flows == 4


@pytest.mark.spec("2.5.6", "other links of the session have the part of the window that no unread stream holds")
def test_an_unread_stream_beside_another_link(play_client: Play) -> None:
    """With three of four places held, the fourth is granted again and again; a stream that waits gets it, too."""
    script = play_client()
    session = script.session(SessionTerms(incoming_window=4))
    unread = script.receiver(session, credit=100)
    other = script.receiver(session, credit=100)
    quick = script.receiver(session, credit=100)
    unread.streaming = quick.streaming = True
    for number in range(3):
        script.transfer(0, b"x", more=True) if not number else script.send(Transfer(handle=0, more=True), b"x")
    for number in range(1, 20):
        script.transfer(number, b"y", handle=1)
        script.expect(Flow, incoming_window=1)
    assert len(other.incoming) == 19
    for number in range(20, 40):
        script.transfer(number, b"z", handle=2)
        script.expect_nothing()
        assert read_all(quick, quick.incoming.popleft()) == [b"z"]
        script.expect(Flow, incoming_window=1)
    # The owner of the unread one gives it up: all is there again.
    unread.discard(unread.incoming[0])
    script.expect(Flow, incoming_window=4)


@pytest.mark.spec("2.5.6", "a flow for a link does not grant what unread transfers hold")
def test_credit_grants_no_window(stream: tuple[EngineScript, ReceiverLink]) -> None:
    """The session state in it is as it is."""
    script, link = stream
    for number in range(3):
        script.transfer(number, b"x")
    link.flow(50)
    script.expect(Flow, handle=0, link_credit=50, incoming_window=5)


@pytest.mark.spec("2.7.5", "an abort settles the delivery and drops its unread part")
def test_aborted(stream: tuple[EngineScript, ReceiverLink]) -> None:
    """Its owner hears of it; the window is whole, the next delivery comes."""
    script, link = stream
    script.transfer(0, b"half", more=True)
    for _ in range(6):
        script.send(Transfer(handle=0, more=True), b"more")
    script.events.clear()
    script.send(Transfer(handle=0, aborted=True), b"ignored")
    (delivery,) = link.incoming
    assert [type(event) for event in script.events] == [SettlementsReceived, PartsReceived]
    assert delivery.stream.aborted
    assert not delivery.stream.whole
    assert delivery.local_settled
    assert link.unsettled == {}
    assert link.read(delivery) is None
    script.expect(Flow, incoming_window=8)
    script.transfer(1, b"whole")
    assert link.incoming[1].stream.whole


@pytest.mark.spec("2.7.5", "a delivery may be aborted in its only transfer")
def test_aborted_at_once(stream: tuple[EngineScript, ReceiverLink]) -> None:
    """There is nothing to hand out; the owner hears that a credit was used up."""
    script, link = stream
    script.transfer(0, b"x", aborted=True)
    assert not link.incoming
    assert told(script, FlowReceived) == 1
    assert link.credit == 99


@pytest.mark.spec("2.6.12", "a receiver may settle a delivery before all of it is here, and drops the rest")
def test_settled_early(stream: tuple[EngineScript, ReceiverLink]) -> None:
    """The outcome goes out at once; what still comes is thrown away and holds nothing."""
    script, link = stream
    script.transfer(0, b"0", more=True)
    (delivery,) = link.incoming
    outcome = Rejected(Error("amqp:not-allowed", "too long"))
    link.settle(delivery, outcome)
    link.discard(delivery)
    script.expect(Disposition, first=0, settled=True, state=outcome)
    for _ in range(20):
        script.send(Transfer(handle=0, more=True), b"more")
        if script.engine.output_size:
            script.expect(Flow, incoming_window=8)
    script.send(Transfer(handle=0), b"last")
    script.transfer(1, b"next")
    assert link.read(delivery) is None
    assert read_all(link, link.incoming[1]) == [b"next"]


@pytest.mark.spec("2.7.5", "settled is sticky: once set on any transfer of a delivery, it holds")
@pytest.mark.parametrize("which", [0, 1, 2])
def test_settled_is_sticky(stream: tuple[EngineScript, ReceiverLink], which: int) -> None:
    """A delivery that is being read is settled as soon as one of its transfers says so."""
    script, link = stream
    for number in range(3):
        fields: dict[str, Any] = {"settled": True} if number == which else {}
        if number == 0:
            script.transfer(0, b"x", more=True, **fields)
        else:
            script.send(Transfer(handle=0, more=number < 2, **fields), b"x")
        assert link.incoming[0].local_settled is (number >= which)
    assert link.unsettled == {}
    assert link.incoming[0].remote_settled


@pytest.mark.spec("2.7.5", "the state that a sender attaches to any transfer is kept")
def test_state_on_a_later_transfer(stream: tuple[EngineScript, ReceiverLink]) -> None:
    """The last word holds."""
    script, link = stream
    script.transfer(0, b"x", more=True)
    script.send(Transfer(handle=0, state=ACCEPTED), b"x")
    assert link.incoming[0].remote_state == ACCEPTED


@pytest.mark.spec("2.7.5", "later transfers may repeat the delivery-id and tag, and no others")
def test_repeated_fields(stream: tuple[EngineScript, ReceiverLink]) -> None:
    """Pitfall 24: some peers do; another id in the middle of a delivery ends the link."""
    script, link = stream
    script.transfer(0, b"a", more=True)
    script.transfer(0, b"b", more=True)
    assert len(link.incoming) == 1
    script.transfer(1, b"c")
    script.expect(Detach, closed=True, error=lambda error: error.condition == "amqp:invalid-field")


@pytest.mark.spec("2.7.3", "a message larger than our max-message-size detaches the link")
def test_message_size_exceeded(play_client: Play) -> None:
    """As soon as the size is exceeded; who reads it hears of the end of the link."""
    script, link = streaming(play_client, max_message_size=100)
    script.transfer(0, bytes(60), more=True)
    script.expect_nothing()
    script.send(Transfer(handle=0, more=True), bytes(60))
    script.expect(Detach, error=lambda error: error.condition == "amqp:link:message-size-exceeded")
    assert told(script, LinkEnded) == 1
    assert not link.incoming[0].stream.whole


@pytest.mark.spec("2.6.7", "a delivery without credit is an error of the link")
def test_credit_counts_deliveries(play_client: Play) -> None:
    """One credit for each, taken by the first transfer."""
    script, link = streaming(play_client)
    script.flow(handle=0, delivery_count=98, link_credit=2)
    script.transfer(0, b"a", more=True)
    assert link.credit == 1
    script.send(Transfer(handle=0), b"b")
    assert link.credit == 1
    script.transfer(1, b"c")
    script.transfer(2, b"d")
    script.expect(Detach, error=lambda error: error.condition == "amqp:link:transfer-limit-exceeded")


@pytest.mark.spec("2.7.5", "rcv-settle-mode second in a transfer is illegal where the link settles first")
def test_second_on_first_link(stream: tuple[EngineScript, ReceiverLink]) -> None:
    """The link ends before anything is handed out."""
    script, link = stream
    script.transfer(0, b"x", rcv_settle_mode=1)
    script.expect(Detach, error=lambda error: error.condition == "amqp:invalid-field")
    assert not link.incoming


@pytest.mark.spec("2.7.5", "rcv-settle-mode first in a transfer overrules the link's second")
@pytest.mark.parametrize("mode", [0, None])
def test_first_on_second_link(play_client: Play, mode: int | None) -> None:
    """The outcome settles, or waits for the sender."""
    script, link = streaming(play_client, receiver_settle_mode="second")
    script.transfer(0, b"x", rcv_settle_mode=mode)
    link.settle(link.incoming[0], ACCEPTED)
    script.expect(Disposition, settled=mode == 0)


@pytest.mark.spec("2.6.7", "a drain is answered when all credit is used up, be it by a delivery that still comes in")
def test_drained_by_a_delivery_half_here(stream: tuple[EngineScript, ReceiverLink]) -> None:
    """It was handed out, so nothing more is to come for the credit."""
    script, link = stream
    link.flow(100, drain=True)
    script.expect(Flow, drain=True)
    script.flow(handle=0, delivery_count=99, link_credit=1)
    script.events.clear()
    script.transfer(0, b"half", more=True)
    assert any(isinstance(event, FlowReceived) and event.drained for event in script.events)


@pytest.mark.spec("2.6.4", "a detach in the middle of a delivery frees what it held of the session's window")
@pytest.mark.parametrize("by", ["peer", "this side"])
def test_detach_in_the_middle(stream: tuple[EngineScript, ReceiverLink], by: str) -> None:
    """Nobody has to read it for the other links' sake; what is here can be read all the same."""
    script, link = stream
    script.transfer(0, b"0", more=True)
    for number in range(1, 8):
        script.send(Transfer(handle=0, more=True), b"%d" % number)
    (delivery,) = link.incoming
    if by == "this side":
        link.detach()
        script.expect(Detach)
        script.expect_nothing()
    script.send(Detach(handle=0, closed=True))
    script.expect(Flow if by == "this side" else Detach)
    if by == "peer":
        script.expect(Flow, incoming_window=8)
    assert len(read_all(link, delivery)) == 8
    script.expect_nothing()
    with pytest.raises(LocalProtocolError):
        link.settle(delivery, ACCEPTED)


@pytest.mark.spec("2.4.3", "nothing is written once the connection is over, even held output")
def test_the_end_of_the_transport(stream: tuple[EngineScript, ReceiverLink]) -> None:
    """The part that has arrived can still be read."""
    script, link = stream
    for number in range(8):
        script.transfer(number, b"x")
    script.end_of_stream()
    assert all(read_all(link, delivery) == [b"x"] for delivery in link.incoming)
    script.expect_nothing()


@pytest.mark.spec("2.5.6", "a transfer beyond the incoming window ends the session, unless the owner lets it pass")
@pytest.mark.parametrize("strict", [True, False])
def test_beyond_the_window(stream: tuple[EngineScript, ReceiverLink], strict: bool) -> None:
    """Where it passes, no window is told until what is held is within it again."""
    script, link = stream
    session_of(link).strict_window = strict
    script.transfer(0, b"0", more=True)
    for number in range(1, 20):
        script.send(Transfer(handle=0, more=number < 19), b"%d" % number)
    if strict:
        script.expect(End, error=lambda error: error.condition == "amqp:session:window-violation")
        return
    link.flow(5)
    script.expect(Flow, next_incoming_id=20, incoming_window=0)
    (delivery,) = link.incoming
    for _ in range(13):
        link.read(delivery)
    script.expect_nothing()
    assert len(read_all(link, delivery)) == 7
    script.expect(Flow, next_incoming_id=20, incoming_window=1)
    script.expect(Flow, next_incoming_id=20, incoming_window=5)


# The sending end


@pytest.mark.spec("2.7.7", "no transfer follows the detach of its link, though the window opens")
def test_detach_with_the_window_closed(play_client: Play) -> None:
    """Half a delivery is on the wire, another held back: the detach is the end of both, and both stay unsettled."""
    script = play_client(peer={"max_frame_size": 512})
    link = script.sender(script.session(incoming_window=2))
    script.flow(incoming_window=2, handle=0, link_credit=5, delivery_count=0)
    half, none = link.send(bytes(5000)), link.send(b"x")
    script.expect(Transfer, more=True)
    script.expect(Transfer, more=True)
    link.detach()
    script.expect(Detach)
    script.flow(next_incoming_id=2, incoming_window=10)
    script.expect_nothing()
    assert list(link.unsettled.values()) == [half, none]
    assert not half.on_wire
    assert not half.local_settled


@pytest.mark.spec("2.7.5", "an aborting transfer may have more set: it does not end a delivery unknown to the peer")
def test_abort_says_more(play_client: Play) -> None:
    """RabbitMQ 4 publishes what came so far if it does not; whoever knows `aborted` ignores `more`."""
    script = play_client()
    link = script.sender(script.session(), credit=5)
    delivery = link.send(b"one", more=True)
    script.expect(Transfer, more=True)
    link.abort(delivery)
    script.expect(Transfer, aborted=True, more=True)


@pytest.mark.spec("2.7.3", "a message in parts is held to the peer's max-message-size as a whole")
def test_size_of_parts(play_client: Play) -> None:
    """The part that would go beyond is refused, and has no effect; the delivery can be aborted or ended."""
    script = play_client()
    link = script.sender(script.session(), credit=5, max_message_size=100)
    delivery = link.send(bytes(60), more=True)
    script.expect(Transfer, more=True)
    with pytest.raises(LocalProtocolError, match="max-message-size of 100"):
        link.send_more(delivery, bytes(41))
    link.send_more(delivery, bytes(40))
    script.expect(Transfer, more=False)
    with pytest.raises(LocalProtocolError, match="begun last"):
        link.send_more(delivery, b"x")
