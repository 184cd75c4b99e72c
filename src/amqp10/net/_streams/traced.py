"""Logs frames as lines on the logger `amqp10.frames`.

    AMQP10_TRACE=1          lines on standard error, from every connection of the process
    AMQP10_TRACE=bodies     also the beginning of message bodies
    logging                 the same with the logger at DEBUG; with bodies at level 5

A connection checks once, when it is made. Without tracing it uses the bare stream, at no cost.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

from anyio.abc import ByteStream

from ...engine import Tracer
from ...sasl import Secrets
from .._url import visible

BODIES: Final = 5
"""The log level, below DEBUG, that shows bodies."""

_log = logging.getLogger("amqp10.frames")


@cache
def _to_stderr(level: int) -> None:
    """Set up logging to standard error, once in each process."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    _log.addHandler(handler)
    _log.propagate = False
    _log.setLevel(level)


def traced(
    stream: ByteStream,
    make_tracer: Callable[[bool], Tracer],
    name: str,
    received: bytes = b"",
    sent: bytes = b"",
    secrets: Secrets | None = None,
) -> ByteStream:
    """Return a stream that logs its frames; return `stream` itself if the logger is not enabled.

    Args:
        make_tracer: makes the dialect's tracer; takes whether to show bodies.
        name: the beginning of each line, to tell connections apart.
        received, sent: the bytes that crossed before.
        secrets: the secrets of a client's login, which no line shows.
    """
    wanted = os.environ.get("AMQP10_TRACE", "").lower()
    if wanted not in ("", "0", "no", "false", "off"):
        _to_stderr(BODIES if wanted == "bodies" else logging.DEBUG)
    if not _log.isEnabledFor(logging.DEBUG):
        return stream
    traced_stream = TracedStream(stream, make_tracer(_log.isEnabledFor(BODIES)), name, secrets)
    traced_stream.tell(traced_stream.tracer.received(received))
    traced_stream.tell(traced_stream.tracer.sent(sent))
    return traced_stream


class TracedStream(ByteStream):
    """A stream whose bytes also go to a tracer."""

    def __init__(self, stream: ByteStream, tracer: Tracer, name: str, secrets: Secrets | None = None) -> None:
        self._stream = stream
        self.tracer = tracer
        self._name = name
        self._secrets = secrets or Secrets()

    @property
    def extra_attributes(self) -> Mapping[Any, Callable[[], Any]]:
        return self._stream.extra_attributes

    async def receive(self, max_bytes: int = 65536) -> bytes:
        try:
            data = await self._stream.receive(max_bytes)
        except Exception as error:
            self.tell([f"< ended: {type(error).__name__}"])
            raise
        self.tell(self.tracer.received(data))
        return data

    async def send(self, item: bytes) -> None:
        # Logged before sending, so that the answer cannot come first.
        self.tell(self.tracer.sent(item))
        await self._stream.send(item)

    async def send_eof(self) -> None:
        await self._stream.send_eof()

    async def aclose(self) -> None:
        self.tell(["> closed"])
        await self._stream.aclose()

    def tell(self, lines: list[str]) -> None:
        for line in lines:
            _log.debug("%s", visible(f"{self._name} {self._secrets.hide(line)}"))
