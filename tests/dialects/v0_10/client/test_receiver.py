"""The client's receiving links: the credit that the server has, through flows, stops and flushes that overlap."""

from __future__ import annotations

from typing import Any

from amqp10 import Source, Target
from amqp10.dialects.v0_10.wire.commands import (
    ExecutionException,
    ExecutionResult,
    MessageCancel,
    MessageFlow,
    MessageFlush,
    MessageStop,
    MessageSubscribe,
    MessageTransfer,
    QueueQueryResult,
)
from amqp10.dialects.v0_10.wire.controls import SessionCompleted
from amqp10.dialects.v0_10.wire.frames import encode_control
from amqp10.engine import FlowReceived, LinkAttached, LinkEnded, LinkTerms, SessionUnmapped
from amqp10.errors import RemoteProtocolError

from ..test_engine import a_client

BYTES = (1, 0xFFFF_FFFF)


class Subscribed:
    """A server that has a client's subscription."""

    def __init__(self) -> None:
        self.raw = a_client()
        self.raw.open_as_server()
        session = self.raw.engine.begin()
        self.link: Any = session.attach_receiver(LinkTerms("r", Source("q"), Target()))
        self.raw.listen()
        self.raw.attached()
        self.raw.do(ExecutionResult(0, QueueQueryResult("q")))
        self.completes()  # the query, then what follows from it: the subscription
        self.completes()
        assert self.link.attached
        assert self.heard() == []

    def heard(self) -> list[Any]:
        """Return what the client sent since the last call: unit and value of flows, and the type of other commands."""
        said: list[Any] = []
        for each in self.raw.listen():
            if isinstance(each, MessageFlow):
                said.append((each.unit, each.value))
            elif isinstance(each, MessageFlush | MessageStop):
                said.append(type(each))
        return said

    def completes(self) -> list[tuple[bool, int]]:
        """The server has done all; what the client tells its owner of the credit."""
        last = self.link.session.outbox.next - 1
        self.raw.engine.receive_data(encode_control(1, SessionCompleted(((0, last),)).encode()))
        events = self.raw.engine.events()
        return [(each.drained, each.wasted) for each in events if isinstance(each, FlowReceived)]

    def transfers(self, count: int) -> None:
        for _ in range(count):
            self.raw.do(MessageTransfer("r", 1, 0), b"", b"m", sync=False)


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
