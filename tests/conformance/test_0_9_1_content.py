"""AMQP 0-9-1 §3.1.1: content headers pass the broker as they came."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from amqp10.dialects.v0_9.wire.methods import BasicGet, BasicGetOk, BasicPublish, QueueDeclare, QueueDeclareOk
from amqp10.dialects.v0_9.wire.properties import BasicProperties
from amqp10.dialects.v0_9.wire.variant import V0_9, V0_9_1, V0_9_DRAFT, Variant

from ..kit.broker.older_clients import Client09

SAID: list[dict[str, Any]] = [
    {},
    {"delivery_mode": 1},
    {"delivery_mode": 2},
    {"delivery_mode": 1, "priority": 0},
    {"priority": 9},
    {"content_type": "text/plain", "content_encoding": "gzip"},
    {"content_type": "", "correlation_id": "", "reply_to": "", "message_id": "", "type": "", "app_id": ""},
    {"headers": {}},
    {"headers": {"a": "b", "n": 1}, "delivery_mode": 1},
    {"correlation_id": "c", "reply_to": "r", "message_id": "m", "type": "t", "app_id": "a", "cluster_id": "c"},
    {"timestamp": datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)},
    {"expiration": "60000"},
]


@pytest.mark.spec("0-9-1 3.1.1", "the server passes content headers unmodified; delivery-mode 1, too")
@pytest.mark.spec("0-9 3.1.1", "the server passes content headers unmodified; delivery-mode 1, too")
@pytest.mark.spec("0-9-draft 3.1.1", "the server passes content headers unmodified; delivery-mode 1, too")
@pytest.mark.parametrize(("name", "variant"), [("0-9-1", V0_9_1), ("0-9", V0_9), ("0-9-draft", V0_9_DRAFT)])
@pytest.mark.parametrize("said", SAID, ids=repr)
def test_properties(name: str, variant: Variant, said: dict[str, Any]) -> None:
    """The octets of the properties that are got are those that were published, and so is the body."""
    client = Client09(name=name, variant=variant)
    assert [type(each) for each in client.do(QueueDeclare(queue="q"))] == [QueueDeclareOk]
    octets = bytes(BasicProperties(**said).encode(variant.tables))
    assert client.put(client.encode(BasicPublish(routing_key="q")) + client.content(b"body", octets=octets)) == []
    (got,) = client.do(BasicGet(queue="q", no_ack=True))
    assert isinstance(got, BasicGetOk)
    assert client.messages == [(octets, b"body")]
