"""AMQP URLs: `amqp://user:password@host:port`, `amqps://...`, WebSockets as `ws://host:port/path?query` and `wss://...`,
and Unix sockets as `amqp+unix:///path/of.sock`.

User and password are percent-decoded, and are for SASL with every scheme. A path after the host is the virtual host, as
in RabbitMQ's URIs (%2F is a slash). The path and query of a WebSocket are for the HTTP server.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address
from urllib.parse import SplitResult, quote, unquote, urlsplit

from .._arguments import without_secrets

PORTS = {"amqp": 5672, "amqps": 5671, "amqp+unix": 0, "ws": 80, "wss": 443}
"""The schemes and their default TCP ports; 0 for a scheme without TCP.

For another transport, see "How to add…" in CONTRIBUTING.md.
"""

_NAME = re.compile(r"(?!.{254})([a-z0-9_-]{1,63}\.)*[a-z0-9_-]{1,63}\.?", re.IGNORECASE | re.ASCII)
_ZONE = re.compile(r"[a-z0-9._~-]{1,64}", re.IGNORECASE | re.ASCII)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The parsed parts of a URL.

    Attributes:
        scheme: "amqp", "amqps", "amqp+unix", "ws" or "wss".
        host: name or address, without brackets; "" for a Unix socket.
        port: the TCP port; 0 for a Unix socket.
        user, password: percent-decoded; None if the URL has none.
        path: the URL's path, percent-decoded and without its leading slash; the socket's path for a Unix socket.
        name: the host's name for TLS and the open, if a redirect gives another than `host`, or `host` has a zone.
        target: path and query for the HTTP server of a WebSocket, as written; "" otherwise.

    Raises:
        ValueError: `host` or `name` is not a host name or IP address, `port` is not in 1..65535, or `path` has a NUL.
    """

    scheme: str
    host: str
    port: int
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    path: str = ""
    target: str = field(default="", repr=False)  # the query may have a token
    name: str | None = None

    def __post_init__(self) -> None:
        if self.unix:
            if "\0" in self.path:
                raise ValueError(f"the path {without_secrets(self.path)} of a Unix socket must not have a NUL")
            return
        check_host(self.host)
        if self.name is not None:
            check_host(self.name, "name")
        if not 0 < self.port < 65536:
            raise ValueError(f"the port must be in 1..65535, not {self.port}")

    @property
    def tls(self) -> bool:
        return self.scheme in ("amqps", "wss")

    @property
    def websocket(self) -> bool:
        return self.scheme in ("ws", "wss")

    @property
    def unix(self) -> bool:
        return self.scheme == "amqp+unix"

    @property
    def loopback(self) -> bool:
        """Whether the connection stays on this machine."""
        return self.unix or is_loopback(self.host)

    def called(self, hostname: str) -> bool:
        """Return whether `hostname` is another spelling of the host, such as "localhost"; no name is looked up."""
        hostname = hostname.lower()
        return hostname in (self.host.lower(), (self.name or self.host).lower()) or (
            self.loopback and is_loopback(hostname)
        )

    @property
    def authority(self) -> str:
        """Host and port as in URLs and HTTP: in ASCII, and without the zone, which only this machine knows."""
        host = _ascii(self.host.partition("%")[0])
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"

    def __str__(self) -> str:
        if self.unix:
            return f"{self.scheme}://{visible(self.path)}"
        return f"{self.scheme}://{self.authority}{self.target.partition('?')[0]}"


def visible(text: str, keep: str = "") -> str:
    """Return text from elsewhere with control and other invisible characters escaped.

    Args:
        keep: characters to leave unchanged, such as line breaks.
    """
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or char in keep else char.encode("unicode_escape").decode() for char in text
    )


def check_host(host: str, what: str = "host") -> None:
    """Refuse a host that could inject text into a URL, an HTTP header, TLS or a log.

    Args:
        what: the name of the argument, for the error.

    Raises:
        ValueError: `host` is neither an IP address nor a name of letters, digits, "-", "_" and ".", of at most 253
            characters.
    """
    if ":" in host:
        with suppress(ValueError):
            address = ip_address(host)
            if not isinstance(address, IPv6Address) or address.scope_id is None or _ZONE.fullmatch(address.scope_id):
                return
    elif len(host) <= 254:
        with suppress(ValueError):
            if _NAME.fullmatch(_ascii(host)):
                return
    raise ValueError(
        f"the {what} {without_secrets(host)} is not a host: give a name of letters, digits, '-', '_' and '.', or an "
        "IP address, without port, brackets or blanks"
    )


def same_host(one: str, other: str) -> bool:
    """Return True if two hosts, names or addresses, are certainly the same; no name is looked up."""
    return _canonical(one) == _canonical(other) or (is_loopback(one) and is_loopback(other))


def _canonical(host: str) -> str:
    try:
        return str(ip_address(host))
    except ValueError:
        return _ascii(host).lower().removesuffix(".")


def _ascii(host: str) -> str:
    """Return a host in the form of DNS (RFC 5891); raise UnicodeError, a ValueError, if it has no such form."""
    if host.isascii():
        return host
    import idna  # which anyio needs, too

    return idna.encode(host, uts46=True).decode()


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine, by its name or address; no name is looked up."""
    if host == "localhost":
        return True
    try:
        address = ip_address(host.strip("[]"))
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback


def _split(url: str) -> tuple[SplitResult, str, int | None]:
    """Parse the URL, its host and its port, without errors of `urllib`, which may quote the password."""
    with suppress(ValueError):
        parts = urlsplit(url)
        # An @ behind the host means that the password has a slash, and that "host" is the user.
        if parts.username is not None or not parts.netloc or "@" not in parts.path + parts.query + parts.fragment:
            return parts, parts.hostname or "", parts.port
    raise ValueError(
        "not a URL: the port must be a number up to 65535, an IPv6 address must be in brackets, and / ? # [ ] @ : in a "
        "user name or password are written as %2F %3F %23 %5B %5D %40 %3A"
    )


def parse_url(url: str) -> Endpoint:
    """Parse a URL.

    Raises:
        ValueError: `url` is not an AMQP URL. The message never has the password.
    """
    if "sb://" in url and "endpoint=" in url.lower():
        raise ValueError(
            "this is an Azure connection string, not a URL: use it with ServiceBus and EventHub of amqp10.azure; or "
            "connect to amqps://NAMESPACE.servicebus.windows.net, with tokens=CbsTokens(SasKey(NAME, KEY))"
        )
    if "://" not in url:
        raise ValueError("an AMQP URL must begin with amqp://, amqps://, amqp+unix://, ws:// or wss://")
    parts, host, port = _split(url)
    if parts.scheme not in PORTS:
        raise ValueError(f"the scheme {without_secrets(parts.scheme)} is not one of {', '.join(PORTS)}")
    websocket = parts.scheme in ("ws", "wss")
    if (parts.query and not websocket) or parts.fragment:
        raise ValueError(
            "this URL must not have a fragment, or a query unless it is for WebSockets; give settings as arguments"
        )
    user = unquote(parts.username) if parts.username is not None else None
    password = unquote(parts.password) if parts.password is not None else None
    if user == "":
        raise ValueError("the user name in the URL must not be empty")
    if parts.scheme == "amqp+unix":
        if host or port is not None:
            raise ValueError("the URL of a Unix socket must have a path and no host: amqp+unix:///path/of.sock")
        if not parts.path:
            raise ValueError("the path of the Unix socket is missing: amqp+unix:///path/of.sock")
        return Endpoint("amqp+unix", "", 0, user, password, unquote(parts.path))
    if not host:
        raise ValueError("the URL must have a host, such as amqp://host")
    host = unquote(host)
    return Endpoint(
        parts.scheme,
        host,
        port if port is not None else PORTS[parts.scheme],
        user,
        password,
        unquote(parts.path).removeprefix("/"),
        _target(parts) if websocket else "",
        # A certificate is for the address without its zone.
        host.partition("%")[0] if "%" in host else None,
    )


def _target(parts: SplitResult) -> str:
    """Return path and query for HTTP, with blanks and non-ASCII characters percent-encoded."""
    query = f"?{parts.query}" if parts.query else ""
    return quote((parts.path or "/") + query, safe="%/?:@!$&'()*+,;=-._~[]")
