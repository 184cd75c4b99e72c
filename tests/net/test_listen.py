"""Listening and accepting."""

from __future__ import annotations

import anyio
import pytest
from anyio.abc import ByteStream, SocketAttribute
from anyio.streams.stapled import MultiListener

from amqp10.net import keep_accepting


async def no_peer(_: ByteStream) -> None:
    raise AssertionError("nobody connects")


def no_error(reason: BaseException) -> None:
    raise AssertionError from reason


@pytest.mark.anyio
async def test_cancelling_closes_every_address() -> None:
    """A host such as "localhost" has several addresses: on none of them does a listener remain that nobody serves."""
    parts = [await anyio.create_tcp_listener(local_host="127.0.0.1") for _ in range(3)]
    listener = MultiListener([listener for each in parts for listener in each.listeners])
    sockets = [each.extra(SocketAttribute.raw_socket) for each in listener.listeners]
    assert len(sockets) == 3
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(keep_accepting, listener, no_peer, tasks, no_error)
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    assert [each.fileno() for each in sockets] == [-1, -1, -1]
