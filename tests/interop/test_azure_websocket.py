"""The emulator over WebSocket, with and without TLS, as Microsoft's SDKs for Python and our clients come there."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import anyio
import pytest
from anyio import to_thread
from azure.eventhub import EventData, EventHubConsumerClient, EventHubProducerClient
from azure.eventhub import TransportType as HubTransport
from azure.servicebus import ServiceBusClient, ServiceBusMessage, TransportType
from azure.servicebus.exceptions import ServiceBusError

from amqp10 import TLS, Message, SasKey
from amqp10.azure import EventHub, ServiceBus
from amqp10.broker import Broker, TokenRules
from amqp10.broker.azure import EMULATOR_RULE, AzureConfig, EventHubConfig, connection_string
from amqp10.testing import CertificateAuthority

from ._azure import RETRYING, WAIT
from ._event_hubs import Reading, bodies

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("anyio_backend", ["trio"]),  # of the emulator; the SDK has none
    pytest.mark.slow,
    pytest.mark.capability("Service Bus emulator"),
]

T = TypeVar("T")
ANY_NAMESPACE = "Endpoint=sb://mine.servicebus.windows.net;SharedAccessKeyName={0.name};SharedAccessKey={0.key}"


BODY = bytes(range(256)) * 2000
"""More than a frame of WebSocket's, and more than one of AMQP's."""


def send_and_receive(client: ServiceBusClient) -> tuple[bytes, int]:
    """Send a message, receive and settle it; return its body, and how many messages are left."""
    with client, client.get_queue_sender("orders") as sender, client.get_queue_receiver("orders") as receiver:
        sender.send_messages(ServiceBusMessage(BODY))
        [message] = receiver.receive_messages(1, max_wait_time=WAIT)
        receiver.complete_message(message)
        return b"".join(message.body), len(receiver.peek_messages(sequence_number=1))  # type: ignore[arg-type]


async def test_without_tls(anyio_backend: str) -> None:
    """With `UseDevelopmentEmulator` the SDK takes the port from the connection string."""
    tokens = TokenRules([EMULATOR_RULE], required=True)
    async with Broker(azure=AzureConfig(["orders"]), tokens=tokens, websocket=True) as broker:
        port = broker.websocket_url.rpartition(":")[2].rstrip("/")
        client = ServiceBusClient.from_connection_string(
            connection_string(broker.url),
            custom_endpoint_address=f"ws://127.0.0.1:{port}",
            transport_type=TransportType.AmqpOverWebsocket,
            **RETRYING,
            keep_alive=0,
        )
        with anyio.fail_after(60):
            assert await to_thread.run_sync(send_and_receive, client) == (BODY, 0)


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
            **RETRYING,
            keep_alive=0,
        )
        with anyio.fail_after(60):
            assert await to_thread.run_sync(send_and_receive, make(connection_verify=str(authority.ca))) == (BODY, 0)
            with pytest.raises(ServiceBusError):  # it does not know who signed the certificate
                await to_thread.run_sync(send_and_receive, make())


@dataclass
class Ends:
    """One emulator, and how both clients come to it by a WebSocket.

    Attributes:
        url: where ours connects.
        settings: those of ours.
        string: the connection string of theirs.
        theirs: the settings of theirs.
    """

    url: str
    settings: dict[str, Any]
    string: str
    theirs: dict[str, Any]


@asynccontextmanager
async def both_ends(folder: Path, *, secure: bool) -> AsyncIterator[Ends]:
    """Run an emulator that lets nobody in without a token, with TLS or without."""
    config = AzureConfig(["orders"], event_hubs=[EventHubConfig("telemetry", 1)])
    authority = CertificateAuthority(folder)
    files = authority.server("localhost", "mine.servicebus.windows.net")
    tls = TLS(certificate=files.certificate, key=files.key) if secure else None
    tokens = TokenRules([EMULATOR_RULE], required=True)
    with anyio.fail_after(120):
        async with Broker(azure=config, tokens=tokens, websocket=True, tls=tls) as broker:
            port = broker.websocket_url.rpartition(":")[2].rstrip("/")
            if secure:
                url, settings = f"wss://localhost:{port}", {"tls": TLS(ca=authority.ca)}
                string, address = ANY_NAMESPACE.format(EMULATOR_RULE), f"sb://localhost:{port}"
                yield Ends(
                    url, settings, string, {"custom_endpoint_address": address, "connection_verify": authority.ca}
                )
            else:
                url, string = f"ws://127.0.0.1:{port}", connection_string(broker.url)
                yield Ends(url, {}, string, {"custom_endpoint_address": url})


async def theirs(function: Callable[..., T], *arguments: Any, **settings: Any) -> T:
    """Call something of an SDK, which blocks."""
    return await to_thread.run_sync(partial(function, *arguments, **settings))


@pytest.mark.parametrize("secure", [False, True], ids=["ws", "wss"])
async def test_service_bus_both_ways(anyio_backend: str, secure: bool, tmp_path: Path) -> None:
    """What theirs sends by a WebSocket ours receives and completes by another one, and the other way."""
    body = bytes(range(256)) * 2000
    async with both_ends(tmp_path, secure=secure) as ends:
        sdk = ServiceBusClient.from_connection_string(
            ends.string, transport_type=TransportType.AmqpOverWebsocket, keep_alive=0, **ends.theirs
        )

        def send() -> None:
            with sdk.get_queue_sender("orders") as sender:
                sender.send_messages(ServiceBusMessage(body, message_id="theirs"))

        def take() -> bytes:
            with sdk.get_queue_receiver("orders") as receiver:
                [message] = receiver.receive_messages(1, max_wait_time=WAIT)
                assert message.message_id == "ours"
                receiver.complete_message(message)
                return b"".join(message.body)  # type: ignore[arg-type]

        with sdk:
            async with ServiceBus(ends.url, SasKey(EMULATOR_RULE.name, EMULATOR_RULE.key), **ends.settings) as bus:
                await theirs(send)
                async with bus.receiver("orders") as receiver:
                    delivery = await receiver.receive()
                    async with delivery as message:
                        assert (message.message_id, message.body) == ("theirs", body)
                async with bus.sender("orders") as sender:
                    await sender.send(Message(body, message_id="ours"))
                assert await theirs(take) == body
                async with bus.receiver("orders") as receiver:
                    assert await receiver.peek() == []


@pytest.mark.parametrize("secure", [False, True], ids=["ws", "wss"])
async def test_event_hubs_both_ways(anyio_backend: str, secure: bool, tmp_path: Path) -> None:
    """Events that theirs sends by a WebSocket ours reads by another one, and the other way."""
    async with both_ends(tmp_path, secure=secure) as ends:
        how: dict[str, Any] = {
            "eventhub_name": "telemetry",
            "transport_type": HubTransport.AmqpOverWebsocket,
            "socket_timeout": 3,  # seconds; the handshake of TLS takes that at most
            **ends.theirs,
        }

        def send() -> None:
            with EventHubProducerClient.from_connection_string(ends.string, **how) as producer:
                producer.send_batch([EventData("a"), EventData("b")], partition_id="0")

        def read() -> list[str]:
            consumer = EventHubConsumerClient.from_connection_string(ends.string, "$Default", **how)
            with Reading(consumer, {"partition_id": "0", "starting_position": "-1"}) as reading:
                return bodies(reading.wait(3))

        credential = SasKey(EMULATOR_RULE.name, EMULATOR_RULE.key)
        async with EventHub(ends.url, "telemetry", credential, **ends.settings) as hub:
            await theirs(send)
            async with hub.reader("0") as reader:
                assert [(await reader.receive()).body for _ in range(2)] == [b"a", b"b"]
            async with hub.sender(partition="0") as sender:
                await sender.send(b"c")
            assert await theirs(read) == ["a", "b", "c"]
