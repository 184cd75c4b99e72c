"""The connection that users hold, and how its settings become the core behind it (§2.4)."""

from __future__ import annotations

import secrets
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, Self, Unpack, overload

from anyio.abc import ByteStream

from .._arguments import advise, check_range, check_type, checked, hinted
from ..engine import (
    ConnectionTerms,
    SessionTerms,
)
from ..engine import dialect as find_dialect
from ..errors import Unsupported
from ..net import Endpoint, Proxy, StreamFacts, TLSSettings, TransportOptions, WebSocket
from ..profiles import Profile
from ..profiles import profile as find_profile
from ._client_connection import ClientConnection
from ._connecting.supervisor import TransportSupervisor
from ._core.connection import ConnectionCore
from ._core.faces import core_of
from ._environment import url_settings
from ._events import (
    Observer,
)
from ._factory import LinkFactory
from ._health import Health
from ._links.redirects import LinkRedirects
from ._receiving.delivery_face import Delivery
from ._receiving.receiver import Receiver
from ._recovery.restorer import Restorer
from ._requests.requester import Requester
from ._requests.responder import Request, Responder
from ._sending.delivery_face import SentDelivery
from ._sending.sender import Sender
from ._session import Session
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
        arguments = {name: value for name, value in locals().items() if name not in ("self", "url")}
        url, in_url = url_settings(url)
        settings: ConnectionSettings = {**arguments, **in_url}  # type: ignore[typeddict-item]
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
        def connection(self) -> Connection:  # inherited from what sessions and connections have in common
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
