"""A broker, a connection to it, and queues with messages in them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from amqp10.broker import Broker

from ..kit.worker.queues import DECLARED, Queues


@pytest.fixture
async def queues(anyio_backend: str) -> AsyncIterator[Queues]:
    async with Broker(queues=DECLARED) as broker, broker.connect() as connection:
        yield Queues(broker, connection)
