"""Who hears what becomes of a command, whatever the peer says of it; and how outcomes are told, word by word."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from amqp10 import Message, Source, Target
from amqp10.dialects.v0_10.wire.commands import (
    ExecutionException,
    ExecutionResult,
    MessageAccept,
    MessageCancel,
    MessageFlow,
    MessageReject,
    MessageRelease,
    MessageResumeResult,
    MessageSubscribe,
    MessageTransfer,
    XaResult,
)
from amqp10.dialects.v0_10.wire.controls import SessionCompleted
from amqp10.engine import LinkAttached, LinkEnded, LinkTerms, QueryQueue, SessionUnmapped
from amqp10.errors import LocalProtocolError, RemoteProtocolError
from amqp10.messaging import ACCEPTED, Coordinator, Error, Modified, Rejected

from ...kit.dialects.v0_10.engines import a_client, begun, outlet_on, sender_on
from ...kit.dialects.v0_10.subscribed import Subscribed

REJECTIONS = [
    (Error("amqp:decode-error", "accept"), "amqp:decode-error: accept"),
    (Error("amqp:decode-error", "release"), "amqp:decode-error: release"),
    (Error("amqp:decode-error", "redeliver"), "amqp:decode-error: redeliver"),
    (Error("amqp:not-allowed", "accept"), "accept"),
    (Error("amqp:not-allowed", "redeliver"), "redeliver"),
    (Error("app:broken"), "app:broken: "),
    (None, ""),
]


@pytest.mark.parametrize(("error", "text"), REJECTIONS)
@pytest.mark.parametrize("second", [False, True])
def test_a_rejection_is_one_whatever_its_words(error: Error | None, text: str, second: bool) -> None:
    """The words of a reason are never taken for the outcome, nor merged with others of the same spelling."""
    server = Subscribed()
    server.link.flow(9)
    server.raw.listen()
    if second:
        server.link.terms = replace(server.link.terms, receiver_settle_mode="second")
    for _ in range(4):
        server.raw.do(MessageTransfer("r", 0, 0), b"", b"m")
    one, two, three, four = list(server.link.incoming)
    first = one.delivery_id
    server.link.settle(one, ACCEPTED)
    server.link.settle(two, Rejected(error))
    server.link.settle(three, Modified(delivery_failed=True))
    server.link.settle(four, None)
    said = [each for each in server.raw.listen() if isinstance(each, MessageAccept | MessageReject | MessageRelease)]
    assert said == [
        MessageAccept(((first, first),)),
        MessageReject(((first + 1, first + 1),), 0, text),
        MessageRelease(((first + 2, first + 2),), set_redelivered=True),
        MessageRelease(((first + 3, first + 3),)),
    ]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("too sweet", Error("amqp:not-allowed", "too sweet")),
        ("amqp:decode-error: no XML", Error("amqp:decode-error", "no XML")),
        ("amqp:decode-error: ", Error("amqp:decode-error")),
        ("amqp: a protocol", Error("amqp:not-allowed", "amqp: a protocol")),
    ],
)
def test_why_a_client_rejects(text: str, error: Error) -> None:
    """The owner of the queue is told the client's condition and its words."""
    raw = begun()
    link = outlet_on(raw)
    raw.do(MessageFlow("d", 1, 0xFFFF_FFFF))
    raw.do(MessageFlow("d", 0, 1))
    delivery = link.send(Message(b"m").encode())
    raw.listen()
    raw.do(MessageReject(((0, 0),), 0, text))
    assert delivery.remote_state == Rejected(error)


def test_a_result_of_a_transfer() -> None:
    """It gives none: the session ends with that, and the connection goes on."""
    raw = a_client()
    raw.open_as_server()
    link = sender_on(raw)
    delivery = link.send(Message("x").encode())
    raw.listen()
    said = raw.do(ExecutionResult(delivery.delivery_id or 0, XaResult(0)))
    assert [each.error_code for each in said if isinstance(each, ExecutionException)] == [531]
    (end,) = [event for event in raw.engine.events() if isinstance(event, SessionUnmapped)]
    assert isinstance(end.error, RemoteProtocolError)
    assert end.error.condition == "amqp:invalid-field"
    assert raw.engine.opened


@pytest.mark.parametrize("command", [MessageReject(((0, 100),), 0, "no"), MessageRelease(((0, 100),))])
def test_outcomes_of_what_was_no_message(command: Any) -> None:
    """A reject or release names transfers; the other commands among the ids are not concerned."""
    raw = a_client()
    raw.open_as_server()
    link = sender_on(raw)
    session = link.session
    delivery = link.send(Message("x").encode())
    pending = session.request(QueryQueue("q"))
    session.attach_sender(LinkTerms("anonymous", Source(), Target(None)))
    raw.listen()
    assert not [each for each in raw.do(command) if isinstance(each, ExecutionException)]
    assert delivery.remote_settled
    assert not pending.answered
    assert raw.engine.opened


def test_a_client_that_gives_results() -> None:
    """A server's transfers give none either."""
    raw = begun()
    link = outlet_on(raw)
    raw.do(MessageFlow("d", 1, 0xFFFF_FFFF))
    raw.do(MessageFlow("d", 0, 1))
    delivery = link.send(Message(b"m").encode())
    raw.listen()
    said = raw.do(ExecutionResult(delivery.delivery_id or 0, MessageResumeResult(0)))
    assert [each.error_code for each in said if isinstance(each, ExecutionException)] == [531]
    assert raw.engine.opened


def test_why_a_session_failed() -> None:
    """The client's user hears the condition of the code that the server is told."""
    server = Subscribed()
    said = server.raw.do(MessageTransfer("r", 1, 0), b"", b"m")
    assert [each.error_code for each in said if isinstance(each, ExecutionException)] == [506]
    (end,) = [each for each in server.raw.engine.events() if isinstance(each, SessionUnmapped)]
    assert isinstance(end.error, RemoteProtocolError)
    assert end.error.condition == "amqp:resource-limit-exceeded"


def test_a_session_keeps_nothing_of_subscriptions_that_are_over() -> None:
    """A client that subscribes and cancels again and again costs no more than one that does so once."""
    raw = begun()
    links = []
    for _ in range(5):
        raw.do(MessageSubscribe("q", "d"))
        (link,) = [event.link for event in raw.engine.events() if isinstance(event, LinkAttached)]
        link.attach(LinkTerms("d", link.remote.source, link.remote.target))  # type: ignore[union-attr]
        raw.do(MessageCancel("d"))
        links += [event.link for event in raw.engine.events() if isinstance(event, LinkEnded)]
    assert len(links) == 5
    (session,) = raw.engine.sessions.values()  # type: ignore[attr-defined]
    assert session.links == ()


@pytest.mark.parametrize("payload", [b"\xff", Message("neither").encode()])
def test_what_no_coordinator_is_asked(payload: bytes) -> None:
    """It is refused before anything is kept of it."""
    raw = a_client()
    raw.open_as_server()
    session = raw.engine.begin()
    link = session.attach_sender(LinkTerms("c", Source(), Coordinator()))
    raw.listen()
    raw.attached()
    last = session.outbox.next - 1  # type: ignore[attr-defined]
    raw.say(SessionCompleted(((0, last),)))
    assert link.attached
    with pytest.raises(LocalProtocolError):
        link.send(payload)
    assert not link.unsettled
