"""The pytest plugin: fixtures for tests that need a broker, or a peer that misbehaves.

Both are for tests that are coroutines, run by anyio's plugin on trio or asyncio (`@pytest.mark.anyio`). Nothing of the
package is imported before a fixture is used, so that pytest starts no slower and coverage misses nothing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ..broker import Broker
    from ._peer import ScriptedPeer


@pytest.fixture
async def amqp_broker(anyio_backend: object) -> AsyncIterator[Broker]:
    """A broker of its own for the test, in memory, on a free port of the loopback: `amqp_broker.url`."""
    from ..broker import Broker

    async with Broker() as broker:
        yield broker


@pytest.fixture
async def amqp_peer(anyio_backend: object) -> AsyncIterator[ScriptedPeer]:
    """A scripted peer that listens on a free port of the loopback: `amqp_peer.url`."""
    from ._peer import ScriptedPeer

    async with ScriptedPeer() as peer:
        yield peer
