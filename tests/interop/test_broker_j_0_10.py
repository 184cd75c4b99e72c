"""Broker-J's own ways in 0-10: what it makes of messages that others get in 0-9-1, 0-9 and 1.0."""

from __future__ import annotations

from typing import Any

import pytest

from amqp10 import Message
from amqp10.types import ULong

from .brokers import Server
from .test_broker_j_0_9_1 import passed_on

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.interop,
    pytest.mark.timeout(600),
    pytest.mark.parametrize("anyio_backend", ["trio"]),
]


@pytest.mark.parametrize("reply_to", ["answers", "/exchanges/amq.topic/a.b", "/exchanges/amq.fanout", "http://odd?'1'"])
@pytest.mark.parametrize("message_id", ["m", b"m\xff", ULong(7)], ids=["text", "octets", "number"])
@pytest.mark.parametrize("dialect", ["0-9-1", "0-9"])
async def test_ids_and_addresses(broker_j: Server, dialect: str, message_id: Any, reply_to: str) -> None:
    """Ids that 0-10 has no room for, and where to answer, are read in 0-9-1 and 0-9 as they were sent."""
    got = await passed_on(broker_j, "0-10", dialect, Message(b"x", message_id=message_id, reply_to=reply_to))
    assert (got.message_id, got.reply_to) == (message_id, reply_to)
    said = dict(got.message_annotations)
    assert said.pop("x-opt-0-9-1") == {"delivery-mode": 1}  # Broker-J says it of each that is not durable
    assert said.keys() == {"x-exchange", "x-routing-key"}


async def test_ids_in_1_0(broker_j: Server) -> None:
    """In 1.0, where nothing between sender and receiver is this package's, they are application properties."""
    got = await passed_on(broker_j, "0-10", "1.0", Message(b"x", message_id="m", reply_to="answers"))
    assert (got.message_id, got.reply_to) == (None, "answers")
    assert got.application_properties == {"x-opt-amqp10-message-id": "m", "x-opt-amqp10-reply-to": "answers"}
