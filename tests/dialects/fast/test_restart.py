"""Large messages go on where the connection was cut off (handle-prepare, handle-ready), and are what they were."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from amqp10.dialects.fast.wire.command_table import Command
from amqp10.dialects.fast.wire.commands import (
    ChannelOpen,
    HandleClose,
    HandleNotify,
    HandleOpen,
    HandlePrepare,
    HandleReady,
    HandleReply,
    HandleSend,
    MessageHead,
)
from amqp10.dialects.fast.wire.frames import CommandReader, encode_command
from amqp10.dialects.fast.wire.trace import CommandTracer
from amqp10.engine import (
    DeliveriesUnresumed,
    LinkAttached,
    LinkTerms,
    OutgoingDelivery,
    ReceiverLink,
)
from amqp10.messaging import ACCEPTED, RELEASED, Message, Source, Target
from amqp10.testing import EnginePair

from ...kit.dialects.fast.restart import AGAIN, BODY, FIRST, attached, receiving

pytestmark = pytest.mark.capability("AMQP/Fast")


@pytest.mark.parametrize("cut", [0, 1, 900, 1100, 13_000, 26_000, 30_000])
def test_goes_on(cut: int) -> None:
    """However much of it came before the loss, only the rest is sent again, and the whole is what it was."""
    pair, link, theirs = attached()
    delivery = link.send(Message(BODY, message_id="m").encode())  # type: ignore[attr-defined]
    data = pair.client.data_to_send()
    pair.server.receive_data(data[:cut])
    pair.lose()
    kept, resuming = theirs.suspended(), link.suspended()  # type: ignore[attr-defined]
    assert resuming == [delivery]
    came = kept[0].stream.size if kept else 0
    assert len(kept) == (cut > 1060 and cut < len(data))

    pair, link, theirs = attached(resuming, list(kept))
    (unresumed,) = [event for event in pair.take("client") if isinstance(event, DeliveriesUnresumed)]
    assert unresumed.deliveries == [delivery]
    link.resend(delivery)  # type: ignore[attr-defined]
    assert link.credit == 0  # type: ignore[attr-defined]
    asked = pair.client.data_to_send()
    pair.server.receive_data(asked)
    pair.client.receive_data(pair.server.data_to_send())
    rest = pair.client.data_to_send()
    assert len(BODY) - came < len(rest) < len(BODY) - came + 1500
    pair.server.receive_data(rest)
    (arrived,) = theirs.incoming
    assert Message.decode(arrived.payload) == Message(BODY, message_id="m")
    theirs.settle(arrived, ACCEPTED)
    pair.run()
    assert delivery.remote_state == ACCEPTED
    assert link.credit == 1000  # type: ignore[attr-defined]


def test_what_is_kept_counts() -> None:
    """Among what a connection has of messages that are not whole, until it is asked for and whole."""
    pair, link, theirs = attached()
    delivery = link.send(Message(BODY).encode())  # type: ignore[attr-defined]
    pair.server.receive_data(pair.client.data_to_send()[:9000])
    came = pair.server.partial
    assert 7000 < came < 9000
    pair.lose()
    pair, link, theirs = attached(link.suspended(), list(theirs.suspended()))  # type: ignore[attr-defined]
    assert pair.server.partial == came
    link.resend(delivery)  # type: ignore[attr-defined]
    pair.server.receive_data(pair.client.data_to_send())
    assert pair.server.partial == came
    pair.run()
    assert pair.server.partial == 0
    assert len(theirs.incoming) == 1


def test_another_message() -> None:
    """The kept part of one message is not taken for another's: the whole head identifies it."""
    pair, link, theirs = attached()
    delivery = link.send(Message(BODY, message_id="m").encode())  # type: ignore[attr-defined]
    pair.server.receive_data(pair.client.data_to_send()[:9000])
    pair.lose()
    kept = theirs.suspended()
    other = Message(BODY, message_id="n").encode()
    delivery.payload = other
    link.suspended()  # type: ignore[attr-defined]
    pair, link, theirs = attached([delivery], list(kept))
    link.resend(delivery)  # type: ignore[attr-defined]
    pair.run()
    assert theirs.incoming[0].payload == other


@pytest.mark.parametrize("settled", [False, True])
def test_kept_of_another_message(settled: bool) -> None:
    """Two messages have the same head, and what is kept is of the other: this one is sent anew, whole."""
    pair, link, theirs = attached()
    delivery = link.send(Message(BODY).encode())  # type: ignore[attr-defined]
    pair.server.receive_data(pair.client.data_to_send()[:9000])
    pair.lose()
    kept = theirs.suspended()
    assert kept
    link.suspended()  # type: ignore[attr-defined]
    delivery.payload = Message(BODY[::-1]).encode()
    pair, link, theirs = attached([delivery], list(kept))
    link.resend(delivery)  # type: ignore[attr-defined]
    if settled:  # nobody waits for it any more
        link.forget(delivery)  # type: ignore[attr-defined]
    pair.run()
    bodies = [Message.decode(each.payload).body for each in theirs.incoming]
    assert bodies == ([] if settled else [BODY[::-1]])
    for each in theirs.incoming:
        theirs.settle(each, ACCEPTED)
    pair.run()
    assert settled or delivery.remote_state == ACCEPTED
    assert (link.attached, link.credit) == (True, 1000 - settled)  # type: ignore[attr-defined]


def test_other_content() -> None:
    """A body whose SHA-1 is not the one that was said is refused, with 542 or its like."""
    pair, _, theirs = attached()
    wrong = HandlePrepare(handle_id=1, fragment_size=0, content_hash="0" * 40)
    head = MessageHead(body_size=5).write()
    wrong.fragment_size = len(head)
    lines = said(pair, encode_command(wrong, head))
    assert lines == ["< handle-ready(handle_id=1)"]
    lines = said(pair, encode_command(HandleSend(handle_id=1, fragment_size=5, recovery=True), b"hello"))
    assert len(lines) == 1
    assert lines[0].startswith("< handle-close(handle_id=1, reply_code=542, reply_text='a body does not match its hash")
    assert not theirs.incoming


def said(pair: EnginePair, data: bytes) -> list[str]:
    """Return the server's answer to these octets."""
    pair.server.receive_data(data)
    tracer = CommandTracer()
    answer = pair.server.data_to_send()
    list(tracer.received(encode_command(HandleClose())))  # a server sends no initiation
    return tracer.received(answer)


def test_out_of_order() -> None:
    """The rest of what was not prepared, and a question within a message, end the handle."""
    pair, _, _ = attached()
    (line,) = said(pair, encode_command(HandleSend(handle_id=1, fragment_size=1, recovery=True), b"x"))
    assert "reply_code=409" in line
    pair, _, _ = attached()
    head = MessageHead(body_size=5).write()
    pair.server.receive_data(encode_command(HandleSend(handle_id=1, fragment_size=len(head), partial=True), head))
    (line,) = said(pair, encode_command(HandlePrepare(handle_id=1, fragment_size=len(head)), head))
    assert "reply_code=409" in line


def test_server_prepares() -> None:
    """A server that prepares a message is told what came with its question, and sends the rest."""
    pair = EnginePair(dialect="fast")
    pair.open()
    _, receiving = pair.attach(credit=5, sender="server")
    head = MessageHead(body_size=5).write()
    prepare = HandlePrepare(handle_id=1, fragment_size=len(head) + 2)
    pair.client.receive_data(encode_command(prepare, head + b"he"))
    assert pair.client.data_to_send() == encode_command(HandleReady(handle_id=1, message_size=2))
    notify = HandleNotify(handle_id=1, message_nbr=1, fragment_size=3, recovery=True, delivered=True)
    pair.client.receive_data(encode_command(notify, b"llo"))
    assert Message.decode(receiving.incoming[0].payload).body == b"hello"


def test_names_are_their_own() -> None:
    """Of two links of one name, in two sessions, each has what is its own."""
    pair = EnginePair(dialect="fast")
    pair.open()
    for _ in range(2):
        session, _ = pair.begin()
        session.attach_sender(LinkTerms("l", Source(), Target("q")))
        pair.run()
    attached = [event.link for event in pair.take("server") if isinstance(event, LinkAttached)]
    assert [link.name for link in attached] == ["l", "l#1"]
    attached[0].detach()
    pair.run()
    session.attach_sender(LinkTerms("m", Source(), Target("q")))
    pair.begin()[0].attach_sender(LinkTerms("l", Source(), Target("q")))
    names = [event.link.name for event in pair.take("server") if isinstance(event, LinkAttached)]
    assert names == ["m", "l"], "it is free again"


def test_not_restartable() -> None:
    """On a channel that is not restartable nothing is kept: what came comes again."""
    pair = EnginePair(dialect="fast")
    pair.open()
    pair.server.receive_data(encode_command(ChannelOpen(channel_id=9)))
    options = {"restart": "q#0", "timeout": 60}
    opening = HandleOpen(channel_id=9, handle_id=9, service_type=1, producer=True, dest_name="q", options=options)
    pair.server.receive_data(encode_command(opening))
    link = next(event.link for event in pair.server.events() if isinstance(event, LinkAttached))
    assert link.remote is not None
    assert link.remote.unsettled is None


# The other way


@pytest.mark.parametrize("cut", [0, 1, 900, 1100, 13_000, 25_000, 26_000])
def test_goes_on_at_the_client(cut: int) -> None:
    """The part of a message that arrived before the loss is not sent again, and the whole message is unchanged."""
    pair, link, theirs, _ = receiving(payload=FIRST)
    data = pair.server.data_to_send()
    assert b"".join(commands(data, HandlePrepare)) == b"", "it was never delivered before"
    pair.client.receive_data(data[:cut])
    pair.lose()
    kept = [each for each in link.suspended() if getattr(each, "stream", None) is not None]
    assert len(kept) == (1060 < cut < len(data))
    came = kept[0].stream.size if kept else 0

    pair, link, theirs, delivery = receiving(kept)
    assert theirs.credit == 0, "nothing is sent before the answer"
    pair.client.receive_data(pair.server.data_to_send())
    pair.server.receive_data(pair.client.data_to_send())
    assert theirs.credit == 4
    rest = pair.server.data_to_send()
    assert len(BODY) - came < len(rest) < len(BODY) - came + 1500
    pair.client.receive_data(rest)
    (arrived,) = link.incoming
    message = Message.decode(arrived.payload)
    assert (message.body, message.message_id, message.delivery_count) == (BODY, "m", 1)
    link.settle(arrived, ACCEPTED)
    pair.run()
    assert delivery.remote_state == ACCEPTED


def commands(data: bytes, kind: type[Command]) -> list[bytes]:
    """Return the octets of the frames of a kind."""
    reader = CommandReader(1 << 20)
    reader.feed(data)
    found = []
    while (read := reader.next()) is not None:
        if isinstance(read[0], kind):
            found.append(encode_command(read[0]))
    return found


def test_another_message_at_the_client() -> None:
    """The kept part of one message is not taken for another's, and stays for its own."""
    pair, link, _, _ = receiving(payload=FIRST)
    pair.client.receive_data(pair.server.data_to_send()[:9000])
    pair.lose()
    other = Message(BODY[::-1], message_id="n", delivery_count=1).encode()
    pair, link, theirs, _ = receiving(link.suspended(), other)
    pair.run()
    theirs.send(AGAIN)
    pair.client.receive_data(pair.server.data_to_send())
    pair.server.receive_data(pair.client.data_to_send())
    assert len(pair.server.data_to_send()) < len(BODY) - 7000
    assert Message.decode(link.incoming[0].payload).message_id == "n"


def test_kept_through_another_loss() -> None:
    """The line breaks again before the message has come: what is there is there for the third."""
    pair, link, _, _ = receiving(payload=FIRST)
    pair.client.receive_data(pair.server.data_to_send()[:9000])
    pair.lose()
    size = link.suspended()[0].stream.size
    assert size > 7000
    for octets in (0, 5000):  # before the question came, and with some of the rest
        pair, link, _, _ = receiving(link.suspended())
        if octets:
            pair.client.receive_data(pair.server.data_to_send())
            pair.server.receive_data(pair.client.data_to_send())
            pair.client.receive_data(pair.server.data_to_send()[:octets])
        pair.lose()
        (kept,) = link.suspended()
        assert size + octets * 0.7 <= kept.stream.size <= size + octets


def test_small_and_first_messages_are_not_prepared() -> None:
    """Of a message in one fragment, and of one that nobody had before, the client is not asked."""
    small = Message(b"small", delivery_count=2).encode()
    pair, _, theirs, _ = receiving(payload=small)
    theirs.send(FIRST)
    assert commands(pair.server.data_to_send(), HandlePrepare) == []


def test_a_client_that_has_more_than_there_is() -> None:
    """Or answers what it was not asked: its connection is closed, with 409."""
    for size, asked in ((len(BODY) + 1, True), (0, False)):
        pair, _, _, _ = receiving(payload=AGAIN if asked else FIRST)
        pair.server.data_to_send()
        (line,) = said(pair, encode_command(HandleReady(handle_id=1, message_size=size)))
        assert line.startswith("< connection-close(reply_code=409")


def test_kept_of_another_message_at_the_client() -> None:
    """Two messages have the same head, and what came was of the other: this one is given back, and comes anew."""
    pair, link, _, _ = receiving(payload=FIRST)
    pair.client.receive_data(pair.server.data_to_send()[:9000])
    pair.lose()
    other = Message(BODY[::-1], message_id="m", ttl=timedelta(minutes=1), delivery_count=1).encode()
    pair, link, theirs, delivery = receiving(link.suspended(), other)
    pair.run()
    assert not link.incoming
    assert (delivery.remote_state, link.credit, theirs.credit) == (RELEASED, 5, 5)
    again = theirs.send(other)
    pair.run()
    (arrived,) = link.incoming
    assert Message.decode(arrived.payload).body == BODY[::-1]
    link.settle(arrived, ACCEPTED)
    pair.run()
    assert again.remote_state == ACCEPTED
    pair.lose()
    assert link.suspended() == []


def test_a_hash_that_does_not_fit_at_the_client() -> None:
    """Of a message of which nothing was kept: the server says what is not so, and is told with 542."""
    pair, _, theirs, _ = receiving(payload=AGAIN)
    theirs._preparing = theirs._preparing[0], BODY[::-1]  # type: ignore[attr-defined]
    pair.client.receive_data(pair.server.data_to_send())
    pair.server.receive_data(pair.client.data_to_send())
    pair.client.receive_data(pair.server.data_to_send())
    tracer = CommandTracer()
    list(tracer.received(encode_command(HandleClose())))
    assert "connection-close(reply_code=542" in tracer.received(pair.client.data_to_send())[-1]


def test_drained_when_it_is_all_there() -> None:
    """A pause that is to be confirmed is so after the message that was being prepared, and what credit is left."""
    pair, link, theirs, _ = receiving()
    link.flow(5, drain=True)
    pair.server.receive_data(pair.client.data_to_send())
    theirs.drained()
    asked = pair.server.data_to_send()
    assert commands(asked, HandleReply) == [], "not yet"
    pair.client.receive_data(asked)
    pair.server.receive_data(pair.client.data_to_send())
    assert (theirs.credit, theirs.drain) == (4, True)
    theirs.drained()
    pair.run()
    assert len(link.incoming) == 1
    assert link.credit == 0


def three_cut_off(first: bytes = b"") -> tuple[EnginePair, Any, ReceiverLink, list[OutgoingDelivery]]:
    """Two large messages and a small one, lost in the first, about to be sent again on the next connection.

    Args:
        first: what the first one is by then, if the server has the beginning of another one with its head.
    """
    pair, link, theirs = attached()
    sent = [Message(BODY), Message(BODY, message_id="second"), Message(b"third")]
    deliveries = [link.send(each.encode()) for each in sent]  # type: ignore[attr-defined]
    pair.server.receive_data(pair.client.data_to_send()[:9000])
    pair.lose()
    kept = theirs.suspended()
    link.suspended()  # type: ignore[attr-defined]
    if first:
        deliveries[0].payload = Message(first).encode()
    return *attached(deliveries, list(kept)), deliveries


@pytest.mark.parametrize("first", [b"", BODY[::-1]])
def test_in_their_order(first: bytes) -> None:
    """Messages behind a continued message come after it, in order; a refused one comes before those that wait."""
    pair, link, theirs, deliveries = three_cut_off(first)
    for delivery in deliveries:
        link.resend(delivery)
    pair.run()
    came = [each.payload for each in theirs.incoming]
    one, two, three = (each.payload for each in deliveries)
    assert came == ([two, one, three] if first else [one, two, three])
