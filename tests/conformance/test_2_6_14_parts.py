"""Messages of many frames (§2.6.14, §2.7.5): put together, limited in size, aborted."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from amqp10.engine import (
    ConnectionTerms,
    LinkTerms,
    ReceiverLink,
    SenderLink,
    SessionTerms,
)
from amqp10.errors import LocalProtocolError
from amqp10.messaging import Source, Target
from amqp10.testing import Detach, EnginePair, EngineScript, Transfer

from ..kit.conformance.play import Play, condition_is
from ..kit.inside.engines import message_limits

Side = Literal["client", "server"]
SIDES: list[Side] = ["client", "server"]


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


@pytest.mark.spec("2.6.14", "a delivery may be sent part by part")
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


@pytest.mark.spec("2.7.5", "later transfers may repeat the message-format, which is one for the whole delivery")
@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize(("first", "later"), [(0, 0), (0, None), (7, 7), (None, 0), (0, 7), (7, 0), (None, 7)])
def test_repeated_format(
    receiving: tuple[EngineScript, ReceiverLink], streaming: bool, first: int | None, later: int | None
) -> None:
    """Another one is an error of the link; one that is left out at first is 0."""
    script, link = receiving
    link.streaming = streaming
    script.transfer(0, b"a", more=True, message_format=first)
    script.transfer(0, b"b", more=True, message_format=later)
    if later in (first or 0, None):
        script.expect_nothing()
        script.transfer(0, b"c", message_format=None)
        assert [delivery.message_format for delivery in link.incoming] == [first or 0]
        assert link.attached
    else:
        script.expect(Detach, closed=True, error=condition_is("amqp:invalid-field"))
        assert not link.attached


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


@pytest.mark.spec("2.7.5", "settled is sticky: once set on any transfer of a delivery, it holds")
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


@pytest.mark.spec("2.8.15", "incomplete deliveries of a connection are limited: a link beyond the limit is detached")
def test_too_much_in_part(play_client: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the links of all sessions together; the others go on, and what ends or is aborted leaves room."""
    monkeypatch.setattr(message_limits, "MAX_PARTIAL", 1000)
    script = play_client(max_message_size=1000)
    one, two = script.session(), script.session()
    links = [script.receiver(session, credit=9) for session in (one, one, two, two)]

    def first(channel: int, handle: int, number: int, payload: bytes) -> None:
        frame = Transfer(handle=handle, delivery_id=number, delivery_tag=bytes((number,)), more=True)
        script.send(frame, payload, channel)

    first(0, 0, 0, bytes(800))
    first(0, 1, 1, bytes(800))
    script.expect_nothing()
    first(1, 0, 0, bytes(800))
    script.expect(Detach, handle=0, closed=True, error=condition_is("amqp:resource-limit-exceeded"), channel=1)
    script.send(Transfer(handle=0), b"x", 0)
    script.send(Transfer(handle=1, aborted=True), b"", 0)
    assert [len(delivery.payload) for delivery in links[0].incoming] == [801]
    first(1, 1, 1, b"x")
    for _ in range(29):  # a message of small frames costs more than its octets
        script.send(Transfer(handle=1, more=True), b"x", 1)
    script.expect_nothing()
    script.send(Transfer(handle=1, more=True), b"x", 1)
    script.expect(Detach, handle=1, closed=True, error=condition_is("amqp:resource-limit-exceeded"), channel=1)
    assert not links[3].incoming


# Aborted deliveries


@pytest.mark.spec("2.7.5", "an abort settles and forgets the delivery")
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
