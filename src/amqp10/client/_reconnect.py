"""What a connection does about its loss: settings, and the decisions that need no connection to be made.

`Reconnect` is the user's word. Which losses are worth another attempt, and where else the peer says to go, is here too.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from ..errors import (
    AmqpError,
    AuthenticationFailed,
    ConnectionClosed,
    ConnectionLost,
    LinkDetached,
    RequestRefused,
    SessionEnded,
)
from ..net import Endpoint, backoff
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
            redirect leads (§2.8.16, §2.8.18). Never from TLS to a host without it.
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

    url: str
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


def redirect(error: Exception | None, came_from: Endpoint) -> Endpoint | None:
    """Where a redirect leads (§2.8.16, §2.8.18): None where there is none that may be followed."""
    if not isinstance(error, ConnectionClosed | LinkDetached):
        return None
    if error.condition not in ("amqp:connection:redirect", "amqp:link:redirect"):
        return None
    return _elsewhere(error.info, came_from)


def failover_hosts(properties: Mapping[Any, Any], came_from: Endpoint) -> list[Endpoint]:
    """The hosts that a peer's open names for failover: its property "failover-server-list", maps as in a redirect."""
    listed = properties.get("failover-server-list")
    if not isinstance(listed, list | tuple):
        return []
    found = [_elsewhere(each, came_from) for each in listed if isinstance(each, Mapping)]
    return [endpoint for endpoint in found if endpoint is not None]


def _elsewhere(info: Mapping[Any, Any], came_from: Endpoint) -> Endpoint | None:
    """The endpoint that the peer names. The credentials go with it, so it may not be less secure than where we were."""
    host = info.get("network-host") or info.get("hostname")
    port, scheme = info.get("port"), info.get("scheme", came_from.scheme)
    if not isinstance(host, str) or not host or came_from.unix:
        return None
    if not isinstance(scheme, str) or scheme not in ("amqp", "amqps", "ws", "wss"):
        return None
    if came_from.tls and scheme not in ("amqps", "wss"):
        return None
    if not isinstance(port, int) or isinstance(port, bool) or not 0 < port < 65536:
        port = parse_url(f"{scheme}://host").port if scheme != came_from.scheme else came_from.port
    name = info.get("hostname")
    return replace(came_from, scheme=scheme, host=host, port=port, name=name if isinstance(name, str) else None)
