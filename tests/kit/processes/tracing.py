"""`amqp10 trace` between a client and its broker."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
from anyio.abc import SocketAttribute

from amqp10.net import TransportOptions, parse_url

from ..inside.cli import Recording, TraceProxy


@asynccontextmanager
async def tracing(url: str, file: Any = None) -> AsyncIterator[tuple[str, Recording]]:
    """A proxy in front of a broker: where it is, and what it records."""
    recording = Recording(file)
    proxy = TraceProxy(parse_url(url), None, TransportOptions(), recording)
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, proxy.serve)
        yield f"amqp://127.0.0.1:{listener.extra(SocketAttribute.local_port)}", recording
        tasks.cancel_scope.cancel()
