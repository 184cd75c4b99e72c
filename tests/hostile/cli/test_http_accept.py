"""The HTTP server goes on where connections cannot be accepted for a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import pytest
from anyio.abc import ByteStream, TaskGroup
from anyio.streams.stapled import MultiListener

from ...kit.inside.net import listening
from ...kit.inside.package import HTTPAnswer, HTTPRequest, serving

pytestmark = pytest.mark.anyio

ACCEPT = MultiListener.serve


async def test_out_of_file_descriptors(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """It says so once, and answers when they can be accepted again."""
    failures = 3

    async def serve(self: Any, handler: Callable[[ByteStream], Any], task_group: TaskGroup | None = None) -> None:
        nonlocal failures
        if failures:
            failures -= 1
            raise OSError(24, "too many open files")
        await ACCEPT(self, handler, task_group)

    async def answer(request: HTTPRequest) -> HTTPAnswer:
        return HTTPAnswer(200, b"here")

    monkeypatch.setattr(MultiListener, "serve", serve)
    monkeypatch.setattr(listening, "ACCEPT_PAUSE", 0)
    async with serving(answer, "127.0.0.1", 0, most=5, patience=60) as port:
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            await stream.send(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n")
            received = b""
            with pytest.raises(anyio.EndOfStream):
                while True:
                    received += await stream.receive()
    assert received.startswith(b"HTTP/1.1 200 ")
    assert received.endswith(b"here")
    assert failures == 0
    assert caplog.text.count("too many open files") == 1
