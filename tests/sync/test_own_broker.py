"""The synchronous client in the thread whose event loop runs the broker: neither could go on."""

from __future__ import annotations

from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from amqp10 import SasKey, sync
from amqp10.broker import Broker
from amqp10.errors import LocalProtocolError
from amqp10.sync.azure import ServiceBus
from amqp10.testing import BackgroundBroker

pytestmark = pytest.mark.anyio
CANNOT_ANSWER = r"the event loop of this thread runs the broker at .*async with.*to_thread.*BackgroundBroker"


async def test_in_the_thread_of_the_broker() -> None:
    """Opening a connection in a coroutine of the broker's own event loop raises at once, and says what to do."""
    async with Broker(queues=["q"]) as broker:
        with pytest.raises(LocalProtocolError, match=CANNOT_ANSWER):
            with sync.Connection(broker.url, connect_timeout=1):
                raise AssertionError("it was opened")
        with pytest.raises(LocalProtocolError, match=CANNOT_ANSWER):
            sync.send(broker.url, "q", "x", connect_timeout=1)
        with pytest.raises(LocalProtocolError, match=CANNOT_ANSWER):
            with ServiceBus(broker.url, SasKey("name", "key"), connect_timeout=1):
                raise AssertionError("it was opened")


async def test_on_a_unix_socket(tmp_path: Path) -> None:
    """The same with a broker that listens on a Unix socket alone."""
    async with Broker(host=None, path=tmp_path / "broker") as broker:
        with pytest.raises(LocalProtocolError, match=CANNOT_ANSWER):
            with sync.Connection(broker.url, connect_timeout=1):
                raise AssertionError("it was opened")


async def test_in_another_thread() -> None:
    """A worker thread of the same program may use the synchronous client."""
    async with Broker(queues=["q"]) as broker:
        with anyio.fail_after(60):
            await anyio.to_thread.run_sync(sync.send, broker.url, "q", "x")
        assert broker.queue("q").depth == 1


async def test_beside_a_broker_in_another_thread() -> None:
    """A coroutine, of asyncio or trio, may use the synchronous client though its event loop stands still meanwhile."""
    with BackgroundBroker(queues=["q"]) as broker, sync.Connection(broker.url) as connection:
        with connection.sender("q") as sender:
            sender.send("x")
