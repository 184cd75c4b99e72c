from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import anyio
import pytest
from azure.eventhub import EventData, EventHubProducerClient
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import (
    MessageLockLostError,
    MessagingEntityDisabledError,
    ServiceBusConnectionError,
    ServiceBusError,
    ServiceBusServerBusyError,
)

from amqp10.broker import Broker
from amqp10.broker.azure import AzureConfig
from amqp10.client import Connection
from amqp10.testing import BackgroundBroker, BackgroundEventHubs, BackgroundServiceBus, ScriptedPeer

pytestmark = pytest.mark.capability("test kit")


@pytest.mark.anyio
async def test_amqp_broker(amqp_broker: Broker) -> None:
    """A broker of the test's own, that a client reaches."""
    async with Connection(amqp_broker.url) as connection, connection.sender("orders") as sender:
        await sender.send("hello")
    assert amqp_broker.queue("orders").depth == 1


@pytest.mark.anyio
async def test_amqp_peer(amqp_peer: ScriptedPeer) -> None:
    """A peer that listens."""
    async with anyio.create_task_group() as tasks:

        async def serve() -> None:
            await amqp_peer.accept_connection()
            await amqp_peer.accept_close()

        tasks.start_soon(serve)
        async with Connection(amqp_peer.url) as connection:
            assert connection.dialect == "1.0"


def test_service_bus(service_bus: BackgroundServiceBus) -> None:
    """An emulator of the test's own, that Microsoft's SDK reaches by its connection string."""
    with ServiceBusClient.from_connection_string(service_bus.connection_string, keep_alive=0) as client:
        with client.get_topic_sender("topic.1") as sender:
            sender.send_messages(ServiceBusMessage("hello"))
        with client.get_subscription_receiver("topic.1", "subscription.1") as receiver:
            assert [str(message) for message in receiver.peek_messages()] == ["hello"]
            assert service_bus.detach_links("topic.1/Subscriptions/subscription.1") == 1
    assert service_bus.lose_locks("queue.1") == 0
    with pytest.raises(KeyError, match=r"no entity 'queue.2'; the entities are queue.1, topic.1"):
        service_bus.refuse_next("queue.2")
    before = service_bus.clock()
    service_bus.advance(60)
    service_bus.expire_tokens()
    assert 60 <= service_bus.clock() - before < 120
    with pytest.raises(ValueError, match="seconds must be finite and 0 or more, not -1"):
        service_bus.advance(-1)


def test_faults_of_service_bus(service_bus: BackgroundServiceBus) -> None:
    """Each fault on demand, caused by the fixture, reaches Microsoft's SDK as the error that it has for it."""
    text = service_bus.connection_string
    with ServiceBusClient.from_connection_string(text, retry_total=0, keep_alive=0) as client:
        with client.get_queue_sender("queue.1") as sender:
            sender.send_messages(ServiceBusMessage("two teas"))
            service_bus.refuse_next("queue.1")
            with pytest.raises(ServiceBusServerBusyError):
                sender.send_messages(ServiceBusMessage("a cake"))
            service_bus.refuse_next("queue.1", 1, "com.microsoft:entity-disabled")
            with pytest.raises(MessagingEntityDisabledError):
                sender.send_messages(ServiceBusMessage("a cake"))
        with client.get_queue_receiver("queue.1") as receiver:
            [message] = receiver.receive_messages(max_wait_time=20)
            assert service_bus.lose_locks("queue.1") == 1
            with pytest.raises(MessageLockLostError):
                receiver.complete_message(message)
            service_bus.advance(601)
            with pytest.raises(ServiceBusConnectionError, match="IdleTimerExpired"):
                receiver.receive_messages(max_wait_time=20)
            receiver.peek_messages()
            assert service_bus.detach_links("queue.1", "amqp:link:stolen") == 1
            with pytest.raises(ServiceBusError, match="amqp:link:stolen"):
                receiver.receive_messages(max_wait_time=20)
        with client.get_queue_receiver("queue.1") as receiver:
            service_bus.expire_tokens()
            with pytest.raises(ServiceBusError, match="unauthorized-access"):
                receiver.receive_messages(max_wait_time=20)


def test_administration(service_bus: BackgroundServiceBus) -> None:
    """Its entities can be administered; who has no token may not."""
    with service_bus.administration() as url, pytest.raises(HTTPError, match="401") as refused:
        urlopen(f"{url}/$Resources/queues")
    refused.value.close()  # it is the response, too, and Python 3.14 warns of one that is left open


def test_event_hubs(event_hubs: BackgroundEventHubs) -> None:
    """An emulator of the test's own, that Microsoft's SDK reaches by a hub's connection string."""
    with EventHubProducerClient.from_connection_string(event_hubs.of("eh1")) as producer:
        producer.send_event(EventData("hello"), partition_id="1")
        assert producer.get_partition_properties("1")["last_enqueued_sequence_number"] == 0
        assert event_hubs.detach_links("eh1/Partitions/1") == 1
        event_hubs.advance(86_401)
        assert producer.get_partition_properties("1")["is_empty"]
    assert "EntityPath" not in event_hubs.connection_string
    with pytest.raises(KeyError, match=r"no entity 'eh2'; the entities are eh1"):
        event_hubs.refuse_next("eh2")


class TestOwnHubs:
    @pytest.fixture
    def event_hubs_config(self) -> AzureConfig:
        return AzureConfig(event_hubs=["mine"])

    def test_they_are_there(self, event_hubs: BackgroundEventHubs) -> None:
        """A fixture of that name says which hubs there are."""
        assert "EntityPath=mine" in event_hubs.of("mine")
        with pytest.raises(KeyError, match="the entities are mine"):
            event_hubs.refuse_next("eh1")


class TestOwnEntities:
    @pytest.fixture
    def service_bus_config(self) -> AzureConfig:
        return AzureConfig(["mine"])

    def test_they_are_there(self, service_bus: BackgroundServiceBus) -> None:
        """A fixture of that name says which entities there are."""
        service_bus.refuse_next("mine", 0)
        assert "UseDevelopmentEmulator=true" in service_bus.connection_string


def test_costs_nothing_at_start() -> None:
    """Loading the plugin imports nothing of the package."""
    program = "import sys, pytest_amqp10; sys.exit(any(name.split('.')[0] == 'amqp10' for name in sys.modules))"
    subprocess.run([sys.executable, "-c", program], check=True)


OTHER_TESTS = """
import anyio, pytest, pytest_asyncio
from amqp10 import Connection, send

@pytest.mark.asyncio
async def test_by_pytest_asyncio(amqp_broker):
    async with Connection(amqp_broker.url) as connection, connection.sender("orders") as sender:
        await sender.send("hello")
        assert amqp_broker.connections == 1
    assert amqp_broker.queue("orders").depth == 1
    with pytest.raises(KeyError):
        amqp_broker.queue("absent")

@pytest_asyncio.fixture
async def address(amqp_broker):
    await send(amqp_broker.url, "orders", "hello")
    yield "orders"

@pytest.mark.asyncio
async def test_own_fixture(amqp_broker, address):
    assert amqp_broker.queue(address).depth == 1

def test_synchronous(amqp_broker):
    anyio.run(send, amqp_broker.url, "jobs", "hello")
    assert [(queue.name, queue.depth) for queue in amqp_broker.queues] == [("jobs", 1)]

@pytest.mark.asyncio
async def test_peer(amqp_peer):
    raise AssertionError("it is refused before")
"""

# In its mode "auto" pytest-asyncio takes each coroutine, those that are marked for anyio's plugin, too.
BESIDE = """
@pytest.mark.anyio
async def test_by_anyio(amqp_broker, amqp_peer):
    assert type(amqp_broker).__name__ == "Broker"
    async with amqp_broker.connect() as connection:
        assert connection.open
"""


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "tests", "passed"), [("strict", OTHER_TESTS + BESIDE, 5), ("auto", OTHER_TESTS, 3)])
def test_other_runners(tmp_path: Path, mode: str, tests: str, passed: int) -> None:
    """pytest-asyncio in both its modes, and tests that are no coroutines: a broker for each, and no test hangs."""
    (tmp_path / "test_other.py").write_text(tests)
    (tmp_path / "pytest.ini").write_text(f"[pytest]\nasyncio_mode = {mode}\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_other.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert f"{passed} passed, 1 error" in done.stdout, done.stdout
    assert "amqp_peer is for tests that anyio's plugin runs: mark the test with @pytest.mark.anyio" in done.stdout


def test_background_broker() -> None:
    """It is there while its block is, with the settings that it was given, and can be asked from outside."""
    with BackgroundBroker(queues=["orders"], topics=["news"]) as broker:
        assert broker.url in broker.urls
        assert broker.queue("orders").depth == 0
        assert broker.topic("news") in broker.topics
        assert broker.exchange("amq.direct") in broker.exchanges
        broker.block("maintenance")
        broker.unblock()
        with pytest.raises(LookupError):
            _ = broker.websocket_url
    with pytest.raises(ValueError, match="must be 1 or more"):
        BackgroundBroker(credit=0)
