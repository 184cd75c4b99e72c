"""A dialect: one protocol's engine under a name, found by that name or by the bytes that open a connection."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from .._arguments import without_secrets
from ..errors import AmqpError, RemoteProtocolError, Unsupported

if TYPE_CHECKING:
    from ..sasl import Authenticator, Mechanism
    from ._protocol import Engine
    from ._terms import ConnectionTerms


HEADER_SIZE = 8
_AMQP = b"AMQP"
_FAST = b"\x80"
_TLS_RECORDS = (b"\x15\x03", b"\x16\x03")  # how an alert and a handshake begin (RFC 8446 §5.1)
_HTTP = b"HTTP/"

OTHER_PROTOCOLS = (*_TLS_RECORDS, _HTTP)
"""How servers begin that speak no AMQP at all, where no dialect's server can begin so."""


def is_a_header(start: bytes) -> bool:
    """Return whether octets begin as a protocol header: that of any AMQP, or the two octets of AMQP/Fast."""
    return start[: len(_AMQP)] == _AMQP or start[:1] == _FAST


TOKENS: Final = "$cbs"
"""The node that takes security tokens in the bodies of messages (AMQP Claims-based Security 1.0 §3.1)."""


MANAGEMENT: Final = "/management"
"""RabbitMQ's management node, to which each request says in `to` what it is about."""


LINK_PAIR: Final = "LINK_PAIR_V1_0"
"""The capability of a peer that pairs links (AMQP Request-Response Messaging with Link Pairing 1.0)."""


def takes_tokens(address: object) -> bool:
    """Return whether an address, a routing key or the like leads to `$cbs` or `/auth/tokens`, which take secrets."""
    return isinstance(address, str) and unquote(address).endswith((TOKENS, "/auth/tokens"))


def foreign_header(octets: bytes) -> AmqpError:
    """Return the error for a peer whose first octets begin no dialect that was asked for, with what to try instead."""
    header = octets[:HEADER_SIZE]
    if is_a_header(header):
        return Unsupported(f"the peer speaks another protocol: its header is {header.hex(' ')}{_spoken_by(header)}")
    guess = ""
    if header[:2] in _TLS_RECORDS:
        guess = ". That is TLS: the URL of a port with TLS begins with amqps:// (or wss://)"
    elif header[: len(_HTTP)] == _HTTP:
        guess = ". That is an HTTP server: AMQP over WebSockets has URLs that begin with ws:// or wss://"
    return RemoteProtocolError(f"the peer does not speak AMQP: it began with {header!r}{guess}")


def _spoken_by(header: bytes) -> str:
    if header[:5] == b"AMQP\2":
        return " (TLS comes first there: amqps://, or tls_upgrade=True)"
    names = [one.name for one in dialects() if any(header.startswith(each) for each in one.headers)]
    return f" (dialect {names[0]!r})" if names else ""


class Tracer(ABC):
    """Reads what crosses one connection, beside its engine, and says it in lines for people. Secrets stay out."""

    @abstractmethod
    def sent(self, data: bytes) -> list[str]:
        """Return the lines that these bytes complete, of what this side writes; never raises."""

    @abstractmethod
    def received(self, data: bytes) -> list[str]:
        """Return the lines that these bytes complete, of what the peer writes; never raises."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """What a dialect's package exports as `DIALECT`.

    Attributes:
        name: what users write in `Connection(dialect=...)`.
        headers: the protocol headers with which a peer may begin this dialect; the first is preferred.
        capabilities: those of `CAPABILITIES` that its engine has.
        client: makes a client engine from (terms, mechanisms that the credentials allow, or None for no SASL layer,
            whether a secret may cross the transport as it is: TLS, loopback or a Unix socket).
        server: makes a server engine from (terms, authenticator).
        tracer: makes a tracer from (whether it shows the beginning of bodies).
        analysis: "module:name" of its `TraceAnalysis`, which reads the tracer's lines; None: it has none.
        greeting: where in the first octets of a server, and what, each in its turn, shows that it speaks this; None: it
            answers a header with the same.
        native: "module:name" of what makes `Connection.native` of a connection; None for a dialect that has none.
        later: the last octet of its header is the highest version that a client speaks, and a server names its own: it
            takes clients of later versions, too.
        vhost_prefix: what stands before the name of a virtual host in the hostname of an open; None: the dialect has a
            field for that name.
        tls_header: it has a protocol header that asks for TLS first (1.0: §5.2.1).
        automatic: `dialect="auto"` may choose it; False: it is spoken only where it is named, as a draft is.
    """

    name: str
    headers: tuple[bytes, ...]
    capabilities: frozenset[str]
    client: Callable[[ConnectionTerms, tuple[Mechanism, ...] | None, bool], Engine]
    server: Callable[[ConnectionTerms, Authenticator], Engine]
    tracer: Callable[[bool], Tracer]
    analysis: str | None = None
    greeting: tuple[tuple[int, bytes], ...] | None = None
    native: str | None = None
    later: bool = False
    vhost_prefix: str | None = None
    tls_header: bool = False
    automatic: bool = True

    def spoken(self, answer: bytes) -> bool | None:
        """Return whether the first bytes of the server's answer show that it speaks this dialect; None: not known yet.

        A server that does not speak it answers with the header of another dialect, or with nothing (§2.2).
        """
        if self.greeting is not None:
            for at, octets in self.greeting:
                seen = answer[at : at + len(octets)]
                if seen != octets:
                    return None if octets.startswith(seen) else False
            return True
        start = answer[: len(_AMQP)]
        if start != _AMQP[: len(start)]:
            return False
        return answer[:HEADER_SIZE] in self.headers if len(answer) >= HEADER_SIZE else None


# "module:name", imported on first use only: a program that speaks one dialect loads one.
_MODULES = {
    "1.0": "amqp10.dialects.v1_0:DIALECT",
    "0-10": "amqp10.dialects.v0_10:DIALECT",
    "0-9-1": "amqp10.dialects.v0_9:DIALECT",
    "0-9": "amqp10.dialects.v0_9:FINAL",
    "0-9-draft": "amqp10.dialects.v0_9:DRAFT",
    "fast": "amqp10.dialects.fast:DIALECT",
}


def register_dialect(name: str, where: str) -> None:
    """Make another dialect known by a name, in this process; where dialects are tried in turn, it comes last.

    Args:
        name: what users write in `Connection(dialect=...)`.
        where: "module:NAME" of its `Dialect`.

    Raises:
        ValueError: the name is taken, or `where` is not of the form "module:NAME".
    """
    if name in _MODULES or ":" not in where:
        raise ValueError(f"the dialect {name!r} is registered already, or {where!r} is not module:NAME")
    _MODULES[name] = where


def dialect(name: str) -> Dialect:
    """Return the dialect with the name `name`.

    Raises:
        Unsupported: there is no dialect of that name.
    """
    try:
        module, _, attribute = _MODULES[name].partition(":")
    except KeyError:
        raise Unsupported(
            f"there is no dialect {without_secrets(name)}; the dialects are {', '.join(map(repr, _MODULES))}"
        ) from None
    found: Dialect = getattr(import_module(module), attribute)
    return found


def dialect_names() -> list[str]:
    """Return the names of all dialects, the preferred one first."""
    return list(_MODULES)


def dialects() -> list[Dialect]:
    """Return all dialects, the preferred one first."""
    return [dialect(name) for name in _MODULES]
