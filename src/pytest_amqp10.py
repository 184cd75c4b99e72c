"""The pytest plugin of amqp10: fixtures for tests that need a broker, or a peer that misbehaves.

Both are for tests that are coroutines, run by anyio's plugin on trio or asyncio (`@pytest.mark.anyio`). The module
stands beside the package, not in it, and imports it when a fixture is used: pytest loads plugins in every run, which
must start no slower for it, and coverage would miss whatever is imported that early.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from amqp10.broker import Broker
    from amqp10.testing import ScriptedPeer

__all__ = ("amqp_broker", "amqp_peer")

# The tests in it are methods of others' classes: their asserts are to say what they compare, too.
pytest.register_assert_rewrite("amqp10.testing.suite")


@pytest.fixture
async def amqp_broker(anyio_backend: object) -> AsyncIterator[Broker]:
    """A broker of its own for the test, in memory, on a free port of the loopback: `amqp_broker.url`."""
    from amqp10.broker import Broker

    async with Broker() as broker:
        yield broker


@pytest.fixture
async def amqp_peer(anyio_backend: object) -> AsyncIterator[ScriptedPeer]:
    """A scripted peer that listens on a free port of the loopback: `amqp_peer.url`."""
    from amqp10.testing import ScriptedPeer

    async with ScriptedPeer() as peer:
        yield peer
