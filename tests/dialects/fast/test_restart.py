"""Large messages go on where the connection was cut off (handle-prepare, handle-ready), and are what they were."""

from __future__ import annotations

from dataclasses import replace

import pytest

from amqp10.dialects.fast._commands import (
    ChannelOpen,
    HandleClose,
    HandleNotify,
    HandleOpen,
    HandlePrepare,
    HandleReady,
    HandleSend,
    MessageHead,
)
from amqp10.dialects.fast._frames import encode_command
from amqp10.dialects.fast._trace import CommandTracer
from amqp10.engine import DeliveriesUnresumed, LinkAttached, LinkTerms, OutgoingDelivery, ReceiverLink
from amqp10.messaging import ACCEPTED, Message, Source, Target
from amqp10.testing import EnginePair

BODY = bytes(range(256)) * 100


def attached(
    resuming: list[OutgoingDelivery] | None = None, kept: list[object] | None = None
) -> tuple[EnginePair, object, ReceiverLink]:
    """A client that sends to a server that keeps what it has of it."""
    pair = EnginePair(dialect="fast")
    pair.client.terms = replace(pair.client.terms, max_frame_size=1024)
    pair.open()
    session, _ = pair.begin()
    link = session.attach_sender(LinkTerms("l", Source(), Target("q")), resuming=resuming)
    pair.run()
    theirs = next(event.link for event in pair.server_events if isinstance(event, LinkAttached))
    assert isinstance(theirs, ReceiverLink)
    assert theirs.remote is not None
    assert isinstance(theirs.remote.target, Target)
    assert (theirs.remote.target.expiry_policy, theirs.remote.target.timeout) == ("connection-close", 60)
    assert theirs.name == "q#0"
    theirs.attach(theirs.remote, resuming=kept)  # type: ignore[arg-type]
    theirs.flow(5)
    pair.run()
    return pair, link, theirs


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


def test_another_message() -> None:
    """What is kept of one message is not taken for another's: the whole head says which it is."""
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
    assert lines[0].startswith("< handle-close(handle_id=1, reply_code=542, reply_text='a body is not what its hash")
    assert not theirs.incoming


def said(pair: EnginePair, data: bytes) -> list[str]:
    """What the server answers to these octets."""
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
