"""The pytest plugin of amqp10: fixtures for tests that need a broker, or a peer that misbehaves.

`amqp_broker` is for every test: in one that anyio's plugin runs (`@pytest.mark.anyio`, on trio or asyncio) the broker
runs in the test's own event loop; in all others, which are run by pytest-asyncio or are no coroutines, in a thread of
its own. `amqp_peer` is spoken to by `await`, so it is for the former only. `service_bus` and `event_hubs` are in
a thread of their own always, because Microsoft's SDKs speak to them.

The module stands beside the package, not in it, and imports it when a fixture is used: pytest loads plugins in every
run, which must start no slower for it, and coverage would miss whatever is imported that early.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from amqp10.broker import Broker
    from amqp10.broker.azure import AzureConfig
    from amqp10.testing import BackgroundBroker, BackgroundEventHubs, BackgroundServiceBus, ScriptedPeer

__all__ = ("amqp_broker", "amqp_peer", "event_hubs", "event_hubs_config", "service_bus", "service_bus_config")

# The tests in it are methods of others' classes: their asserts are to say what they compare, too.
pytest.register_assert_rewrite("amqp10.testing.suite")


def _is_run_by_anyio(request: pytest.FixtureRequest) -> bool:
    """Return whether anyio's plugin runs the test, and so its asynchronous fixtures."""
    return "anyio_backend" in request.fixturenames


@pytest.fixture
def amqp_broker(request: pytest.FixtureRequest) -> Broker | BackgroundBroker:
    """A broker of its own for the test, in memory, on a free port of the loopback: `amqp_broker.url`."""
    kind = "_broker_in_this_loop" if _is_run_by_anyio(request) else "_broker_in_a_thread"
    broker: Broker | BackgroundBroker = request.getfixturevalue(kind)
    return broker


@pytest.fixture
async def _broker_in_this_loop(anyio_backend: object) -> AsyncIterator[Broker]:
    from amqp10.broker import Broker

    async with Broker() as broker:
        yield broker


@pytest.fixture
def _broker_in_a_thread() -> Iterator[BackgroundBroker]:
    from amqp10.testing import BackgroundBroker

    with BackgroundBroker() as broker:
        yield broker


@pytest.fixture
def service_bus_config() -> AzureConfig:
    """The entities of `service_bus`: define a fixture of this name to have your own."""
    from amqp10.broker.azure import AzureConfig, TopicConfig

    return AzureConfig(["queue.1"], [TopicConfig("topic.1", ["subscription.1"])])


@pytest.fixture
def service_bus(service_bus_config: AzureConfig) -> Iterator[BackgroundServiceBus]:
    """An emulator of Azure Service Bus of its own for the test: `service_bus.connection_string`."""
    from amqp10.testing import BackgroundServiceBus

    with BackgroundServiceBus(service_bus_config) as emulator:
        yield emulator


@pytest.fixture
def event_hubs_config() -> AzureConfig:
    """The hubs of `event_hubs`: define a fixture of this name to have your own."""
    from amqp10.broker.azure import AzureConfig, EventHubConfig

    return AzureConfig(event_hubs=[EventHubConfig("eh1", 2, ["cg1"])])


@pytest.fixture
def event_hubs(event_hubs_config: AzureConfig) -> Iterator[BackgroundEventHubs]:
    """An emulator of Azure Event Hubs of its own for the test: `event_hubs.of("eh1")` is a connection string."""
    from amqp10.testing import BackgroundEventHubs

    with BackgroundEventHubs(event_hubs_config) as emulator:
        yield emulator


@pytest.fixture
def amqp_peer(request: pytest.FixtureRequest) -> ScriptedPeer:
    """A scripted peer that listens on a free port of the loopback: `amqp_peer.url`."""
    if not _is_run_by_anyio(request):
        pytest.fail(
            "amqp_peer is for tests that anyio's plugin runs: mark the test with @pytest.mark.anyio, "
            "or write `async with ScriptedPeer() as peer` in it",
            pytrace=False,
        )
    peer: ScriptedPeer = request.getfixturevalue("_peer_in_this_loop")
    return peer


@pytest.fixture
async def _peer_in_this_loop(anyio_backend: object) -> AsyncIterator[ScriptedPeer]:
    from amqp10.testing import ScriptedPeer

    async with ScriptedPeer() as peer:
        yield peer
