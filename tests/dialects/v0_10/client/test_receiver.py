"""The client's receiving links: the credit that the server has, through flows, stops and flushes that overlap."""

from __future__ import annotations

from typing import Any

from amqp10 import Source, Target
from amqp10.dialects.v0_10.wire.commands import (
    ExecutionException,
    ExecutionResult,
    MessageCancel,
    MessageFlush,
    MessageStop,
    MessageSubscribe,
    MessageTransfer,
    QueueQueryResult,
)
from amqp10.dialects.v0_10.wire.controls import SessionCompleted
from amqp10.dialects.v0_10.wire.frames import encode_control
from amqp10.engine import LinkAttached, LinkEnded, LinkTerms, SessionUnmapped
from amqp10.errors import RemoteProtocolError

from ....kit.dialects.v0_10.engines import a_client
from ....kit.dialects.v0_10.subscribed import Subscribed

BYTES = (1, 0xFFFF_FFFF)


def test_drained() -> None:
    """The rest of the credit is given back when the flush is done."""
    server = Subscribed()
    server.link.flow(5, drain=True)
    assert server.heard() == [BYTES, (0, 5), MessageFlush]
    server.transfers(2)
    assert server.completes() == [(True, 3)]
    assert (server.link.credit, server.heard()) == (0, [])


def test_asked_again() -> None:
    """A drain repeated while the flush is under way gets one answer; the next drain has a flush of its own.

    A second flush that answered nobody would end the next drain before the server had a look.
    """
    server = Subscribed()
    server.link.flow(5, drain=True)
    server.link.flow(5, drain=True)
    assert server.heard() == [BYTES, (0, 5), MessageFlush]
    assert server.completes() == [(True, 5)]
    assert server.heard() == []
    server.link.flow(7, drain=True)
    assert server.heard() == [BYTES, (0, 7), MessageFlush]
    server.transfers(7)
    assert server.completes() == [(True, 0)]


def test_more_while_a_flush_is_under_way() -> None:
    """Credit added meanwhile is not part of the drain: it is granted afterwards, and drained only on request."""
    server = Subscribed()
    server.link.flow(5, drain=True)
    server.link.flow(9, drain=True)
    assert server.heard() == [BYTES, (0, 5), MessageFlush]
    assert server.completes() == [(False, 5)]
    assert server.heard() == [BYTES, (0, 4), MessageFlush]
    server.transfers(1)
    assert server.completes() == [(True, 3)]
    server.link.flow(5, drain=True)
    server.link.flow(6)
    server.heard()
    assert server.completes() == [(False, 5)]
    assert server.heard() == [BYTES, (0, 1)]
    assert server.link.credit == 1


def test_lowered() -> None:
    """Some of it is taken back by a stop, after which what is to be there is granted anew."""
    server = Subscribed()
    server.link.flow(5)
    assert server.heard() == [BYTES, (0, 5)]
    server.link.flow(2)
    assert server.heard() == [MessageStop]
    server.transfers(1)  # under way when it was said
    assert server.link.credit == 1
    assert server.completes() == []
    assert server.heard() == [BYTES, (0, 1)]


def test_more_than_was_granted() -> None:
    """A server that sends without credit loses the session, and hears why."""
    server = Subscribed()
    server.link.flow(2)
    server.raw.listen()
    server.transfers(2)
    assert len(server.link.incoming) == 2
    said = server.raw.do(MessageTransfer("r", 1, 0), b"", b"m")
    assert [each.error_code for each in said if isinstance(each, ExecutionException)] == [506]
    ends = [each for each in server.raw.engine.events() if isinstance(each, SessionUnmapped)]
    assert isinstance(ends[0].error, RemoteProtocolError)
    assert len(server.link.incoming) == 2


def test_detached_while_it_subscribes() -> None:
    """A subscription that the server makes for a link that is no longer wanted is canceled."""
    raw = a_client()
    raw.open_as_server()
    session = raw.engine.begin()
    link: Any = session.attach_receiver(LinkTerms("r", Source("q"), Target(), properties={"exclusive": True}))
    raw.listen()
    raw.attached()
    raw.do(ExecutionResult(0, QueueQueryResult("q")))
    raw.engine.receive_data(encode_control(1, SessionCompleted(((0, 0),)).encode()))
    assert any(isinstance(each, MessageSubscribe) for each in raw.listen())
    link.detach()
    raw.listen()
    raw.engine.receive_data(encode_control(1, SessionCompleted(((0, link.session.outbox.next - 1),)).encode()))
    assert [each.destination for each in raw.listen() if isinstance(each, MessageCancel)] == [link.destination]
    assert [type(each) for each in raw.engine.events() if isinstance(each, LinkAttached | LinkEnded)] == [LinkEnded]
