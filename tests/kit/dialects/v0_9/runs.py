"""A client's consumer, and runs of messages for it."""

from __future__ import annotations

from typing import Any

from amqp10.dialects.v0_9.message.streams import OFFSET
from amqp10.dialects.v0_9.wire.methods import (
    BasicConsumeOk,
    BasicDeliver,
    BasicQosOk,
    ChannelFlow,
    ChannelOpenOk,
    QueueDeclareOk,
)
from amqp10.dialects.v0_9.wire.properties import BasicProperties
from amqp10.dialects.v0_9.wire.variant import Variant
from amqp10.engine import ConnectionTerms, Dialect, Engine, LinkTerms, ReceiverLink
from amqp10.messaging import Source, Target

from .client_engine import OPENING, frames

PROPERTIES = (
    BasicProperties(),
    BasicProperties(message_id="1", headers={"kind": "invoice"}),
    BasicProperties(message_id="2", headers={"kind": "invoice"}),
    BasicProperties(content_type="text/plain", delivery_mode=2),
    BasicProperties(type="amqp-1.0"),
)


OWN = len(PROPERTIES)  # a message-id of its own in each


TURNS = OWN + 1  # two kinds by turns


PLACES = OWN + 2  # its place in a stream


MALFORMED = OWN + 3  # a property that ends early


Like = tuple[int, bool, str, int, int]
"""How many messages; redelivered; their routing key; their properties; octets of each body."""


def receiver(dialect: Dialect, variant: Variant, credit: int, mode: Any, limit: int = 0) -> tuple[Engine, ReceiverLink]:
    """A client whose consumer stands."""
    engine = dialect.client(ConnectionTerms("client", max_frame_size=4096), None, True)
    engine.start()
    engine.open()
    engine.receive_data(frames(variant, 0, *OPENING))
    link = engine.begin().attach_receiver(
        LinkTerms("r", Source("q"), Target(), settle_mode=mode, max_message_size=limit)
    )
    link.flow(credit)
    engine.receive_data(frames(variant, 1, ChannelOpenOk(), QueueDeclareOk("q"), BasicQosOk(), BasicConsumeOk("r")))
    engine.events()
    engine.data_to_send()
    return engine, link


def properties_of(which: int, number: int, variant: Variant) -> bytes:
    """Of a message with this number; all of one kind have the same size."""
    if which == MALFORMED:
        return b"\x80\0\xff"
    if which == OWN:
        said = BasicProperties(message_id=f"{number:08}")
    elif which == TURNS:
        said = BasicProperties(message_id=str(number % 2))
    elif which == PLACES:
        name = variant.tables.spelled(OFFSET) if variant.structured else OFFSET
        said = BasicProperties(headers={name: 1000 + number})
    else:
        said = PROPERTIES[which]
    return said.encode(variant.tables)


def stream(variant: Variant, runs: list[Like], room: int = 4096) -> bytes:
    """Return the bytes that a server sends: runs of messages, and another method after each."""
    out, number = b"", 0
    for count, redelivered, key, which, size in runs:
        for _ in range(count):
            number += 1
            said = properties_of(which, number, variant)
            method = variant.methods.encode(BasicDeliver("r", number, redelivered, "", key))
            body = number.to_bytes(2, "big") * (size // 2 + 1)
            out += variant.framing.frame(1, 1, method)
            out += variant.framing.message(1, 60, said, body[:size], room)
        out += frames(variant, 1, ChannelFlow(True))
    return out
