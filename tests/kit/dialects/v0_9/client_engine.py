"""A client's engine of 0-9-1 and its kin, and the bytes that its server writes."""

from __future__ import annotations

from typing import Any

from amqp10.dialects.v0_9 import DIALECT, DRAFT, FINAL
from amqp10.dialects.v0_9.wire.method_table import Method
from amqp10.dialects.v0_9.wire.methods import (
    ChannelOpenOk,
    ConfirmSelectOk,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionTune,
    QueueDeclareOk,
)
from amqp10.dialects.v0_9.wire.properties import BasicProperties
from amqp10.dialects.v0_9.wire.variant import V0_9, V0_9_1, V0_9_DRAFT, Variant
from amqp10.engine import (
    ConnectionTerms,
    Engine,
    LinkTerms,
    SenderLink,
)
from amqp10.messaging import (
    Message,
    Source,
    Target,
)
from amqp10.sasl import Anonymous

DIALECTS = ((DIALECT, V0_9_1), (FINAL, V0_9), (DRAFT, V0_9_DRAFT))


OPENING = (ConnectionStart(mechanisms=b"ANONYMOUS"), ConnectionTune(100, 131072, 0), ConnectionOpenOk())


def frames(variant: Variant, channel: int, *methods: Method) -> bytes:
    """Return the bytes that a server writes; a message follows each method that carries one."""
    out = b""
    for method in methods:
        out += variant.framing.frame(1, channel, variant.methods.encode(method))
        if method.carries:
            said = BasicProperties(content_type="text", headers={"a": "b"}).encode(variant.tables)
            out += variant.framing.message(channel, 60, said, b"body", 4096)
    return out


CAN = {"publisher_confirms": True, "basic.nack": True, "per_consumer_qos": True}


def opened(**capabilities: bool) -> Engine:
    """A client's engine, connected to a server with these."""
    engine = DIALECT.client(ConnectionTerms("client"), (Anonymous(),), True)
    engine.start()
    engine.open()
    start = ConnectionStart(server_properties={"capabilities": capabilities}, mechanisms=b"ANONYMOUS")
    hear(engine, 0, start, ConnectionTune(100, 131072, 0), ConnectionOpenOk())
    engine.data_to_send()
    return engine


def hear(engine: Engine, channel: int, *methods: object) -> list[object]:
    engine.receive_data(frames(V0_9_1, channel, *methods))  # type: ignore[arg-type]
    return list(engine.events())


def said(engine: Engine) -> list[Any]:
    """The methods that the client has written since."""
    octets, methods = engine.data_to_send(), []
    while octets:
        size = int.from_bytes(octets[3:7], "big")
        if octets[0] == 1:
            methods.append(V0_9_1.methods.decode(octets[7 : 7 + size]))
        octets = octets[8 + size :]
    return methods


def publishing(engine: Engine, count: int) -> tuple[SenderLink, list[Any]]:
    """A sender on channel 1 with so many publishes on their way."""
    link = engine.begin().attach_sender(LinkTerms("s", Source(), Target("q")))
    hear(engine, 1, ChannelOpenOk(), QueueDeclareOk("q"), ConfirmSelectOk())
    deliveries = [link.send(Message(b"%d" % number).encode()) for number in range(count)]
    engine.data_to_send()
    return link, list(deliveries)
