"""A small HTTP server: one request per connection, bounded in size and time."""

from __future__ import annotations

import logging
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

import anyio
from anyio.abc import ByteStream, SocketAttribute
from anyio.streams.buffered import BufferedByteReceiveStream
from anyio.streams.tls import TLSStream

from .net import keep_accepting

_log = logging.getLogger("amqp10.broker")

MAX_HEAD_SIZE: Final = 32_768
MAX_BODY_SIZE: Final = 1_048_576


@dataclass(frozen=True, slots=True)
class HTTPRequest:
    """A request, reduced to what the package needs.

    Attributes:
        target: path and query.
        headers: values by lower-case name.
        secure: whether the request came over TLS.
    """

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes = b""
    secure: bool = False


@dataclass(frozen=True, slots=True)
class HTTPAnswer:
    """A response: status, body, and headers other than Content-Length and Connection."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


class _Bad(Exception):
    """A request that is refused with `status`."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


@asynccontextmanager
async def serving(
    answer: Callable[[HTTPRequest], Awaitable[HTTPAnswer]],
    host: str,
    port: int,
    *,
    most: int,
    patience: float,
    context: ssl.SSLContext | None = None,
) -> AsyncIterator[int]:
    """Answer requests; yield the port. An exception in `answer` is logged, and the request answered with 500.

    Args:
        most: limit of concurrent requests. Further connections are closed, to spare the program's file descriptors.
        patience: seconds for a request and its response.
        context: the TLS context for HTTPS; None for HTTP.

    Raises:
        OSError: the port cannot be listened on.

    Cancelling: connections are cut.
    """
    places = anyio.CapacityLimiter(most)

    failing = False  # accepting failed, and no connection came since

    async def serve(stream: ByteStream) -> None:
        nonlocal failing
        failing = False
        async with stream:
            try:
                places.acquire_nowait()
            except anyio.WouldBlock:
                return
            try:
                with anyio.move_on_after(patience):
                    if context is not None:
                        stream = await TLSStream.wrap(stream, server_side=True, ssl_context=context)
                    await stream.send(await _answered(stream, answer, secure=context is not None))
                    await stream.aclose()
            except (OSError, anyio.BrokenResourceError, anyio.EndOfStream, anyio.ClosedResourceError):
                pass  # the client has gone
            finally:
                places.release()

    def failed(reason: BaseException) -> None:
        nonlocal failing
        if not failing:
            failing = True
            _log.warning("HTTP: accepting a connection failed, and is tried again: %s", reason)

    raised: Exception | None = None  # raised after the block, since the group would wrap it
    async with (
        await anyio.create_tcp_listener(local_host=host, local_port=port) as listener,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(keep_accepting, listener, serve, tasks, failed)
        try:
            yield listener.extra(SocketAttribute.local_port)
        except Exception as error:
            raised = error
        tasks.cancel_scope.cancel()
    if raised is not None:
        raise raised


async def _answered(
    stream: ByteStream, answer: Callable[[HTTPRequest], Awaitable[HTTPAnswer]], *, secure: bool
) -> bytes:
    try:
        request = await _read(BufferedByteReceiveStream(stream), secure=secure)
    except _Bad as bad:
        return _octets(HTTPAnswer(bad.status))
    try:
        found = await answer(request)
    except Exception:  # a bug in `answer` must not end the program
        _log.exception("HTTP: %.20r %.200r", request.method, request.target)  # %r, as either may have line ends
        found = HTTPAnswer(500)
    return _octets(found, with_body=request.method != "HEAD")


async def _read(stream: BufferedByteReceiveStream, *, secure: bool) -> HTTPRequest:
    """Read a request.

    Raises:
        _Bad: the bytes are not a request, or the request is too large.
        anyio.EndOfStream, anyio.IncompleteRead: the request is cut short.
    """
    try:
        head = (await stream.receive_until(b"\r\n\r\n", MAX_HEAD_SIZE)).decode("latin-1")
    except anyio.DelimiterNotFound:
        raise _Bad(431) from None
    except anyio.IncompleteRead:
        raise anyio.EndOfStream from None
    first, *lines = head.split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise _Bad(400)
    headers: dict[str, str] = {}
    for line in lines:
        name, separator, value = line.partition(":")
        if not separator or not name or name != name.strip() or name.casefold() in headers:
            raise _Bad(400)
        headers[name.casefold()] = value.strip()
    if "transfer-encoding" in headers:
        raise _Bad(411)
    length = headers.get("content-length", "0")
    if not (length.isascii() and length.isdigit()):
        raise _Bad(400)
    if len(length) > 9 or int(length) > MAX_BODY_SIZE:
        raise _Bad(413)
    try:
        body = await stream.receive_exactly(int(length))
    except anyio.IncompleteRead:
        raise anyio.EndOfStream from None
    return HTTPRequest(words[0], words[1], headers, body, secure)


def _octets(answer: HTTPAnswer, *, with_body: bool = True) -> bytes:
    headers = {**answer.headers, "Content-Length": len(answer.body), "Connection": "close"}
    lines = (f"{name}: {value}\r\n" for name, value in headers.items())
    head = f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}\r\n{''.join(lines)}\r\n"
    return head.encode() + (answer.body if with_body else b"")
