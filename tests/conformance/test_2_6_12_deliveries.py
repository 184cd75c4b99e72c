"""Deliveries (§2.6.11, §2.6.12, §2.7.5): transfers, and settlement in either mode."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from amqp10.engine import (
    LinkTerms,
    OutcomesReceived,
    ReceiverLink,
    SenderLink,
    SettlementsReceived,
)
from amqp10.errors import LocalProtocolError
from amqp10.messaging import ACCEPTED, RELEASED, Error, Modified, Received, Rejected, Source, Target
from amqp10.testing import Detach, Disposition, EnginePair, EngineScript, Transfer

from ..kit.conformance.play import Play, condition_is

Side = Literal["client", "server"]
SIDES: list[Side] = ["client", "server"]
OUTCOMES: list[Any] = [
    ACCEPTED,
    RELEASED,
    Rejected(Error("amqp:decode-error", "why")),
    Modified(delivery_failed=True, undeliverable_here=True, message_annotations={"x-opt-a": 1}),
]


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


@pytest.mark.spec("2.6.12", "a delivery-tag that the engine makes is not made again, be its delivery settled or not")
def test_tag_of_settled_delivery(play_client: Play) -> None:
    """Nothing that is said of the one delivery is taken for a word on another."""
    script = play_client()
    link = script.sender(script.session(), LinkTerms("s", Source("q"), Target("q"), settle_mode="mixed"), credit=5)
    tags = [link.send(b"x", settled=settled).tag for settled in (True, True, False)]
    assert len(set(tags)) == 3


@pytest.mark.spec("2.7.5", "message-format, state and batchable are carried")
def test_transfer_fields(sending: tuple[EngineScript, SenderLink]) -> None:
    """The fields that the application sets for a delivery are on the wire."""
    script, link = sending
    link.send(b"a", message_format=7)
    script.expect(Transfer, message_format=7)
    link.send(b"b", batchable=True)
    script.expect(Transfer, batchable=True)
    link.send(b"c", state=Received(section_number=1, section_offset=2))
    script.expect(Transfer, state=Received(section_number=1, section_offset=2))


@pytest.mark.spec("2.8.2", "deliveries are settled or unsettled as the settle mode allows")
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
    """A call that the mode does not allow is refused before a byte is written."""
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


@pytest.mark.spec("2.6.12", "a delivery sent settled needs no disposition")
def test_settle_presettled(receiving: tuple[EngineScript, ReceiverLink]) -> None:
    """Nothing is written for it."""
    script, link = receiving
    script.transfer(0, settled=True)
    link.settle(link.incoming.popleft(), ACCEPTED)
    script.expect_nothing()


@pytest.mark.spec("2.6.12", "the sender settles a delivery for which the receiver sends an outcome unsettled")
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


@pytest.mark.spec("2.6.12", "a state that is not an outcome settles nothing")
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


@pytest.mark.spec("2.8.3", "mode second answered by first is first: nobody waits for a settlement that never comes")
def test_second_answered_by_first(play_client: Play) -> None:
    """The outcome settles."""
    script = play_client()
    terms = LinkTerms("r", Source("q"), Target("q"), receiver_settle_mode="second")
    link = script.receiver(script.session(), terms, credit=1, rcv_settle_mode=0)
    script.transfer(0)
    link.settle(link.incoming.popleft(), ACCEPTED)
    script.expect(Disposition, role=True, first=0, settled=True, state=ACCEPTED)
    assert link.unsettled == {}


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


@pytest.mark.spec("2.7.5", "rcv-settle-mode first overrules the link's second in transfers that come together, too")
@pytest.mark.parametrize("links", [1, 2])
def test_first_on_second_links(play_client: Play, links: int) -> None:
    """Those of one link, and those of two by turns, are settled at once."""
    script = play_client()
    session = script.session()
    receivers = [
        script.receiver(
            session, LinkTerms(f"r{number}", Source("q"), Target("q"), receiver_settle_mode="second"), credit=20
        )
        for number in range(links)
    ]
    script.send_together(
        *(
            (Transfer(number % links, number, bytes((number,)), rcv_settle_mode=0), b"\x00\x53\x75\xa0\x01x")
            for number in range(20)
        )
    )
    for number in range(20):
        link = receivers[number % links]
        link.settle(link.incoming.popleft(), ACCEPTED)
    script.expect(Disposition, first=0, last=19, settled=True)


@pytest.mark.spec("2.7.5", "rcv-settle-mode second in a transfer is illegal where the link settles first")
def test_second_on_first_link(receiving: tuple[EngineScript, ReceiverLink]) -> None:
    """The link is detached with an error."""
    script, _ = receiving
    script.transfer(0, rcv_settle_mode=1)
    script.expect(Detach, closed=True, error=condition_is("amqp:invalid-field"))


@pytest.mark.spec("2.7.5", "rcv-settle-mode is ignored in a transfer that is sent settled")
@pytest.mark.parametrize("streams", [False, True])
def test_settle_mode_of_what_is_settled(play_client: Play, streams: bool) -> None:
    """Neither mode means anything there, not even one that the link does not allow."""
    script = play_client()
    for mode, receiver_settle_mode in ((1, "first"), (0, "second")):
        terms = LinkTerms(f"r{mode}", Source("q"), Target("q"), receiver_settle_mode=receiver_settle_mode)  # type: ignore[arg-type]
        link = script.receiver(script.session(), terms, credit=5)
        link.streaming = streams
        script.transfer(0, settled=True, rcv_settle_mode=mode)
        assert link.incoming.popleft().remote_settled
        assert link.attached
        script.expect_nothing()


@pytest.mark.spec("2.8.3", "a receiver-settle-mode that does not exist is an error of the link")
@pytest.mark.parametrize("streams", [False, True])
def test_unknown_mode(receiving: tuple[EngineScript, ReceiverLink], streams: bool) -> None:
    """In an attach it is the session's; in a transfer nothing but its link has to do with it."""
    script, link = receiving
    link.streaming = streams
    script.transfer(0, rcv_settle_mode=2)
    script.expect(Detach, closed=True, error=condition_is("amqp:invalid-field"))
    assert not link.incoming


@pytest.mark.deviation(
    "2.7.5",
    "a first transfer without message-format is taken as format 0",
    "senders that omit it mean 0, the only format that every peer understands",
)
def test_no_message_format(receiving: tuple[EngineScript, ReceiverLink]) -> None:
    """Each transfer that is sent from here has the message-format (§2.7.5)."""
    script, link = receiving
    script.transfer(0, message_format=None)
    assert link.incoming.popleft().message_format == 0
    script.expect_nothing()


@pytest.mark.deviation(
    "2.8.7",
    "a delivery-tag of more than 32 octets is accepted",
    "a tag is only compared and repeated; the tags that this package sends have at most 32",
)
def test_long_tags_are_taken(receiving: tuple[EngineScript, ReceiverLink]) -> None:
    """It is told apart by all of its octets."""
    script, link = receiving
    for number in range(2):
        script.transfer(number, delivery_tag=b"x" * 200 + bytes((number,)))
    assert [delivery.tag[-1] for delivery in link.incoming] == [0, 1]
    script.expect_nothing()


@pytest.mark.deviation(
    "2.7.5",
    "the transfers decide whether a delivery is settled, even against the link's snd-settle-mode",
    "both sides know the state either way, and no message is lost",
)
@pytest.mark.parametrize(("mode", "settled"), [("settled", False), ("unsettled", True)])
def test_delivery_against_the_mode(play_client: Play, mode: Literal["settled", "unsettled"], settled: bool) -> None:
    """Transfers that are sent from here keep to the mode; see `test_settle_modes`."""
    script = play_client()
    link = script.receiver(script.session(), LinkTerms("r", Source("q"), Target("q"), settle_mode=mode), credit=5)
    script.transfer(0, settled=settled)
    delivery = link.incoming.popleft()
    assert delivery.remote_settled == settled
    link.settle(delivery, ACCEPTED)
    if settled:
        script.expect_nothing()
    else:
        script.expect(Disposition, first=0, settled=True)


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


@pytest.mark.spec("2.7.3", "a max-message-size of 0 means no limit")
def test_max_message_size_zero(play_client: Play) -> None:
    """The peer's, and ours."""
    script = play_client()
    session = script.session()
    sender = script.sender(session, credit=1, max_message_size=0)
    sender.send(bytes(1000))
    script.expect(Transfer)
    terms = LinkTerms("r", Source("q"), Target("q"), max_message_size=0)
    receiver = script.receiver(session, terms, credit=1, handle=1)
    script.transfer(0, bytes(1000), handle=1)
    assert len(receiver.incoming) == 1
