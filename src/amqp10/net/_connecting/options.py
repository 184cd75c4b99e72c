"""The route to a peer: proxy, TLS upgrade and WebSocket settings, and checks that they fit together."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from ..._arguments import checked
from .._streams.base import TLSSettings
from .._url import check_host

if TYPE_CHECKING:
    from .._url import Endpoint

_PROXY_PORTS: Final = {"http": 80, "https": 443}


@checked
@dataclass(frozen=True, slots=True)
class WebSocket:
    """Settings of the HTTP request of a WebSocket, for `ws://` and `wss://` URLs.

    Attributes:
        subprotocol: the name that the server must accept: "amqp" (OASIS AMQP WebSocket Binding), or that of an older
            server, such as "AMQPWSB10".
        headers: further headers, such as a token or an Origin; never shown.
    """

    subprotocol: str = "amqp"
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        check_headers({**self.headers, "Sec-WebSocket-Protocol": self.subprotocol})


@checked
@dataclass(frozen=True, slots=True)
class Proxy:
    """An HTTP proxy that opens tunnels by CONNECT, and looks up the peer's name.

    Attributes:
        url: http:// or https:// (TLS to the proxy, too). Its user and password are for the proxy (Basic), and are
            omitted from `str(proxy)`.
        tls: for an https:// proxy, how to verify its certificate; None for the system's authorities.
        headers: further headers of the request; never shown.

    Raises:
        ValueError: the URL is not a proxy's. The message never has the password.
    """

    url: str = field(repr=False)
    tls: TLSSettings | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    secure: bool = field(init=False)
    host: str = field(init=False)
    port: int = field(init=False)

    def __post_init__(self) -> None:
        check_headers(self.headers)
        try:
            parts = urlsplit(self.url)
            scheme, host, port = parts.scheme, parts.hostname, parts.port
        except ValueError:
            scheme, host, port = "", None, None
        if scheme not in _PROXY_PORTS or not host or parts.path not in ("", "/") or parts.query or parts.fragment:
            raise ValueError(
                "proxy must be http://host:port or https://host:port, with user:password@ before the host if it needs "
                "a login (and / ? # @ : in these are written as %2F %3F %23 %40 %3A)"
            ) from None
        host = unquote(host)
        check_host(host, "proxy's host")
        if self.tls is not None and scheme == "http":
            raise ValueError(
                "the tls of a proxy is for https:// proxies; the peer's tls is an argument of the connection"
            )
        object.__setattr__(self, "secure", scheme == "https")
        object.__setattr__(self, "host", host)
        object.__setattr__(self, "port", port if port is not None else _PROXY_PORTS[scheme])

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.secure else 'http'}://{host}:{self.port}"

    @property
    def authorization(self) -> str | None:
        """The value of Proxy-Authorization (RFC 7617); None if the URL has no user."""
        parts = urlsplit(self.url)
        if parts.username is None:
            return None
        login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        return f"Basic {b64encode(login.encode()).decode()}"


@dataclass(frozen=True, slots=True)
class TransportOptions:
    """The route to a peer.

    Attributes:
        proxy: the proxy to connect through, if any.
        tls_upgrade: begin without TLS, and start it by AMQP's own protocol header (§5.2.1).
        websocket: settings of a WebSocket; None for the defaults.
    """

    proxy: Proxy | None = None
    tls_upgrade: bool = False
    websocket: WebSocket | None = None

    def check(self, endpoint: Endpoint, tls: TLSSettings | None) -> None:
        """Check that the route fits the endpoint and `tls`.

        Raises:
            ValueError: they do not fit together.
        """
        if endpoint.unix and (tls is not None or self.tls_upgrade):
            raise ValueError("a Unix socket cannot use TLS: leave tls out")
        if endpoint.unix and self.proxy is not None:
            raise ValueError("proxy cannot be used with a Unix socket: leave it out")
        if self.proxy is not None and "%" in endpoint.host:
            raise ValueError(f"the zone in {endpoint.host!r} is valid only on this machine: a proxy cannot use it")
        if self.tls_upgrade and endpoint.scheme != "amqp":
            raise ValueError(f"tls_upgrade is for amqp:// URLs: {endpoint.scheme}:// begins TLS in its own way")
        if self.websocket is not None and not endpoint.websocket:
            raise ValueError("settings for a WebSocket need a ws:// or wss:// URL")


def check_headers(headers: Mapping[str, str]) -> None:
    """Refuse headers that could inject other headers.

    Raises:
        ValueError: a name is not a token, or a value has a line break or no Latin-1 form. The message never has the
            value.
    """
    for name, value in headers.items():
        token = name.isascii() and name and all(char.isalnum() or char in "!#$%&'*+-.^_`|~" for char in name)
        if not token or any(ord(char) > 255 or char in "\r\n\0" for char in value):
            raise ValueError(f"not an HTTP header: {name!r}")
