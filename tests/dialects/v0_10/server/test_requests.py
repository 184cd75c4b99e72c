"""What clients ask of a server, as its owner hears it; and what ours sees before it asks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from amqp10 import Message
from amqp10.dialects.v0_10.arguments import alternate_from
from amqp10.dialects.v0_10.client.command_sequence import RequestFailed
from amqp10.dialects.v0_10.client.requests import commands_of
from amqp10.dialects.v0_10.server.requests import request_of
from amqp10.dialects.v0_10.wire.commands import (
    ExchangeBound,
    ExchangeBoundResult,
    ExchangeQuery,
    ExchangeQueryResult,
    MessageAcquire,
    MessageFlow,
    MessageReject,
    QueueDeclare,
    QueueQuery,
    QueueQueryResult,
)
from amqp10.dialects.v0_10.wire.struct import Command
from amqp10.engine import Acquire, DeclareQueue, DeleteQueue, Request, RequestReceived, Unbind
from amqp10.messaging import Error, Rejected
from amqp10.types import Timestamp

from ....kit.dialects.v0_10.engines import a_server, outlet_on
from ....kit.dialects.v0_10.raw_peer import Raw


@pytest.fixture
def raw() -> Raw:
    """A client of a server engine, with a session."""
    raw = a_server()
    raw.open_as_client()
    raw.engine.events()[0].session.begin()  # type: ignore[attr-defined]
    return raw


def test_not_from_itself(raw: Raw) -> None:
    """A subscription that is not to have its own connection's messages says so to the owner."""
    link = outlet_on(raw, arguments={"no-local": True})
    assert [str(name) for name in link.remote.source.filter] == ["no-local"]


def test_rejected_with_a_word(raw: Raw) -> None:
    """Why a client rejects is passed on."""
    link = outlet_on(raw)
    raw.do(MessageFlow("d", 1, 0xFFFF_FFFF))
    raw.do(MessageFlow("d", 0, 2))
    deliveries = [link.send(Message(n).encode()) for n in range(2)]
    raw.listen()
    raw.do(MessageReject(((0, 0),), 0, "too sweet"))
    raw.do(MessageReject(((1, 1),), 0))
    states = [each.remote_state for each in deliveries]
    assert states == [Rejected(Error("amqp:not-allowed", "too sweet")), Rejected()]


@pytest.mark.parametrize("shows", [True, False])
def test_only_what_was_shown_is_acquired(raw: Raw, shows: bool) -> None:
    """A message that a subscription acquired on arrival cannot be given out again by the owner."""
    link = outlet_on(raw, acquire_mode=int(shows))
    raw.do(MessageFlow("d", 1, 0xFFFF_FFFF))
    raw.do(MessageFlow("d", 0, 1))
    delivery = link.send(Message(b"").encode())
    raw.listen()
    raw.do(MessageAcquire(((0, 0),)))
    asked: list[Any] = [each.request.request for each in raw.engine.events() if isinstance(each, RequestReceived)]
    assert asked == [Acquire((delivery,) if shows else ())]


def test_a_queue_of_a_session() -> None:
    """One that is exclusive and to be deleted is so with its session; another with its last subscription."""
    for exclusive in (True, False):
        request, _ = request_of(QueueDeclare("q", exclusive=exclusive, auto_delete=True))
        assert isinstance(request, DeclareQueue)
        assert (request.exclusive, request.auto_delete) == (exclusive, not exclusive)


def test_arguments_that_1_0_has_no_words_for() -> None:
    """They are left out, so that whoever asks for the queue in 1.0 has an answer."""
    arguments = {"x-far": Timestamp(2**62 * 1000), "x-near": Timestamp(1000)}
    request, _ = request_of(QueueDeclare("q", arguments=arguments))
    assert isinstance(request, DeclareQueue)
    assert request.arguments == {"x-near": Timestamp(1000)}


def test_dead_letters_with_a_key() -> None:
    """The alternate exchange of 0-10 has no key: with one it stays an argument."""
    arguments = {"x-dead-letter-exchange": "e"}
    assert (alternate_from(arguments), arguments) == ("e", {})
    arguments = {"x-dead-letter-exchange": "e", "x-dead-letter-routing-key": "k"}
    assert (alternate_from(dict(arguments)), len(arguments)) == (None, 2)
    kept = dict(arguments)
    alternate_from(kept)
    assert kept == arguments


def asked(request: Request[Any], results: Mapping[type[Command], Any]) -> list[Command]:
    """Return the commands sent for a request to a server with these results."""
    said: list[Command] = []
    talk = commands_of(request, False)
    result = None
    while True:
        try:
            said.append(talk.send(result))
        except StopIteration:
            return said
        result = results.get(type(said[-1]))


@pytest.mark.parametrize(
    ("request_", "queue"),
    [
        (DeleteQueue("q", if_empty=True), QueueQueryResult("q", message_count=1)),
        (DeleteQueue("q", if_unused=True), QueueQueryResult("q", subscriber_count=1)),
    ],
)
def test_seen_before(request_: DeleteQueue, queue: QueueQueryResult) -> None:
    """A request that would end the session is refused before it is sent, and only such a request."""
    with pytest.raises(RequestFailed):
        asked(request_, {QueueQuery: queue})
    assert len(asked(DeleteQueue("q"), {QueueQuery: queue})) == 2


@pytest.mark.parametrize("bound", [True, False])
def test_no_such_binding(bound: bool) -> None:
    """A queue that is not bound with that key is not unbound."""
    answers: dict[type[Command], Any] = {
        QueueQuery: QueueQueryResult("q"),
        ExchangeQuery: ExchangeQueryResult("topic"),
        ExchangeBound: ExchangeBoundResult(key_not_matched=not bound),
    }
    if bound:
        assert len(asked(Unbind("q", "e", "key"), answers)) == 4
    else:
        with pytest.raises(RequestFailed, match="key"):
            asked(Unbind("q", "e", "key"), answers)
