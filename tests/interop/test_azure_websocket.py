"""The emulator over WebSocket, with and without TLS, as Microsoft's SDK for Python comes there."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import anyio
import pytest
from anyio import to_thread
from azure.servicebus import ServiceBusClient, ServiceBusMessage, TransportType
from azure.servicebus.exceptions import ServiceBusError

from amqp10 import TLS
from amqp10.broker import Broker, TokenRules
from amqp10.broker.azure import EMULATOR_RULE, AzureConfig, connection_string
from amqp10.testing import CertificateAuthority

from ._azure import WAIT

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("anyio_backend", ["trio"]),  # of the emulator; the SDK has none
    pytest.mark.slow,
    pytest.mark.capability("Service Bus emulator"),
]

ANY_NAMESPACE = "Endpoint=sb://mine.servicebus.windows.net;SharedAccessKeyName={0.name};SharedAccessKey={0.key}"


def send_and_receive(client: ServiceBusClient) -> None:
    """A message goes there and back, and is settled; more than a frame of WebSocket's, and more than one of AMQP's."""
    body = bytes(range(256)) * 2000
    with client, client.get_queue_sender("orders") as sender, client.get_queue_receiver("orders") as receiver:
        sender.send_messages(ServiceBusMessage(body))
        [message] = receiver.receive_messages(1, max_wait_time=WAIT)
        assert b"".join(message.body) == body  # type: ignore[arg-type]
        receiver.complete_message(message)
        assert receiver.peek_messages(sequence_number=1) == []


async def test_without_tls(anyio_backend: str) -> None:
    """With `UseDevelopmentEmulator` the SDK takes the port from the connection string."""
    tokens = TokenRules([EMULATOR_RULE], required=True)
    async with Broker(azure=AzureConfig(["orders"]), tokens=tokens, websocket=True) as broker:
        port = broker.websocket_url.rpartition(":")[2].rstrip("/")
        client = ServiceBusClient.from_connection_string(
            connection_string(broker.url),
            custom_endpoint_address=f"ws://127.0.0.1:{port}",
            transport_type=TransportType.AmqpOverWebsocket,
            retry_total=0,
            keep_alive=0,
        )
        with anyio.fail_after(60):
            await to_thread.run_sync(send_and_receive, client)


@pytest.mark.parametrize("transport", TransportType, ids=lambda transport: transport.name)
async def test_with_tls(anyio_backend: str, transport: TransportType, tmp_path: Path) -> None:
    """With TLS it comes to the port of `custom_endpoint_address`, whatever the namespace is called."""
    authority = CertificateAuthority(tmp_path)
    files = authority.server("localhost", "127.0.0.1", "mine.servicebus.windows.net")
    tls = TLS(certificate=files.certificate, key=files.key)
    tokens = TokenRules([EMULATOR_RULE], required=True)
    async with Broker(azure=AzureConfig(["orders"]), tokens=tokens, websocket=True, tls=tls) as broker:
        port = broker.url.rpartition(":")[2]
        make = partial(
            ServiceBusClient.from_connection_string,
            ANY_NAMESPACE.format(EMULATOR_RULE),
            custom_endpoint_address=f"sb://localhost:{port}",
            transport_type=transport,
            retry_total=0,
            keep_alive=0,
        )
        with anyio.fail_after(60):
            await to_thread.run_sync(send_and_receive, make(connection_verify=str(authority.ca)))
            with pytest.raises(ServiceBusError):  # it does not know who signed the certificate
                await to_thread.run_sync(send_and_receive, make())
