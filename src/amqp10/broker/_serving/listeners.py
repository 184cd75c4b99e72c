"""The broker's listeners, with TLS and WebSockets."""

from __future__ import annotations

import logging
import os
import ssl
from contextlib import suppress
from dataclasses import dataclass

import anyio
from anyio.abc import ByteStream, Listener, SocketAttribute, TaskGroup

from ..._arguments import check_range
from ...errors import ConnectionLost
from ...net import CertificateName, accept, accept_websocket, close_listener, keep_accepting, listen_tcp, listen_unix
from .._log import report
from .connections import ConnectionManager
from .handshakes import LOCAL

_log = logging.getLogger("amqp10.broker")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerSettings:
    """Where and how a broker listens.

    Attributes:
        host, port: where to listen on TCP; host None: do not.
        path: the Unix socket to listen on; None: do not.
        certificate_name: the part of a client's certificate that is its name.
        origins: origins of web pages whose WebSockets are accepted; None: no WebSockets.
        handshake_timeout: seconds that a peer has from connecting to its open.

    Raises:
        ValueError: a number is out of range.
    """

    host: str | None
    port: int
    path: str | None
    certificate_name: CertificateName
    origins: frozenset[str] | None
    handshake_timeout: float

    def __post_init__(self) -> None:
        check_range("port", self.port, 0, 65_535)
        check_range("handshake_timeout", self.handshake_timeout, 0)


class Listeners:
    """The listeners of a broker.

    Args:
        manager: serves the accepted streams.
        tls: the context for TLS, which TCP then requires.
        end_point: the channel binding of the certificate for SCRAM-PLUS; None: it is not offered.

    Attributes:
        urls: where to connect to; empty before `open`.
    """

    def __init__(
        self,
        manager: ConnectionManager,
        settings: ListenerSettings,
        tls: ssl.SSLContext | None,
        end_point: bytes | None,
    ) -> None:
        self.urls: tuple[str, ...] = ()
        self._manager = manager
        self._settings = settings
        self._tls = tls
        self._end_point = end_point
        self._listeners: list[Listener[ByteStream]] = []
        self._listening: list[anyio.CancelScope] = []
        self._failing = False  # accepting failed, and no connection came since

    async def open(self) -> None:
        """Listen, but accept no connections yet.

        Raises:
            OSError: an address cannot be listened on.

        Cancelling: nothing is left open.
        """
        settings, listeners = self._settings, self._listeners
        urls = []
        try:
            if settings.host is not None:
                listener, url = await listen_tcp(settings.host, settings.port, secure=self._tls is not None)
                listeners.append(listener)
                urls.append(url)
                if settings.origins is not None:
                    urls.append(url.replace("amqp", "ws", 1))
            if settings.path is not None:
                listener, url = await listen_unix(settings.path)
                listeners.append(listener)
                urls.append(url)
        except BaseException:
            for listener in listeners:
                await close_listener(listener)
            raise
        self.urls = tuple(urls)

    def begin(self, tasks: TaskGroup) -> None:
        """Accept connections, and serve them in `tasks`."""
        for listener in self._listeners:
            tasks.start_soon(self._listen_on, listener, tasks)

    async def _listen_on(self, listener: Listener[ByteStream], tasks: TaskGroup) -> None:
        with anyio.CancelScope() as scope:
            self._listening.append(scope)
            await keep_accepting(listener, self._take, tasks, self._failed)

    def _failed(self, reason: BaseException) -> None:
        if not self._failing:
            self._failing = True
            _log.warning("accepting a connection failed, and is tried again: %s", reason)
        self._manager.handshakes.cut_some_off()

    async def _take(self, stream: ByteStream) -> None:
        settings, handshakes = self._settings, self._manager.handshakes
        self._failing = False
        with anyio.CancelScope(deadline=anyio.current_time() + settings.handshake_timeout) as scope:
            handshakes.begin(scope, _address_of(stream))
            try:
                stream, facts = await accept(stream, self._tls, settings.certificate_name, self._end_point)
                received = b""
                if settings.origins is not None:
                    stream, received = await accept_websocket(stream, settings.origins, facts)
                await self._manager.serve(stream, facts, scope, received)
            except ConnectionLost as error:
                _log.debug("%s", error)
            except Exception as error:  # any error costs only this connection
                report("taking a connection failed", error)
                await anyio.aclose_forcefully(stream)
            finally:
                handshakes.end(scope)

    def replace_tls(self, tls: ssl.SSLContext, end_point: bytes | None) -> None:
        """Use another TLS context for new connections; see the class for the arguments."""
        self._tls, self._end_point = tls, end_point

    def stop(self) -> None:
        """Stop accepting connections."""
        for scope in self._listening:
            scope.cancel()

    def remove_socket(self) -> None:
        """Remove the file of the Unix socket."""
        if self._settings.path is not None:
            with suppress(OSError):
                os.unlink(self._settings.path)


def _address_of(stream: ByteStream) -> str:
    """Return the host that a stream comes from."""
    address = stream.extra(SocketAttribute.remote_address, None)
    return str(address[0]) if isinstance(address, tuple) else LOCAL
