"""The synchronous form of the client, made by tools/make_sync.py: run `make sync`."""

# ruff: noqa: A002, E501
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, Generic, Literal, Self, Unpack, overload

from .. import client, rabbitmq
from .._arguments import Missing, Renamed
from ..client import Address, CbsTokens, ConnectionEvent, DeliveryStore, Health, LoginTokens, Reconnect
from ..client import Connection as AsyncConnection
from ..client.internals import DialectT, Names010, Names091, NamesFast, NamesOfOthers
from ..engine import (
    BindingFacts,
    ConnectionTerms,
    ExchangeFacts,
    LinkTerms,
    QueueFacts,
    ReceiverSettleMode,
    SenderSettleMode,
    SessionTerms,
)
from ..messaging import DeliveryState, Filter, Message, Outcome, Selector, Source, Target
from ..net import Proxy, TLSSettings, WebSocket
from ..profiles import Profile
from ..rabbitmq import Binding, ExchangeType, QueueArguments, QueueInfo, QueueType
from ..sasl import Mechanism
from ._loop import FACADES, Facade, Opened, in_chunks

if TYPE_CHECKING:
    from ..amqp010 import XAStatus, Xid
    from ..amqpfast import Index

    class native_property:  # noqa: N801
        """A property whose type depends on the dialect."""

        def __init__(self, read: Callable[[Any], Any]) -> None: ...
        @overload
        def __get__(self, connection: Connection[Names091], owner: object) -> Native091: ...
        @overload
        def __get__(self, connection: Connection[Names010], owner: object) -> Native010: ...
        @overload
        def __get__(self, connection: Connection[NamesFast], owner: object) -> NativeFast: ...
        @overload
        def __get__(self, connection: Connection[str], owner: object) -> Any: ...
        def __get__(self, connection: Any, owner: object) -> Any: ...

else:
    native_property = property


class LinkFactory(Facade):
    """What makes links: a `Session`, or a `Connection` on its default session."""

    __slots__ = ()

    def browser(
        self, address: str | Source, *, filters: Iterable[Filter] = (), credit: int = 100, require_filters: bool = True
    ) -> Browser:
        """Make a receiver that looks at a queue and leaves it as it is (§3.5.7 "copy"); to be opened by `with`.

        Iterating over it ends when all has been seen. A peer that does not browse raises `Unsupported` on entering.

        Args:
            address: the queue; a `Source` to say more.
            filters: which messages to look at.
            credit: deliveries that may be on their way or wait here.
            require_filters: as for `receiver`.

        Raises:
            ValueError: `credit` is not positive.
        """
        return self._do("browser", address, filters=filters, credit=credit, require_filters=require_filters)

    def management(self, node: str = "$management", *, reply_to: str | None = None) -> Management:
        """Make a client of the peer's management node (AMQP Management, a draft); to be opened by `with`.

        Args:
            node: its address. RabbitMQ and the embedded broker have another kind: see `amqp10.rabbitmq`. Opening this
                one there is `LinkDetached`.
            reply_to: where responses come from, as for `requester`. At Azure it is the node's own address.
        """
        return self._do("management", node, reply_to=reply_to)

    def receiver(
        self,
        address: str | Source | None = None,
        *,
        credit: int | None = None,
        stream: bool = False,
        name: str | None = None,
        settle_mode: SenderSettleMode = "unsettled",
        receiver_settle_mode: ReceiverSettleMode = "first",
        dynamic: bool = False,
        target: Target | None = None,
        max_message_size: int | None = None,
        require_filters: bool = True,
        priority: int | None = None,
        exclusive: bool = False,
        restore: bool = True,
        properties: Mapping[Any, Any] | None = None,
        desired_capabilities: Sequence[str] = (),
    ) -> Receiver:
        """Make a receiver, to be attached by `with`.

        Args:
            address: where messages come from: an address or a `Source` to say more. One that names no outcomes asks for
                all four.
            credit: how many deliveries may be on their way or wait here, granted automatically; 0 for manual credit.
                100 unless said, 1 with `stream`.
            stream: hand a delivery out when its head is here; `delivery.iter_body()` reads its body while it comes in.
                Such a receiver has a session of its own, whose window of 64 frames bounds what is in memory, unless it
                is made on a session.
            name: the link's name; made up when None. With a durable source it names the subscription.
            settle_mode: what the sender is asked for: "unsettled" (at least once), "settled" (at most once), or
                "mixed", as it likes (§2.8.2).
            receiver_settle_mode: "first": an outcome given here settles; "second": when the sender settled (§2.8.3).
            dynamic: let the peer make a node that lives as long as the link; `address` of the receiver names it.
            target: the target as this side describes it (§3.5.4).
            max_message_size: the largest message this side takes, bytes; None: the peer is told no limit, and a
                message that comes in parts may have 512 MiB, or any size with `stream`.
            require_filters: a filter of the source that the peer does not apply is an error (`FilterNotApplied`); False
                to take what comes then, and look at `receiver.source.filter`.
            priority: as long as a consumer of higher priority has credit, those of lower get nothing; 0 where nobody
                says. A link property of Artemis, RabbitMQ, Broker-J and the embedded broker.
            exclusive: be the only consumer of the queue. A peer that does not confirm it raises `Unsupported` on
                entering; the embedded broker does, and refuses a second consumer with `amqp:resource-locked`.
            restore: with `reconnect`, attach it again after a loss; False: it is over with its link, as befits one that
                holds something at the peer which ends with that, such as a session of Azure Service Bus.
            properties: link properties (§2.7.3).
            desired_capabilities: extensions this side would use if the peer offers them.

        Raises:
            LocalProtocolError: neither an address nor `dynamic`, or both.
            ValueError: a settle mode, size or credit is not valid; credit is at most 2^32 - 1.
        """
        return self._do(
            "receiver",
            address,
            credit=credit,
            stream=stream,
            name=name,
            settle_mode=settle_mode,
            receiver_settle_mode=receiver_settle_mode,
            dynamic=dynamic,
            target=target,
            max_message_size=max_message_size,
            require_filters=require_filters,
            priority=priority,
            exclusive=exclusive,
            restore=restore,
            properties=properties,
            desired_capabilities=desired_capabilities,
        )

    def requester(
        self,
        address: str | Target | None,
        *,
        reply_to: str | Source | None = None,
        on_lost: Literal["resend", "raise"] | None = None,
        credit: int = 100,
    ) -> Requester:
        """Make a requester, which sends requests and waits for their replies; to be opened by `with`.

        Args:
            address: where requests go; None for an anonymous one, whose requests each say it in their `to`.
            reply_to: where replies come from: an address, which no other requester may share, or a `Source` to say
                more. None: a dynamic node, made by the peer for this requester. The address that requests go to: a node
                that answers on a link of its own, as those for management at Azure do.
            on_lost: what becomes of requests without a reply when the connection or a link is lost and restored, and
                their dynamic node was lost with it, or it is not known whether they arrived: "resend" them, so that
                they may be processed twice, or "raise" `DeliveryUncertain`. None: as `Reconnect.on_uncertain` says.
            credit: replies that may be on their way; not the number of requests under way.

        Raises:
            ValueError: `credit` is not positive.
        """
        return self._do("requester", address, reply_to=reply_to, on_lost=on_lost, credit=credit)

    def responder(self, address: str | Source, *, credit: int = 100) -> Responder:
        """Make a responder, which receives requests and sends replies; to be opened by `with`.

        Args:
            address: where requests come from.
            credit: requests that may be on their way or wait here.
        """
        return self._do("responder", address, credit=credit)

    def sender(
        self,
        address: str | Target | None,
        *,
        name: str | None = None,
        settle_mode: SenderSettleMode = "unsettled",
        receiver_settle_mode: ReceiverSettleMode = "first",
        source: Source | None = None,
        properties: Mapping[Any, Any] | None = None,
        desired_capabilities: Sequence[str] = (),
    ) -> Sender:
        """Make a sender, to be attached by `with`.

        Args:
            address: where messages go: an address, a `Target` to say more, or None for an anonymous sender whose
                messages each say it in their `to`.
            name: the link's name; made up when None.
            settle_mode: "unsettled" (at least once), "settled" (at most once), or "mixed": each `send` says (§2.8.2).
            receiver_settle_mode: "second": the receiver settles after this side did (§2.8.3).
            source: the source as this side describes it (§3.5.3).
            properties: link properties (§2.7.3).
            desired_capabilities: extensions this side would use if the peer offers them.

        Raises:
            ValueError: a settle mode is not valid.
        """
        return self._do(
            "sender",
            address,
            name=name,
            settle_mode=settle_mode,
            receiver_settle_mode=receiver_settle_mode,
            source=source,
            properties=properties,
            desired_capabilities=desired_capabilities,
        )

    def subscription(
        self,
        address: str | Source,
        name: str,
        *,
        durable: bool = True,
        shared: bool = False,
        global_: bool = False,
        filters: Iterable[Filter] = (),
        timeout: int | None = None,
        credit: int = 100,
        require_filters: bool = True,
        priority: int | None = None,
    ) -> Receiver:
        """Make a receiver of a topic's subscription, to be attached by `with` (§2.6.3, §3.5.6; JMS mapping).

        A durable one stays when the block is left, and takes in what comes meanwhile; the next receiver of the same
        name goes on with it. `close()` of its last receiver ends it, and so does `unsubscribe`. It is found again by
        its name and the connection's `container_id`, but for a global one: by its name.

        A peer that shares no subscriptions, or does not keep them as long as asked for, raises `Unsupported` on
        entering.

        Args:
            address: the topic; a `Source` for more capabilities or filters.
            name: the subscription's name, without "|".
            durable: it outlives its links.
            shared: several receivers take messages from it in turn, each message going to one.
            global_: those of other containers, too.
            filters: which messages come into it; with others the subscription is replaced.
            timeout: a durable one ends that many seconds after its last receiver went; None for never.
            credit: as for `receiver`, and so are `require_filters` and `priority`.

        Raises:
            ValueError: a durable one that is not global, where the connection's `container_id` is made up; global and
                not shared; a name, timeout or credit is not valid.
        """
        return self._do(
            "subscription",
            address,
            name,
            durable=durable,
            shared=shared,
            global_=global_,
            filters=filters,
            timeout=timeout,
            credit=credit,
            require_filters=require_filters,
            priority=priority,
        )

    def transaction(self) -> Transaction:
        """Make a transaction over links of this session, or of the default one; to be declared by `with`."""
        return self._do("transaction")

    def unsubscribe(
        self, name: str, *, shared: bool = False, global_: bool = False, timeout: float | None = None
    ) -> None:
        """End a durable subscription that no receiver uses just now; what waits in it is dropped (§2.6.6).

        Args:
            name, shared, global_: as the `subscription` was made.

        Raises:
            LinkDetached: it does not exist (`amqp:not-found`), or is in use elsewhere and stays.
            LocalProtocolError: it is in use on this connection.
            SessionEnded, ConnectionClosed, ConnectionLost: what it needs is gone.
            ValueError: global and not shared, or the name is not valid.

        Timeout: the subscription may be there still, or not.
        """
        self._wait(timeout, "unsubscribe", name, shared=shared, global_=global_)


class Link(Facade):
    """One end of a link. `Sender` and `Receiver` are the two kinds."""

    __slots__ = ()

    @property
    def address(self) -> str | None:
        return self._get("address")

    def close(self, *, timeout: float | None = None) -> None:
        """Close the link for good: the peer drops its terminus too, a durable subscription ends (§2.6.6).

        Leaving `with` does so, but for termini that are durable or never expire, which it only detaches from.
        Receivers drain and release what was prefetched, senders wait for outcomes. Does nothing when called again.

        Timeout: is not noticed; it takes `close_timeout` seconds at most.
        """
        self._wait(timeout, "close")

    def detach(self, *, timeout: float | None = None) -> None:
        """Detach, and let the peer keep its terminus for the next link of this name (§2.6.4); else as `close`.

        Timeout: is not noticed; it takes `close_timeout` seconds at most.
        """
        self._wait(timeout, "detach")

    @property
    def name(self) -> str:
        """The link's name (§2.6.1): with the two containers and the direction it identifies the link."""
        return self._get("name")

    @property
    def open(self) -> bool:
        """Whether the link can be used now."""
        return self._get("open")

    @property
    def receiver_settle_mode(self) -> ReceiverSettleMode:
        """How the receiver settles, as agreed (§2.8.3): "second" only if both ends said so."""
        return self._get("receiver_settle_mode")

    @property
    def remote(self) -> LinkTerms:
        """What the peer said in its attach (§2.7.3): its termini, settle modes, properties, largest message.

        Raises:
            LocalProtocolError: the link is not attached yet.
        """
        return self._get("remote")

    @property
    def settle_mode(self) -> SenderSettleMode:
        """How the sender settles, as agreed (§2.8.2): the sender's own word is the one in force."""
        return self._get("settle_mode")

    @property
    def source(self) -> Source | None:
        """The source as the peer has it (§3.5.3)."""
        return self._get("source")

    @property
    def unsettled(self) -> int:
        return self._get("unsettled")


class Connection(LinkFactory, Opened, Generic[DialectT]):
    """An AMQP connection. `with` opens it, owns all of its background tasks, and closes it.

        with Connection("amqp://localhost:5672") as connection: ...

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

    __slots__ = ()

    if TYPE_CHECKING:
        # As in the client's own class.
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
        sasl: Mechanism | Sequence[Mechanism] | Literal[False] | None = None,
        tokens: LoginTokens | CbsTokens | None = None,
        container_id: str | None = None,
        hostname: str | None = None,
        idle_timeout: float | None = 60.0,
        max_frame_size: int = 131072,
        channel_max: int = 1023,
        properties: Mapping[Any, Any] | None = None,
        offered_capabilities: Sequence[str] = (),
        desired_capabilities: Sequence[str] = (),
        incoming_window: int = 2048,
        connect_timeout: float | None = 20.0,
        close_timeout: float = 5.0,
        dialect: DialectT = "1.0",  # type: ignore[assignment]
        profile: str | Profile | None = None,
    ) -> None:
        super().__init__(
            AsyncConnection(
                url,
                reconnect=reconnect,
                delivery_store=delivery_store,
                tls=tls,
                tls_upgrade=tls_upgrade,
                proxy=proxy,
                websocket=websocket,
                sasl=sasl,
                tokens=tokens,
                container_id=container_id,
                hostname=hostname,
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
                profile=profile,
            )
        )

    def __enter__(self) -> Self:
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

        Timeout: the transport is closed, nothing is left behind.
        """
        return self._enter()

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Leave the links that are left on it, all at once, and close the connection (§2.4.3).

        Raises:
            LocalProtocolError: another thread than the one that opened the connection closes it. The transport is cut.

        Timeout: is not noticed; it takes `close_timeout` seconds at most, then the transport is cut.
        """
        self._leave(exc_type, exc, traceback)

    @property
    def capabilities(self) -> frozenset[str]:
        """What the dialect can do; asking for anything else raises `Unsupported`."""
        return self._get("capabilities")

    @property
    def close_timeout(self) -> float:
        """Seconds that leaving may take."""
        return self._get("close_timeout")

    @property
    def container_id(self) -> str:
        """The name of this container."""
        return self._get("container_id")

    @property
    def dialect(self) -> str:
        """The name of the dialect in use; "auto" until it is known."""
        return self._get("dialect")

    def events(self) -> Iterator[ConnectionEvent]:
        """Return an iterator over the events from now on: interrupted, attempted, restored, given up.

        It ends with the connection. The logger `amqp10.connection` reports the same events, and `health` counts them.
        """
        return self._do("events")

    def health(self) -> Health:
        """Return the current state of the connection: silence, credit, unsettled deliveries, and counts of events.

        The call is cheap: it does not wait, and looks at each link once. The page "Health and logs" has recipes.
        """
        return self._do("health")

    @property
    def mechanism(self) -> str | None:
        """The SASL mechanism that was used; None before the login, and without a SASL layer."""
        return self._get("mechanism")

    @native_property
    def native(self) -> Any:
        """Return the operations that AMQP 1.0 lacks, such as declaring, binding and deleting; see the dialect's page.

        Type checkers and editors know them where a program names the dialect: `Connection(url, dialect="0-9-1")`. Of
        other connections `amqp091.native(connection)`, or its like for another dialect, returns them with their type.

        Raises:
            Unsupported: the dialect has no such operations, as AMQP 1.0.
        """
        FACADES.update(natives())
        return self._get("native")

    @property
    def offered_capabilities(self) -> tuple[str, ...]:
        """The extensions that the peer offers (§2.7.1)."""
        return self._get("offered_capabilities")

    @property
    def open(self) -> bool:
        """Whether the connection can be used now."""
        return self._get("open")

    @property
    def profile(self) -> Profile:
        """Facts about the peer's product: the form of its addresses, the meaning of its answers (`amqp10.profiles`).

        Raises:
            LocalProtocolError: the connection is not open yet, and no profile was named.
        """
        return self._get("profile")

    @property
    def remote(self) -> ConnectionTerms:
        """The terms of the peer's open (§2.7.1): container, limits, capabilities, properties.

        Raises:
            LocalProtocolError: the connection is not open yet.
        """
        return self._get("remote")

    @property
    def remote_container_id(self) -> str:
        """The name of the peer's container."""
        return self._get("remote_container_id")

    @property
    def remote_properties(self) -> Mapping[Any, Any]:
        """The peer's connection properties: product and version, mostly."""
        return self._get("remote_properties")

    def session(
        self, *, incoming_window: int = 2048, handle_max: int = 1023, properties: Mapping[Any, Any] | None = None
    ) -> Session:
        """Make a session of its own, to be begun by `with`.

        Args:
            incoming_window: transfer frames that it takes ahead before the engine refreshes the window (§2.5.6).
            handle_max: the highest link handle this side takes.
            properties: session properties (§2.7.2).

        Raises:
            ValueError: a limit is not valid.
        """
        return self._do("session", incoming_window=incoming_window, handle_max=handle_max, properties=properties)

    @property
    def url(self) -> str:
        """The URL of the current connection, or of the last one, or of the first one to try; without credentials."""
        return self._get("url")


class Session(LinkFactory):
    """A session (§2.5): links that share a window of transfer frames and an order; begun by `with`.

    Most programs need none of their own: a connection begins one by itself. A second one keeps the flow of its links
    apart from that of the others.
    """

    __slots__ = ()

    def __enter__(self) -> Self:
        """Begin the session.

        Raises:
            ConnectionClosed, ConnectionLost: the connection is gone.
            SessionEnded: the peer ended the session at once.
            LocalProtocolError: the peer takes no further session.

        Timeout: the session is ended as soon as the peer's answer comes.
        """
        return self._enter()

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Leave the links that are left on it, all at once, and end the session.

        Timeout: is not noticed; it takes `close_timeout` seconds at most.
        """
        self._leave(exc_type, exc, traceback)

    @property
    def open(self) -> bool:
        """Whether the session can be used now."""
        return self._get("open")

    @property
    def remote(self) -> SessionTerms:
        """What the peer said in its begin (§2.7.2): its windows and handle-max.

        Raises:
            LocalProtocolError: it has not begun yet.
        """
        return self._get("remote")


class Sender(Link):
    """The sending end of a link. `connection.sender()` makes it, and `with` attaches it.

    Any number of tasks may send at once. Tasks that wait for credit get it in the order in which they came.

    Leaving the block waits for missing outcomes, at most `close_timeout` seconds. If deliveries still have no outcome
    then, the exit raises: the cause if the link ended and no call has raised it yet, otherwise TimeoutError. An
    exception of the block itself has precedence.
    """

    __slots__ = ()

    def __enter__(self) -> Self:
        """Attach the link.

        Raises:
            LinkDetached: the peer refused the link; `condition` and `description` say why (§2.6.3).
            SessionEnded, ConnectionClosed, ConnectionLost: what the link needs is gone.
            Unsupported: the dialect cannot do what the link asks for.
            LocalProtocolError: the peer takes no further link, or the name is in use.

        Timeout: the link is detached as soon as the peer's answer to the attach comes.
        """
        return self._enter()

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Wait for the outcomes that are out, then detach.

        Raises:
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost: the link ended with deliveries in flight, and
                no call has said so yet.
            DeliveryUncertain: of a delivery it is not known whether it arrived, and no call has said so yet.
            TimeoutError: deliveries had no outcome when `close_timeout` seconds had passed.

        Timeout: is not noticed; it takes `close_timeout` seconds at most.
        """
        self._leave(exc_type, exc, traceback)

    @property
    def address(self) -> str | None:
        """The address of the peer's target (§3.5.4); None for an anonymous sender."""
        return self._get("address")

    @property
    def credit(self) -> int:
        """How many messages may be sent now without waiting for the receiver (§2.6.7)."""
        return self._get("credit")

    @property
    def recovered(self) -> tuple[SentDelivery, ...]:
        """Messages that an earlier connection sent on this link, whose outcome is unknown (`delivery_store`).

        This connection resumes them or sends them again. `delivery.outcome()` returns the outcome of each.
        """
        return self._get("recovered")

    def send(
        self,
        message: object,
        *,
        settled: bool = False,
        transaction: Transaction | None = None,
        timeout: float | None = None,
    ) -> None:
        """Send a message and wait until the receiver has accepted it. Sent settled, it is only handed to the wire.

        Args:
            message: a `Message`; any other value is sent as the body of one.
            settled: send it settled, at most once, without an outcome; for `settle_mode="mixed"` (with
                "settled" every message is).
            transaction: send it as part of this transaction: it arrives at the commit (§4.4.1). The outcome is the one
                that it will have then.

        Raises:
            MessageRejected, MessageReleased, MessageModified: the receiver gave another outcome.
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost: the link has ended. If the message was handed
                over before, it is unknown whether it was processed.
            EncodeError, LocalProtocolError: see `submit`.
            anyio.ClosedResourceError: the sender was closed here.

        Timeout: while the call waits to send, nothing is sent and no credit is used. After that the message stays
            on its way, and only the waiting ends. Use `submit` to keep the delivery.
        """
        self._wait(timeout, "send", message, settled=settled, transaction=transaction)

    def send_encoded(
        self,
        payload: bytes,
        *,
        message_format: int = 0,
        settled: bool = False,
        transaction: Transaction | None = None,
        timeout: float | None = None,
    ) -> None:
        """Send an encoded message, and wait until the receiver has accepted it; otherwise like `send`.

        Args:
            payload: its sections (§3.2), or the content that the message-format defines.
            message_format: 0 for a standard message; the two ends agree on others (§2.8.11).
            settled, transaction: as for `send`.

        Raises:
            Unsupported: the dialect has no message-formats, and one is given.
            MessageRejected, MessageReleased, MessageModified, LinkDetached, SessionEnded, ConnectionClosed,
                ConnectionLost, LocalProtocolError, anyio.ClosedResourceError: see `send`.

        Timeout: as for `send`.
        """
        self._wait(
            timeout, "send_encoded", payload, message_format=message_format, settled=settled, transaction=transaction
        )

    def send_many(
        self,
        messages: Iterable[object],
        *,
        window: int = 1000,
        settled: bool = False,
        transaction: Transaction | None = None,
        timeout: float | None = None,
    ) -> int:
        """Send messages one after the other, wait for all outcomes, and return how many were accepted: all of them.

        After the first message that is not accepted, no more are taken. The call still waits for the outcomes of those
        in flight, and then raises the exception of the first. So every message taken from `messages` has an outcome
        when the call returns or raises, unless the link ended or the call was cancelled, and you can continue with the
        same iterator. A note on the exception has the numbers.

        Args:
            messages: any iterable or async iterable of what `send` takes; it is read as fast as messages can be sent.
            window: the maximum number of messages without an outcome.
            settled, transaction: as for `send`.

        Raises:
            MessageRejected, MessageReleased, MessageModified: the first outcome that was not Accepted.
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost: the link has ended; it is unknown whether the
                messages in flight were processed.
            EncodeError, LocalProtocolError: see `submit`. They are raised after the messages in flight have their
                outcomes, and so is anything that `messages` itself raises.
            TypeError: `messages` is one message, such as a str or a dict.
            anyio.ClosedResourceError: the sender was closed here.

        Timeout: no further message is sent. Those in flight stay on their way, and closing the sender waits for
            them.
        """
        count = 0
        for chunk in in_chunks(messages):
            count += self._wait(timeout, "send_many", chunk, window=window, settled=settled, transaction=transaction)
        return count

    def send_stream(
        self,
        message: Message | None,
        source: str | os.PathLike[str] | bytes | bytearray | memoryview | BinaryIO | Iterable[bytes],
        *,
        size: int | None = None,
        settled: bool = False,
        transaction: Transaction | None = None,
        timeout: float | None = None,
    ) -> int:
        """Send a message whose body comes from a file or an iterator; return the bytes of the body.

        Args:
            message: as for `stream`.
            source: a path; a binary file, which is read to its end; anything else with a `read`, a coroutine or not;
                an iterable or async iterable of bytes; or the bytes themselves.
            size: as for `stream`; of a path and of bytes it is known.
            settled, transaction: as for `send`.

        Raises:
            MessageRejected, MessageReleased, MessageModified, LinkDetached, SessionEnded, ConnectionClosed,
                ConnectionLost, EncodeError, LocalProtocolError, anyio.ClosedResourceError: as for `stream` and what is
                called on it.
            OSError: the file cannot be read; the delivery is aborted, as with whatever else `source` raises.
            TypeError: `source` is of another type.

        Timeout: the delivery is aborted as long as its end is not handed to the wire; after that only the waiting
            for the outcome ends. A file's `read` that blocks is waited for.
        """
        return self._wait(timeout, "send_stream", message, source, size=size, settled=settled, transaction=transaction)

    def stream(
        self,
        message: Message | None = None,
        *,
        size: int | None = None,
        settled: bool = False,
        transaction: Transaction | None = None,
    ) -> BodyWriter:
        """Send a message while its body is being made, in bounded memory.

            with sender.stream(Message(content_type="video/mp4")) as body:
                body.send(chunk)

        Other messages of this sender wait until the block is left.

        Args:
            message: the header, annotations, properties and footer; its body must be None.
            size: the number of bytes of the body, if it is known. The body is then one data section, which every
                receiver can read. Otherwise each chunk is a data section.
            settled: as for `send`.
            transaction: as for `send`; leave this block before that of the transaction.

        Raises:
            ValueError: the message has a body, or `size` is negative.
            Unsupported: the dialect has no streaming.
        """
        return self._do("stream", message, size=size, settled=settled, transaction=transaction)

    def submit(
        self,
        message: object,
        *,
        settled: bool = False,
        transaction: Transaction | None = None,
        timeout: float | None = None,
    ) -> SentDelivery:
        """Hand a message to the wire; `delivery.outcome()` later returns its outcome.

        It waits only for link credit, the session's window and room in the output. Other tasks run at the latest after
        every 64 messages or 256 KiB.

        Args:
            message, settled, transaction: as for `send`.

        Raises:
            EncodeError: the message holds a value without an AMQP encoding; nothing was sent.
            LocalProtocolError: the message is larger than the peer accepts (`remote.max_message_size`), or is sent
                settled on a link whose settle mode forbids it, or the transaction has ended or cannot cover this link;
                nothing was sent.
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost: the link has ended; nothing was sent.
            anyio.ClosedResourceError: the sender was closed here.

        Timeout: nothing was sent and no credit used.
        """
        return self._wait(timeout, "submit", message, settled=settled, transaction=transaction)

    def traced(self, message: Message) -> Message:
        """Return a message to put inside another one, such as a batch: with telemetry it has the context of a trace.

        What `send` and its kin take needs no such call: they add the context themselves.
        """
        return self._do("traced", message)

    @property
    def unsettled(self) -> int:
        """How many deliveries have no outcome yet."""
        return self._get("unsettled")

    if not TYPE_CHECKING:
        prepared = Renamed("traced")


class Receiver(Link):
    """The receiving end of a link. `connection.receiver()` makes it, and `with` attaches it.

    `for delivery in receiver` continues until the link ends, and then raises the reason.

    Credit is automatic with `credit` > 0. The deliveries that the peer may send and those that wait here are never more
    than `credit` together. The credit is topped up when `receive` has taken half of them, so a slow application gets no
    more. With `credit=0` it is manual: `add_credit`, `drain`.

    Leaving the block drains the credit and releases every delivery that was not taken, so that nothing stays locked at
    the peer. The peer sends deliveries again that were taken and not settled.
    """

    __slots__ = ()

    def __enter__(self) -> Self:
        """Attach the link.

        Raises:
            LinkDetached: the peer refused the link; `condition` and `description` say why (§2.6.3).
            FilterNotApplied: the peer does not apply a filter of the source; no credit was given, and the link is
                detached again.
            SessionEnded, ConnectionClosed, ConnectionLost: what the link needs is gone.
            Unsupported: the dialect cannot do what the link asks for; or the peer, as its answer shows: keep the
                subscription, share it, let this receiver be the only one, browse.
            LocalProtocolError: the peer takes no further link, or the name is in use.

        Timeout: the link is detached as soon as the peer's answer to the attach comes; no credit was given, so no
            message is concerned.
        """
        return self._enter()

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Drain, release what was prefetched, detach.

        Timeout: is not noticed; it takes `close_timeout` seconds at most.
        """
        self._leave(exc_type, exc, traceback)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Delivery:
        return self._step()

    @property
    def active(self) -> bool | None:
        """Whether the peer has this receiver get messages now, of several on a queue with a single active consumer.

        RabbitMQ reports it since 4.3, for quorum queues, by the flow property `rabbitmq:active`. None if the peer has
        not reported it. `ReceiverActivity` reports each change.
        """
        return self._get("active")

    def add_credit(self, credit: int, *, transaction: Transaction | None = None) -> None:
        """Let the peer send `credit` more deliveries (§2.6.7). For receivers with `credit=0`; never blocks.

        Args:
            transaction: acquires all messages of the current credit as part of this transaction (§4.4.3), and includes
                their outcomes, however they are given. A rollback returns all of them to the peer. At the end of the
                transaction the remaining credit is drained; messages without an outcome by then are settled as usual.

        Raises:
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, anyio.ClosedResourceError: the link is over.
            LocalProtocolError: the credit of this receiver is automatic; the transaction is over, or cannot cover this
                link; or the receiver acquires in another transaction, or in one where none is given.
            Unsupported: the peer is known not to acquire in transactions; or the receiver streams.
            ValueError: `credit` is negative.
        """
        self._do("add_credit", credit, transaction=transaction)

    @property
    def address(self) -> str | None:
        """The address of the peer's source; for a dynamic receiver, the address of the node made for it (§3.5.3)."""
        return self._get("address")

    @property
    def available(self) -> int:
        """How many waiting messages the peer has announced; 0 if it announced none."""
        return self._get("available")

    @property
    def buffered(self) -> int:
        """How many deliveries are here and wait to be received."""
        return self._get("buffered")

    @property
    def credit(self) -> int:
        """How many deliveries the peer may still send."""
        return self._get("credit")

    def drain(self, *, timeout: float | None = None) -> None:
        """Ask the peer to use the credit now or give it back, and wait until it has (§2.6.7).

        Afterwards `credit` is 0, and the deliveries that the peer sent for it wait here (`buffered`). The link stays
        usable: add manual credit again; automatic credit is topped up as soon as deliveries are taken or waited for.

        Raises:
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, anyio.ClosedResourceError: the link is over.
            anyio.BusyResourceError: another thread is draining this receiver.
            Unsupported: the dialect has no drain.

        Timeout: the credit that is left is the peer's again, as before.
        """
        self._wait(timeout, "drain")

    def processing(self, messages: Sequence[Message]) -> AbstractContextManager[object]:
        """Return a context manager for the handling of messages: a span with telemetry, and nothing without.

        `with delivery` and a `Worker` have one by themselves: this is for several messages that are handled at once.
        """
        return self._do("processing", messages)

    def receive(self, *, timeout: float | None = None) -> Delivery:
        """Return the next delivery, in order of arrival.

        While deliveries wait here, most calls return one without letting other threads run. After every 64 of them, other
        tasks run if half a millisecond has passed since their last turn. After the end of the link, the deliveries that
        are here are still returned; then the reason is raised.

        Raises:
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost: the link is over, and why.
            TransactionRolledBack: the credit was a transaction's, and the link was lost.
            anyio.BusyResourceError: another thread is receiving from this receiver.
            anyio.ClosedResourceError: the receiver was closed here.

        Timeout: no delivery is lost; one that has arrived stays for the next call. Up to 64 waiting deliveries may
            still be returned before the cancellation takes effect.
        """
        return self._in_turn(timeout, "receive")

    def receive_batch(
        self, size: int, *, max_wait: float | None = None, timeout: float | None = None
    ) -> list[Delivery]:
        """Receive several deliveries at once, in order of arrival: 1 to `size` of them, [] only when `max_wait` passed.

        Args:
            size: the maximum number to return. With automatic credit a batch is never larger than `credit`, because the
                peer sends no more before some were taken.
            max_wait: how long to collect, in seconds: return when the batch is full or this time has passed. None:
                wait for the first delivery, and return it with the others that have arrived by then.

        Raises:
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost: the link is over and nothing is left here.
            anyio.BusyResourceError: another thread is receiving from this receiver.
            anyio.ClosedResourceError: the receiver was closed here.
            ValueError: `size` is not positive, or `max_wait` is negative.

        Timeout: no delivery is lost: those that came stay for the next call.
        """
        return self._in_turn(timeout, "receive_batch", size, max_wait=max_wait)

    @property
    def unsettled(self) -> int:
        """How many deliveries, received or still buffered here, are not settled at both ends."""
        return self._get("unsettled")


class Browser(Receiver):
    """A receiver that looks at a queue and leaves it as it is; made by `connection.browser()`.

    `for delivery in browser` ends when all that waits has been seen, and may be started again for what came
    meanwhile; `receive` waits for it. Outcomes have no effect on these deliveries, `with delivery as message:` neither.

    A broker that takes messages although it said to copy them (`profile.copies`: RabbitMQ) has them back when the block
    is left; until then they are here, and nobody else gets them, and a quorum queue drops what was taken 20 times. A
    browser that is lost with its connection is over: what was seen would all be seen again.
    """

    __slots__ = ()

    def __next__(self) -> Delivery:
        return self._step()

    def receive(self, *, timeout: float | None = None) -> Delivery:
        """Return the next message, waiting for it to come if need be; see `Receiver.receive`.

        Raises:
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost: the link is over, and why.
            anyio.BusyResourceError: another thread is receiving from this receiver.
            anyio.ClosedResourceError: the receiver was closed here.

        Timeout: no delivery is lost: one that came stays for the next call.
        """
        return self._in_turn(timeout, "receive")

    def receive_batch(
        self, size: int, *, max_wait: float | None = None, timeout: float | None = None
    ) -> list[Delivery]:
        """Receive several messages at once; see `Receiver.receive_batch`.

        Raises:
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost: the link is over and nothing is left here.
            anyio.BusyResourceError: another thread is receiving from this receiver.
            anyio.ClosedResourceError: the receiver was closed here.
            ValueError: `size` is not positive.

        Timeout: no delivery is lost: those that came stay for the next call.
        """
        return self._in_turn(timeout, "receive_batch", size, max_wait=max_wait)


class Delivery(Facade):
    """A message that was received, and its settlement.

    Settling is synchronous and never blocks. The engine merges neighbors into ranges, and the connection's own task
    writes them. The first outcome counts; a second one does nothing. If it differs, the log has a warning, except for
    `release`, which you may call at the end of a block whether or not the delivery was settled in it.

    `with delivery as message:` accepts at the end of the block unless an outcome was given in it, answers an
    exception with `modify(delivery_failed=True)`, and a cancellation with `release()`. A message that cannot be
    decoded is rejected with `amqp:decode-error`, and the `DecodeError` raised.

    If the link's source does not list an outcome (`receiver.source.outcomes`), the nearest listed one is sent: `modify`
    and `release` stand in for each other, a modification with undeliverable-here for `reject`, and otherwise the
    source's default outcome. If only `accepted` is left, the calls raise `Unsupported`, and the message goes back with
    the link. So does `accept`, and with it the end of `with delivery`, if `accepted` is not listed.

    With a streaming receiver (`stream=True`), `message` has everything except the body: `iter_body` or `save` reads
    that. You may give an outcome at any time; the rest of the body is then discarded as it arrives.
    """

    __slots__ = ()

    def __enter__(self) -> Message:
        return self._do("__enter__")

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._do("__exit__", exc_type, exc, traceback)

    def accept(self, *, transaction: Transaction | None = None) -> None:
        """Tell the sender that the message was processed (§3.4.2).

        Args:
            transaction: give the outcome as part of this transaction: it takes effect at the commit (§4.4.2). After a
                rollback the message arrives again, here or elsewhere; with receiver-settle-mode "second" it stays here,
                to be settled again.

        Raises:
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost: the link has ended; the sender delivers the
                message again.
            StaleDelivery: the link was lost and came back without this delivery, or the peer took the delivery back, as
                RabbitMQ 4.3 does if the outcome takes too long.
            LocalProtocolError: with `transaction`: it has ended or cannot cover this link, or the delivery is already
                settled or part of another one. Without it, a second outcome does nothing; see `Delivery`.
            Unsupported: the peer is known not to apply the outcome in a transaction.
            anyio.ClosedResourceError: the receiver was closed here.
        """
        self._do("accept", transaction=transaction)

    def iter_body(self) -> Iterator[bytes]:
        """Return the body's data piece by piece; with a streaming receiver, while it arrives.

            for chunk in delivery.iter_body(): ...

        With `receiver(..., stream=True)` a piece is what one frame brought of one data section, the body of `message`
        is None, and `message.footer` is known at the end. A body that is not data is not streamed: it is in `message`,
        and no larger than 1 MiB. Waiting for a piece raises

        - `DeliveryAborted`: the sender aborted the delivery (§2.6.14);
        - `DecodeError`: the message is malformed, or too much of it would have to be held to be understood;
        - `LinkDetached`, `SessionEnded`, `ConnectionClosed`, `ConnectionLost`: the link ended first;
        - `anyio.ClosedResourceError`: the receiver was closed here first;
        - `LocalProtocolError`: the delivery was given an outcome, and the rest of its body up with that;
        - `anyio.BusyResourceError`: another thread waits for a piece of it.

        Cancelling the waiting loses nothing: the next `iter_body()` goes on where this one was.

        Raises:
            LocalProtocolError: the body is an amqp-value or amqp-sequence: see `message.body`.
            DecodeError: the payload is malformed.
        """
        return self._do("iter_body")

    @property
    def local_settled(self) -> bool:
        """Whether this side has settled the delivery. So it has from the start if the message was sent settled."""
        return self._get("local_settled")

    @property
    def message(self) -> Message:
        """The message. Each of its sections is decoded when you read one of its fields.

        Raises:
            DecodeError: the payload is not a message (§3.2): raised where what is malformed is looked at, by a field of
                the message or its `check()`. The delivery can still be settled, by `reject` for one.
        """
        return self._get("message")

    @property
    def message_format(self) -> int:
        """The message-format: 0 for a standard AMQP message (§3.2)."""
        return self._get("message_format")

    def modify(
        self,
        *,
        delivery_failed: bool = False,
        undeliverable_here: bool = False,
        message_annotations: Mapping[Any, Any] | None = None,
        transaction: Transaction | None = None,
    ) -> None:
        """Give the message back, changed (§3.4.5).

        Args:
            delivery_failed: count this as a failed attempt in the message's delivery-count.
            undeliverable_here: do not deliver it to this link again.
            message_annotations: annotations to add to the message or replace in it.
            transaction: see `accept`.

        Raises:
            EncodeError: an annotation has a key or value that AMQP lacks; nothing was sent.
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, LocalProtocolError, Unsupported,
                anyio.ClosedResourceError: see `accept`.
        """
        self._do(
            "modify",
            delivery_failed=delivery_failed,
            undeliverable_here=undeliverable_here,
            message_annotations=message_annotations,
            transaction=transaction,
        )

    @property
    def payload(self) -> bytes:
        """The encoded message, as `Message.decode` takes it; empty with a streaming receiver."""
        return self._get("payload")

    def reject(
        self,
        condition: str | None = None,
        description: str | None = None,
        info: Mapping[Any, Any] | None = None,
        *,
        transaction: Transaction | None = None,
    ) -> None:
        """Tell the sender that the message is invalid, and why; it is not delivered again (§3.4.3).

        Args:
            condition: an error condition such as "amqp:decode-error"; with None no error is given at all.
            description: a text for people.
            info: further details.
            transaction: see `accept`.

        Raises:
            ValueError: the condition is empty or has blanks, as a text for people has; nothing was sent.
            EncodeError: the condition is not ASCII, or `info` has a key or value that AMQP lacks; nothing was sent.
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, LocalProtocolError, Unsupported,
                anyio.ClosedResourceError: see `accept`.
        """
        self._do("reject", condition, description, info, transaction=transaction)

    def release(self, *, transaction: Transaction | None = None) -> None:
        """Give the message back unprocessed, as if it had never arrived (§3.4.4).

        Args:
            transaction: see `accept`.

        Raises:
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, LocalProtocolError, Unsupported,
                anyio.ClosedResourceError: see `accept`.
        """
        self._do("release", transaction=transaction)

    @property
    def remote_state(self) -> DeliveryState | None:
        """The state that the sender told last: after `wait_settled`, what it made of the outcome; often None."""
        return self._get("remote_state")

    def save(self, target: str | os.PathLike[str] | BinaryIO, *, timeout: float | None = None) -> int:
        """Write the body's data to a file, from where `iter_body` would continue, and return the number of bytes.

        Args:
            target: a path, or a binary file or anything else with its `write`, a coroutine or not. What is at the path
                is replaced when all was written, and left as it was when that fails; a device or pipe is written into.

        Raises:
            DeliveryAborted, DecodeError, LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost,
                LocalProtocolError, anyio.ClosedResourceError, anyio.BusyResourceError: see `iter_body`.
            OSError: the file cannot be written.

        Timeout: the path stays as it was; a file has what was written. A `write` that blocks is waited for.
        """
        return self._wait(timeout, "save", target)

    def settle(self, outcome: Outcome, *, transaction: Transaction | None = None) -> None:
        """Give an outcome that you have as an object; `accept`, `reject`, `release` and `modify` create theirs.

        Args:
            outcome: `Accepted`, `Rejected`, `Released` or `Modified` (§3.4).
            transaction: see `accept`.

        Raises:
            TypeError: the outcome is no object of these types.
            EncodeError: a field of it is not of the type that AMQP has there; nothing was sent.
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, StaleDelivery, LocalProtocolError,
                Unsupported, anyio.ClosedResourceError: see `accept`.
        """
        self._do("settle", outcome, transaction=transaction)

    @property
    def stale(self) -> bool:
        """Whether the link was lost and came back without this delivery. The message then arrives again."""
        return self._get("stale")

    @property
    def state(self) -> DeliveryState | None:
        """The outcome that was given here, in a `TransactionalState` if as part of a transaction; None before that."""
        return self._get("state")

    @property
    def tag(self) -> bytes:
        """The delivery-tag that the sender chose, at most 32 bytes (§2.6.12)."""
        return self._get("tag")

    def wait_settled(self, *, timeout: float | None = None) -> None:
        """Wait until the delivery is settled at both ends.

        With receiver-settle-mode "second" an outcome is provisional until the sender has settled (§2.6.12). In mode
        "first" the delivery is settled as soon as the outcome is given, and the call returns at once.

        Raises:
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost: the link ended first; whether the sender
                saw the outcome is not known.
            StaleDelivery: the link was lost, and the peer did not resume the delivery.
            anyio.ClosedResourceError: the receiver was closed here first.

        Timeout: only stops the waiting; the outcome stands.
        """
        self._wait(timeout, "wait_settled")

    if not TYPE_CHECKING:
        body = Missing("a delivery has no body: use delivery.message.body, or delivery.iter_body() for its pieces")
        settled = Renamed("wait_settled", "; local_settled says whether this side has settled the delivery")


class SentDelivery(Facade):
    """A message that was sent, and the promise of its outcome.

    The link keeps it even if the program does not: closing the sender waits for unsettled deliveries.
    """

    __slots__ = ()

    @property
    def local_settled(self) -> bool:
        """Whether this side has settled the delivery. So it has from the start if the message was sent settled."""
        return self._get("local_settled")

    def outcome(self, *, timeout: float | None = None) -> Outcome:
        """Wait for the receiver's outcome: Accepted, Rejected, Released or Modified (§3.4).

        A message that was sent settled is Accepted at once, as the receiver sends no outcome. A receiver that settles
        without an outcome has used the source's default outcome (§3.5.3), else it may or may not have processed the
        message, which is Modified(delivery_failed=True).

        Does not yield to other threads when the outcome is known already.

        Raises:
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost: the link ended first; whether the message
                was processed is not known.
            DeliveryUncertain: the link was lost, and it is not known either, and it is not to be sent again
                (`Reconnect.on_uncertain`).
            anyio.ClosedResourceError: the sender was closed here first, and did not get the outcome in time.
            LocalProtocolError: the connection was opened in another event loop; the message may be on its way.

        Timeout: only stops the waiting; the outcome is not lost, ask again.
        """
        return self._wait(timeout, "outcome")

    @property
    def payload(self) -> bytes:
        """The encoded message, as `Message.decode` takes it; kept at least until the delivery is settled."""
        return self._get("payload")

    @property
    def remote_settled(self) -> bool:
        """Whether the receiver has settled the delivery."""
        return self._get("remote_settled")

    @property
    def tag(self) -> bytes:
        """The delivery-tag, at most 32 bytes, unique among the unsettled deliveries of its link (§2.6.12)."""
        return self._get("tag")


class BodyWriter(Facade):
    """Writes the body of one message; made by `sender.stream()`, begun and ended by `with`.

    While it is open the sender's link is its own: other messages of the same sender wait until it ends. Leaving the
    block sends the message's footer, which may be set in the block, and waits for the outcome as `Sender.send` does.
    Leaving it by an exception, cancellation among them, aborts the delivery: the receiver forgets it (§2.6.14).

    Attributes:
        message: the head and the footer.
        sent: bytes of the body that were sent.
    """

    __slots__ = ()

    def __enter__(self) -> Self:
        """Wait for the sender's other messages, link credit, window and output, then send the head.

        Raises:
            EncodeError: the head holds a value without an AMQP encoding.
            LocalProtocolError: as for `Sender.submit`, for one that the transaction is over; or the stream was opened
                before.
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost: the link is over; nothing was sent.
            anyio.ClosedResourceError: the sender was closed here.

        Timeout: nothing was sent and no credit used.
        """
        return self._enter()

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Send the footer and wait for the outcome; after an exception, abort.

        Raises:
            MessageRejected, MessageReleased, MessageModified: the outcome was not Accepted.
            LocalProtocolError: less was sent than `size` said, or the delivery was aborted by a `send` that was cut
                off; it is aborted.
            EncodeError: the footer holds a value without an AMQP encoding; the delivery is aborted.
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost: the link is over. If the end of the message
                was handed over before, whether it was processed is not known.
            anyio.ClosedResourceError: the sender was closed here.

        Timeout: as long as the end of the message is not handed to the wire, the delivery is aborted. After that
            the message is on its way and stays so; only the waiting ends.
        """
        self._leave(exc_type, exc, traceback)

    @property
    def frame_room(self) -> int:
        """The bytes of a chunk that fill one frame of the connection; of use to who makes chunks of any size."""
        return self._get("frame_room")

    def send(self, chunk: bytes | bytearray | memoryview, *, timeout: float | None = None) -> None:
        """Send a piece of the body, of any size; returns when all of it is handed to the wire.

        Without a `size` each chunk becomes a data section of its own, so that chunks of many kilobytes are better than
        many small ones.

        Raises:
            MessageRejected, MessageReleased, MessageModified: the receiver has settled before the end; leaving the
                block aborts what is left.
            LocalProtocolError: the message becomes larger than the peer takes (`remote.max_message_size`) or than
                `size`; or the delivery was aborted.
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost: the link is over; the receiver drops what it
                has of the message.
            anyio.ClosedResourceError: the sender was closed here.

        Timeout: nothing of the chunk was sent, or else, where some of its frames were, the delivery is aborted.
        """
        self._wait(timeout, "send", chunk)


class Transaction(Facade):
    """Work that happens as a whole or not at all; made by `connection.transaction()`, declared by `with`.

        with connection.transaction() as transaction:
            sender.send(message, transaction=transaction)
            delivery.accept(transaction=transaction)

    Leaving the block commits it; leaving it by an exception, a cancellation among them, rolls it back. Any number of
    links of the connection can take part; those of other sessions than its own only if the coordinator says that it
    can do that.

    Attributes:
        id: what the coordinator calls it; None while it is not declared. It may be used again for a later one.
        state: "new"; "active" while it can take work; "ending" while it waits to be committed; then "committed",
            "rolled-back", or "in-doubt" when no answer came to the commit.
    """

    __slots__ = ()

    def __enter__(self) -> Self:
        """Ask the coordinator to declare it.

        Raises:
            Unsupported: the dialect has no transactions, or the peer is known to have none; nothing was written.
            LinkDetached, SessionEnded: the peer has no coordinator; `condition` and `description` say so.
            TransactionError: the coordinator declared none.
            ConnectionClosed, ConnectionLost: the connection is gone.
            LocalProtocolError: it was declared before.

        Timeout: once the coordinator was asked, what it declared is rolled back; in `close_timeout` seconds at most.
        """
        return self._enter()

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Commit, or roll back if the block is left by an exception.

        Raises:
            TransactionRolledBack, TransactionInDoubt, MessageReleased: see `commit`.

        Timeout: see `commit` and `rollback`.
        """
        self._leave(exc_type, exc, traceback)

    @property
    def active(self) -> bool:
        """It can take work: it is declared, and neither committed nor rolled back."""
        return self._get("active")

    def commit(self, *, timeout: float | None = None) -> None:
        """Make it happen. Leaving the block does so, too.

        Waits for the outcomes of what was sent in it; if one of them is not accepted, it is rolled back.

        Raises:
            TransactionRolledBack: nothing of it happened: a message was not accepted (`__cause__`), the coordinator
                refused, or one of its links, the session or connection ended before it was asked (`__cause__`).
            TransactionInDoubt: the link, session or connection ended after the coordinator was asked (`__cause__`).
            MessageReleased: in 0-9-1, where that is known only now, no queue took a message of it; all else in it
                happened, and `state` is "committed".
            LocalProtocolError: it is over already, or a stream in it is not complete; nothing was done.

        Timeout: until the coordinator is asked, it is rolled back. After that its answer is waited for, in
            `close_timeout` seconds at most; `state` says how it ended.
        """
        self._wait(timeout, "commit")

    @property
    def id(self) -> bytes | None:
        """What the coordinator calls it; None while it is not declared."""
        return self._get("id")

    def rollback(self, *, timeout: float | None = None) -> None:
        """Undo it: messages sent in it are forgotten, and what was settled in it is as if it had not been.

        Does nothing when it is over. It never fails: what the coordinator cannot be told it does when the link to it
        ends (§4.1).

        Timeout: is not noticed; it takes `close_timeout` seconds at most.
        """
        self._wait(timeout, "rollback")

    @property
    def state(self) -> Literal["new", "active", "ending", "committed", "rolled-back", "in-doubt"]:
        """How far it has come."""
        return self._get("state")


class Requester(Facade):
    """Sends requests and waits for their replies; made by `connection.requester()`, opened by `with`.

        with connection.requester("service") as requester:
            reply = requester.request(Message("ping"))

    Any number of tasks may have requests under way.

    Attributes:
        sender, replies: the two links.
    """

    __slots__ = ()

    def __enter__(self) -> Self:
        """Attach both links.

        Raises:
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost: the peer refused one, for instance because it
                makes no dynamic nodes, or what they need is gone.
            Unsupported: the dialect has no dynamic nodes, or the peer makes none in its version: give `reply_to`.

        Timeout: both links are detached.
        """
        return self._enter()

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Detach both links; requests that still wait raise.

        Timeout: is not noticed; it takes `close_timeout` seconds at most.
        """
        self._leave(exc_type, exc, traceback)

    @property
    def pending(self) -> int:
        """How many requests wait for their replies."""
        return self._get("pending")

    @property
    def reply_to(self) -> str | None:
        """The address that replies are asked to be sent to."""
        return self._get("reply_to")

    def request(
        self, message: object, *, transaction: Transaction | None = None, timeout: float | None = None
    ) -> Message:
        """Send a request, and wait for its reply.

        The request gets a `reply_to`, and where it has none a `correlation_id` and a `message_id`. A reply is
        the request's if its correlation-id is one of these two: responders copy the one or the other.

        Args:
            message: a `Message`; any other value is sent as the body of one.
            transaction: send it as part of this transaction (§4.4.1). What it asks for counts when that is committed,
                where the responder works so; most responders get it only then, and their reply never comes before.

        Raises:
            MessageRejected, MessageReleased, MessageModified: the request was not taken, so no reply will come.
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost: a link ended before the reply came; whether
                the request was processed is not known.
            DeliveryUncertain: the connection was lost and is there again, and requests are not to be sent a second
                time (`on_lost="raise"`, or it is part of a transaction).
            TransactionRolledBack: the coordinator of the transaction was lost, or the request in it.
            LocalProtocolError: another request with this correlation-id waits for its reply; or the transaction has
                ended, or cannot cover these links.
            EncodeError: see `Sender.submit`.
            DecodeError: the reply came, and is malformed; it was rejected.
            anyio.ClosedResourceError: the requester was closed here.

        Timeout: a reply that comes later is accepted and dropped (`unmatched`). Whether the request was sent is as
            for `Sender.submit`.
        """
        return self._wait(timeout, "request", message, transaction=transaction)

    @property
    def unmatched(self) -> int:
        """How many replies came that no request waited for: those to cancelled ones, mostly. They are accepted."""
        return self._get("unmatched")


class Responder(Facade):
    """Receives requests, and sends the replies; made by `connection.responder()`, opened by `with`.

        with connection.responder("service") as responder:
            for request in responder:
                request.reply(Message("pong"))

    Replies go through one anonymous sender where the peer relays, else through a sender for each reply address, of
    which the 32 used last are kept.

    Attributes:
        receiver: the link on which requests come.
    """

    __slots__ = ()

    @property
    def receiver(self) -> Receiver:
        return self._get("receiver")

    def __enter__(self) -> Self:
        """Attach the link on which requests come.

        Raises:
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, Unsupported: see `Receiver`.

        Timeout: the link is detached again.
        """
        return self._enter()

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Detach; requests that were not answered are the peer's to deliver again.

        Timeout: is not noticed; it takes `close_timeout` seconds at most.
        """
        self._leave(exc_type, exc, traceback)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Request:
        return self._step()

    def receive(self, *, timeout: float | None = None) -> Request:
        """Return the next request.

        Raises:
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, anyio.BusyResourceError,
                anyio.ClosedResourceError: see `Receiver.receive`.

        Timeout: no request is lost: one that came stays for the next call.
        """
        return self._in_turn(timeout, "receive")


class Request(Facade):
    """One request, and the reply to it.

    `with request as message:` gives the request an outcome at the end of the block as `with delivery` does: accepted
    unless it has one, `modify(delivery_failed=True)` after an exception, so that it is not tried for ever.

    Attributes:
        delivery: the request as it was received; for its outcomes other than a reply.
    """

    __slots__ = ()

    @property
    def delivery(self) -> Delivery:
        return self._get("delivery")

    def __enter__(self) -> Message:
        return self._do("__enter__")

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._do("__exit__", exc_type, exc, traceback)

    @property
    def message(self) -> Message:
        """The request.

        Raises:
            DecodeError: where what is malformed is looked at; see `Delivery.message`.
        """
        return self._get("message")

    def reply(self, message: object, *, timeout: float | None = None) -> None:
        """Send the reply, and accept the request once the reply was accepted.

        The reply goes to the request's `reply_to`, with the request's correlation-id, else its message-id.

        Args:
            message: a `Message`; any other value is sent as the body of one.

        Raises:
            LocalProtocolError: the request has no reply-to. It is not settled: accept or reject its `delivery`.
            MessageRejected, MessageReleased, MessageModified, LinkDetached: the reply could not be delivered, for
                instance because the requester is gone. The request is not settled.
            SessionEnded, ConnectionClosed, ConnectionLost, EncodeError, anyio.ClosedResourceError: see `Sender.send`
                and `Delivery.accept`.

        Timeout: as for `Sender.send`; the request is not settled.
        """
        self._wait(timeout, "reply", message)


class Management(Facade):
    """The management node of a peer; made by `connection.management()`, opened by `with`.

        with connection.management() as management:
            types = management.request("GET-TYPES", "org.amqp.management", "self")

    Attributes:
        requester: what it stands on; for requests of another shape.
    """

    __slots__ = ()

    def __enter__(self) -> Self:
        """Attach the links.

        Raises:
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost: see `Requester`; the peer may have no such
                node, or not let this user use it.

        Timeout: the links are detached.
        """
        return self._enter()

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Detach the links.

        Timeout: is not noticed; it takes `close_timeout` seconds at most.
        """
        self._leave(exc_type, exc, traceback)

    def request(
        self,
        operation: str,
        entity_type: str,
        name: str | None = None,
        body: object = None,
        *,
        timeout: float | None = None,
        **properties: Any,
    ) -> Message:
        """Ask for an operation; return the response, which says that it succeeded.

        Args:
            operation: "READ", "CREATE", "UPDATE", "DELETE", "QUERY", ..., as the entity has them.
            entity_type: of the entity; for operations of the node itself "org.amqp.management".
            name: which entity.
            body: of the request: attributes, mostly.
            properties: further application properties, `identity` for one.

        Raises:
            ManagementError: the response has another status than 2xx; `status` and `description` say why.
            MessageRejected, MessageReleased, MessageModified, LinkDetached, SessionEnded, ConnectionClosed,
                ConnectionLost, EncodeError, anyio.ClosedResourceError: see `Requester.request`.

        Timeout: as for `Requester.request`; the operation may have been carried out.
        """
        return self._wait(timeout, "request", operation, entity_type, name, body, **properties)


class RabbitManagement(Facade):
    """Declares, queries, purges and deletes queues, exchanges and bindings; made by `management()`.

    Any number of tasks may use it at a time. Every method also raises:

    - `ManagementError`: RabbitMQ refused. `status` is 404 if a queried object does not exist, 400 or 404 if the object
      to work on does not exist, 409 if it exists with other arguments, 403 for a reserved name. `description` has its
      reason.
    - `SessionEnded`: the user lacks the permission. This management is over.
    - `RemoteProtocolError`: the answer has an unknown form. The management can be used further.
    - `LinkDetached`, `ConnectionClosed`, `ConnectionLost`, `anyio.ClosedResourceError`: see `Requester.request`.

    Cancelling any method: the operation may have been carried out.

    Attributes:
        requester: the requester that sends the requests.
    """

    __slots__ = ()

    def __enter__(self) -> Self:
        """Attach the pair of links.

        Raises:
            Unsupported: the peer offers no pairs of links, so it is not RabbitMQ 4.
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost: the peer refuses the links, or is gone.

        Timeout: the links are detached, and the session is ended.
        """
        return self._enter()

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Detach the pair of links. Exclusive queues stay until the connection closes.

        Timeout: is not noticed; it takes at most `close_timeout` seconds.
        """
        self._leave(exc_type, exc, traceback)

    def bind(
        self,
        source: str,
        *,
        queue: str | None = None,
        exchange: str | None = None,
        key: str = "",
        arguments: Mapping[str, Any] | None = None,
        timeout: float | None = None,
    ) -> None:
        """Bind a queue, or another exchange, to an exchange, which then routes messages to it.

        Args:
            source: the exchange to bind to.
            queue, exchange: the destination: one of them.
            key: the binding key, whose meaning depends on the exchange type.
            arguments: arguments of the binding, such as the headers that a headers exchange compares.

        Raises:
            ManagementError: with status 400 or 404, the source or the destination does not exist.
            ValueError: neither `queue` nor `exchange` is given, or both.

        Timeout: see the class.
        """
        self._wait(timeout, "bind", source, queue=queue, exchange=exchange, key=key, arguments=arguments)

    def bindings(
        self,
        source: str,
        *,
        queue: str | None = None,
        exchange: str | None = None,
        key: str = "",
        timeout: float | None = None,
    ) -> list[Binding]:
        """Return the bindings of a queue or exchange to an exchange with a key: one for each set of arguments.

        Raises:
            ValueError: neither `queue` nor `exchange` is given, or both.

        Timeout: see the class.
        """
        return self._wait(timeout, "bindings", source, queue=queue, exchange=exchange, key=key)

    def declare_exchange(
        self,
        name: str,
        exchange_type: ExchangeType = "direct",
        *,
        durable: bool = True,
        auto_delete: bool = False,
        internal: bool = False,
        arguments: Mapping[str, Any] | None = None,
        timeout: float | None = None,
    ) -> None:
        """Declare an exchange: create it, or check that it exists with the same settings.

        Args:
            exchange_type: "direct", "fanout", "topic", "headers", or that of a plugin.
            internal: only other exchanges may send to it.
            arguments: arguments by RabbitMQ's names, such as `alternate-exchange`.

        Raises:
            ManagementError: with status 409, the exchange exists with other settings.
            ValueError: an exchange cannot have this name.

        Timeout: see the class.
        """
        self._wait(
            timeout,
            "declare_exchange",
            name,
            exchange_type,
            durable=durable,
            auto_delete=auto_delete,
            internal=internal,
            arguments=arguments,
        )

    def declare_queue(
        self,
        name: str,
        queue_type: QueueType = "quorum",
        *,
        durable: bool = True,
        exclusive: bool = False,
        auto_delete: bool = False,
        arguments: Mapping[str, Any] | None = None,
        timeout: float | None = None,
        **typed: Unpack[QueueArguments],
    ) -> QueueInfo:
        """Declare a queue: create it, or check that it exists with the same settings; return its state.

        Args:
            queue_type: "quorum" (replicated), "classic", or "stream" (an append-only log).
            durable: the queue survives a restart of the broker; quorum queues and streams always do.
            exclusive: the queue is only for this connection, and is deleted with it.
            auto_delete: the queue is deleted with its last consumer.
            arguments: further arguments, by RabbitMQ's names.
            typed: arguments of `QueueArguments`; times are `timedelta`.

        Raises:
            ValueError: a queue cannot have this name, or a queue of this type lacks an argument.

        Timeout: see the class.
        """
        return self._wait(
            timeout,
            "declare_queue",
            name,
            queue_type,
            durable=durable,
            exclusive=exclusive,
            auto_delete=auto_delete,
            arguments=arguments,
            **typed,
        )

    def delete_exchange(self, name: str, *, timeout: float | None = None) -> None:
        """Delete an exchange with its bindings, if it exists.

        Raises:
            ManagementError: the exchange is one of RabbitMQ's own.

        Timeout: see the class.
        """
        self._wait(timeout, "delete_exchange", name)

    def delete_queue(self, name: str, *, timeout: float | None = None) -> int:
        """Delete a queue with its messages, if it exists; return how many messages it had.

        Raises:
            ManagementError: the queue is exclusive to another connection, or the user lacks the permission.

        Timeout: see the class.
        """
        return self._wait(timeout, "delete_queue", name)

    def purge_queue(self, name: str, *, timeout: float | None = None) -> int:
        """Drop all ready messages of a queue; return their number.

        Raises:
            ManagementError: with status 400 or 404, the queue does not exist.

        Timeout: see the class.
        """
        return self._wait(timeout, "purge_queue", name)

    def queue(self, name: str, *, timeout: float | None = None) -> QueueInfo:
        """Return the state of a queue, including its numbers of messages and consumers.

        Raises:
            ManagementError: with status 404, the queue does not exist.

        Timeout: see the class.
        """
        return self._wait(timeout, "queue", name)

    def request(self, method: str, path: str, body: object = None, *, timeout: float | None = None) -> Message:
        """Send any other request; return the response if its status is 2xx.

        Args:
            method: "GET", "PUT", "POST" or "DELETE".
            path: the path with its query, and with percent-encoded names.

        Raises:
            ManagementError: the response has another status. For other errors, see the class.

        Timeout: see the class.
        """
        return self._wait(timeout, "request", method, path, body)

    def unbind(
        self,
        source: str,
        *,
        queue: str | None = None,
        exchange: str | None = None,
        key: str = "",
        arguments: Mapping[str, Any] | None = None,
        timeout: float | None = None,
    ) -> None:
        """Remove the binding with exactly these arguments, if it exists.

        Raises:
            ValueError: neither `queue` nor `exchange` is given, or both.

        Timeout: see the class.
        """
        self._wait(timeout, "unbind", source, queue=queue, exchange=exchange, key=key, arguments=arguments)


class Topology(Facade):
    """Declares, queries, purges and deletes. Every method also raises the errors of its class."""

    __slots__ = ()

    def bind(
        self,
        queue: str,
        exchange: str,
        key: str = "",
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
    ) -> None:
        """Bind a queue to an exchange, which then routes messages to it. An existing binding stays unchanged.

        Args:
            key: the routing key, or for a topic exchange a pattern of routing keys.
            arguments: for a headers exchange, "x-match" and the headers to match.

        Raises:
            RequestRefused: the queue or the exchange does not exist.

        Timeout: the binding may have been made.
        """
        self._wait(timeout, "bind", queue, exchange, key, arguments)

    def declare_exchange(
        self,
        name: str,
        type: ExchangeType | str = "direct",
        *,
        durable: bool = False,
        auto_delete: bool = False,
        internal: bool = False,
        passive: bool = False,
        alternate: str | None = None,
        arguments: Mapping[str, Any] | None = None,
        timeout: float | None = None,
    ) -> None:
        """Declare an exchange: create it, or check that it exists with the same settings.

        Args:
            type: the routing: "direct", "fanout", "topic", "headers", or a type of the server's own.
            durable: the exchange survives a restart of the server.
            auto_delete: the exchange is deleted with its last binding.
            internal: only other exchanges can send to it; 0-10 has no internal exchanges.
            passive: only check that it exists.
            alternate: the exchange for messages that this one cannot route.
            arguments: arguments of the server's own.

        Raises:
            RequestRefused: an exchange of that name has other settings, or the name is reserved; with `passive`, it
                does not exist.
            Unsupported: `internal` is set in 0-10.

        Timeout: the exchange may have been declared.
        """
        self._wait(
            timeout,
            "declare_exchange",
            name,
            type,
            durable=durable,
            auto_delete=auto_delete,
            internal=internal,
            passive=passive,
            alternate=alternate,
            arguments=arguments,
        )

    def declare_queue(
        self,
        name: str = "",
        *,
        durable: bool = False,
        exclusive: bool = False,
        auto_delete: bool = False,
        passive: bool = False,
        alternate: str | None = None,
        arguments: Mapping[str, Any] | None = None,
        timeout: float | None = None,
    ) -> QueueFacts:
        """Declare a queue: create it, or check that it exists with the same settings; return its name and counts.

        Args:
            name: the name; "" to generate one, by the server, or here if the queue must be declared again after a loss.
            durable: the queue survives a restart of the server.
            exclusive: the queue is only for this connection, in 0-10 for the default session, and is deleted with it.
            auto_delete: the queue is deleted with its last consumer.
            passive: only check that it exists.
            alternate: the exchange for dead letters, the same as the argument "x-dead-letter-exchange".
            arguments: arguments of the server's own, such as "x-message-ttl", "x-queue-type" or "qpid.max_count".

        Raises:
            RequestRefused: a queue of that name has other settings, or is exclusive to others; with `passive`, it does
                not exist.

        Timeout: the queue may have been declared.
        """
        return self._wait(
            timeout,
            "declare_queue",
            name,
            durable=durable,
            exclusive=exclusive,
            auto_delete=auto_delete,
            passive=passive,
            alternate=alternate,
            arguments=arguments,
        )

    def delete_exchange(self, name: str, *, if_unused: bool = False, timeout: float | None = None) -> None:
        """Delete an exchange and its bindings.

        Args:
            if_unused: only if it has no bindings.

        Raises:
            RequestRefused: the exchange is in use, or the server's own; in 0-10 also if it does not exist.

        Timeout: the exchange may have been deleted.
        """
        self._wait(timeout, "delete_exchange", name, if_unused=if_unused)

    def delete_queue(
        self, name: str, *, if_unused: bool = False, if_empty: bool = False, timeout: float | None = None
    ) -> int:
        """Delete a queue; return how many messages it had.

        Args:
            if_unused: only if it has no consumers.
            if_empty: only if it has no messages.

        Raises:
            RequestRefused: the queue is in use, or not empty; in 0-10 also if it does not exist.

        Timeout: the queue may have been deleted.
        """
        return self._wait(timeout, "delete_queue", name, if_unused=if_unused, if_empty=if_empty)

    def exchange(self, name: str, *, timeout: float | None = None) -> ExchangeFacts | None:
        """Return facts about an exchange; None if it does not exist. In 0-9-1, which does not tell the type, it is "".

        Raises:
            RequestRefused: the server refused; `description` has the reason.

        Timeout: nothing is changed.
        """
        return self._wait(timeout, "exchange", name)

    def exchange_exists(self, name: str, *, timeout: float | None = None) -> bool:
        """Return whether an exchange exists.

        Raises:
            RequestRefused: the server refused; `description` has the reason.

        Timeout: nothing is changed.
        """
        return self._wait(timeout, "exchange_exists", name)

    def purge_queue(self, name: str, *, timeout: float | None = None) -> int:
        """Drop the messages of a queue, except unsettled ones; return their number.

        Raises:
            RequestRefused: the queue does not exist.

        Timeout: the queue may have been purged.
        """
        return self._wait(timeout, "purge_queue", name)

    def queue(self, name: str, *, timeout: float | None = None) -> QueueFacts | None:
        """Return how many messages and consumers a queue has; None if it does not exist.

        Raises:
            RequestRefused: the server refused; `description` has the reason.

        Timeout: nothing is changed.
        """
        return self._wait(timeout, "queue", name)

    def unbind(
        self,
        queue: str,
        exchange: str,
        key: str = "",
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
    ) -> None:
        """Undo `bind`, with the same arguments; 0-10 identifies the binding by its key alone.

        Raises:
            RequestRefused: the server refused; in 0-10 also if the binding does not exist.

        Timeout: the binding may have been removed.
        """
        self._wait(timeout, "unbind", queue, exchange, key, arguments)


class Native091(Topology):
    """The native operations of a 0-9-1 connection: `connection.native`.

    Every method also raises:

    - `RequestRefused`: the server refused; `condition` and `description` have the reason, `info["reply-code"]` its
      code;
    - `SessionEnded`, `ConnectionClosed`, `ConnectionLost`: no answer came, and the request may have been carried out;
    - `LocalProtocolError`: the request cannot be encoded, because a name is longer than 255 octets, or a table cannot
      hold an argument.

    With `reconnect`, declarations and bindings made here are repeated after a loss (`Reconnect.declare_again`). Any
    number of tasks may use it at a time.
    """

    __slots__ = ()

    def bind_exchange(
        self,
        destination: str,
        source: str,
        key: str = "",
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
    ) -> None:
        """Bind the exchange `destination` to `source`, which then passes messages to it; RabbitMQ's extension.

        Raises:
            RequestRefused: one of the exchanges does not exist (404).
            ConnectionClosed: the server, such as Qpid, does not support these bindings (540).

        Timeout: the binding may have been made.
        """
        self._wait(timeout, "bind_exchange", destination, source, key, arguments)

    def get(self, queue: str, *, timeout: float | None = None) -> Message | None:
        """Take one message from a queue, and acknowledge it on arrival; return None if the queue is empty (basic.get).

        To choose the outcome, use a receiver with `receiver.add_credit(1)` and `receiver.drain()`.

        Raises:
            RequestRefused: the queue does not exist (404).

        Timeout: the message may have been taken, and is then lost.
        """
        return self._wait(timeout, "get", queue)

    def qos(self, receiver: Receiver, prefetch: int, *, timeout: float | None = None) -> None:
        """Allow a receiver at least `prefetch` deliveries without an outcome (basic.qos).

        By default the prefetch follows the credit, and is raised when that many deliveries are unsettled.

        Raises:
            ValueError: `prefetch` is not in 1..65535.

        Timeout: the prefetch may have been set.
        """
        self._wait(timeout, "qos", receiver, prefetch)

    def recover(self, receiver: Receiver, *, timeout: float | None = None) -> None:
        """Ask the server to redeliver all unsettled deliveries of a receiver (basic.recover).

        The old deliveries are then stale: settling one raises `StaleDelivery`, as after a loss.

        Raises:
            RequestRefused: the server refused; `description` has the reason.

        Timeout: the server may have been asked.
        """
        self._wait(timeout, "recover", receiver)

    def unbind_exchange(
        self,
        destination: str,
        source: str,
        key: str = "",
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
    ) -> None:
        """Undo `bind_exchange`, with the same arguments.

        Raises:
            RequestRefused: the server refused; `description` has the reason.

        Timeout: the binding may have been removed.
        """
        self._wait(timeout, "unbind_exchange", destination, source, key, arguments)

    def update_secret(self, secret: str, reason: str = "", *, timeout: float | None = None) -> None:
        """Give the server a new secret, such as a token, before the old one expires; RabbitMQ's extension.

        After a reconnect, the login still uses the credentials given to `Connection`, which may have expired by then.

        Raises:
            ConnectionClosed: the server refuses the secret, or does not support the method.
            LocalProtocolError: the secret is larger than the server's frames, or the reason longer than 255 octets.

        Timeout: the secret may have been updated.
        """
        self._wait(timeout, "update_secret", secret, reason)


class Native010(Topology):
    """The native operations of a 0-10 connection: `connection.native`.

    Every method also raises:

    - `RequestRefused`: the server refused; `condition` and `description` have the reason, `info["reply-code"]` its
      code.
      Or the request was not sent, because a name has more than 255 octets (`amqp:invalid-field`);
    - `SessionEnded`, `ConnectionClosed`, `ConnectionLost`: no answer came, and the request may have been carried out;
    - `LocalProtocolError`: the request cannot be encoded, because a map cannot hold one of its arguments.

    In 0-10 a failed request ends its session. To avoid that, the client first queries whether a queue exists and is in
    use. If the server refuses nevertheless, only the session of these requests ends, not that of the links, and the
    next request begins another. With `reconnect`, declarations and bindings made here are repeated after a loss
    (`Reconnect.declare_again`). Any number of tasks may use it at a time.
    """

    __slots__ = ()

    def acquire(self, deliveries: Iterable[Delivery], *, timeout: float | None = None) -> list[Delivery]:
        """Acquire browsed messages; return those that were acquired, which must then be settled.

        Args:
            deliveries: unsettled deliveries of one receiver with `Source(queue, distribution_mode="copy")`. Those of
                `connection.browser()` are already settled.

        Raises:
            LocalProtocolError: the deliveries are of several receivers, or settled; nothing was sent. Or see the class.
            SessionEnded, ConnectionClosed, ConnectionLost: see the class.

        Timeout: the messages may have been acquired.
        """
        return self._wait(timeout, "acquire", deliveries)

    def binding(
        self,
        exchange: str,
        queue: str,
        key: str | None = None,
        *,
        arguments: Mapping[str, Any] | None = None,
        timeout: float | None = None,
    ) -> BindingFacts:
        """Return which parts of a binding exist; `key` and `arguments` are not compared if None.

        Raises:
            SessionEnded, ConnectionClosed, ConnectionLost, LocalProtocolError: see the class.

        Timeout: nothing is changed.
        """
        return self._wait(timeout, "binding", exchange, queue, key, arguments=arguments)

    def xa(self) -> XA:
        """Return a session for branches of distributed transactions: `with connection.native.xa() as xa`."""
        return self._do("xa")


class XA(Facade):
    """A session for work in branches of distributed transactions; made by `connection.native.xa()`.

        with connection.native.xa() as xa:
            xa.start(xid)
            with xa.session.sender("orders") as sender:
                sender.send("part of the branch")
            xa.end(xid)
            xa.prepare(xid)
            xa.commit(xid)

    Only what is sent and settled on `session` between `start` and `end` is part of the branch. For two phases, prepare
    all branches, then commit all; for one phase, call `commit(xid, one_phase=True)` without `prepare`.

    Every method raises `RequestRefused` if the server refuses, which ends the session; `info["reply-code"]` has the
    code. After `SessionEnded`, `ConnectionClosed` or `ConnectionLost`, no answer came, and the request may have been
    carried out: `recover` on another connection returns the prepared branches.

    Attributes:
        session: the session for senders and receivers of the branches.
    """

    __slots__ = ()

    def __enter__(self) -> Self:
        """Begin the session, and select it for branches.

        Raises:
            RequestRefused: the server has no distributed transactions.
            ConnectionClosed, ConnectionLost: the connection is gone.

        Timeout: the session is ended again.
        """
        return self._enter()

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End the session; unprepared branches are then rolled back, except by Broker-J.

        Timeout: is not noticed; it takes at most `close_timeout` seconds.
        """
        self._leave(exc_type, exc, traceback)

    def commit(self, xid: Xid, *, one_phase: bool = False, timeout: float | None = None) -> XAStatus:
        """Commit the branch: the second phase, or the only one.

        Raises:
            RequestRefused: the branch does not exist, work in it has not ended, or for two phases it is not prepared.
            SessionEnded, ConnectionClosed, ConnectionLost: see the class.

        Timeout: the branch may have been committed.
        """
        return self._wait(timeout, "commit", xid, one_phase=one_phase)

    def end(self, xid: Xid, *, fail: bool = False, suspend: bool = False, timeout: float | None = None) -> XAStatus:
        """End work in the branch `xid`.

        Args:
            fail: the branch can then only be rolled back.
            suspend: suspend the work; `start(resume=True)` continues it.

        Raises:
            RequestRefused: the session does not work in the branch.
            SessionEnded, ConnectionClosed, ConnectionLost: see the class.

        Timeout: the work may have been ended.
        """
        return self._wait(timeout, "end", xid, fail=fail, suspend=suspend)

    def forget(self, xid: Xid, *, timeout: float | None = None) -> None:
        """Forget a branch that the server completed on its own, by a heuristic decision.

        Raises:
            RequestRefused: the server did not complete the branch on its own.
            SessionEnded, ConnectionClosed, ConnectionLost: see the class.

        Timeout: the branch may have been forgotten.
        """
        self._wait(timeout, "forget", xid)

    def prepare(self, xid: Xid, *, timeout: float | None = None) -> XAStatus:
        """Prepare the branch (first phase), so that it can be committed even after a failure.

        `ROLLED_BACK` means that the branch is gone, `READ_ONLY` that there is nothing to commit.

        Raises:
            RequestRefused: the branch does not exist, or work in it has not ended.
            SessionEnded, ConnectionClosed, ConnectionLost: see the class.

        Timeout: the branch may have been prepared.
        """
        return self._wait(timeout, "prepare", xid)

    def recover(self, *, timeout: float | None = None) -> list[Xid]:
        """Return the branches that are prepared, but neither committed nor rolled back.

        Raises:
            SessionEnded, ConnectionClosed, ConnectionLost: see the class.

        Timeout: nothing is changed.
        """
        return self._wait(timeout, "recover")

    def rollback(self, xid: Xid, *, timeout: float | None = None) -> XAStatus:
        """Roll the branch back.

        Raises:
            RequestRefused: the branch does not exist, or work in it has not ended.
            SessionEnded, ConnectionClosed, ConnectionLost: see the class.

        Timeout: the branch may have been rolled back.
        """
        return self._wait(timeout, "rollback", xid)

    def set_timeout(self, xid: Xid, seconds: int, *, timeout: float | None = None) -> None:
        """Roll the branch back after `seconds`; 0 for never.

        Raises:
            ValueError: `seconds` does not fit in 32 bits.
            RequestRefused: the branch does not exist, or is prepared.
            SessionEnded, ConnectionClosed, ConnectionLost: see the class.

        Timeout: the time-out may have been set.
        """
        self._wait(timeout, "set_timeout", xid, seconds)

    def start(self, xid: Xid, *, join: bool = False, resume: bool = False, timeout: float | None = None) -> XAStatus:
        """Start work in the branch `xid`.

        Args:
            join: join a branch in which other sessions work: at the embedded broker those of this connection (another
                `Connection.native.xa()`), at Broker-J those of the user.
            resume: resume a branch suspended by `end`.

        Raises:
            RequestRefused: the branch exists already, or does not exist, to join or resume; or the session already
                works in a branch.
            SessionEnded, ConnectionClosed, ConnectionLost: see the class.

        Timeout: the work may have been started.
        """
        return self._wait(timeout, "start", xid, join=join, resume=resume)

    def timeout(self, xid: Xid, *, timeout: float | None = None) -> int:
        """Return the seconds after which the branch is rolled back; 0 for never.

        Raises:
            RequestRefused: the branch does not exist.
            SessionEnded, ConnectionClosed, ConnectionLost: see the class.

        Timeout: nothing is changed.
        """
        return self._wait(timeout, "timeout", xid)


class NativeFast(Facade):
    """The native operations of an AMQP/Fast connection: `connection.native`."""

    __slots__ = ()

    def list(
        self, address: str, *, selector: Selector | None = None, after: int = 0, timeout: float | None = None
    ) -> Index:
        """List the messages in a queue, without taking them.

        The numbers stay valid for the 16 most recently listed queues.

        Args:
            address: the address of the queue.
            selector: list only messages that pass it.
            after: list only messages after this number, including new ones; 0 starts a new list with higher numbers.

        Raises:
            RequestRefused: the queue does not exist (`amqp:not-found`).
            LocalProtocolError: the address or the selector is too long, or the number has more than 32 bits.
            SessionEnded, ConnectionClosed, ConnectionLost: no answer came.

        Timeout: the answer is dropped.
        """
        return self._wait(timeout, "list", address, selector=selector, after=after)

    def show(
        self, address: str, number: int, *, selector: Selector | None = None, timeout: float | None = None
    ) -> Message:
        """Return a message of the last `list` with the same selector, without taking it.

        Args:
            number: the message's number, from `Index.numbers`.

        Raises:
            RequestRefused: the message was not listed, or is gone (`info["reply-code"]` 310), or nothing was listed
                (409).
            LocalProtocolError, SessionEnded, ConnectionClosed, ConnectionLost: as for `list`.

        Timeout: the answer is dropped.
        """
        return self._wait(timeout, "show", address, number, selector=selector)


FACADES.update(
    {
        client.Connection: Connection,
        client.Session: Session,
        client.Sender: Sender,
        client.Receiver: Receiver,
        client.Browser: Browser,
        client.Delivery: Delivery,
        client.SentDelivery: SentDelivery,
        client.BodyWriter: BodyWriter,
        client.Transaction: Transaction,
        client.Requester: Requester,
        client.Responder: Responder,
        client.Request: Request,
        client.Management: Management,
        rabbitmq.Management: RabbitManagement,
    }
)


def natives() -> dict[type, type[Facade]]:
    """Return the facade for the operations of each older dialect; this loads these dialects."""
    from .. import amqp010, amqp091, amqpfast

    return {
        amqp091.Native: Native091,
        amqp010.Native: Native010,
        amqp010.XA: XA,
        amqpfast.Native: NativeFast,
    }
