"""The pure-Python AMQP 1.0 in azure-servicebus.

Its public senders wait for each message's outcome in turn; this keeps 100 in flight by driving the link of its
`SendClient`, which flatters it. It receives as the Service Bus client does, accepting one by one.
Its WebSocket is that of websocket-client, another package.
"""

# mypy: disallow-untyped-calls=False
from __future__ import annotations

import queue
from types import SimpleNamespace
from typing import Any

from azure.servicebus._pyamqp import ReceiveClient, SendClient
from azure.servicebus._pyamqp.constants import ReceiverSettleMode, SenderSettleMode, TransportType
from azure.servicebus._pyamqp.message import Message
from azure.servicebus._pyamqp.outcomes import Accepted
from azure.servicebus._pyamqp.sasl import SASLAnonymousCredential
from clock import Clock

IN_FLIGHT = 100
DETACHED = 0

clock = Clock("pyamqp")
settings: dict[str, Any] = {
    "auth": SimpleNamespace(sasl=SASLAnonymousCredential(), auth_type=None),
    "use_tls": False,
    "max_frame_size": 131_072,
    "receive_settle_mode": ReceiverSettleMode.First,
    "send_settle_mode": SenderSettleMode.Settled if clock.settled else SenderSettleMode.Unsettled,
}
hostname = f"{clock.host}:{clock.port}"
if clock.ca:
    settings |= {"use_tls": True, "connection_verify": clock.ca}
if clock.ca or clock.websocket:  # the ports of both are fixed, but for that of a gateway on the way
    settings["custom_endpoint_address"] = f"sb://{hostname}/{clock.address}"
if clock.websocket:
    settings["transport_type"] = TransportType.AmqpOverWebsocket


def settled(reason: Any, state: Any) -> None:
    clock.tick()


def attach(client: Any) -> Any:
    client.open()
    while not client.client_ready():
        pass
    clock.begin()
    return client._link


def send() -> None:
    client: Any = SendClient(hostname, clock.address, **settings)
    link = attach(client)
    sent = 0
    while clock.done < clock.total:
        while sent < clock.total and link.current_link_credit and len(link._pending_deliveries) < IN_FLIGHT:
            link.send_transfer(Message(data=[clock.body]), on_send_complete=settled)
            sent += 1
            if clock.settled:
                clock.tick()
        if clock.done < clock.total:
            client.do_work()
    if clock.settled:
        link.detach(close=True)
        while link.state.value != DETACHED:
            client._connection.listen()
    clock.report()
    client.close()


def receive() -> None:
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
            assert sum(map(len, message.data)) == clock.size
            if not clock.settled:
                link.send_disposition(
                    first_delivery_id=transfer[1], delivery_tag=transfer[2], settled=True, delivery_state=Accepted()
                )
            clock.tick()
    clock.report()
    client.close()


if clock.mode == "send":
    send()
else:
    receive()
