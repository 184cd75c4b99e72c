"""The pure-Python AMQP 1.0 in azure-servicebus with real messages, driven as in `pyamqp_peer.py`."""

# mypy: disallow-untyped-calls=False
from __future__ import annotations

import json
import queue
import time
from datetime import datetime
from types import SimpleNamespace
from typing import Any

from azure.servicebus._pyamqp import ReceiveClient, SendClient
from azure.servicebus._pyamqp.constants import ReceiverSettleMode, SenderSettleMode
from azure.servicebus._pyamqp.message import Message, Properties
from azure.servicebus._pyamqp.outcomes import Accepted
from azure.servicebus._pyamqp.sasl import SASLAnonymousCredential
from real_messages import Messages, clock_of

clock = clock_of("pyamqp")
messages = Messages(clock)
IN_FLIGHT = 1 if clock.mode == "one" else 100
settings: dict[str, Any] = {
    "auth": SimpleNamespace(sasl=SASLAnonymousCredential(), auth_type=None),
    "use_tls": False,
    "max_frame_size": 131_072,
    "receive_settle_mode": ReceiverSettleMode.First,
    "send_settle_mode": SenderSettleMode.Unsettled,
}
hostname = f"{clock.host}:{clock.port}"


def orders() -> Any:
    for message_id, each in messages.each_order():
        yield Message(
            data=[json.dumps(each["order"]).encode()],
            properties=Properties(
                message_id=message_id,
                subject=each["subject"],
                reply_to=each["reply_to"],
                correlation_id=each["correlation_id"],
                content_type=each["content_type"],
                creation_time=each["creation_time"],
            ),
            application_properties=each["application_properties"],
            message_annotations=each["message_annotations"],
        )


def rows() -> Any:
    for message_id, row in messages.each_row():
        yield Message(value=row, properties=Properties(message_id=message_id))


def bodies() -> Any:
    while True:
        yield Message(data=[clock.body])


def attach(client: Any) -> Any:
    client.open()
    while not client.client_ready():
        pass
    clock.begin()
    return client._link


def send(made: Any) -> None:
    client: Any = SendClient(hostname, clock.address, **settings)
    link = attach(client)
    sent, began = 0, 0.0

    def settled(reason: Any, state: Any) -> None:
        if clock.mode == "one":
            clock.latencies.append(time.perf_counter() - began)
        clock.tick()

    while clock.done < clock.total:
        while sent < clock.total and link.current_link_credit and len(link._pending_deliveries) < IN_FLIGHT:
            began = time.perf_counter()
            link.send_transfer(next(made), on_send_complete=settled)
            sent += 1
        client.do_work()
    clock.report()
    client.close()


def read_order(message: Any) -> None:
    """Look at every field."""
    its, properties, annotations = message.properties, message.application_properties, message.message_annotations
    seen = (
        its.message_id,
        its.subject,
        its.reply_to,
        its.correlation_id,
        its.content_type,
        datetime.fromtimestamp(its.creation_time / 1000),
        message.data,
        properties[b"region"],
        properties[b"attempt"],
        properties[b"total"],
        properties[b"express"],
        properties[b"due"],
        properties[b"trace"],
        annotations[b"x-opt-partition-key"],
        annotations[b"x-opt-sequence-number"],
    )
    assert len(seen) == 15


def read_row(message: Any) -> None:
    assert message.properties.message_id
    assert len(message.value) == 19


def receive(read: Any) -> None:
    client: Any = ReceiveClient(hostname, clock.address, link_credit=1000, **settings)
    link = attach(client)
    inbox = client._received_messages
    while clock.done < clock.total:
        client.do_work(batch=100)
        while True:
            try:
                transfer, message = inbox.get_nowait()
            except queue.Empty:
                break
            read(message)
            link.send_disposition(
                first_delivery_id=transfer[1], delivery_tag=transfer[2], settled=True, delivery_state=Accepted()
            )
            clock.tick()
    clock.report()
    client.close()


if clock.mode == "order-send":
    clock.also["json"] = messages.json_us()
if clock.mode in ("order-send", "row-send", "one"):
    send(bodies() if clock.mode == "one" else orders() if clock.mode == "order-send" else rows())
else:
    receive(read_order if clock.mode == "order-receive" else read_row)
