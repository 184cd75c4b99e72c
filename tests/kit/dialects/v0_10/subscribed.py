"""A receiver of a client's engine of 0-10."""

from __future__ import annotations

from typing import Any

from amqp10 import Source, Target
from amqp10.dialects.v0_10.wire.commands import (
    ExecutionResult,
    MessageFlow,
    MessageFlush,
    MessageStop,
    MessageTransfer,
    QueueQueryResult,
)
from amqp10.dialects.v0_10.wire.controls import SessionCompleted
from amqp10.dialects.v0_10.wire.frames import encode_control
from amqp10.engine import FlowReceived, LinkTerms

from .engines import a_client


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
