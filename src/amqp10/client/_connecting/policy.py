"""Decide what to do about an end: whether another attempt is worth it, and to which host the peer sends us."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from ...errors import (
    AmqpError,
    AuthenticationFailed,
    ConnectionClosed,
    ConnectionLost,
    LinkDetached,
    RedirectRefused,
    RequestRefused,
    SessionEnded,
)
from ...net import PORTS, Endpoint, same_host

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
MAX_ALTERNATIVES: Final = 64
"""Hosts for failover that are taken of a peer's list."""

TEMPORARY: Final = 4
"""The code of a SASL outcome that says to try again (§5.3.3.6 "sys-temp")."""


def is_permanent(error: ConnectionClosed | SessionEnded | LinkDetached | RequestRefused) -> bool:
    """Return whether the condition says that the same attempt would end the same way."""
    return str(error.condition) in _HOPELESS


def is_transient(error: AmqpError | None, *, credentials_anew: bool = False) -> bool:
    """Return whether what ended a connection, session or link may be over at the next attempt.

    An end without an error is one, of idle links for instance; so is a resource that is not there, for it may come
    back. What this side or the peer does wrong stays wrong.

    Args:
        credentials_anew: the next attempt has other credentials.
    """
    if isinstance(error, AuthenticationFailed):
        return credentials_anew or error.code == TEMPORARY
    if isinstance(error, ConnectionClosed | SessionEnded | LinkDetached):
        return not is_permanent(error)
    return isinstance(error, ConnectionLost)


def is_redirect(error: Exception | None) -> bool:
    """Return whether the peer has redirected the connection, also if that is not followed."""
    redirected = isinstance(error, ConnectionClosed) and error.condition == "amqp:connection:redirect"
    return redirected or isinstance(error, RedirectRefused)


def redirect(error: Exception | None, came_from: Endpoint, check: Callable[[Endpoint], None]) -> Endpoint | None:
    """Return where a redirect leads (§2.8.16, §2.8.18): None if the error is not a redirect, or names no host.

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
    for each in listed[:MAX_ALTERNATIVES] if isinstance(listed, list | tuple) else ():
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
        ValueError: its host is not valid, or it leads out of TLS.
    """
    host = _host(info)
    port, scheme = info.get("port"), info.get("scheme", came_from.scheme)
    if not isinstance(host, str) or not host or came_from.unix:
        return None
    if not isinstance(scheme, str) or not PORTS.get(scheme):  # others are no TCP
        return None
    if not isinstance(port, int) or isinstance(port, bool) or not 0 < port < 65536:
        port = PORTS[scheme] if scheme != came_from.scheme else came_from.port
    name = info.get("hostname")
    there = replace(came_from, scheme=scheme, host=host, port=port, name=name if isinstance(name, str) else None)
    if came_from.tls and not there.tls:
        raise ValueError(f"{scheme}:// at {host!r} has no TLS, and {came_from.scheme}:// has")
    return there


_OTHER_CAUSES: Final = frozenset(
    {
        "amqp:connection:forced",
        "amqp:connection:redirect",
        "amqp:link:detach-forced",
        "amqp:link:redirect",
        "amqp:link:stolen",
        "amqp:resource-limit-exceeded",
        "amqp:resource-locked",
        "amqp:unauthorized-access",
    }
)


def is_unrelated_to_resume(error: AmqpError | None) -> bool:
    """Return whether an error is certainly unrelated to the unsettled map: the next attach may send the map again."""
    ended = isinstance(error, ConnectionClosed | SessionEnded | LinkDetached)
    return ended and str(error.condition) in _OTHER_CAUSES  # type: ignore[union-attr]
