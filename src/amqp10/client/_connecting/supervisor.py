"""The transports of a connection, one after the other: where to, how long between, until when.

    round ──> host ──> connect ──> engine + pump ──> opened ──> ... lost ──> pause ──> round ──> ...
                          └── failed: the next host, or after a pause the next round

Nothing here knows of sessions or links: the connection is told of events by the pump, and asks `keeps` whether an end
is the end.
"""

from __future__ import annotations

import inspect
import logging
import math
import os
import random
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Protocol

import anyio
from anyio.abc import ByteStream

from ..._arguments import with_article
from ..._calls import cancelled_elsewhere
from ...engine import ConnectionTerms, Dialect, Engine, Event, dialects
from ...errors import (
    AmqpError,
    AuthenticationFailed,
    ConnectionClosed,
    ConnectionLost,
    RedirectRefused,
    RemoteProtocolError,
)
from ...net import (
    TLS,
    Endpoint,
    Pump,
    StreamFacts,
    TLSSettings,
    TransportOptions,
    automatic,
    choose_dialect,
    connect,
    keep_from_children,
    parse_url,
    traced,
)
from ...sasl import Mechanism, Secrets, bind_channel, from_credentials
from .._errors import hide_secrets
from .._events import ConnectionAttempted, Observers
from .._settings import Address, ConnectionDetails, Reconnect
from .policy import check_redirect_host, failover_hosts, is_redirect, is_transient, redirect

if TYPE_CHECKING:
    from .._settings import SASLSettings


_log = logging.getLogger("amqp10.connection")

MAX_REDIRECTS: Final = 10
"""Redirects in a row that are followed."""


class TransportOwner(Protocol):
    """The connection, as its transports know it."""

    over: bool
    observers: Observers

    def adopt(self) -> None:
        """Take the engine and pump that are there now as the connection's own."""

    def handle(self, events: list[Event]) -> None:
        """Tell those concerned of the events of a pass."""

    def not_connected(self, error: Exception) -> None:
        """End: there is no connection, and no further attempt."""

    def closed_for_resuming(self, error: AmqpError) -> bool:
        """Return whether links were to be resumed as the peer closed: without their deliveries it may go on."""

    def forked(self) -> None:
        """End: this is a child process, and the connection is the parent's."""


class TransportSupervisor:
    """What keeps a connection on a transport.

    Args:
        address: see `Address`; URLs are read here.
        settings: None: one round for the first connection, and none after a loss.
        dialect: None: the highest that the server of the first connection speaks.
        token_login: returns the mechanisms of a login with a token; None: those of `sasl`, and so without it.
        hostname: what the open says; None: the host, or the name that TLS sends.

    Attributes:
        endpoint: where the connection is, or was last, or will try first.
        engine, pump: of the transport that is there, or was last.
        secure: secrets may cross it as they are.
        secrets: those of the login at the transport that is there, or was last.
    """

    # Without slots a connection takes a kilobyte more: a dict with shared keys has no room for all these attributes.
    __slots__ = (
        "_alternatives",
        "_ask",
        "_attempt_timeout",
        "_attempts",
        "_automatic",
        "_before_write",
        "_credentials_anew",
        "_deadline",
        "_error",
        "_first",
        "_hostname",
        "_hosts",
        "_left_out",
        "_named",
        "_opened",
        "_opened_at",
        "_process",
        "_redirects",
        "_round",
        "_rounds",
        "_route",
        "_sasl",
        "_short_lives",
        "_since",
        "_terms",
        "_tls",
        "_token_login",
        "dialect",
        "endpoint",
        "engine",
        "given",
        "login",
        "persistent",
        "pump",
        "secrets",
        "secure",
        "settings",
    )

    def __init__(
        self,
        address: Address | Endpoint,
        *,
        settings: Reconnect | None,
        dialect: Dialect | None,
        terms: ConnectionTerms,
        hostname: str | None,
        tls: TLSSettings | None,
        sasl: SASLSettings,
        route: TransportOptions,
        connect_timeout: float | None = None,
        before_write: Callable[[], Awaitable[None]] | None = None,
        token_login: Callable[[Endpoint], Awaitable[tuple[Mechanism, ...] | None]] | None = None,
    ) -> None:
        self._ask = address if callable(address) else None
        self._hosts = endpoints(address)
        if not self._hosts and self._ask is None:
            raise ValueError("a connection needs a URL")
        for endpoint in self._hosts:
            route.check(endpoint, tls)
        self.endpoint = self._hosts[0] if self._hosts else None
        self.settings: Reconnect = settings if settings is not None else Reconnect()
        self.persistent: bool = settings is not None
        self.dialect = dialect
        self._automatic = dialect is None
        self._terms = terms
        self._hostname = hostname
        self._tls = tls
        self._sasl = sasl
        self.login: tuple[SASLSettings, TLSSettings | None] = sasl, tls  # what the callable said last, if there is one
        self._route = route
        if connect_timeout is not None and connect_timeout <= 0:
            raise ValueError(
                f"connect_timeout must be more than 0 seconds, or None for no limit, not {connect_timeout}"
            )
        self._attempt_timeout = (
            settings.attempt_timeout if settings else math.inf if connect_timeout is None else connect_timeout
        )
        self._before_write = before_write
        self._token_login = token_login
        self._credentials_anew = self._ask is not None or token_login is not None
        self.given: tuple[ByteStream, StreamFacts] | None = None
        self.engine: Engine | None = None
        self.pump: Pump | None = None
        self.secure: bool = False
        self.secrets: Secrets = Secrets()
        self._named = self._hosts  # by the user; where a callable says them, the last
        self._alternatives: list[Endpoint] = []
        self._left_out: list[str] = []  # of those that the peer named, and why
        self._first = True  # there was no connection yet
        self._opened = False  # the transport that is there has become a connection
        self._opened_at = 0.0
        self._since = 0.0  # of the loss, or of the first attempt
        self._process = 0  # whose the connection is
        self._attempts = 0  # since then
        self._rounds = 0
        self._redirects = 0  # that were followed in a row
        self._short_lives = 0  # connections in a row that ended as soon as they began
        self._round: list[Endpoint | None] = []  # the hosts to try before the next pause, in order
        self._error: Exception | None = None
        self._deadline: anyio.CancelScope | None = None

    # The life

    async def run(self, owner: TransportOwner) -> None:
        """Run one transport after the other until the connection is over.

        Cancelling: the transport is closed, and `owner` told of its end.
        """
        self._since = anyio.current_time()
        self._process = os.getpid()
        while await self._turn(owner):
            endpoint = self._round.pop(0)
            began = anyio.current_time()
            limit = min(began + self._attempt_timeout, self._since + self._longest)
            reached = False
            with anyio.CancelScope(deadline=limit) as self._deadline:
                if reached := await self._establish(owner, endpoint):
                    assert self.pump is not None
                    await self.pump.run()
            if owner.over:
                return
            if self._opened:
                self._interrupted()
                continue
            where = str(self.endpoint) if self.endpoint is not None else ""
            if self._deadline.cancelled_caught:
                setting = "Reconnect(attempt_timeout=...)" if self.persistent else "connect_timeout=..."
                text = f"{where} did not open in {limit - began:.3g} s{self._suspicion(reached)}"
                self._error = ConnectionLost(f"{text}; {setting} bounds the wait")
            assert self._error is not None
            owner.observers.tell(ConnectionAttempted(self._attempts, where, self._error))

    def _suspicion(self, reached: bool) -> str:
        """Say what to try where nothing was heard of a host: the other side may wait for this one to begin TLS.

        Args:
            reached: there is a transport to the host, with TLS if it was asked for.
        """
        if self.endpoint is None or self.endpoint.unix or self.given is not None or not self._first:
            return ""
        tls = self.login[1] is not None
        if (self.endpoint.tls or tls) and reached:
            return ""
        if self.endpoint.tls:
            return ": if that port speaks no TLS, its URL begins with amqp:// (or ws://)"
        if tls:
            return ": if that port speaks no TLS, leave out tls="
        return ": if that port speaks TLS, its URL begins with amqps:// (or wss://); else it may speak no AMQP at all"

    def keeps(self, owner: TransportOwner, error: AmqpError) -> bool:
        """Return whether the connection goes on although its transport has ended with this error."""
        self._error = judged = self.judged(error)
        if isinstance(error, ConnectionLost) and not self._opened and (suspicion := self._suspicion(reached=True)):
            error.add_note(f"nothing was opened there{suspicion}")
        if isinstance(error, AuthenticationFailed) and self._passwordless:
            error.add_note("the URL names a user and no password: amqp://USER:PASSWORD@HOST")
        late = self._deadline is not None and self._deadline.cancel_called
        if late and not self._opened and isinstance(error, ConnectionLost):
            return True  # it was cut off here, for it took too long: the next turn says what comes of that
        if self._opened:
            unresumed = owner.closed_for_resuming(error)
            return self.persistent and (unresumed or is_transient(error, credentials_anew=self._credentials_anew))
        return self._worth_another(judged)

    @property
    def _passwordless(self) -> bool:
        """Whether the login is that of a URL with a user and no password."""
        endpoint = self.endpoint
        if endpoint is None or self.login[0] is not None or self._token_login is not None:
            return False
        return endpoint.user is not None and endpoint.password is None

    def judged(self, error: AmqpError) -> AmqpError:
        """Return what to say of an end, without the secrets of the login.

        A redirect of the connection to where it may not go is `RedirectRefused`.
        """
        hide_secrets(self.secrets, error)
        try:
            if isinstance(error, ConnectionClosed):
                self._redirected(error)
        except RedirectRefused as refused:
            return refused
        return error

    def check_destination(self, there: Endpoint) -> None:
        """Refuse where the peer sends us, if the login may not go there.

        Raises:
            ValueError: it may not, or the connection's other settings do not fit that endpoint.
        """
        named = [each.host for each in self._named]
        for host in (there.host, *((there.name,) if there.name is not None else ())):
            check_redirect_host(host, named, self.settings.redirect_hosts)
        self._route.check(there, self.login[1])

    @property
    def settings_elsewhere(self) -> Reconnect:
        """The settings of a connection to where a link was redirected: this one's hosts are the user's there, too."""
        named = [each.host for each in self._named if not each.unix]
        return replace(self.settings, redirect_hosts=[*self.settings.redirect_hosts, *named])

    def _worth_another(self, error: AmqpError) -> bool:
        """Return whether an attempt that failed with this error is followed by another."""
        if self._redirected(error) is not None:
            return True
        more = bool(self._round) or self._rounds < self._most_rounds
        # What is no AMQP may be said by a gateway whose broker is away just now; and the next host is another one.
        stranger = isinstance(error, RemoteProtocolError) and (not self._first or bool(self._round))
        stranger = stranger or (isinstance(error, RedirectRefused) and bool(self._round))
        if more and (stranger or is_transient(error, credentials_anew=self._credentials_anew)):
            return True
        self._account(error)
        return False

    def _redirected(self, error: Exception | None) -> Endpoint | None:
        follow = self.persistent and self.settings.follow_alternatives and self._redirects < MAX_REDIRECTS
        if not follow or self.endpoint is None:
            return None
        return redirect(error, self.endpoint, self.check_destination)

    def opened(self, properties: Any) -> float:
        """Record that the transport has become a connection; return for how many seconds it was down."""
        now = anyio.current_time()
        if self._deadline is not None:
            self._deadline.deadline = math.inf
        downtime = now - self._since
        if self._first:
            self._since, self._attempts, self._rounds = now, 0, 0
        self._opened, self._opened_at, self._first = True, now, False
        if self.settings.follow_alternatives and self.endpoint is not None:
            known = [*self._hosts, self.endpoint]
            found, refused = failover_hosts(properties, self.endpoint, self.check_destination)
            self._alternatives = [each for each in found if each not in known]
            if refused and refused != self._left_out:
                _log.warning("%s names hosts for failover that are left out: %s", self.endpoint, "; ".join(refused))
            self._left_out = refused
        return downtime

    def drop(self) -> None:
        """Cut the transport: it is a connection, but of no use."""
        if self._deadline is not None:
            self._deadline.cancel()

    def _interrupted(self) -> None:
        """Prepare to connect again: the connection is lost."""
        now = anyio.current_time()
        self._opened = False
        # One that does not last is as good as a failure: without a pause that grows, both sides would only reconnect.
        lasted = now - self._opened_at >= self.settings.max_delay
        if is_redirect(self._error) and not lasted:
            return  # the same search goes on, with its limits: peers may redirect in a circle
        self._short_lives = 0 if lasted else self._short_lives + 1
        self._since, self._attempts, self._rounds, self._redirects = now, 0, 0, 0
        self._round.clear()

    # Where to, and when

    @property
    def _most_rounds(self) -> float:
        return self.settings.first_attempts if self._first else self.settings.attempts

    @property
    def _longest(self) -> float:
        return self.settings.first_max_time if self._first else self.settings.max_time

    async def _turn(self, owner: TransportOwner) -> bool:
        """Wait until the next attempt is due, its host first in the round; return False if no attempt is left."""
        late = self._attempts > 0 and anyio.current_time() - self._since >= self._longest
        if late:
            self._round.clear()
        target = None if late else self._redirected(self._error)
        self._error = None if target is not None else self._error
        self._attempts += 1
        if target is not None:
            self._redirects += 1
            self._round.insert(0, target)
        elif not self._round:
            if not await self._pause(owner):
                return False
            self._rounds += 1
            self._redirects = 0  # after a pause they are worth following again
            hosts: list[Endpoint | None] = [*(self._hosts if self._ask is None else [None]), *self._alternatives]
            if self.settings.order == "random":
                random.shuffle(hosts)
            self._round.extend(hosts)
        return not owner.over  # as it is in a child process that was forked meanwhile

    async def _pause(self, owner: TransportOwner) -> bool:
        """Between rounds, and after a loss; False when it is given up."""
        failures = self._rounds if self._first else self._rounds + max(1, self._short_lives)
        delay = self.settings.delay(failures, random.random()) if failures else 0.0
        spent = anyio.current_time() - self._since
        if self._rounds < self._most_rounds and spent + delay <= self._longest:
            if delay:
                await anyio.sleep(delay)
            return True
        assert self._error is not None
        self._attempts -= 1  # this one does not count
        self._account(self._error)
        owner.not_connected(self._error)
        return False

    def _account(self, error: Exception) -> None:
        """Say on the last error how long it was tried."""
        transient = isinstance(error, AmqpError) and is_transient(error, credentials_anew=self._credentials_anew)
        first = self._first and self.persistent and transient  # it is over only because of the limits of the start
        if self._attempts > 1 or first:
            spent = anyio.current_time() - self._since
            attempts = "1 attempt" if self._attempts == 1 else f"{self._attempts} attempts"
            error.add_note(f"given up after {attempts} in {spent:.1f} s")
        if first and self._rounds == self._most_rounds < self.settings.attempts:
            error.add_note("Reconnect(first_attempts=...) says how often the first connection is tried")

    # One attempt

    async def _establish(self, owner: TransportOwner, endpoint: Endpoint | None) -> bool:
        """Connect, and begin; False if that failed, and the owner was told if it is over with that."""
        try:
            if endpoint is None:
                details = await self._ask_for_details(owner)
                if details is None:
                    return False
                endpoint, sasl, tls = self._details(details)
                self.login, self._named = (sasl, tls), [endpoint]
            sasl, tls = self.login
            self.endpoint = endpoint
            login = await self._token_login(endpoint) if self._token_login is not None else None
            if login is None:
                login = mechanisms(sasl, endpoint)
            if self._automatic and self._first:
                secret = bool(sasl) or endpoint.user is not None or self._token_login is not None
                candidates = automatic(dialects(), self._route)
                self.dialect = await choose_dialect(candidates, endpoint, tls, self._route, secret=secret)
            stream, facts = self.given if self.given is not None else await connect(endpoint, tls, self._route)
            if os.getpid() != self._process:
                await anyio.aclose_forcefully(stream)
                raise ConnectionLost(
                    "this process was forked while connecting: the connection is the parent's; open a new one here"
                )
        except (AmqpError, OSError, ValueError, TypeError) as error:
            self._error = error
            ours = os.getpid() == self._process
            if not (ours and isinstance(error, AmqpError) and self._worth_another(error)):
                owner.not_connected(error)
            return False
        keep_from_children(owner, stream, type(owner).forked)
        assert self.dialect is not None
        if login is not None:
            login = bind_channel(login, facts.end_point)
        self.secure = facts.secure
        engine = self.dialect.client(self._open(endpoint, tls), login, facts.secure)
        if self.engine is not None:
            engine.inherit(self.engine)
        self.engine = engine
        self.secrets = Secrets(login or ())
        shown = traced(stream, self.dialect.tracer, f"{endpoint}", secrets=self.secrets)
        self.pump = Pump(shown, engine, owner.handle, self._before_write)
        if self._first:
            owner.adopt()
        engine.start()
        engine.open()
        return True

    def _open(self, endpoint: Endpoint, tls: TLSSettings | None) -> ConnectionTerms:
        """Return the terms of the open at this endpoint."""
        certified = tls.server_hostname if isinstance(tls, TLS) else None
        path = endpoint.path if not (endpoint.websocket or endpoint.unix) else ""
        hostname = self._hostname
        if hostname is None and path and self.dialect is not None and self.dialect.vhost_prefix is not None:
            hostname = f"{self.dialect.vhost_prefix}{path}"
        if hostname is None:
            hostname = certified or endpoint.name or endpoint.host or None
        if not path and hostname != certified and not endpoint.called(hostname or ""):
            path = self._hostname or ""  # who names another host means a virtual one
        return replace(self._terms, hostname=hostname, path=path)

    async def _ask_for_details(self, owner: TransportOwner) -> str | ConnectionDetails | None:
        """Ask the callable where to connect to. What it raises may be over by the next attempt."""
        assert self._ask is not None
        ask: Callable[[], Any] = self._ask
        try:
            details = ask()
            details = await details if inspect.isawaitable(details) else details
            if details is None:
                raise TypeError("no URL given: the callable that says where to connect returned None")
            return details  # type: ignore[no-any-return]
        except BaseException as caught:
            error = caught if isinstance(caught, Exception) else cancelled_elsewhere(caught)
            if error is None:
                raise
            self._error = error
            if self._rounds >= self._most_rounds:
                self._account(error)
                owner.not_connected(error)
            return None

    def _details(self, given: str | ConnectionDetails) -> tuple[Endpoint, SASLSettings, TLSSettings | None]:
        """Return the endpoint, the login and the TLS settings that these details name."""
        details = given if isinstance(given, ConnectionDetails) else ConnectionDetails(given)
        (endpoint,) = endpoints(details.url)
        tls = details.tls if details.tls is not None else self._tls
        sasl = details.sasl if details.sasl is not None else self._sasl
        self._route.check(endpoint, tls)
        return endpoint, sasl, tls


def mechanisms(sasl: SASLSettings, endpoint: Endpoint) -> tuple[Mechanism, ...] | None:
    """Return the mechanisms to choose from; None for no SASL layer."""
    if sasl is False:
        return None
    if sasl is None:
        return from_credentials(endpoint.user, endpoint.password)
    return (sasl,) if isinstance(sasl, Mechanism) else tuple(sasl)


def endpoints(address: Address | Endpoint) -> list[Endpoint]:
    """Return the endpoints that an address names; [] where a callable names them."""
    if callable(address):
        return []
    if isinstance(address, Endpoint):
        return [address]
    urls: Iterable[Any] = (
        [address] if isinstance(address, str | bytes) or not isinstance(address, Iterable) else address
    )
    for url in urls:
        if not isinstance(url, str):
            kind = with_article(type(url).__name__)
            raise TypeError(f"a URL must be a str, such as amqp://USER:PASSWORD@HOST, not {kind}")
    return [parse_url(url) for url in urls]
