"""A client of 0-9-1 that may say much in one go, at a broker that is fed by hand."""

from __future__ import annotations

from typing import Any

from amqp10.dialects.v0_9.channel import BASIC
from amqp10.dialects.v0_9.wire.framing import METHOD
from amqp10.dialects.v0_9.wire.method_table import Method
from amqp10.dialects.v0_9.wire.methods import BasicConsume, BasicDeliver, BasicPublish, BasicQos, QueueDeclare
from amqp10.dialects.v0_9.wire.properties import BasicProperties
from amqp10.dialects.v0_9.wire.variant import V0_9_1

from ..inside.broker import VirtualHostCore
from .older_clients import Client09


class Client091(Client09):
    """With a channel that has three of five messages in "q" to settle.

    Attributes:
        heard: the names of the methods that came, but for deliveries.
    """

    def __init__(self, vhost: VirtualHostCore) -> None:
        self.heard: list[str] = []
        super().__init__(vhost)
        for each in (said(QueueDeclare(queue="q")), said(QueueDeclare(queue="r")), *[published("q")] * 5):
            self.put(each)
        self.do(BasicQos(prefetch_count=3), BasicConsume(queue="q"))
        self.heard.clear()

    def put(self, data: bytes) -> list[Any]:
        methods = super().put(data)
        self.heard += [each.name for each in methods if each is not None and not isinstance(each, BasicDeliver)]
        return methods


def said(method: Method, channel: int = 1) -> bytes:
    return V0_9_1.framing.frame(METHOD, channel, V0_9_1.methods.encode(method))


def published(key: str, *, mandatory: bool = False) -> bytes:
    properties = BasicProperties(message_id="id").encode(V0_9_1.tables)
    content = V0_9_1.framing.message(1, BASIC, properties, b"x", 4096)
    return said(BasicPublish(routing_key=key, mandatory=mandatory)) + content
