"""An HTTP proxy that knows CONNECT, on plain sockets and threads: it shares no line with the client that it tests."""

from __future__ import annotations

import base64
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class ConnectProxy:
    """Serves until it is closed.

    Args:
        user, password: what it wants to see in Proxy-Authorization; None for nothing.
        tls: of an https:// proxy.
        answer: what it says instead of opening a tunnel.

    Attributes:
        port: where it listens, on loopback.
        requests: the heads of all requests, as they came.
        tunnels: how many it has opened.
    """

    def __init__(
        self,
        user: str | None = None,
        password: str = "",
        tls: ssl.SSLContext | None = None,
        answer: bytes | None = None,
    ) -> None:
        self._authorization = None
        if user is not None:
            self._authorization = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
        self._tls = tls
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = [self._listener]
        self._threads: list[threading.Thread] = []
        self.port: int = self._listener.getsockname()[1]
        self.requests: list[str] = []
        self.tunnels = 0
        self._start(self._listen)

    @property
    def url(self) -> str:
        return f"{'http' if self._tls is None else 'https'}://127.0.0.1:{self.port}"

    def close(self) -> None:
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(10)
        for each in self._sockets:
            each.close()

    def _start(self, target: object, *arguments: object) -> None:
        thread = threading.Thread(target=self._guarded, args=(target, *arguments), daemon=True)
        self._threads.append(thread)
        thread.start()

    def _guarded(self, target: object, *arguments: object) -> None:
        assert callable(target)
        with suppress(OSError):
            target(*arguments)

    def _listen(self) -> None:
        while True:
            client, _ = self._listener.accept()
            self._sockets.append(client)
            self._start(self._serve, client)

    def _serve(self, client: socket.socket) -> None:
        if self._tls is not None:
            client = self._tls.wrap_socket(client, server_side=True)
            self._sockets.append(client)
        try:
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                head += client.recv(1) or self._gone()
            self.requests.append(head.decode("latin-1"))
            server = self._tunnel(self.requests[-1], client)
            if server is not None:
                self._sockets.append(server)
                self.tunnels += 1
                client.sendall(b"HTTP/1.1 200 Connection established\r\nVia: test\r\n\r\n")
                self._start(self._copy, client, server)
                self._copy(server, client)
        finally:
            with suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)

    def _tunnel(self, head: str, client: socket.socket) -> socket.socket | None:
        """A socket to where the request asks for; None when it was refused."""
        line, *lines = head.split("\r\n")
        headers = {name.lower(): value for name, _, value in (each.partition(": ") for each in lines)}
        method, where, version = line.split(" ")
        if self._answer is not None:
            client.sendall(self._answer)
            return None
        if method != "CONNECT" or version != "HTTP/1.1" or headers.get("host") != where:
            client.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
            return None
        if self._authorization is not None and headers.get("proxy-authorization") != self._authorization:
            client.sendall(
                b'HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm="test"\r\n'
                b"Content-Length: 6\r\n\r\nlogin\n"
            )
            return None
        host, _, port = where.rpartition(":")
        try:
            return socket.create_connection((host.strip("[]"), int(port)), timeout=10)
        except OSError:
            client.sendall(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
            return None

    def _copy(self, source: socket.socket, target: socket.socket) -> None:
        try:
            source.settimeout(None)
            while data := source.recv(65536):
                target.sendall(data)
        finally:
            with suppress(OSError):
                target.shutdown(socket.SHUT_WR)

    @staticmethod
    def _gone() -> bytes:
        raise ConnectionResetError


@contextmanager
def connect_proxy(
    user: str | None = None, password: str = "", tls: ssl.SSLContext | None = None, answer: bytes | None = None
) -> Iterator[ConnectProxy]:
    """A proxy until the block is left."""
    proxy = ConnectProxy(user, password, tls, answer)
    try:
        yield proxy
    finally:
        proxy.close()
