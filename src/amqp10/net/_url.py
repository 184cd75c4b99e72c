"""AMQP URLs: `amqp://user:password@host:port`, `amqps://...`, WebSockets as `ws://host:port/path?query` and `wss://...`,
and Unix sockets as `amqp+unix:///path/of.sock`.

User and password are percent-decoded, and for SASL whatever the scheme. A path after the host is the virtual host, as
in RabbitMQ's URIs (%2F is a slash). That of a WebSocket, and its query, are the HTTP server's.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address
from urllib.parse import SplitResult, quote, unquote, urlsplit

PORTS = {"amqp": 5672, "amqps": 5671, "amqp+unix": 0, "ws": 80, "wss": 443}
"""The TCP port of each scheme that there is, when a URL names none; 0 for what is no TCP."""

_NAME = re.compile(r"(?!.{254})([a-z0-9_-]{1,63}\.)*[a-z0-9_-]{1,63}\.?", re.IGNORECASE | re.ASCII)
_ZONE = re.compile(r"[a-z0-9._~-]{1,64}", re.IGNORECASE | re.ASCII)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a URL leads, and as whom.

    Attributes:
        scheme: "amqp", "amqps", "amqp+unix", "ws" or "wss".
        host: name or address, without brackets; "" for a Unix socket.
        port: TCP port; 0 for a Unix socket.
        user, password: percent-decoded; None where the URL has none.
        path: of the URL, percent-decoded and without its leading slash; of a Unix socket, the socket's.
        name: what TLS and the open call the host, if a redirect says other than `host`, or `host` has a zone.
        target: what to ask the HTTP server of a WebSocket for: path and query as they were written; "" otherwise.

    Raises:
        ValueError: `host` or `name` is no host name or IP address, `port` is not in 1..65535, or `path` has a NUL.
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
                raise ValueError(f"the path {self.path!r} of a Unix socket must not have a NUL")
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
        """Nothing beyond this machine sees what is said there."""
        return self.unix or is_loopback(self.host)

    def called(self, hostname: str) -> bool:
        """Return whether a name only spells the host in another way, as "localhost" does; no name is looked up."""
        hostname = hostname.lower()
        return hostname in (self.host.lower(), (self.name or self.host).lower()) or (
            self.loopback and is_loopback(hostname)
        )

    @property
    def authority(self) -> str:
        """Host and port as URLs and HTTP write them: in ASCII, and without the zone, which only this machine knows."""
        host = _ascii(self.host.partition("%")[0])
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"

    def __str__(self) -> str:
        if self.unix:
            return f"{self.scheme}://{visible(self.path)}"
        return f"{self.scheme}://{self.authority}{self.target.partition('?')[0]}"


def visible(text: str, keep: str = "") -> str:
    """Return text that came from elsewhere with what a terminal would obey, or show as something else, escaped.

    Args:
        keep: characters that stay as they are: line breaks, for instance.
    """
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or char in keep else char.encode("unicode_escape").decode() for char in text
    )


def check_host(host: str, what: str = "host") -> None:
    """Refuse a host that would mean more than a host in a URL, an HTTP header, TLS or a log.

    Args:
        what: the argument, for the error.

    Raises:
        ValueError: it is neither an IP address nor a name of letters, digits, "-", "_" and ".", 253 characters at most.
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
    shown = host if len(host) <= 254 else host[:64] + "..."
    raise ValueError(
        f"the {what} {shown!r} is not a host: give a name of letters, digits, '-', '_' and '.', or an IP address, "
        "without port, brackets or blanks"
    )


def same_host(one: str, other: str) -> bool:
    """Return whether two hosts, each a name or an address, are surely one; no name is looked up."""
    return _canonical(one) == _canonical(other) or (is_loopback(one) and is_loopback(other))


def _canonical(host: str) -> str:
    try:
        return str(ip_address(host))
    except ValueError:
        return _ascii(host).lower().removesuffix(".")


def _ascii(host: str) -> str:
    """Return a host as DNS writes it (RFC 5891); raise UnicodeError, a ValueError, if it has no such form."""
    if host.isascii():
        return host
    import idna  # which anyio needs, too

    return idna.encode(host, uts46=True).decode()


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine by its name or address; other names are not looked up."""
    if host == "localhost":
        return True
    try:
        address = ip_address(host.strip("[]"))
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback


def _split(url: str) -> tuple[SplitResult, str, int | None]:
    """Parse the URL, its host and its port; errors of `urllib` may quote the password, so they end here."""
    with suppress(ValueError):
        parts = urlsplit(url)
        # An @ behind the host is one whose password has a slash, and "host" its user.
        if parts.username is not None or not parts.netloc or "@" not in parts.path + parts.query + parts.fragment:
            return parts, parts.hostname or "", parts.port
    raise ValueError(
        "not a URL: the port must be a number up to 65535, an IPv6 address must be in brackets, and / ? # [ ] @ : in a "
        "user name or password are written as %2F %3F %23 %5B %5D %40 %3A"
    )


def parse_url(url: str) -> Endpoint:
    """Take a URL apart.

    Raises:
        ValueError: it is not a URL of this kind; the message never has the password.
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
        raise ValueError(f"the scheme {parts.scheme!r} is not one of {', '.join(PORTS)}")
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
        # A certificate is for an address, whatever the interface that leads to it.
        host.partition("%")[0] if "%" in host else None,
    )


def _target(parts: SplitResult) -> str:
    """Path and query as HTTP wants them: what is not ASCII, or a blank, percent-encoded."""
    query = f"?{parts.query}" if parts.query else ""
    return quote((parts.path or "/") + query, safe="%/?:@!$&'()*+,;=-._~[]")
