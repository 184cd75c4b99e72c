"""The broker that users hold: it listens, accepts and negotiates connections, and shuts down in order.

    listener ──> TLS ──> Negotiation ──> Engine + Pump ──events──> Peer ──> links ──> VirtualHostCore: queues and topics

Connections and nodes are kept apart: nodes know no protocol, so the same queues, at the same port, serve every dialect
that is registered.
"""

from __future__ import annotations

import logging
import math
import secrets
import ssl
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from functools import partial
from os import PathLike, fspath
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack, overload

import anyio
from anyio.abc import ByteStream, TaskGroup, TaskStatus

from .._arguments import check_keywords, check_range, check_type, checked
from .._calls import Ungrouped
from ..engine import (
    DELAYED_RETRY_CAPABILITY,
    LINK_PAIR,
    ON_DEMAND_CAPABILITY,
    ConnectionTerms,
    SessionTerms,
    dialect,
    dialect_names,
)
from ..errors import LocalProtocolError
from ..net import (
    CertificateName,
    TLSSettings,
    accepting,
    end_point_of,
    require_wsproto,
    shown_certificate,
)
from ..sasl import SERVER_ITERATIONS, StoredKeys
from ..types import Symbol
from ._errors import Refused
from ._limits import BrokerLimits, check_positive
from ._log import attempt
from ._peer import PeerTerms
from ._queues.node import Limits
from ._serving.access import Access
from ._serving.connections import IN_MEMORY, ConnectionManager
from ._serving.listeners import Listeners, ListenerSettings
from ._serving.memory_stream import memory_streams
from ._store.load import load
from ._store.store import MAX_STORED, Store
from ._tokens.rules import TokenRules
from ._users.users import Authorize, User, all_users, may_the_same
from ._virtual_host_core import VirtualHostCore, VirtualHostSettings
from ._virtual_hosts import USUAL, VirtualHost, VirtualHosts, store_of

if TYPE_CHECKING:
    from ..client import Connection, ConnectionSettings
    from ..client.internals import Names010, Names091, NamesFast, SettingsOfAnyDialect
    from ._peer import Peer
    from ._quarantine import Quarantine
    from ._services import LinkService
    from ._snapshots import ExchangeSnapshot, QueueSnapshot, TopicSnapshot
    from .azure import AzureConfig, AzureControls

_log = logging.getLogger("amqp10.broker")


def _shown(tls: TLSSettings) -> tuple[ssl.SSLContext, bytes | None]:
    """Return a server's TLS context, and its certificate's channel binding for SCRAM-PLUS; None: it cannot be known."""
    if isinstance(tls, ssl.SSLContext):
        return tls, None
    context = tls.server_context()
    return context, end_point_of(shown_certificate(context))


def _emulation(
    config: AzureConfig, vhost: VirtualHostCore, tokens: TokenRules | None
) -> tuple[AzureControls, Callable[[Peer], LinkService]]:
    """Return the controls of a namespace of Azure, and what makes the service of each connection.

    Raises:
        TypeError: `config` is no such configuration.
        Refused: the broker cannot have these entities.
    """
    # Here, because these modules take a twentieth of the start of a process, and few brokers are a namespace.
    from .azure._config import AzureConfig
    from .azure._controls import AzureControls
    from .azure._links import NamespaceLinks
    from .azure._namespace import Namespace

    check_type("azure", config, AzureConfig | None)
    namespace = Namespace(config, vhost)
    return AzureControls(namespace, tokens), partial(NamespaceLinks, namespace)


@checked
class Broker:
    """A broker in this process, in memory or with a store: for development, tests and small services.

    Without a store all messages, durable ones too, end with the broker. It accepts the durable header without promising
    to keep anything.

        async with Broker(queues=["orders"], topics=["news"]) as broker:
            async with Connection(broker.url) as connection: ...

    **Addresses.** An unknown address is created when a link attaches to it (`auto_create`): as a topic if the address
    begins with `topic.` or `topic://`, or the terminus has the capability "topic"; otherwise as a queue. Declared names
    keep their declared kind. A dynamic terminus gets a node of its own that ends with its link. A target without an
    address (the anonymous terminus) sends each message to the address in its `to`.

    **Queues** give each message to one consumer, in turn among those that have credit. With distribution-mode "copy" a
    receiver only browses. Released messages return to their place. So do messages that were modified, or held by a lost
    link; these count as failed attempts (`delivery_count`). Rejected messages go to the `dead_letter` queue, with the
    reason in their message annotations `x-opt-dead-letter-...`.

    **Streams** are queues that keep what was read: each receiver reads from the offset that it names by `StreamOffset`,
    at its own pace, any number of times. The oldest messages are dropped by the age and size limits in the stream's
    arguments.

    **Exchanges** give a copy to each queue that is bound to them, by routing key or headers. Senders reach them by
    `/exchanges/NAME/KEY`, or by `/exchanges/NAME` with an empty key. A message without a matching binding is released,
    back to its sender. Peers declare and bind exchanges; those of 1.0 use RabbitMQ's management
    (`amqp10.rabbitmq`).

    **Topics** give a copy to each subscription. A subscription ends with its link, unless it is durable: then it waits
    for the next link of the same name and container, as long as its expiry policy says. Several links can share one.

    **A store** is a file that keeps queues, topics, durable subscriptions and durable messages. A durable message is
    accepted once it is on the disk, and its removal is on the disk before any peer is told of it: the broker may be
    killed at any time. Other messages and dynamic nodes stay in memory. Messages that consumers held when the broker
    was killed count as failed attempts. While the file cannot be written, for example because the disk is full,
    connections are cut and new ones refused (`amqp:resource-limit-exceeded`).

    **Limits.** A full queue grants no credit; it still takes messages in flight and drops nothing. A topic is full when
    one of its subscriptions is, even one without a link: see `max_subscription_timeout`.

    Args:
        host, port: where to listen. Port 0 is any free port; with host None the broker does not listen on TCP.
        users: name -> password for PLAIN and SCRAM, or a `User` with permissions. With an empty mapping nobody can log
            in. A user with only a password may do everything. But if any user is a `User`, peers that are not listed
            (ANONYMOUS, or a certificate) may do nothing.
        users_file: further users in a JSON file; see `amqp10.broker.read_users`.
        authorize: a function that decides in place of permissions: (user, action, name, virtual host) -> bool.
        tokens: the keys of tokens that peers put at `$cbs` or log in with; None: no token is valid.
        scram_iterations: iterations for keys derived from passwords. More of them make each login cost the client more,
            and each guess cost an eavesdropper more.
        anonymous: let peers in without a name, by ANONYMOUS or without SASL. None: only on loopback, and only without
            users and client certificates.
        allow_insecure: offer PLAIN without TLS also beyond loopback, for clients without SCRAM. Everybody on the
            network path can read the password.
        tls: a `TLS` or an `ssl.SSLContext` of a server. TCP is then only for TLS, from the first octet or requested by
            AMQP's TLS header (§5.2.1). If client certificates are required, their names may log in by EXTERNAL. A `TLS`
            also offers SCRAM-PLUS; of an `ssl.SSLContext` the certificate is not known.
        certificate_name: the part of a client's certificate that is its name: "CN" (common name); "email", "DNS" or
            "URI" (alternative name of that kind); "subject" (the whole subject, such as "CN=ann,O=example"). A
            certificate without this part, or with several of it, gives no name.
        virtual_hosts: the names of all virtual hosts, including "/", which clients get that name no other. Each has
            queues, topics and exchanges of its own; `queues`, `topics`, `exchanges` and `bindings` are those of "/". A
            client that asks for an unknown one is refused. `virtual_host(name)` shows each; the broker's own facts are
            those of "/".
        websocket: accept WebSockets (ws://, or wss:// with `tls`) at the same TCP port, at any path.
        websocket_origins: origins of web pages that may connect, such as "https://app.example"; "*" for all. A request
            without an origin, or whose origin is the host and port that it goes to, is always accepted.
        path: a Unix socket to listen on as well.
        store: the file that keeps what is durable, created if it does not exist; None: memory only. Only one broker may
            use it at a time. Each virtual host but "/" has its own file beside it, with its name at the end:
            "broker.db.staging".
        queues, topics: names to create at the start. A mapping gives each queue its arguments in RabbitMQ's words, such
            as {"events": {"x-queue-type": "stream", "x-max-age": "7D"}}.
        exchanges: name -> type ("direct", "fanout", "topic", "headers") to create at the start, besides `amq.direct`
            and the like.
        bindings: (exchange, binding key, queue) to create at the start; missing queues are created, too.
        azure: entities of Azure Service Bus and Event Hubs, in the virtual host "/"; see `amqp10.broker.azure`. A store
            then keeps all their messages, durable or not, and no other nodes are created on demand.
        dialects: the names of the dialects to speak; the first one answers unknown protocol headers. None: all.
        auto_create: create nodes on demand.
        dead_letter: the queue of messages that nobody could take; None: there is no such queue.
        dead_letter_expired: move expired messages there too, instead of dropping them.
        max_delivery_count: failed attempts after which a message moves there, too; None: no limit.
        max_queue_messages, max_queue_bytes: when a queue is full.
        max_subscription_timeout: the most seconds to keep a subscription, or what a resumable link held, without a
            link. The answer to the attach has the time that applies. None: as long as the peer
            asks.
        transaction_timeout: seconds after which an undischarged transaction is rolled back, so that a peer that forgot
            it does not hold its messages forever; None: no limit.
        duplicate_ids: how many ids each node remembers of messages with the application property `_AMQ_DUPL_ID`, as
            Artemis does: a message with a remembered id is accepted and dropped. A store keeps the ids of messages that
            are still there. None: take every message.
        check_user_id: refuse messages whose `user_id` cannot be read, or is not the name that their sender logged in
            with. None: check if there are users or certificates, except with `azure`, because Service Bus does not
            check. False: accept messages that bridges pass on for other users.
        max_message_size: the most bytes a message may have.
        max_connections: the most open connections. None: 90 % of the file descriptors the process may have when the
            broker is made; connections in memory, which need no descriptor, are then not counted.
        limits: further limits on what peers may use; None: the defaults.
        credit: messages that one sender may send ahead.
        idle_timeout: seconds of silence after which a peer is given up; None: never.
        handshake_timeout: seconds that a peer has from connecting to its open.
        close_timeout: seconds to wait, when the block is left, for peers to close.
        container_id: the broker's container-id in its open; None: a random one.
        properties: further properties of its open. RabbitMQ's clients expect a "product" "RabbitMQ", a "version" and a
            "node".

    Raises:
        OSError: the file of users cannot be read.
        ValueError: an argument is invalid, or a file of users is malformed, or the host is not loopback and neither
            `users` nor `anonymous` says who may connect.
        Unsupported: a package for WebSockets is not installed, or there is no such dialect.
    """

    # Set on entering, because they need an event loop.
    _background: anyio.CancelScope
    _shield: anyio.CancelScope
    _opener: int
    _group: TaskGroup

    def __init__(
        self,
        host: str | None = "127.0.0.1",
        port: int = 0,
        *,
        users: Mapping[str, str | StoredKeys | User] | None = None,
        users_file: str | PathLike[str] | None = None,
        authorize: Authorize | None = None,
        tokens: TokenRules | None = None,
        scram_iterations: int = SERVER_ITERATIONS,
        anonymous: bool | None = None,
        allow_insecure: bool = False,
        tls: TLSSettings | None = None,
        certificate_name: CertificateName = "CN",
        virtual_hosts: Iterable[str] = (USUAL,),
        websocket: bool = False,
        websocket_origins: Iterable[str] = (),
        path: str | PathLike[str] | None = None,
        store: str | PathLike[str] | None = None,
        queues: Iterable[str] | Mapping[str, Mapping[str, Any]] = (),
        topics: Iterable[str] = (),
        exchanges: Mapping[str, str] | None = None,
        bindings: Iterable[tuple[str, str, str]] = (),
        azure: AzureConfig | None = None,
        dialects: Iterable[str] | None = None,
        auto_create: bool = True,
        dead_letter: str | None = "dead-letter",
        dead_letter_expired: bool = False,
        max_delivery_count: int | None = None,
        max_queue_messages: int | None = None,
        max_queue_bytes: int | None = 268_435_456,
        max_subscription_timeout: int | None = None,
        transaction_timeout: float | None = 300.0,
        duplicate_ids: int | None = None,
        check_user_id: bool | None = None,
        max_message_size: int = 67_108_864,
        max_connections: int | None = None,
        limits: BrokerLimits | None = None,
        credit: int = 1000,
        idle_timeout: float | None = 60.0,
        handshake_timeout: float = 10.0,
        close_timeout: float = 2.0,
        container_id: str | None = None,
        properties: Mapping[str, Any] | None = None,
    ) -> None:
        if websocket:
            require_wsproto()
        context, end_point = _shown(tls) if tls is not None else (None, None)
        listening = ListenerSettings(
            host=host,
            port=port,
            path=fspath(path) if path is not None else None,
            certificate_name=certificate_name,
            origins=frozenset(websocket_origins) if websocket else None,
            handshake_timeout=handshake_timeout,
        )
        check_range("scram_iterations", scram_iterations, 1)
        check_range("close_timeout", close_timeout, 0)
        self._external = context.verify_mode != ssl.CERT_NONE if context is not None else None
        self._access = access = Access(
            all_users(users, users_file),
            anonymous,
            bool(self._external),
            allow_insecure,
            authorize,
            scram_iterations,
            tokens,
        )
        if host is not None:
            access.check_host(host)
        if store is not None and max_message_size > MAX_STORED:
            raise ValueError(f"max_message_size must be {MAX_STORED} or less with a store, not {max_message_size}")
        at_least_one = {
            "credit": credit,
            "max_message_size": max_message_size,
            "max_queue_messages": max_queue_messages,
            "max_queue_bytes": max_queue_bytes,
            "max_connections": max_connections,
        }
        for name, limit in at_least_one.items():
            check_positive(name, limit)
        limits = limits if limits is not None else BrokerLimits()
        settings = VirtualHostSettings(
            limits=Limits(messages=max_queue_messages, bytes=max_queue_bytes, credit=credit),
            auto_create=auto_create and azure is None,
            dead_letter=dead_letter,
            dead_letter_expired=dead_letter_expired,
            max_delivery_count=max_delivery_count,
            max_subscription_timeout=max_subscription_timeout,
            transaction_timeout=transaction_timeout,
            duplicate_ids=duplicate_ids,
            check_user_id=check_user_id if check_user_id is not None else access.names and azure is None,
            peers=limits,
        )
        self._alarm: anyio.Event | None = None  # while the broker runs
        self._hosts = VirtualHosts(virtual_hosts, settings, self._on_alarm)
        try:
            self._hosts.usual.begin_with(queues, topics, exchanges or {}, bindings)
            self._azure: AzureControls | None = None
            service: Callable[[Peer], LinkService] | None = None
            if azure is not None:
                self._azure, service = _emulation(azure, self._hosts.usual, tokens)
        except Refused as error:
            raise ValueError(str(error)) from None
        connection = ConnectionTerms(
            container_id=container_id if container_id is not None else f"amqp10-broker-{secrets.token_hex(8)}",
            idle_timeout=idle_timeout,
            offered_capabilities=(
                "ANONYMOUS-RELAY",
                "SHARED-SUBS",
                LINK_PAIR,
                *((ON_DEMAND_CAPABILITY,) if settings.auto_create else ()),
                *((DELAYED_RETRY_CAPABILITY,) if azure is None else ()),
            ),
            properties={Symbol("product"): "amqp10"} | {Symbol(k): v for k, v in (properties or {}).items()},
            max_message_size=max_message_size,
            channel_max=limits.most_sessions(azure is not None) - 1,
            all_fields=azure is not None,
            any_numbers=azure is not None,  # azure-servicebus for Python renews locks in several threads
        )
        terms = PeerTerms(
            connection.checked(),
            SessionTerms(),
            access.rights_of,
            self._hosts.cores,
            tokens,
            service=service,
        )
        # Loaded here, so that the first peer's handshake need not wait for it.
        spoken = [dialect(name) for name in (dialects if dialects is not None else dialect_names())]
        if not spoken:
            raise ValueError("dialects must name one or more dialects, or be None for all, not an empty sequence")
        self._manager = ConnectionManager(
            self._hosts.usual, access.authenticator(), terms, max_connections, spoken, limits
        )
        self._listeners = Listeners(self._manager, listening, context, end_point)
        self._store_path = fspath(store) if store is not None else None
        self._stores: list[Store] = []  # while the broker runs
        self._handshake_timeout = handshake_timeout
        self._close_timeout = close_timeout
        self._entered = False
        self._tasks: TaskGroup | None = None  # while the broker runs

    # Opening

    async def __aenter__(self) -> Self:
        """Start to listen.

        Raises:
            OSError: an address cannot be listened on.
            StoreError: the store is in use or damaged or not a store, or it keeps a declared name as another kind of
                node.

        Cancelling: nothing is left open.
        """
        if self._entered:
            raise RuntimeError("a Broker can be opened by `async with` only once; make a new one")
        self._entered = True
        self._open_stores()
        try:
            await self._listeners.open()
        except BaseException:
            self._close_stores()
            raise
        # Cancelling the block must neither reach the background, which still has connections to close, nor end the
        # waiting for it. So the background has a shield of its own, and a scope around the group is shielded while
        # closing.
        self._opener = anyio.get_current_task().id
        self._background = anyio.CancelScope(shield=True)
        self._shield = anyio.CancelScope()
        self._shield.__enter__()
        self._group = anyio.create_task_group()
        await self._group.__aenter__()
        try:
            await self._group.start(self._run)
        except BaseException:
            await self._stop()
            raise
        return self

    def _open_stores(self) -> None:
        if self._store_path is None:
            return
        try:
            for name, vhost in self._hosts.cores.items():
                least_room = vhost.peers.disk_free
                store = Store(store_of(self._store_path, name), vhost.clock, least_room=least_room)
                store.on_failure = partial(self._manager.cut, store)
                store.on_room = partial(self._room_changed, store, vhost)
                self._stores.append(store)
                load(store, vhost)
        except BaseException:
            for store in self._stores:
                store.file.close()
            self._stores.clear()
            raise

    def _room_changed(self, store: Store, vhost: VirtualHostCore) -> None:
        """Stop senders while the disk has little room, so that receivers can free some; or let senders go on."""
        if vhost.admission.block("disk", store.short):
            self._manager.blocked_or_not()
        text = f"senders are stopped: {store.short}" if store.short is not None else "senders may go on"
        _log.warning("%s: %s", store.path, text)

    def _close_stores(self) -> None:
        stores, self._stores = self._stores, []
        with ExitStack() as closing:
            for store in stores:
                closing.callback(store.close)

    async def _run(self, *, task_status: TaskStatus[None]) -> None:
        try:
            with self._background, accepting(self._listeners.urls):
                async with anyio.create_task_group() as tasks:
                    self._tasks = tasks
                    self._listeners.begin(tasks)
                    tasks.start_soon(self._keep_time)
                    for store in self._stores:
                        tasks.start_soon(store.run)
                    task_status.started()
        finally:
            for vhost in self._hosts.cores.values():
                attempt("the outcomes that were still to be applied", vhost.pending.finish)
            self._close_stores()

    async def _serve_in_memory(self, stream: ByteStream) -> None:
        with anyio.CancelScope(deadline=anyio.current_time() + self._handshake_timeout) as scope:
            await self._manager.serve(stream, IN_MEMORY, scope)

    def _on_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.set()

    async def _keep_time(self) -> None:
        """Run what is due at each alarm: expire, write, and stop or resume senders."""
        while True:
            self._alarm = anyio.Event()
            deadlines = []
            changed = False
            for vhost in self._hosts.cores.values():
                deadlines.append(vhost.expire())
                vhost.flush()
                for text in vhost.admission.regulate():
                    changed = True
                    _log.warning("%s", text)
            if changed:
                self._manager.blocked_or_not()
            with anyio.move_on_at(min((each for each in deadlines if each is not None), default=math.inf)):
                await self._alarm.wait()

    # Connecting without a port

    def open_stream(self) -> ByteStream:
        """Open a connection in memory, and return the client's end as a byte stream.

        Raises:
            RuntimeError: the broker is not running.
        """
        if self._tasks is None:
            raise RuntimeError("the broker runs only inside `async with`")
        ours, theirs = memory_streams()
        self._tasks.start_soon(self._serve_in_memory, ours)
        return theirs

    @overload
    def connect(
        self, url: str = ..., *, dialect: Names091, **settings: Unpack[SettingsOfAnyDialect]
    ) -> Connection[Names091]: ...
    @overload
    def connect(
        self, url: str = ..., *, dialect: Names010, **settings: Unpack[SettingsOfAnyDialect]
    ) -> Connection[Names010]: ...
    @overload
    def connect(
        self, url: str = ..., *, dialect: NamesFast, **settings: Unpack[SettingsOfAnyDialect]
    ) -> Connection[NamesFast]: ...
    @overload
    def connect(
        self, url: str = ..., *, dialect: Literal["1.0"] | str = ..., **settings: Unpack[SettingsOfAnyDialect]
    ) -> Connection: ...
    def connect(self, url: str = "amqp://localhost", **settings: Unpack[ConnectionSettings]) -> Connection:
        """Make a client connection in memory, to be opened by `async with`; no port is needed.

        Args:
            url: only the credentials in it are used.
            settings: those of `amqp10.Connection`.

        Raises:
            RuntimeError: the broker is not running.
            TypeError, ValueError: as for `amqp10.Connection.over`.
        """
        from ..client import Connection, ConnectionSettings  # here: a broker in a process of its own needs no client

        check_type("url", url, str)
        check_keywords(self.connect, settings, ConnectionSettings)
        return Connection.over(self.open_stream(), url, secure=True, **settings)

    # Blocking

    @checked
    def block(self, reason: str = "blocked") -> None:
        """Take no messages from now on, like a broker that is short of memory or disk.

        Senders get no credit, and input from older dialects, which have no credit, waits unread. Clients of 0-9-1 get
        `connection.blocked`. Receivers go on. Messages in flight in AMQP 1.0 are still taken.

        Args:
            reason: for peers whose dialect can carry one.
        """
        self._hosts.block(reason)
        self._manager.blocked_or_not()

    def unblock(self) -> None:
        """Take messages again, unless memory or the disk is short (`BrokerLimits.memory`, `disk_free`)."""
        self._hosts.block(None)
        self._manager.blocked_or_not()

    @property
    def blocked(self) -> str | None:
        """The reason why no messages are taken now; None: they are taken."""
        return self._hosts[USUAL].blocked

    # Changing users and certificates

    @checked
    def replace_users(self, users: Mapping[str, str | StoredKeys | User]) -> int:
        """Replace all users; return how many connections are closed by that.

        Connections of users who were removed, or whose permissions changed, are closed (`amqp:connection:forced`).
        Users whose password alone changed stay connected, and so do connections in memory.

        Raises:
            ValueError: the broker was made without users, so that its peers have no names.
        """
        access = self._access
        if access.users is None:
            raise ValueError("this broker was made without users: make it with Broker(users={...})")
        before, access.users = access.users, dict(users)
        return self._manager.replace_users(access.authenticator(), partial(may_the_same, before, access.users))

    @checked
    def replace_certificate(self, tls: TLSSettings) -> None:
        """Show another certificate to new connections; open connections go on.

        Raises:
            OSError, ValueError: a file cannot be read or has no certificate; or the broker was made without TLS, or
                with another demand for client certificates.
        """
        context, end_point = _shown(tls)
        if self._external is not (context.verify_mode != ssl.CERT_NONE):
            was = "without TLS" if self._external is None else "with TLS that asks clients otherwise for certificates"
            raise ValueError(f"this broker was made {was}: make a new one")
        self._listeners.replace_tls(context, end_point)

    # Facts

    def __repr__(self) -> str:
        where = ", ".join(self._listeners.urls) or "listens nowhere"
        return f"<Broker: {where}>"

    @property
    def azure(self) -> AzureControls:
        """The controls of the emulator of Azure for tests: moving the clock, causing faults.

        Raises:
            LookupError: this broker does not emulate Azure.
        """
        if self._azure is None:
            raise LookupError("the broker has no Azure entities: make it with Broker(azure=AzureConfig(...))")
        return self._azure

    @property
    def url(self) -> str:
        """The URL to connect to: that of TCP if it listens there, otherwise that of the Unix socket.

        Raises:
            LookupError: it does not listen, or not yet; `connect` needs no URL.
        """
        if not self._listeners.urls:
            raise LookupError("the broker does not listen: use connect()")
        return self._listeners.urls[0]

    @property
    def urls(self) -> tuple[str, ...]:
        """All URLs to connect to."""
        return self._listeners.urls

    @property
    def websocket_url(self) -> str:
        """The URL for WebSockets, ws:// or wss://; any path will do.

        Raises:
            LookupError: it accepts no WebSockets, or not yet.
        """
        for url in self._listeners.urls:
            if url.startswith("ws"):
                return url
        raise LookupError("the broker does not accept WebSockets: make it with Broker(websocket=True)")

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return self._manager.opened

    @property
    def refused_logins(self) -> int:
        """Logins refused since the broker began; its log says where each came from."""
        return self._manager.refused_logins

    @property
    def unroutable(self) -> int:
        """Messages that reached no node and were sent settled, so that their senders could not be told."""
        return sum(vhost.unroutable for vhost in self._hosts.cores.values())

    @checked
    def virtual_host(self, name: str) -> VirtualHost:
        """Return a virtual host.

        Raises:
            KeyError: no virtual host has that name.
        """
        return self._hosts[name]

    @property
    def quarantine(self) -> Quarantine:
        """The messages of "/" that could not be handled, each with the reason: list, read, release or drop them."""
        return self._hosts[USUAL].quarantine

    @property
    def queues(self) -> tuple[QueueSnapshot, ...]:
        """All queues, including temporary ones; the queues of subscriptions are with their topics."""
        return self._hosts[USUAL].queues

    @property
    def topics(self) -> tuple[TopicSnapshot, ...]:
        """All topics."""
        return self._hosts[USUAL].topics

    @checked
    def queue(self, name: str, virtual_host: str = USUAL) -> QueueSnapshot:
        """Return the queue of that name.

        Raises:
            KeyError: no queue or virtual host has that name.
        """
        return self._hosts[virtual_host].queue(name)

    @checked
    def topic(self, name: str) -> TopicSnapshot:
        """Return the topic of that name.

        Raises:
            KeyError: no topic has that name.
        """
        return self._hosts[USUAL].topic(name)

    @property
    def exchanges(self) -> tuple[ExchangeSnapshot, ...]:
        """All exchanges, including the default one and `amq.direct` and the like."""
        return self._hosts[USUAL].exchanges

    @checked
    def exchange(self, name: str) -> ExchangeSnapshot:
        """Return the exchange of that name.

        Raises:
            KeyError: no exchange has that name.
        """
        return self._hosts[USUAL].exchange(name)

    # Closing

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop listening, and close all connections (`amqp:connection:forced`).

        Raises:
            LocalProtocolError: the broker was opened by another task. Connections are cut.

        Cancelling: is not noticed; it takes `close_timeout` seconds at most, then transports are cut.
        """
        if self._opener != anyio.get_current_task().id:
            self._tasks = None
            self._listeners.remove_socket()
            self._background.cancel()
            raise LocalProtocolError(
                "a broker must be closed by the task that opened it: keep its `async with` in one task, such as the "
                "lifespan of a web application or an anyio fixture"
            ) from exc
        self._shield.shield = True
        self._tasks = None
        try:
            self._listeners.stop()
            with anyio.move_on_after(self._close_timeout):
                await self._manager.close()
        finally:
            await self._stop()

    async def _stop(self) -> None:
        """End the background tasks, and raise their error if there is one."""
        self._shield.shield = True
        self._listeners.remove_socket()
        self._background.cancel()
        try:
            with Ungrouped():
                await self._group.__aexit__(None, None, None)
        finally:
            self._close_stores()
            self._shield.__exit__(None, None, None)
