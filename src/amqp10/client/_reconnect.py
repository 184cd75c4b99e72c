"""What a connection does about its loss: settings, and the decisions that need no connection to be made.

`Reconnect` is the user's word. Which losses are worth another attempt, and where else the peer says to go, is here too.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from ..errors import (
    AmqpError,
    AuthenticationFailed,
    ConnectionClosed,
    ConnectionLost,
    LinkDetached,
    RedirectRefused,
    RequestRefused,
    SessionEnded,
)
from ..net import PORTS, Endpoint, backoff, check_host, same_host
from ..net import parse_url as parse_url

if TYPE_CHECKING:
    from ..net import TLSSettings
    from ._settings import SASLSettings

Order = Literal["ordered", "random"]
OnUncertain = Literal["resend", "raise"]
OnStale = Literal["raise", "ignore"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconnect:
    """How to stay up: `Connection(urls, reconnect=Reconnect())`.

    A round tries each host once; between rounds there is a pause, which grows from `initial_delay` to `max_delay`. A
    loss is followed by such a pause, too. Sessions and links come back by themselves, a link that only the peer
    detached among them; what each call does meanwhile is said in "What happens when".

    Attributes:
        initial_delay, max_delay: the shortest and the longest pause, seconds.
        multiplier: by how much the pause grows with each round.
        jitter: the part of a pause that is left to chance, 0 to 1.
        attempts: rounds after a loss before it is given up; `math.inf` for no end.
        max_time: seconds after a loss before it is given up.
        first_attempts, first_max_time: the same for the first connection; 1 round unless said.
        attempt_timeout: seconds that one attempt may take, from connecting to the peer's open.
        order: "ordered": each round begins with the first host; "random": each round has an order of its own.
        follow_alternatives: go where the peer says: to the hosts that its open names for failover, and where a
            redirect leads (§2.8.16, §2.8.18), as far as `redirect_hosts` allows. Never from TLS to a host without it.
        redirect_hosts: hosts beside those of the URLs where the peer may send the connection or a link, at any port,
            for the login goes there, too: names, addresses, "*.example.com" for every name below example.com, "*" for
            any host.
        on_uncertain: what to do with a message of which it is not known whether it arrived: "resend" it, so that it
            may be there twice, or "raise" `DeliveryUncertain` where its outcome is waited for.
        on_stale: settling a delivery that the peer did not resume: "raise" `StaleDelivery`, or "ignore" it.
        resume_timeout: seconds that the peer is asked to keep a link's state without its connection, so that it can be
            resumed (§2.6.13); 0 to ask for nothing. While it does, what the link holds goes to nobody else.
        declare_again: queues, exchanges and bindings that were declared by `connection.native` are declared again
            before links are attached again.

    Raises:
        ValueError: a number or word that is none of these.
    """

    initial_delay: float = 0.1
    max_delay: float = 30.0
    multiplier: float = 2.0
    jitter: float = 0.5
    attempts: float = math.inf
    max_time: float = math.inf
    first_attempts: float = 1
    first_max_time: float = math.inf
    attempt_timeout: float = 20.0
    order: Order = "ordered"
    follow_alternatives: bool = True
    redirect_hosts: Sequence[str] = ()
    on_uncertain: OnUncertain = "resend"
    on_stale: OnStale = "raise"
    resume_timeout: int = 60
    declare_again: bool = True

    def __post_init__(self) -> None:
        for name, words in (("order", Order), ("on_uncertain", OnUncertain), ("on_stale", OnStale)):
            if getattr(self, name) not in get_args(words):
                raise ValueError(f"{name} is one of {', '.join(get_args(words))}, not {getattr(self, name)!r}")
        if not 0 < self.initial_delay <= self.max_delay < math.inf:
            raise ValueError("0 < initial_delay <= max_delay, and both have an end")
        if self.multiplier < 1 or not 0 <= self.jitter <= 1:
            raise ValueError("multiplier is 1 at least, jitter 0 to 1")
        if min(self.attempts, self.first_attempts) < 1 or min(self.max_time, self.first_max_time) <= 0:
            raise ValueError("there is one attempt at least, and time for it")
        if self.attempt_timeout <= 0 or not 0 <= self.resume_timeout <= 0xFFFF_FFFF:
            raise ValueError("attempt_timeout is positive, and resume_timeout 0 to 2**32 - 1")
        if isinstance(self.redirect_hosts, str):
            raise ValueError(f"redirect_hosts is a sequence of hosts, not one string: [{self.redirect_hosts!r}]")
        for host in self.redirect_hosts:
            if host != "*":
                check_host(host.removeprefix("*."), "member of redirect_hosts")

    def delay(self, failures: int, chance: float) -> float:
        """The pause after so many rounds without success; `chance` is from [0, 1)."""
        return backoff(failures, self.initial_delay, self.max_delay, self.multiplier, self.jitter, chance)


@dataclass(frozen=True, slots=True)
class ConnectionDetails:
    """Where to connect to, and as whom: what a callable in place of the URL returns for each attempt.

    Attributes:
        url: as for `Connection`.
        sasl, tls: as for `Connection`; None: as they were given there.
    """

    url: str = field(repr=False)
    sasl: SASLSettings = None
    tls: TLSSettings | None = None


Address = str | Sequence[str] | Callable[[], str | ConnectionDetails | Awaitable[str | ConnectionDetails]]
"""Where a connection leads: a URL, several of them, or what says it anew for each attempt."""


# Conditions after which the same attempt would end the same way.
_HOPELESS: Final = frozenset(
    {
        "amqp:decode-error",
        "amqp:frame-size-too-small",
        "amqp:illegal-state",
        "amqp:invalid-field",
        "amqp:not-allowed",
        "amqp:not-implemented",
        "amqp:precondition-failed",
        "amqp:unauthorized-access",
        "amqp:connection:framing-error",
        "amqp:session:errant-link",
        "amqp:session:handle-in-use",
        "amqp:session:unattached-handle",
        "amqp:session:window-violation",
        "amqp:link:message-size-exceeded",
        "amqp:link:redirect",
        "amqp:link:stolen",
        "amqp:link:transfer-limit-exceeded",
    }
)
MOST_ALTERNATIVES: Final = 64
"""Hosts for failover that are taken of a peer's list."""

TEMPORARY: Final = 4
"""The code of a SASL outcome that says to try again (§5.3.3.6 "sys-temp")."""


def hopeless(error: ConnectionClosed | SessionEnded | LinkDetached | RequestRefused) -> bool:
    """Whether its condition says that the same attempt would end the same way."""
    return str(error.condition) in _HOPELESS


def passing(error: AmqpError | None, *, credentials_anew: bool = False) -> bool:
    """Whether what ended a connection, session or link may be over at the next attempt.

    An end without an error is one, of idle links for instance; so is a resource that is not there, for it may come
    back. What this side or the peer does wrong stays wrong.

    Args:
        credentials_anew: the next attempt has other credentials.
    """
    if isinstance(error, AuthenticationFailed):
        return credentials_anew or error.code == TEMPORARY
    if isinstance(error, ConnectionClosed | SessionEnded | LinkDetached):
        return not hopeless(error)
    return isinstance(error, ConnectionLost)


def redirect(error: Exception | None, came_from: Endpoint, check: Callable[[Endpoint], None]) -> Endpoint | None:
    """Return where a redirect leads (§2.8.16, §2.8.18): None where the error is none, or names no host.

    Args:
        check: raises ValueError for where the connection may not go.

    Raises:
        RedirectRefused: it leads where the connection may not go.
    """
    if not isinstance(error, ConnectionClosed | LinkDetached):
        return None
    if error.condition not in ("amqp:connection:redirect", "amqp:link:redirect"):
        return None
    try:
        there = _alternative(error.info, came_from)
        if there is not None:
            check(there)
    except ValueError as reason:
        raise RedirectRefused(
            f"{came_from} redirects, and that is not followed: {reason}", _host(error.info)
        ) from error
    return there


def failover_hosts(
    properties: Mapping[Any, Any], came_from: Endpoint, check: Callable[[Endpoint], None]
) -> tuple[list[Endpoint], list[str]]:
    """Return the hosts that a peer's open names for failover, and why others of them are left out.

    They are in its property "failover-server-list", maps as in a redirect; of a long list the first are taken.

    Args:
        check: raises ValueError for where the connection may not go.
    """
    listed = properties.get("failover-server-list")
    found: list[Endpoint] = []
    refused: list[str] = []
    for each in listed[:MOST_ALTERNATIVES] if isinstance(listed, list | tuple) else ():
        try:
            there = _alternative(each, came_from) if isinstance(each, Mapping) else None
            if there is not None:
                check(there)
                found.append(there)
        except ValueError as reason:
            refused.append(str(reason))
    return found, refused


def check_redirect_host(host: str, named: Iterable[str], allowed: Iterable[str]) -> None:
    """Refuse a host where the login may not go.

    Args:
        named: the hosts that the user named by URLs.
        allowed: `Reconnect.redirect_hosts`.

    Raises:
        ValueError: it is neither named nor allowed.
    """
    if any(same_host(host, each) for each in named):
        return
    for each in allowed:
        if each == "*" or (host.lower().endswith(each[1:].lower()) if each[0] == "*" else same_host(host, each)):
            return
    raise ValueError(
        f"the host {host!r} is in none of the connection's URLs; if the login may go there, allow it by "
        f"Reconnect(redirect_hosts=[{host!r}])"
    )


def _host(info: Mapping[Any, Any]) -> Any:
    return info.get("network-host") or info.get("hostname")


def _alternative(info: Mapping[Any, Any], came_from: Endpoint) -> Endpoint | None:
    """Return the endpoint that the peer names; None where it names none.

    Raises:
        ValueError: its host is none, or it leads out of TLS.
    """
    host = _host(info)
    port, scheme = info.get("port"), info.get("scheme", came_from.scheme)
    if not isinstance(host, str) or not host or came_from.unix:
        return None
    if not isinstance(scheme, str) or scheme not in ("amqp", "amqps", "ws", "wss"):
        return None
    if came_from.tls and scheme not in ("amqps", "wss"):
        raise ValueError(f"{scheme}:// at {host!r} has no TLS, and {came_from.scheme}:// has")
    if not isinstance(port, int) or isinstance(port, bool) or not 0 < port < 65536:
        port = PORTS[scheme] if scheme != came_from.scheme else came_from.port
    name = info.get("hostname")
    return replace(came_from, scheme=scheme, host=host, port=port, name=name if isinstance(name, str) else None)
