"""An emulator of Service Bus in the test's own event loop, and a client of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio

from amqp10 import Reconnect
from amqp10.azure import ServiceBus
from amqp10.broker import Broker, TokenRules
from amqp10.broker.azure import EMULATOR_RULE, AzureConfig, QueueConfig, TopicConfig, connection_string
from amqp10.testing import FaultProxy

from ..token_rig import wall

QUICK = Reconnect(initial_delay=0.01, max_delay=0.05, jitter=0)


CONFIG = AzureConfig(
    [
        QueueConfig("orders", lock_duration=60.0),
        QueueConfig("brief", lock_duration=1.0),
        QueueConfig("sessions", lock_duration=60.0, requires_session=True),
        QueueConfig("mortal", ttl=50.0),
    ],
    [TopicConfig("events", ["all"])],
    clock=wall,
)


@asynccontextmanager
async def emulating(**settings: Any) -> AsyncIterator[Broker]:
    """Run an emulator that lets nobody in without a token."""
    with anyio.fail_after(60):
        async with Broker(azure=CONFIG, tokens=TokenRules([EMULATOR_RULE], required=True), **settings) as broker:
            yield broker


@asynccontextmanager
async def emulated(**settings: Any) -> AsyncIterator[tuple[ServiceBus, Any]]:
    """Run an emulator, and a client of it; yield the client, and what moves the emulator's clock."""
    async with (
        emulating() as broker,
        ServiceBus(connection_string(broker.url), **{"reconnect": QUICK, "clock": wall, **settings}) as bus,
    ):
        yield bus, broker.azure


@asynccontextmanager
async def behind_a_proxy(**settings: Any) -> AsyncIterator[tuple[ServiceBus, FaultProxy]]:
    """Run an emulator, and a client that reaches it by a proxy."""
    async with emulating() as broker, FaultProxy(broker.url) as proxy:
        async with ServiceBus(connection_string(proxy.url), **{"reconnect": QUICK, "clock": wall, **settings}) as bus:
            yield bus, proxy
