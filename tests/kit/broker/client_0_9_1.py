"""A client of 0-9-1 that may say much in one go, at a broker that is fed by hand."""

from __future__ import annotations

from amqp10.broker._virtual_host_core import VirtualHostCore
from amqp10.dialects.v0_9.channel import BASIC
from amqp10.dialects.v0_9.wire.frames import FrameReader
from amqp10.dialects.v0_9.wire.framing import METHOD
from amqp10.dialects.v0_9.wire.method_table import Method
from amqp10.dialects.v0_9.wire.methods import (
    BasicConsume,
    BasicDeliver,
    BasicPublish,
    BasicQos,
    ChannelOpen,
    ConnectionOpen,
    ConnectionStartOk,
    ConnectionTuneOk,
    QueueDeclare,
)
from amqp10.dialects.v0_9.wire.properties import BasicProperties
from amqp10.dialects.v0_9.wire.variant import V0_9_1

from .served import Served


class Client091(Served):
    """With a channel that has three of five messages in "q" to settle."""

    def __init__(self, vhost: VirtualHostCore) -> None:
        super().__init__("0-9-1", vhost)
        self._reader = FrameReader(V0_9_1.framing, 1 << 20)
        self.heard: list[str] = []
        self.take(V0_9_1.header)
        self.take(said(ConnectionStartOk(client_properties={}, mechanism="ANONYMOUS", response=b"", locale="en_US"), 0))
        self.take(said(ConnectionTuneOk(100, 131_072, 0), 0) + said(ConnectionOpen("/"), 0))
        for each in (
            said(ChannelOpen()),
            said(QueueDeclare(queue="q")),
            said(QueueDeclare(queue="r")),
            *[published("q")] * 5,
        ):
            self.take(each)
        self.take(said(BasicQos(prefetch_count=3)) + said(BasicConsume(queue="q")))
        self.heard.clear()

    def take(self, data: bytes) -> bytes:
        answer = super().take(data)
        self._reader.feed(answer.removeprefix(V0_9_1.header))
        for kind, _, payload in self._reader.frames():
            method = V0_9_1.methods.decode(payload) if kind == METHOD else None
            if method is not None and not isinstance(method, BasicDeliver):
                self.heard.append(method.name)
        return answer


def said(method: Method, channel: int = 1) -> bytes:
    return V0_9_1.framing.frame(METHOD, channel, V0_9_1.methods.encode(method))


def published(key: str, *, mandatory: bool = False) -> bytes:
    properties = BasicProperties(message_id="id").encode(V0_9_1.tables)
    content = V0_9_1.framing.message(1, BASIC, properties, b"x", 4096)
    return said(BasicPublish(routing_key=key, mandatory=mandatory)) + content
