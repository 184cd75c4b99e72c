"""Other people's clients at both ends: pika in 0-9-1 and qpid-proton in 1.0, with the embedded broker between them."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

pytest.importorskip("pika", reason="pika is not installed")
proton: Any = pytest.importorskip("proton", reason="python-qpid-proton is not installed")

import pika  # noqa: E402
from proton import utils  # noqa: E402

from ._amqp091 import channel_of  # noqa: E402
from ._matrix import Embedded, fresh_name  # noqa: E402

pytestmark = [pytest.mark.interop, pytest.mark.capability("embedded broker")]

SECONDS = 20
MOMENT = 1_700_000_000
HEADERS = {"text": "é", "int": 42, "long": 2**40, "true": True, "nothing": None}
SAID: dict[str, Any] = {
    "content_type": "text/plain",
    "content_encoding": "gzip",
    "headers": HEADERS | {"x-mark": "kept", "table": {"a": [1, "b"]}},
    "delivery_mode": 2,
    "priority": 3,
    "correlation_id": "c-1",
    "reply_to": "answers",
    "expiration": "600000",
    "message_id": "m-1",
    "timestamp": MOMENT,
    "type": "kind",
    "user_id": "user",
    "app_id": "program",
    "cluster_id": "cluster",
}


def opened(embedded: Embedded) -> utils.BlockingConnection:
    return utils.BlockingConnection(embedded.url(), timeout=SECONDS, allowed_mechs="PLAIN")


def test_from_pika_to_proton(embedded: Embedded) -> None:
    """Each property is in its place of AMQP 1.0, in its type; what has none there is in message-annotations."""
    queue, exchange = fresh_name(), fresh_name()
    with channel_of(embedded.url()) as channel:
        channel.queue_declare(queue)
        channel.exchange_declare(exchange, "topic", auto_delete=True)
        channel.queue_bind(queue, exchange, "order.#")
        channel.basic_publish(exchange, "order.made", b"\xffoctets", pika.BasicProperties(**SAID))
        channel.basic_publish("", queue, b"nothing said")
        connection = opened(embedded)
        receiver = connection.create_receiver(f"/queues/{queue}", credit=2)
        full: Any = receiver.receive(timeout=SECONDS)
        receiver.accept()
        bare: Any = receiver.receive(timeout=SECONDS)
        receiver.accept()
        connection.close()
        channel.queue_delete(queue)
    assert bytes(full.body) == b"\xffoctets"
    assert full.inferred  # a data section
    assert (full.durable, full.priority, full.first_acquirer, full.delivery_count) == (True, 3, True, 0)
    assert 590 < full.ttl <= 600
    assert (full.id, full.correlation_id, full.reply_to, full.subject) == ("m-1", "c-1", "answers", "order.made")
    assert (str(full.content_type), str(full.content_encoding)) == ("text/plain", "gzip")
    assert (full.creation_time, bytes(full.user_id)) == (MOMENT, b"user")
    assert full.address == f"/exchanges/{exchange}/order.made"
    assert full.properties == HEADERS
    assert full.properties["true"] is True
    annotations = {str(name): value for name, value in full.annotations.items()}
    assert annotations["x-mark"] == "kept"
    assert (annotations["x-exchange"], annotations["x-routing-key"]) == (exchange, "order.made")
    kept = {str(name): value for name, value in annotations["x-opt-0-9-1"].items()}
    assert (kept["type"], kept["app-id"], kept["cluster-id"]) == ("kind", "program", "cluster")
    assert kept["headers"]["table"]["a"] is not None
    assert bytes(bare.body) == b"nothing said"
    assert (bare.durable, bare.ttl, bare.id, bare.properties) == (False, 0, None, None)


def test_from_proton_to_pika(embedded: Embedded) -> None:
    """Each property is in its place of AMQP 0-9-1, as pika reads it; what has none there is in headers."""
    queue = fresh_name()
    message = proton.Message(
        body=b"\xffoctets",
        inferred=True,
        durable=True,
        priority=7,
        ttl=600,
        id="m-1",
        user_id=b"user",
        subject="a subject",
        reply_to="answers",
        correlation_id="c-1",
        content_type=proton.symbol("text/plain"),
        content_encoding=proton.symbol("gzip"),
        creation_time=MOMENT,
        group_id="group",
        group_sequence=5,
        properties=HEADERS,
        annotations={proton.symbol("x-mark"): "kept"},
    )
    with channel_of(embedded.url()) as channel:
        channel.queue_declare(queue)
        connection = opened(embedded)
        connection.create_sender(f"/queues/{queue}").send(message)
        connection.close()
        method, said, body = channel.basic_get(queue, auto_ack=True)
        channel.queue_delete(queue)
    assert (body, method.exchange, method.routing_key, method.redelivered) == (b"\xffoctets", "", queue, False)
    assert (said.delivery_mode, said.priority, said.message_id, said.correlation_id) == (2, 7, "m-1", "c-1")
    assert 590_000 < int(said.expiration) <= 600_000
    assert (said.reply_to, said.user_id) == ("answers", "user")
    assert (said.content_type, said.content_encoding) == ("text/plain", "gzip")
    assert said.timestamp == MOMENT
    assert {name: said.headers[name] for name in HEADERS} == HEADERS
    assert said.headers["x-mark"] == "kept"
    assert (said.headers["qpid.subject"], said.headers["JMSXGroupID"]) == ("a subject", "group")
    assert said.headers["JMSXGroupSeq"] == 5


def test_there_and_back(embedded: Embedded) -> None:
    """What pika said comes back to pika as it was said, though a program of proton's passes the message on."""
    there, back = fresh_name(), fresh_name()
    said = {name: value for name, value in SAID.items() if name != "expiration"}
    said["headers"] = HEADERS | {
        "table": {"a": [1, "b"]},
        "moment": datetime.datetime.fromtimestamp(MOMENT, datetime.UTC),
        "x-mark": "kept",
    }
    with channel_of(embedded.url()) as channel:
        channel.queue_declare(there)
        channel.queue_declare(back)
        channel.basic_publish("", there, b"octets", pika.BasicProperties(**said))
        connection = opened(embedded)
        receiver = connection.create_receiver(f"/queues/{there}", credit=1)
        message: Any = receiver.receive(timeout=SECONDS)
        message.address = None
        connection.create_sender(f"/queues/{back}").send(message)
        receiver.accept()
        connection.close()
        _, properties, body = channel.basic_get(back, auto_ack=True)
        for name in (there, back):
            channel.queue_delete(name)
    assert body == b"octets"
    assert vars(properties) == vars(pika.BasicProperties(**said))


@pytest.mark.parametrize(
    "body", [{"a": [1, {"b": None}]}, [1, "two"], "text", 7, None], ids=lambda body: type(body).__name__
)
def test_values_there_and_back(embedded: Embedded, body: Any) -> None:
    """A body that is no octets is a type "amqp-1.0" to pika; passed on by it, it is the same value again."""
    there, back = fresh_name(), fresh_name()
    with channel_of(embedded.url()) as channel:
        channel.queue_declare(there)
        channel.queue_declare(back)
        connection = opened(embedded)
        connection.create_sender(f"/queues/{there}").send(proton.Message(body=body, id="m-1"))
        _, properties, octets = channel.basic_get(there, auto_ack=True)
        assert properties.type == "amqp-1.0"
        channel.basic_publish("", back, octets, properties)
        receiver = connection.create_receiver(f"/queues/{back}", credit=1)
        again = receiver.receive(timeout=SECONDS)
        receiver.accept()
        connection.close()
        for name in (there, back):
            channel.queue_delete(name)
    assert (again.body, again.id) == (body, "m-1")
