"""What a user says of a connection: where it leads, as whom, and how it stays up."""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypedDict, get_args

from .._arguments import check_range, checked
from ..net import Proxy, TLSSettings, WebSocket, backoff, check_host
from ..profiles import Profile
from ..sasl import Mechanism
from ..tokens import TokenSource
from ._stores.store import DeliveryStore

SASLSettings = Mechanism | Sequence[Mechanism] | Literal[False] | None
Order = Literal["ordered", "random"]

OnUncertain = Literal["resend", "raise"]

OnStale = Literal["raise", "ignore"]


@checked
@dataclass(frozen=True, slots=True, kw_only=True)
class Reconnect:
    """How to restore a lost connection: `Connection(urls, reconnect=Reconnect())`.

    A round tries each host once. Between rounds, and after a loss, there is a pause, which grows from `initial_delay`
    to `max_delay`. Sessions and links come back by themselves, including a link that only the peer detached. The page
    "What happens when" describes what each call does meanwhile.

    Attributes:
        initial_delay, max_delay: the shortest and the longest pause, in seconds.
        multiplier: the factor by which the pause grows with each round.
        jitter: the fraction of a pause that is random, 0 to 1.
        attempts: the number of rounds after a loss before giving up; `math.inf` for no limit.
        max_time: the seconds after a loss before giving up.
        first_attempts, first_max_time: the same for the first connection; 1 round by default.
        attempt_timeout: seconds that one attempt may take, from connecting to the peer's open.
        order: "ordered": each round begins with the first host; "random": each round has an order of its own.
        follow_alternatives: also use the hosts that the peer names: those of its open for failover, and those of a
            redirect (§2.8.16, §2.8.18), if `redirect_hosts` allows them. Never from TLS to a host without it.
        redirect_hosts: hosts, besides those of the URLs, to which the peer may redirect the connection or a link, at
            any port. The login goes there, too. Names, addresses, "*.example.com" for every name below example.com,
            "*" for any host.
        on_uncertain: what to do if it is unknown whether a message arrived: "resend" it, so that it may arrive twice,
            or "raise" `DeliveryUncertain` where its outcome is waited for.
        on_stale: when a delivery is settled that the peer did not resume: "raise" `StaleDelivery`, or "ignore" it.
        resume_timeout: seconds for which to ask the peer to keep a link's state without its connection, so that the
            link can be resumed (§2.6.13); 0 not to ask. During that time nobody else gets the messages of the link.
        declare_again: whether to repeat declarations made by `connection.native`, of queues, exchanges and bindings,
            before links are attached again.

    Raises:
        ValueError: a number or word is invalid.
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
        if not 0 < self.initial_delay <= self.max_delay < math.inf:
            raise ValueError(
                "initial_delay must be positive, and max_delay finite and at least initial_delay, "
                f"not {self.initial_delay} and {self.max_delay}"
            )
        check_range("multiplier", self.multiplier, 1)
        check_range("jitter", self.jitter, 0, 1)
        check_range("resume_timeout", self.resume_timeout, 0, 0xFFFF_FFFF)
        for name in ("attempts", "first_attempts"):
            check_range(name, getattr(self, name), 1)
        for name in ("max_time", "first_max_time", "attempt_timeout"):
            check_range(name, getattr(self, name), 0, exclusive=True)
        for host in self.redirect_hosts:
            if host != "*":
                check_host(host.removeprefix("*."), "member of redirect_hosts")

    def delay(self, failures: int, chance: float) -> float:
        """Return the pause after `failures` rounds without success; `chance` is from [0, 1)."""
        return backoff(failures, self.initial_delay, self.max_delay, self.multiplier, self.jitter, chance)


@checked
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


TokenMechanism = Literal["OAUTHBEARER", "XOAUTH2", "PLAIN"]


@checked
@dataclass(frozen=True, slots=True)
class LoginTokens:
    """Log in with tokens: `Connection(url, tokens=LoginTokens(provider))`.

    Each connect, and each one after a loss, asks for a token and logs in with it. Before it ends, the next one is told
    to the broker on the connection, where it takes that: RabbitMQ in 0-9-1, and from 4.1 on in 1.0; so does the
    embedded broker. To others nothing is told; where they close the connection, `reconnect` logs in again.

    Attributes:
        source: what gives tokens.
        scope: what it is asked for.
        user: the name beside the token; None for the URL's. RabbitMQ takes the name from the token, and needs none.
        mechanisms: the SASL mechanisms to choose from; with "PLAIN" the token is the password.
        allow_insecure: the token may cross any transport readable.
        timeout: seconds that the source, and the broker's answer, may take.
        clock: the time in seconds since 1970.

    Raises:
        ValueError: there is no mechanism of that name, or a limit lets nothing through.
    """

    source: TokenSource = field(repr=False)
    scope: str = ""
    _: KW_ONLY
    user: str | None = None
    mechanisms: Sequence[TokenMechanism] = get_args(TokenMechanism)
    allow_insecure: bool = False
    timeout: float = 30.0
    clock: Callable[[], float] = field(default=time.time, repr=False)

    def __post_init__(self) -> None:
        known = get_args(TokenMechanism)
        if isinstance(self.mechanisms, str) or not self.mechanisms or not set(self.mechanisms) <= set(known):
            raise ValueError(f"mechanisms must be some of {', '.join(known)}, not {self.mechanisms!r}")
        _check_timeout(self.timeout)


@checked
@dataclass(frozen=True, slots=True)
class CbsTokens:
    """Put tokens at the peer's node `$cbs`, as Azure Service Bus and Event Hubs want it, for each address that is used.

    A link waits until the token for its address is there, after a loss, too; before a token ends the next one is put.
    A link whose token ran out is over, with `AuthenticationFailed`.

    Attributes:
        source: what gives tokens: a `SasKey`, a credential, a function.
        scope: what it is asked for: "https://servicebus.azure.net/.default" for credentials of Microsoft Entra; None
            for the audience, as a `SasKey` wants it.
        audience: what a token is for: a function of a link's address; or one text for all links. None:
            amqps://HOST/ADDRESS.
        allow_insecure: tokens may cross any transport readable.
        timeout: seconds that the source, and the peer's answer, may take.
        clock: the time in seconds since 1970.

    Raises:
        ValueError: a limit lets nothing through.
    """

    source: TokenSource = field(repr=False)
    scope: str | None = None
    _: KW_ONLY
    audience: str | Callable[[str], str] | None = None
    allow_insecure: bool = False
    timeout: float = 30.0
    clock: Callable[[], float] = field(default=time.time, repr=False)

    def __post_init__(self) -> None:
        _check_timeout(self.timeout)


def _check_timeout(timeout: float) -> None:
    if not timeout > 0:
        raise ValueError(f"timeout must be more than 0 seconds, not {timeout}")


Tokens = LoginTokens | CbsTokens

DialectName = Literal["1.0", "0-10", "0-9-1", "0-9", "0-9-draft", "fast", "auto"]
"""The dialects of this package, and "auto". `register_dialect` makes others known."""

Names091 = Literal["0-9-1", "0-9", "0-9-draft"]
Names010 = Literal["0-10"]
NamesFast = Literal["fast"]
NamesOfOthers = Literal["1.0", "auto"]
"""Dialects without operations of their own, and what may be any."""

# A type checker takes the first that the argument `dialect` fits; by that it knows the type of `connection.native`.
if TYPE_CHECKING:
    from typing_extensions import TypeVar  # Python's own has `default` from 3.13 on

    DialectT = TypeVar("DialectT", Names091, Names010, NamesFast, NamesOfOthers, str, covariant=True, default=str)
else:
    from typing import TypeVar

    DialectT = TypeVar("DialectT", bound=DialectName | str, covariant=True)

Address = str | Sequence[str] | Callable[[], str | ConnectionDetails | Awaitable[str | ConnectionDetails]]
"""Where a connection leads: a URL, several of them, or what says it anew for each attempt."""


class SettingsOfAnyDialect(TypedDict, total=False):
    """The keyword arguments of `Connection`, without the dialect."""

    reconnect: Reconnect | None
    delivery_store: DeliveryStore | None
    tls: TLSSettings | None
    tls_upgrade: bool
    proxy: str | Proxy | None
    websocket: WebSocket | None
    sasl: SASLSettings
    tokens: Tokens | None
    container_id: str | None
    hostname: str | None
    idle_timeout: float | None
    max_frame_size: int
    channel_max: int
    properties: Mapping[Any, Any] | None
    offered_capabilities: Sequence[str]
    desired_capabilities: Sequence[str]
    incoming_window: int
    connect_timeout: float | None
    close_timeout: float
    profile: str | Profile | None


class ConnectionSettings(SettingsOfAnyDialect, total=False):
    """The keyword arguments of `Connection`; see there."""

    dialect: DialectName | str
