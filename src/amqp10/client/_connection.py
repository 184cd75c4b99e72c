"""The connection that users hold: it opens, owns the one background task, and tells links what happened (§2.4).

Connection ──owns──> task group ──runs──> Pump ──drives──> Engine
    ^                                       |
    └──────────── events, each pass ────────┘      -> Session, Sender, Receiver by `context`
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, ClassVar, Self, Unpack

import anyio
from anyio.abc import ByteStream, TaskGroup

from ..engine import ConnectionEnded, ConnectionOpened, ConnectionTerms, Engine, Event, SessionTerms
from ..engine import dialect as find_dialect
from ..errors import AmqpError, ConnectionLost, LocalProtocolError, StoreError
from ..net import Proxy, Pump, Route, StreamFacts, TLSSettings, WebSocket
from ..profiles import Profile
from ..profiles import profile as find_profile
from ._dispatch import dispatch
from ._elsewhere import Elsewhere
from ._endpoint import Endpoint, only
from ._facts import Facts
from ._leaving import Leaving, leave_all
from ._lifeline import Lifeline
from ._link import Link
from ._links import Links
from ._observe import ConnectionGivenUp, ConnectionInterrupted, ConnectionRestored, Observers
from ._reconnect import Address, Reconnect
from ._recovery import Recovery
from ._session import Session
from ._settings import ConnectionSettings, SASLSettings
from ._store import DeliveryStore
from ._subscription import Subscribing, SubscriptionReceiver


class Connection(Endpoint, Facts, Links):
    """An AMQP connection; `async with` opens it, owns all that runs in the background, and closes it.

        async with Connection("amqp://guest:guest@localhost") as connection: ...

    An exception of the block leaves it as it is, never inside an exception group. When the connection dies, whoever
    waits on it gets the cause, and so does every later call; the block itself is not cancelled. With `reconnect` it
    comes back with all its sessions and links, and who waits goes on waiting.

    Args:
        url: amqp://, amqps://, a WebSocket (ws://, wss://) or a Unix socket (amqp+unix://); user and password in it
            choose the SASL mechanism. Several of them, tried in turn; or a callable, a coroutine function or not, that
            returns one for each attempt, or `ConnectionDetails` with credentials of its own.
        reconnect: how to stay up; None: a connection that is lost is over.
        delivery_store: what keeps the unsettled deliveries of links whose `name` is given, for links of that name and
            this `container_id` in a later connection, or process: a `SQLiteDeliveryStore` for one. Nothing is written
            before what it relies on is kept.
        tls: a `TLS` or any `ssl.SSLContext`; with amqps:// and wss:// the system's authorities are trusted when None.
        tls_upgrade: begin in the clear at an amqp:// port and secure the connection by AMQP's own header (§5.2.1);
            a peer that answers with anything else is left.
        proxy: the URL of an HTTP proxy, http://user:password@host:port, or a `Proxy`; the environment is not asked.
        websocket: what the request of a ws:// or wss:// URL says, beyond what is usual: a `WebSocket`.
        sasl: a mechanism, or several to choose from, the strongest that the peer offers. None: those that the URL's
            credentials allow, ANONYMOUS without any. False: no SASL layer at all (§5.3).
        container_id: this container's name (§2.4.1); made up when None.
        hostname: the virtual host asked for (§2.7.1); when None, the name that TLS sends, which is the URL's host
            unless `tls` says another. RabbitMQ wants "vhost:NAME"; dialects before 1.0 understand that, too, and the
            URL's path, which comes before a name without "vhost:": amqp://host/NAME. To them the host's own name, as
            the URL or `tls` has it, or "localhost" for this machine, is no virtual host.
        idle_timeout: seconds of silence of the peer after which the connection is lost; None for never. Half of
            it is what the peer is told (§2.4.5).
        max_frame_size: the largest frame this side takes, bytes, 512 at least.
        channel_max: the highest channel number this side takes, 0..65535.
        properties: connection properties (§2.7.1).
        offered_capabilities, desired_capabilities: extensions that this side has, and would use (§2.7.1).
        incoming_window: transfer frames that the default session takes ahead (§2.5.6).
        connect_timeout: seconds that connecting to one host may take: the name, TCP, the proxy, TLS, the login and the
            peer's open. None: no limit. With `reconnect`, its `attempt_timeout` counts instead.
        close_timeout: how long leaving may take, seconds: a link, a session or the connection, with what is left open
            on it; and those of nested blocks, one after the other, all together.
        dialect: the protocol: "1.0", or one of the older ones; "auto" asks the server by their headers and takes the
            highest that it speaks, for as long as the connection lives. Where there is a secret to be told and no TLS,
            an answer that it is not the highest of all raises `InsecureTransport`.
        profile: what broker it is, by a name or a `Profile` of `amqp10.profiles`; None: as the peer says it is.

    Raises:
        ValueError: the URL cannot be understood, a limit is none, or settings do not fit together.
        LookupError: there is no such profile.
        Unsupported: there is no such dialect.
    """

    _kind: ClassVar[str] = "connection"

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
        dialect: str = "1.0",
        profile: str | Profile | None = None,
    ) -> None:
        super().__init__()
        self.connection = self
        self.close_timeout = close_timeout
        route = Route(Proxy(proxy) if isinstance(proxy, str) else proxy, tls_upgrade, websocket)
        self._named_profile = find_profile(profile) if isinstance(profile, str) else profile
        self._profile = self._named_profile
        self._terms = ConnectionTerms(
            container_id=container_id if container_id is not None else f"amqp10-{secrets.token_hex(8)}",
            hostname=hostname,
            max_frame_size=max_frame_size,
            channel_max=channel_max,
            idle_timeout=idle_timeout,
            offered_capabilities=tuple(offered_capabilities),
            desired_capabilities=tuple(desired_capabilities),
            properties=dict(properties or {}),
        ).checked()
        self._lifeline = Lifeline(
            url,
            settings=reconnect,
            dialect=find_dialect(dialect) if dialect != "auto" else None,
            terms=self._terms,
            hostname=hostname,
            tls=tls,
            sasl=sasl,
            route=route,
            connect_timeout=connect_timeout,
            before_write=self._keep if delivery_store is not None else None,
        )
        if delivery_store is not None and container_id is None:
            raise ValueError("a delivery store finds links again by the container_id too: give one")
        self._delivery_store = delivery_store
        self._elsewhere = Elsewhere(
            self,
            lambda endpoint: Connection(
                endpoint,  # type: ignore[arg-type]
                reconnect=self._lifeline.settings_elsewhere,
                delivery_store=delivery_store,
                tls=self._lifeline.login[1],
                tls_upgrade=tls_upgrade,
                proxy=proxy,
                websocket=websocket,
                sasl=self._lifeline.login[0],
                container_id=container_id,
                idle_timeout=idle_timeout,
                max_frame_size=max_frame_size,
                channel_max=channel_max,
                properties=properties,
                offered_capabilities=offered_capabilities,
                desired_capabilities=desired_capabilities,
                incoming_window=incoming_window,
                connect_timeout=connect_timeout,
                close_timeout=close_timeout,
                dialect=dialect,
                hostname=hostname,
                profile=profile,
            ),
        )
        self._recovery = Recovery(self) if reconnect is not None else None
        self._observers = Observers()
        self._session_terms = SessionTerms(incoming_window=incoming_window).checked()
        self._named = container_id is not None
        self._default: Session | None = None
        self._links: dict[Link, Session] = {}  # attached, or being so, or to be so again; and on which session
        self._leaving = Leaving()
        self._subscriptions: dict[SubscriptionReceiver, Subscribing] = {}  # whose links are there
        self._mechanism: str | None = None
        self._native: Any = None
        self._failure: Exception | None = None  # why there never was a connection
        self._engine: Engine | None = None
        self._pump: Pump | None = None
        self._pumped = False
        self._crash: BaseException | None = None
        # Made when the block is entered, for a connection may be made where no event loop runs.
        self._background: anyio.CancelScope
        self._shield: anyio.CancelScope
        self._tasks: TaskGroup | None = None
        self._opener: int | None = None  # the task that entered the block
        self._scopes: set[anyio.CancelScope] = set()
        self._losing = False  # the events that are told just now end with a loss that is no end

    @classmethod
    def over(
        cls,
        stream: ByteStream,
        url: str = "amqp://localhost",
        *,
        secure: bool = False,
        **settings: Unpack[ConnectionSettings],
    ) -> Connection:
        """A connection over a byte stream that exists already, and is the connection's from now on.

        Args:
            stream: any anyio byte stream; memory streams and tunnels for instance.
            url: for its credentials and host; nothing is connected to.
            secure: secrets may cross the stream as they are.
            settings: as for `Connection`, but for `reconnect`.

        Raises:
            ValueError: as for `Connection`.
        """
        if settings.get("reconnect") is not None:
            raise ValueError("a stream that is given cannot be connected again: leave reconnect out")
        if settings.get("dialect") == "auto":
            raise ValueError("a stream that is given cannot be asked what is spoken on it: name the dialect")
        connection = cls(url, **settings)
        connection._lifeline.given = stream, StreamFacts(secure=secure)
        return connection

    def _described(self) -> str:
        return f"to {self._where}"

    @property
    def _where(self) -> str:
        """Where it leads, without credentials."""
        return str(self._lifeline.endpoint or "what a callable says")

    # Opening

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
        self._enter()
        self._opener = anyio.get_current_task().id
        # Cancelling the block must reach neither the background task, which has the closing still to do, nor the
        # waiting for it: the first has a shield of its own, the second a scope around the group, shut while closing.
        self._background = anyio.CancelScope(shield=True)
        self._shield = anyio.CancelScope()
        self._shield.__enter__()
        self._tasks = tasks = anyio.create_task_group()
        await tasks.__aenter__()
        try:
            tasks.start_soon(self._run)
            await self._until(lambda: self.open or self._over)
            if self._over:
                with anyio.move_on_after(self.close_timeout):
                    await self._until(lambda: self._pumped)
                raise self._failure or self._lost()
        except BaseException:
            self._shield.shield = True
            self._closed = True
            await self._stop_tasks()
            raise
        return self

    async def _run(self) -> None:
        """The background task. A fault of this package's own ends the connection like any other cause."""
        try:
            with self._background:
                await self._lifeline.run(self)
        except Exception as error:
            self._crash = only(error)
            if self._engine is not None:
                self._engine.receive_eof()
                self._handle(self._engine.events())
            self._on_ended(self._reason(None))
        finally:
            self._pumped = True
            self._changed()

    async def _keep(self) -> None:
        """What links have unsettled is safe, before anything is written that relies on it."""
        assert self._delivery_store is not None
        try:
            await self._delivery_store.commit()
        except StoreError as error:
            self._crash = error
            raise

    def _adopt(self) -> None:
        """The engine and pump that the lifeline has are the connection's from now on."""
        self._engine, self._pump = self._lifeline.engine, self._lifeline.pump

    def _start(self, function: Callable[..., Awaitable[None]], *args: Any) -> None:
        """Run something in the background, for as long as the connection is open."""
        if self._tasks is not None and not self._over:
            self._tasks.start_soon(self._in_background, function, *args)

    async def _in_background(self, function: Callable[..., Awaitable[None]], *args: Any) -> None:
        with anyio.CancelScope() as scope:
            self._scopes.add(scope)
            try:
                await function(*args)
            finally:
                self._scopes.discard(scope)

    # What happened

    def _handle(self, events: list[Event]) -> None:
        """Tell those concerned; called by the pump with the events of each pass."""
        last = events[-1] if events else None
        if isinstance(last, ConnectionEnded):
            # One that ends in the moment it opens never was one: nobody could have used it.
            events = [event for event in events if not isinstance(event, ConnectionOpened)]
            self._losing = self._lifeline.keeps(self, last.error)
            if self._recovery is not None:
                self._recovery.losing = self._losing
        try:
            dispatch(self, events)
        except Exception as error:
            self._crash = error
            raise

    def _reason(self, error: AmqpError | None) -> AmqpError | None:
        """Why something ended; a fault of our own goes first, for what the engine says then is its consequence."""
        if self._crash is None:
            if error is not None:
                error = self._lifeline.judged(error)
            if error is not None and self._engine is not None and self._engine.remote is not None:
                self.profile.explain(error)
            return error
        if isinstance(self._crash, ConnectionLost | StoreError):
            return self._crash
        cause = ConnectionLost(f"the connection's own task failed: {self._crash!r}")
        cause.__cause__ = self._crash
        return cause

    def _on_opened(self) -> None:
        self._adopt()
        again = self._interrupted
        self.open, self._interrupted = not self._over, False
        self._profile = self._named_profile
        downtime = self._lifeline.opened(self.remote.properties)
        if again:
            self._observers.tell(ConnectionRestored(f"{self._lifeline.endpoint}", downtime))
            if self._recovery is not None:
                self._recovery.restored()
        self._changed()

    def _on_ended(self, error: AmqpError | None) -> None:
        if self._over:
            return
        if self._losing:
            self._losing = False
            if self._recovery is not None:
                self._recovery.losing = False
            if self.open:
                self._interrupt(error)
                self._observers.tell(ConnectionInterrupted(error))
            return
        cause = self._failure or error or (self._loss if self._interrupted else None)
        super()._on_ended(error)
        if self._recovery is not None:
            self._recovery.given_up(error)
        if cause is not None:
            level = logging.INFO if self._recovery is None else None  # the error is raised to whoever uses it
            self._observers.tell(ConnectionGivenUp(cause), level)
        self._observers.end()

    def _not_connected(self, error: Exception) -> None:
        """There is no connection, and no further attempt."""
        self._failure = error
        if not isinstance(error, AmqpError):
            lost = ConnectionLost(f"the connection could not be restored: {error}")
            lost.__cause__ = error
            error = lost
        self._on_ended(error)

    def _forked(self) -> None:
        """This is a child process: the connection is the parent's."""
        engine = self._engine
        if engine is None or self._over:
            return
        self._crash = ConnectionLost("the connection belongs to the process that this one was forked from")
        self._observers.logs = False  # each child would say of each connection that it is lost
        recovery, self._recovery = self._recovery, None
        engine.receive_eof()
        self._handle(engine.events())
        if recovery is not None:
            recovery.given_up(self._crash)
        self._on_ended(self._crash)  # if it was interrupted

    # Sessions and links

    def session(
        self,
        *,
        incoming_window: int = 2048,
        handle_max: int = 1023,
        properties: Mapping[Any, Any] | None = None,
    ) -> Session:
        """A session of its own, to be begun by `async with`.

        Args:
            incoming_window: transfer frames that it takes ahead before the engine refreshes the window (§2.5.6).
            handle_max: the highest link handle this side takes.
            properties: session properties (§2.7.2).

        Raises:
            ValueError: a limit that is none.
        """
        terms = SessionTerms(incoming_window=incoming_window, handle_max=handle_max, properties=dict(properties or {}))
        return Session(self, terms.checked())

    def _default_session(self) -> Session:
        """The session of links that ask for none; begun when first needed, and again if the peer ended it."""
        if self._default is None or not (self._default.open or self._default._interrupted):
            session = Session(self, self._session_terms)
            session._begin()
            self._default = session
        return self._default

    def _place(self) -> tuple[Connection, None]:
        return self, None

    # For sessions and links

    @property
    def _in_engine(self) -> Engine:
        """The engine; links and sessions speak to it.

        Raises:
            LocalProtocolError: the connection was not opened.
        """
        if self._engine is None:
            raise self._gone()
        return self._engine

    def _wake(self) -> None:
        """Have the engine's output written soon; cheap, and idempotent until it was."""
        if self._pump is not None:
            self._pump.wake()

    @property
    def _waker(self) -> Callable[[], None]:
        """What to call in place of `_wake`, once for each message, as long as the transport is this one."""
        return self._pump.wake if self._pump is not None else self._wake

    @property
    def _output_full(self) -> bool:
        """More is waiting to be written than should be; who sends waits in `_output_drained`."""
        return self._pump is not None and self._pump.full

    @property
    def _output_awaited(self) -> bool:
        """Others wait in `_output_drained`."""
        return self._pump is not None and self._pump.awaited

    async def _output_drained(self) -> None:
        """Wait until the output has room, or the connection is over.

        Cancelling: only stops the waiting.
        """
        if self._pump is not None:
            await self._pump.drained()

    # Closing

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Leave the links that are left on it, all at once, and close the connection (§2.4.3).

        Raises:
            LocalProtocolError: another task than the one that opened the connection closes it. The transport is cut.

        Cancelling: is not noticed; it takes `close_timeout` seconds at most, then the transport is cut.
        """
        if self._opener != anyio.get_current_task().id:
            self._closed = True
            self.open = False
            self._background.cancel()
            raise LocalProtocolError(
                "a connection is closed by the task that opened it: keep its `async with` in one task, such as the "
                "lifespan of a web application or an anyio fixture; other tasks may use the connection meanwhile"
            ) from exc
        self._shield.shield = True
        self._closed = True
        self.open = False
        with self._leaving.exit(self.close_timeout, outermost=True) as this:
            try:
                await leave_all([link for link in self._links if link._standing], this.links_by)
                if self._interrupted:
                    self._background.cancel()
                elif self._engine is not None and not self._over:
                    if self._default is not None and self._default.open:
                        self._default._in_engine.end()
                    self._engine.close()
                    self._wake()
                with anyio.CancelScope(deadline=this.by):
                    await self._until(lambda: self._pumped)
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
        if not self._over and self._interrupted:
            self._on_ended(None)
        try:
            await tasks.__aexit__(None, None, None)
        except BaseExceptionGroup as group:
            raise only(group) from None
        finally:
            self._shield.__exit__(None, None, None)
