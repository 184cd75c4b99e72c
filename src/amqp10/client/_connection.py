"""The connection that users hold: it opens, owns the one background task, and tells links what happened (§2.4).

Connection ──owns──> task group ──runs──> Pump ──drives──> Engine
    ^                                       |
    └──────────── events, each pass ────────┘      -> Session, Sender, Receiver, the owners
"""

from __future__ import annotations

import logging
import secrets
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, Self, Unpack, overload

import anyio
from anyio.abc import ByteStream, TaskGroup

from .._arguments import advise, check_range, check_type, checked, hinted
from .._calls import Ungrouped, only
from ..engine import (
    NO_LINK_OWNER,
    NO_SESSION_OWNER,
    Authenticated,
    ConnectionEnded,
    ConnectionOpened,
    ConnectionTerms,
    Engine,
    EngineOwner,
    Event,
    LinkAttached,
    LinkEnded,
    LinkTerms,
    PeerBlocked,
    SessionBegun,
    SessionTerms,
    SessionUnmapped,
)
from ..engine import dialect as find_dialect
from ..errors import AmqpError, ConnectionLost, LocalProtocolError, StoreError, Unsupported
from ..messaging import Error
from ..net import Endpoint, Proxy, Pump, StreamFacts, TLSSettings, TransportOptions, WebSocket
from ..profiles import Profile
from ..profiles import profile as find_profile
from ._connecting.supervisor import TransportSupervisor
from ._core.close_deadline import CloseDeadlines, leave_all
from ._core.connection import ConnectionCore, LinkCore, SessionCore, TokenKeeper
from ._core.faces import core_of
from ._core.states import Step
from ._environment import url_settings
from ._events import (
    ConnectionBlocked,
    ConnectionGivenUp,
    ConnectionInterrupted,
    ConnectionRestored,
    ConnectionUnblocked,
    Observer,
    Observers,
)
from ._factory import LinkFactory
from ._health import Health, HealthMonitor
from ._links.redirects import LinkRedirects
from ._receiving.delivery_face import Delivery
from ._receiving.receiver import Receiver
from ._recovery.restorer import Restorer
from ._requests.requester import Requester
from ._requests.responder import Request, Responder
from ._sending.delivery_face import SentDelivery
from ._sending.sender import Sender
from ._session import ClientSession, Session
from ._settings import (
    Address,
    ConnectionSettings,
    DialectT,
    LoginTokens,
    Names010,
    Names091,
    NamesFast,
    NamesOfOthers,
    Reconnect,
    SASLSettings,
    SettingsOfAnyDialect,
    Tokens,
)
from ._stores.store import DeliveryStore
from ._tokens.keepers import token_keeper
from ._transactions.transaction import Transaction

if TYPE_CHECKING:
    from ..native import amqp_0_9_1, amqp_0_10, fast

    class native_property:  # noqa: N801
        """A property whose type depends on the dialect."""

        def __init__(self, read: Callable[[Any], Any]) -> None: ...
        @overload
        def __get__(self, connection: Connection[Names091], owner: object) -> amqp_0_9_1.Native: ...
        @overload
        def __get__(self, connection: Connection[Names010], owner: object) -> amqp_0_10.Native: ...
        @overload
        def __get__(self, connection: Connection[NamesFast], owner: object) -> fast.Native: ...
        @overload
        def __get__(self, connection: Connection[str], owner: object) -> Any: ...
        def __get__(self, connection: Any, owner: object) -> Any: ...

else:
    native_property = property

_EACH_MESSAGE: Final = (Sender, Receiver, Requester, Responder, Request, Delivery, SentDelivery, Transaction)
"""Classes whose methods are called for each message."""


def _loop_finder() -> Callable[[], object]:
    """Return what returns the event loop that it is called in, of the kind that runs now; it raises RuntimeError."""
    if (asyncio := sys.modules.get("asyncio")) is not None:  # who runs on trio need not import it
        running: Callable[[], object] = asyncio.get_running_loop
        with suppress(RuntimeError):
            running()
            return running
    from trio.lowlevel import current_trio_token

    return current_trio_token


class ClientConnection(ConnectionCore, EngineOwner):
    """The core of a connection: it opens and closes it, runs its task, and tells links what happened.

    Attributes:
        face: what the user holds.
    """

    # Without slots a connection takes a kilobyte more: so many attributes do not fit into a dict with shared keys.
    __slots__ = (
        "_background",
        "_crash",
        "_default",
        "_engine",
        "_find_loop",
        "_loop",
        "_named_profile",
        "_opener",
        "_profile",
        "_pumped",
        "_scopes",
        "_session_terms",
        "_shield",
        "_tasks",
        "close_deadlines",
        "close_timeout",
        "delivery_store",
        "face",
        "failure",
        "health",
        "links",
        "losing",
        "mechanism",
        "named",
        "observers",
        "pump",
        "recovery",
        "redirects",
        "subscriptions",
        "supervisor",
        "terms",
        "tokens",
    )

    supervisor: TransportSupervisor
    redirects: LinkRedirects
    recovery: Restorer | None
    tokens: TokenKeeper | None

    def __init__(
        self,
        face: Connection,
        terms: ConnectionTerms,
        session_terms: SessionTerms,
        *,
        close_timeout: float,
        delivery_store: DeliveryStore | None,
        profile: Profile | None,
        named: bool,
    ) -> None:
        super().__init__("connection")
        self.face = face
        self.terms = terms
        self.close_timeout = close_timeout
        self._named_profile = self._profile = profile
        self.delivery_store = delivery_store
        self.observers: Observers = Observers(lambda: self.where)
        self.health: HealthMonitor = HealthMonitor()
        self._session_terms = session_terms
        self.named = named
        self._default: ClientSession | None = None
        self.links: dict[LinkCore, SessionCore] = {}  # attached, or being so, or to be so again; and on which session
        self.close_deadlines: CloseDeadlines = CloseDeadlines()
        # Of subscriptions whose links are there: the link's name, and that of the subscription's first link.
        self.subscriptions: dict[LinkCore, tuple[str, str]] = {}
        self.mechanism: str | None = None
        self.failure: Exception | None = None  # why there never was a connection
        self._engine: Engine | None = None
        self.pump: Pump | None = None
        self._pumped = False
        self._crash: BaseException | None = None
        # Made when the block is entered, for a connection may be made where no event loop runs.
        self._background: anyio.CancelScope
        self._shield: anyio.CancelScope
        self._tasks: TaskGroup | None = None
        self._opener: int | None = None  # the task that entered the block
        self._scopes: dict[anyio.CancelScope, None] = {}
        self._find_loop: Callable[[], object] | None = None  # returns the event loop of who calls it
        self._loop: object = None
        self.losing = False

    # Opening

    async def __aenter__(self) -> Self:
        self.enter()
        self._opener = anyio.get_current_task().id
        self._find_loop = _loop_finder()
        self._loop = self._find_loop()
        # Cancelling the block must reach neither the background task, which has the closing still to do, nor the
        # waiting for it: the first has a shield of its own, the second a scope around the group, shut while closing.
        self._background = anyio.CancelScope(shield=True)
        self._shield = anyio.CancelScope()
        self._shield.__enter__()
        self._tasks = tasks = anyio.create_task_group()
        await tasks.__aenter__()
        try:
            tasks.start_soon(self._background_main)
            await self.until(lambda: self.open or self.over)
            if self.over:
                with anyio.move_on_after(self.close_timeout):
                    await self.until(lambda: self._pumped)
                raise self.failure or self.lost()
        except BaseException:
            self._shield.shield = True
            self.advance(Step.CLOSE)
            await self._stop_tasks()
            raise
        return self

    def check_loop(self) -> None:
        try:
            here = self._find_loop() if self._find_loop is not None else None
        except RuntimeError:  # trio's, where asyncio's is asked for, or the other way round
            here = None
        if here is not self._loop and not self.over:  # else nobody waits, and the cause is told, as in a forked child
            raise LocalProtocolError(
                "the connection was opened in another event loop, and nothing would wake who waits here: open one in "
                "this event loop, or call it there (anyio.from_thread.run from another thread); amqp10.sync is for "
                "threads without an event loop"
            )

    async def _background_main(self) -> None:
        """Run the background task. A fault of this package's own ends the connection like any other cause."""
        try:
            with self._background:
                await self.supervisor.run(self)
        except Exception as error:
            self._crash = only(error)
            if self._engine is not None:
                self._engine.receive_eof()
                self.handle(self._engine.events())
            self._on_ended(self._reason(None))
        finally:
            self._pumped = True
            self.changed()

    async def keep(self) -> None:
        """Store what links have unsettled, before anything is written that relies on it."""
        assert self.delivery_store is not None
        try:
            await self.delivery_store.commit()
        except StoreError as error:
            self._crash = error
            raise

    def adopt(self) -> None:
        """Take over the engine and pump that the supervisor has made."""
        self._engine, self.pump = self.supervisor.engine, self.supervisor.pump

    # What happened

    def handle(self, events: list[Event]) -> None:
        """Tell those concerned; called by the pump with the events of each pass."""
        last = events[-1] if events else None
        if isinstance(last, ConnectionEnded):
            if self.tokens is not None and (why := self.tokens.explained(last.error)) is not last.error:
                ends = (ConnectionEnded, SessionUnmapped, LinkEnded)
                events = [replace(event, error=why) if isinstance(event, ends) else event for event in events]
                last = events[-1]
                assert isinstance(last, ConnectionEnded)
            # A connection that opens and ends in one pass gets no opened event: nobody could have used it.
            events = [event for event in events if not isinstance(event, ConnectionOpened)]
            ended = self.closed or self._crash is not None or last.error is None
            self.losing = not ended and self.supervisor.keeps(self, last.error)  # type: ignore[arg-type]
        try:
            self.dispatch(events)
        except Exception as error:
            self._crash, self.losing = error, False  # nothing would restore it
            raise

    def _reason(self, error: AmqpError | None) -> AmqpError | None:
        """Return why something ended. A fault of our own goes first: the engine then reports only its consequence."""
        if self._crash is None:
            if error is not None:
                error = self.supervisor.judged(error)
            if error is not None and self._engine is not None and self._engine.remote is not None:
                self.profile.explain(error)
            return error
        if isinstance(self._crash, ConnectionLost | StoreError):
            return self._crash
        cause = ConnectionLost(f"the connection's own task failed: {self._crash!r}")
        cause.__cause__ = self._crash
        return cause

    def _on_authenticated(self, event: Authenticated) -> None:
        self.mechanism = event.mechanism

    def _on_peer_blocked(self, event: PeerBlocked) -> None:
        self.health.changed(blocked=event.reason is not None)
        self.observers.tell(ConnectionUnblocked() if event.reason is None else ConnectionBlocked(event.reason))

    def _on_session_begun(self, event: SessionBegun) -> None:
        session = event.session
        if session.owner is NO_SESSION_OWNER:
            session.begin()
            session.end(Error("amqp:not-implemented", "this client does not accept sessions from its peer"))
        super()._on_session_begun(event)

    def _on_link_attached(self, event: LinkAttached) -> None:
        if event.link.owner is NO_LINK_OWNER:
            event.link.refuse(Error("amqp:not-implemented", "this client does not accept links from its peer"))
        super()._on_link_attached(event)

    def _on_connection_opened(self, event: ConnectionOpened) -> None:
        self.adopt()
        again = self.interrupted
        self.advance(Step.OPEN)
        self.health.changed()
        self._profile = self._named_profile
        downtime = self.supervisor.opened(self.remote.properties)
        if again:
            self.observers.tell(ConnectionRestored(f"{self.supervisor.endpoint}", downtime))
            if self.recovery is not None:
                self.recovery.restored()
        if self.tokens is not None:
            self.tokens.connected()
        self.changed()

    def _on_connection_ended(self, event: ConnectionEnded) -> None:
        self._on_ended(self._reason(event.error))

    def _on_ended(self, error: AmqpError | None) -> None:
        if self.over:
            return
        if self.losing:
            self.losing = False
            if self.open:
                self.interrupt(error)
                self.health.changed()
                self.observers.tell(ConnectionInterrupted(error))
            return
        cause = self.failure or error or (self.loss if self.interrupted else None)
        self.end_for_good(error)
        self.health.changed()
        if self.recovery is not None:
            self.recovery.given_up(error)
        if cause is not None:
            # No warning: without `recovery` the error is raised to whoever uses it, and who leaves expects the end.
            level = logging.INFO if self.recovery is None or self.closed else None
            self.observers.tell(ConnectionGivenUp(cause), level)
        self.observers.end()

    def not_connected(self, error: Exception) -> None:
        """End: there is no connection, and no further attempt."""
        self.failure = error
        if not isinstance(error, AmqpError):
            lost = ConnectionLost(f"the connection could not be restored: {error}")
            lost.__cause__ = error
            error = lost
        self._on_ended(error)

    def forked(self) -> None:
        """End: this is a child process, and the connection is the parent's."""
        engine = self._engine
        if engine is None or self.over:
            return
        self._crash = ConnectionLost("the connection belongs to the process that this one was forked from")
        self.observers.logs = False  # each child would say of each connection that it is lost
        recovery, self.recovery = self.recovery, None
        engine.receive_eof()
        self.handle(engine.events())
        if recovery is not None:
            recovery.given_up(self._crash)
        self._on_ended(self._crash)  # if it was interrupted

    # Sessions and links

    def new_session(self, terms: SessionTerms, *, restorable: bool = True) -> ClientSession:
        return ClientSession(self, terms, restorable=restorable)

    def default_session(self) -> ClientSession:
        """Return the session of links that ask for none; begun when first needed, and again if the peer ended it."""
        if self._default is None or not (self._default.open or self._default.interrupted):
            session = ClientSession(self, self._session_terms)
            session.begin()
            self._default = session
        return self._default

    async def follow_redirect(
        self, cause: AmqpError | None, terms: LinkTerms, sender: bool
    ) -> tuple[ConnectionCore, LinkTerms]:
        return await self.redirects.follow(cause, terms, sender)

    def closed_for_resuming(self, error: AmqpError) -> bool:
        return self.recovery is not None and self.recovery.closed_for_resuming(error)

    # Closing

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._opener != anyio.get_current_task().id:
            self.advance(Step.CLOSE)
            self._background.cancel()
            raise LocalProtocolError(
                "a connection must be closed by the task that opened it: keep its `async with` in one task, such "
                "as the "
                "lifespan of a web application or an anyio fixture; other tasks may use the connection meanwhile"
            ) from exc
        self._shield.shield = True
        self.advance(Step.CLOSE)
        self.health.changed()
        with self.close_deadlines.exit(self.close_timeout, outermost=True) as this:
            try:
                await leave_all([link for link in self.links if link.ever_attached], this.links_by)
                if self.interrupted:
                    self._background.cancel()
                elif self._engine is not None and not self.over:
                    if self._default is not None and self._default.open:
                        self._default.in_engine.end()
                    self._engine.close()
                    self.wake()
                with anyio.CancelScope(deadline=this.by):
                    await self.until(lambda: self._pumped)
            finally:
                await self._stop_tasks()
        if self._crash is not None and exc is None:
            raise self._crash

    async def _stop_tasks(self) -> None:
        """Leave the task group. What it raises for one cause is that cause."""
        tasks = self._tasks
        assert tasks is not None
        self._background.cancel()
        for scope in self._scopes:
            scope.cancel()
        if not self.over and self.interrupted:
            self._on_ended(None)
        try:
            with Ungrouped():
                await tasks.__aexit__(None, None, None)
        finally:
            self._shield.__exit__(None, None, None)


@hinted
class Connection(LinkFactory, Generic[DialectT]):
    """An AMQP connection. `async with` opens it, owns all of its background tasks, and closes it.

        async with Connection("amqp://localhost:5672") as connection: ...

    An exception leaves the block unchanged, never inside an exception group. If the connection is lost, every waiting
    call and every later call raises the cause; the block itself is not cancelled. With `reconnect` the connection comes
    back with all of its sessions and links, and waiting calls keep waiting.

    Args:
        url: amqp://, amqps://, a WebSocket (ws://, wss://) or a Unix socket (amqp+unix://); user and password in it
            choose the SASL mechanism. Several of them, tried in turn; or a callable, a coroutine function or not, that
            returns one for each attempt, or `ConnectionDetails` with credentials of its own. Parameters of a URL, as in
            amqps://host?idle_timeout=30&reconnect=true, override the arguments of the same name.
        reconnect: how to restore a lost connection; None: a lost connection has ended.
        delivery_store: keeps the unsettled deliveries of links that have a `name`, such as a `SQLiteDeliveryStore`. A
            later connection or process with the same `container_id` finds them by that name. Nothing is written to the
            peer before the store has what it relies on.
        tls: a `TLS` or any `ssl.SSLContext`. If None, amqps:// and wss:// trust the system's authorities.
        tls_upgrade: begin without TLS at an amqp:// port, and secure the connection by AMQP's own header (§5.2.1). The
            client disconnects from a peer that answers with anything else.
        proxy: the URL of an HTTP proxy, http://user:password@host:port, or a `Proxy`; the environment is not read.
        websocket: further settings for the request of a ws:// or wss:// URL: a `WebSocket`.
        sasl: a mechanism, or several to choose from, the strongest that the peer offers. None: those that the URL's
            credentials allow, ANONYMOUS without any. False: no SASL layer at all (§5.3).
        tokens: tokens that are renewed: `LoginTokens` to log in with, in place of `sasl`; or `CbsTokens` to put at the
            peer's node `$cbs`, as Azure Service Bus requires.
        container_id: this container's name (§2.4.1); random if None.
        hostname: the virtual host asked for (§2.7.1), for all dialects. RabbitMQ wants "vhost:NAME", and others in
            1.0 the plain name. When None, it is the path of the URL, as "vhost:NAME" for amqp://host/NAME; and without
            a path the name that TLS sends, which is the URL's host unless `tls` says another. In older dialects the
            URL's path wins over a plain `hostname`. The server's own name, and "localhost" for a server on this
            machine, are never taken as a virtual host there.
        idle_timeout: seconds of silence of the peer after which the connection is lost; None for never. The peer is
            told half of it (§2.4.5).
        max_frame_size: the largest frame that this side accepts, in bytes, at least 512.
        channel_max: the highest channel number that this side accepts, 0..65535.
        properties: connection properties (§2.7.1).
        offered_capabilities, desired_capabilities: extensions that this side offers, and would like to use (§2.7.1).
        incoming_window: transfer frames that the default session accepts ahead (§2.5.6).
        connect_timeout: seconds that connecting to one host may take: the name lookup, TCP, the proxy, TLS, the login
            and the peer's open. None: no limit. With `reconnect`, its `attempt_timeout` applies instead.
        close_timeout: seconds that leaving a link, a session or the connection may take, with everything that is still
            open on it. Nested blocks share the time.
        dialect: the protocol: a `DialectName`, or what `register_dialect` made known. "auto" asks the server by the
            headers of all and takes the highest that it speaks, for as long as the connection lives. With "auto",
            credentials and no TLS that checks the server, a server that offers less than the highest dialect raises
            `InsecureTransport`.
        profile: the kind of broker, by a name or a `Profile` of `amqp10.profiles`; None: the peer identifies itself.

    Raises:
        ValueError: the URL or a limit is invalid, or settings do not fit together.
        TypeError: an argument has the wrong type, such as `tls=True`.
        LookupError: there is no such profile.
        Unsupported: there is no such dialect.
    """

    if TYPE_CHECKING:
        # For pyright, which offers no names within the quotes of an argument whose type is a type variable. It looks at
        # `__init__` as well, which checks the other arguments; mypy looks at that alone.
        @overload
        def __new__(cls, url: Address, *, dialect: NamesOfOthers, **settings: Any) -> Self: ...
        @overload
        def __new__(cls, url: Address, *, dialect: Names091, **settings: Any) -> Connection[Names091]: ...
        @overload
        def __new__(cls, url: Address, *, dialect: Names010, **settings: Any) -> Connection[Names010]: ...
        @overload
        def __new__(cls, url: Address, *, dialect: NamesFast, **settings: Any) -> Connection[NamesFast]: ...
        @overload
        def __new__(cls, *args: Any, **settings: Any) -> Self: ...
        def __new__(cls, *args: Any, **settings: Any) -> Any: ...

    @checked
    def __init__(
        self,
        url: Address,
        *,
        reconnect: Reconnect | None = None,
        delivery_store: DeliveryStore | None = None,
        tls: TLSSettings | None = None,
        tls_upgrade: bool = False,
        proxy: str | Proxy | None = None,
        websocket: WebSocket | None = None,
        sasl: SASLSettings = None,
        tokens: Tokens | None = None,
        container_id: str | None = None,
        hostname: str | None = None,
        idle_timeout: float | None = 60.0,
        max_frame_size: int = 131_072,
        channel_max: int = 1023,
        properties: Mapping[Any, Any] | None = None,
        offered_capabilities: Sequence[str] = (),
        desired_capabilities: Sequence[str] = (),
        incoming_window: int = 2048,
        connect_timeout: float | None = 20.0,
        close_timeout: float = 5.0,
        dialect: DialectT = "1.0",  # type: ignore[assignment] # mypy has no defaults for arguments of such types
        profile: str | Profile | None = None,
    ) -> None:
        url, in_url = url_settings(url)
        settings: ConnectionSettings = {
            "reconnect": reconnect,
            "delivery_store": delivery_store,
            "tls": tls,
            "tls_upgrade": tls_upgrade,
            "proxy": proxy,
            "websocket": websocket,
            "sasl": sasl,
            "tokens": tokens,
            "container_id": container_id,
            "hostname": hostname,
            "idle_timeout": idle_timeout,
            "max_frame_size": max_frame_size,
            "channel_max": channel_max,
            "properties": properties,
            "offered_capabilities": offered_capabilities,
            "desired_capabilities": desired_capabilities,
            "incoming_window": incoming_window,
            "connect_timeout": connect_timeout,
            "close_timeout": close_timeout,
            "dialect": dialect,
            "profile": profile,
            **in_url,
        }
        check_range("close_timeout", settings["close_timeout"], 0)
        self._core: ClientConnection = self._made_core(url, settings)
        self._native: Any = None

    def _made_core(self, url: Address | Endpoint, settings: ConnectionSettings) -> ClientConnection:
        reconnect, container_id, tokens = settings["reconnect"], settings["container_id"], settings["tokens"]
        store, proxy, profile = settings["delivery_store"], settings["proxy"], settings["profile"]
        terms = ConnectionTerms(
            container_id=container_id if container_id is not None else f"amqp10-{secrets.token_hex(8)}",
            hostname=settings["hostname"],
            max_frame_size=settings["max_frame_size"],
            channel_max=settings["channel_max"],
            idle_timeout=settings["idle_timeout"],
            offered_capabilities=tuple(settings["offered_capabilities"]),
            desired_capabilities=tuple(settings["desired_capabilities"]),
            properties=dict(settings["properties"] or {}),
        ).checked()
        core = ClientConnection(
            self,
            terms,
            SessionTerms(incoming_window=settings["incoming_window"]).checked(),
            close_timeout=settings["close_timeout"],
            delivery_store=store,
            profile=find_profile(profile) if isinstance(profile, str) else profile,
            named=container_id is not None,
        )
        core.tokens = keeper = token_keeper(core, tokens)
        if isinstance(tokens, LoginTokens) and settings["sasl"] is not None:
            raise ValueError("LoginTokens choose the mechanism: leave out sasl, and use LoginTokens(mechanisms=...)")
        dialect = settings["dialect"]
        core.supervisor = TransportSupervisor(
            url,
            settings=reconnect,
            dialect=find_dialect(dialect) if dialect != "auto" else None,
            terms=terms,
            hostname=settings["hostname"],
            tls=settings["tls"],
            sasl=settings["sasl"],
            route=TransportOptions(
                Proxy(proxy) if isinstance(proxy, str) else proxy, settings["tls_upgrade"], settings["websocket"]
            ),
            connect_timeout=settings["connect_timeout"],
            before_write=core.keep if store is not None else None,
            token_login=keeper.login if isinstance(tokens, LoginTokens) and keeper is not None else None,
        )
        if store is not None and container_id is None:
            raise ValueError("a delivery store finds links again by the container_id too: give one")

        def elsewhere(endpoint: Endpoint) -> ConnectionCore:
            supervisor = core.supervisor
            sasl, tls = supervisor.login
            there: ConnectionSettings = {
                **settings,
                "reconnect": supervisor.settings_elsewhere,
                "sasl": sasl,
                "tls": tls,
            }
            connection = object.__new__(Connection)
            connection._core, connection._native = connection._made_core(endpoint, there), None
            return connection._core

        core.redirects = LinkRedirects(core, elsewhere)
        core.recovery = Restorer(core) if reconnect is not None else None
        return core

    @overload
    @classmethod
    def over(
        cls,
        stream: ByteStream,
        url: str = ...,
        *,
        secure: bool = ...,
        dialect: Names091,
        **settings: Unpack[SettingsOfAnyDialect],
    ) -> Connection[Names091]: ...
    @overload
    @classmethod
    def over(
        cls,
        stream: ByteStream,
        url: str = ...,
        *,
        secure: bool = ...,
        dialect: Names010,
        **settings: Unpack[SettingsOfAnyDialect],
    ) -> Connection[Names010]: ...
    @overload
    @classmethod
    def over(
        cls,
        stream: ByteStream,
        url: str = ...,
        *,
        secure: bool = ...,
        dialect: NamesFast,
        **settings: Unpack[SettingsOfAnyDialect],
    ) -> Connection[NamesFast]: ...
    @overload
    @classmethod
    def over(
        cls,
        stream: ByteStream,
        url: str = ...,
        *,
        secure: bool = ...,
        dialect: Literal["1.0"] | str = ...,
        **settings: Unpack[SettingsOfAnyDialect],
    ) -> Connection: ...
    @classmethod
    @checked
    def over(
        cls,
        stream: ByteStream,
        url: str = "amqp://localhost",
        *,
        secure: bool = False,
        **settings: Unpack[ConnectionSettings],
    ) -> Connection:
        """Make a connection over an existing byte stream, which the connection owns from then on.

        Args:
            stream: any anyio byte stream, such as a memory stream or a tunnel.
            url: provides credentials and a host; the client does not connect to it.
            secure: whether secrets may be sent over the stream in readable form.
            settings: as for `Connection`, except for `reconnect`.

        Raises:
            ValueError: as for `Connection`.
        """
        if settings.get("reconnect") is not None:
            raise ValueError("a given stream cannot be connected again: leave out reconnect")
        if settings.get("dialect") == "auto":
            raise ValueError("the dialect cannot be detected on a given stream: name it")
        connection: Connection = cls(url, **settings)  # type: ignore[arg-type] # whichever dialect the settings name
        core_of(connection).supervisor.given = stream, StreamFacts(secure=secure)
        return connection

    # Facts

    @property
    def open(self) -> bool:
        """Whether the connection can be used now."""
        return self._core.open

    @property
    def close_timeout(self) -> float:
        """Seconds that leaving may take."""
        return self._core.close_timeout

    @close_timeout.setter
    def close_timeout(self, seconds: float) -> None:
        check_type("close_timeout", seconds, float)
        check_range("close_timeout", seconds, 0)
        self._core.close_timeout = seconds
        self._core.close_deadlines.interrupted()  # also for an exit that follows another one at once

    @property
    def container_id(self) -> str:
        """The name of this container."""
        return self._core.container_id

    @property
    def dialect(self) -> str:
        """The name of the dialect in use; "auto" until it is known."""
        return self._core.dialect

    @property
    def capabilities(self) -> frozenset[str]:
        """What the dialect can do; asking for anything else raises `Unsupported`."""
        return self._core.capabilities

    @native_property
    def native(self) -> Any:
        """Return the operations that AMQP 1.0 lacks, such as declaring, binding and deleting; see the dialect's page.

        Type checkers and editors know them where a program names the dialect: `Connection(url, dialect="0-9-1")`. Of
        other connections `amqp091.native(connection)`, or its like for another dialect, returns them with their type.

        Raises:
            Unsupported: the dialect has no such operations, as AMQP 1.0.
        """
        if self._native is None:
            dialect = self._core.supervisor.dialect
            if dialect is None or dialect.native is None:
                instead = "; amqp10.rabbitmq.management declares at RabbitMQ" if dialect is not None else ""
                raise Unsupported(f"dialect {self.dialect!r} has no native API{instead}")
            module, _, name = dialect.native.partition(":")
            self._native = getattr(import_module(module), name)(self)
        return self._native

    @property
    def mechanism(self) -> str | None:
        """The SASL mechanism that was used; None before the login, and without a SASL layer."""
        return self._core.mechanism

    @property
    def remote(self) -> ConnectionTerms:
        """The terms of the peer's open (§2.7.1): container, limits, capabilities, properties.

        Raises:
            LocalProtocolError: the connection is not open yet.
        """
        return self._core.remote

    @property
    def remote_container_id(self) -> str:
        """The name of the peer's container."""
        return self.remote.container_id

    @property
    def remote_properties(self) -> Mapping[Any, Any]:
        """The peer's connection properties: product and version, mostly."""
        return self.remote.properties

    @property
    def offered_capabilities(self) -> tuple[str, ...]:
        """The extensions that the peer offers (§2.7.1)."""
        return self._core.offered_capabilities

    @property
    def profile(self) -> Profile:
        """Facts about the peer's product: the form of its addresses, the meaning of its answers (`amqp10.profiles`).

        Raises:
            LocalProtocolError: the connection is not open yet, and no profile was named.
        """
        return self._core.profile

    @property
    def url(self) -> str:
        """The URL of the current connection, or of the last one, or of the first one to try; without credentials."""
        return self._core.url

    if not TYPE_CHECKING:

        @property
        def connection(self) -> Connection:
            """It was inherited from what sessions and connections have in common."""
            warnings.warn("connection.connection is the connection itself", DeprecationWarning, stacklevel=2)
            return self

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if name != "connection"]

    def events(self) -> Observer:
        """Return an async iterator over the events from now on: interrupted, attempted, restored, given up.

        It ends with the connection. The logger `amqp10.connection` reports the same events, and `health` counts them.
        """
        return self._core.observers.add()

    def health(self) -> Health:
        """Return the current state of the connection: silence, credit, unsettled deliveries, and counts of events.

        The call is cheap: it does not wait, and looks at each link once. The page "Health and logs" has recipes.
        """
        return self._core.health.look(self._core)

    def __repr__(self) -> str:
        return f"<Connection {self._core.described()}: {self._core.state_in_words()}>"

    # Sessions

    @checked
    def session(
        self,
        *,
        incoming_window: int = 2048,
        handle_max: int = 1023,
        properties: Mapping[Any, Any] | None = None,
    ) -> Session:
        """Make a session of its own, to be begun by `async with`.

        Args:
            incoming_window: transfer frames that it takes ahead before the engine refreshes the window (§2.5.6).
            handle_max: the highest link handle this side takes.
            properties: session properties (§2.7.2).

        Raises:
            ValueError: a limit is not valid.
        """
        terms = SessionTerms(incoming_window=incoming_window, handle_max=handle_max, properties=dict(properties or {}))
        return Session(self._core.new_session(terms.checked()))

    def _place(self) -> tuple[ConnectionCore, None]:
        return self._core, None

    async def __aenter__(self) -> Self:
        """Connect, secure, authenticate, open.

        Raises:
            ConnectionLost: no connection could be made, or its certificate is not trusted; the reason is
                in `__cause__`. `HandshakeRefused`, one of these, where a proxy or WebSocket server said no.
            Unsupported: the peer takes no TLS by AMQP's header; or WebSockets need a package that is not installed.
            AuthenticationFailed: no mechanism fitted, or the peer refused the credentials.
            InsecureTransport: a secret would have crossed the network in the clear; nothing was sent.
            ConnectionClosed: the peer closed at once; `condition` and `description` say why.
            RemoteProtocolError: the peer does not speak this protocol.
            OSError, ValueError: a file of `tls` cannot be read or opened; nothing was connected.

        Cancelling: the transport is closed, nothing is left behind.
        """
        await self._core.__aenter__()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Leave the links that are left on it, all at once, and close the connection (§2.4.3).

        Raises:
            LocalProtocolError: another task than the one that opened the connection closes it. The transport is cut.

        Cancelling: is not noticed; it takes `close_timeout` seconds at most, then the transport is cut.
        """
        advise(exc, _EACH_MESSAGE)
        await self._core.__aexit__(exc_type, exc, traceback)
