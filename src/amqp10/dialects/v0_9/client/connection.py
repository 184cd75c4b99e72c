"""A client's side of the connection: the handshake, channel numbers, and what the server says on channel 0 (§2.2).

header ─> start ─> start-ok ─> (secure ─> secure-ok)* ─> tune ─> tune-ok, open ─> open-ok
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, Final

from ....engine import (
    Authenticated,
    ConnectionOpened,
    ConnectionTerms,
    Handlers,
    PeerBlocked,
    PendingRequest,
    Role,
    SessionTerms,
)
from ....errors import AmqpError, AuthenticationFailed, ConnectionClosed, EncodeError, LocalProtocolError, Unsupported
from ....messaging import DeliveryState, Rejected, Returned
from ....sasl import Anonymous, ClientHandshake
from ....types import Symbol
from ..._kit.coordinators import OpenTransactions
from ..._kit.requests import WaitingRequests
from ..codes import Fault, as_error
from ..connection import OWN_PRODUCT, Connection, agreed, capabilities_of
from ..engine import V09Engine
from ..requests import UpdateSecret
from ..wire.framing import FRAME_MIN_SIZE
from ..wire.methods import (
    BasicGet,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionSecure,
    ConnectionSecureOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    ConnectionUnblocked,
    ConnectionUpdateSecret,
    ConnectionUpdateSecretOk,
)
from ..wire.tables import QPID_TABLES
from ..wire.variant import Variant
from .amqplain import with_amqplain
from .pending_transaction import PendingTransaction
from .receiver import ClientReceiver
from .sender import ClientSender
from .session import ClientSession

if TYPE_CHECKING:
    from ....sasl import Mechanism
    from ..wire.tables import Tables

CAPABILITIES = frozenset(
    (
        *("anonymous-terminus", "detach-releases", "drain", "dynamic"),
        *("modified", "multi-frame", "rejected", "released", "requests", "stream-filters", "transactions"),
        *("update-secret", "virtual-hosts"),
    )
)
REFUSED: Final = frozenset((403, 530))
"""The codes by which servers refuse a login: that of the specification, and that of Broker-J."""
# What this side can take that not every client can; RabbitMQ does accordingly.
CLIENT_CAPABILITIES = (
    *("authentication_failure_close", "basic.nack", "connection.blocked", "consumer_cancel_notify"),
    *("exchange_exchange_bindings", "publisher_confirms"),
)


class ClientConnection(Connection):
    """Channel 0 of a client."""

    handlers: ClassVar[Handlers] = {
        ConnectionStart: "receive_start",
        ConnectionSecure: "receive_secure",
        ConnectionTune: "receive_tune",
        ConnectionOpenOk: "receive_open",
        ConnectionBlocked: "receive_blocked",
        ConnectionUnblocked: "receive_unblocked",
        ConnectionUpdateSecretOk: "receive_updated",
    }
    engine: V09Engine
    tables: Tables

    def __init__(self, engine: V09Engine, mechanisms: tuple[Mechanism, ...] | None, secure: bool) -> None:
        super().__init__(engine)
        self.sessions: list[ClientSession] = []
        self.capabilities: frozenset[str] = frozenset()
        self.blocked: bool = False
        self.prefetch_by_consumer: bool = False
        self.has_streams: bool = False
        self.expiry_clock: Callable[[], int] | None = None
        self.tables = engine.variant.tables
        self.nack_outcome: DeliveryState = Returned(as_error(312, "no queue takes the message"))
        self.transactions: OpenTransactions[PendingTransaction] = OpenTransactions("connection")
        allowed = with_amqplain(mechanisms if mechanisms is not None else (Anonymous(),))
        self._handshake = ClientHandshake(allowed, engine.terms.hostname, secure)
        self._properties: dict[Any, Any] = {}
        self._updating = WaitingRequests(self)
        self._next_channel = 1
        self._channel_max = 0xFFFF

    # Opening

    def started(self) -> None:
        """Do nothing: the server speaks next."""

    def open(self) -> None:
        """Do nothing: this side's terms go into the handshake."""

    def receive_start(self, method: ConnectionStart) -> None:
        self._properties = method.server_properties or {}
        self._learn()
        offered = method.mechanisms.decode("ascii", "replace").split()
        initial = self._handshake.start(offered)
        self.write(
            ConnectionStartOk(
                client_properties=self._client_properties(),
                mechanism=self._handshake.mechanism,
                response=initial or b"",
                locale="en_US",
            )
        )

    def _learn(self) -> None:
        """Find out from the server's properties what it can do."""
        self.capabilities = capabilities_of(self._properties)
        product = str(self._properties.get("product")).lower()
        self.has_streams = product in ("rabbitmq", "amqp10")
        if "qpid" in product:
            self.expiry_clock = self.engine.incoming.clock = _wall_clock
            self.tables = self.engine.incoming.tables = QPID_TABLES
        self.prefetch_by_consumer = "per_consumer_qos" in self.capabilities
        if "publisher_confirms" in self.capabilities:
            self.nack_outcome = Rejected(as_error(541, "the server could not take care of the message"))

    def _client_properties(self) -> dict[str, Any]:
        terms, tables = self.engine.terms, self.engine.variant.tables
        properties: dict[str, Any] = {**OWN_PRODUCT}
        properties["capabilities"] = (
            dict.fromkeys(CLIENT_CAPABILITIES, True) if tables.holds(True) else " ".join(CLIENT_CAPABILITIES)
        )
        if tables.names("connection_name"):
            properties["connection_name"] = terms.container_id
        if self.expiry_clock is not None:
            properties["qpid.close_when_no_route"] = (
                False  # it would, on a message of a transaction that no queue takes
            )
        for name, value in terms.properties.items():
            if isinstance(name, str) and tables.holds({str(name): value}):
                properties[str(name)] = value
        return properties

    def receive_secure(self, method: ConnectionSecure) -> None:
        self.write(ConnectionSecureOk(self._handshake.respond(method.challenge)))

    def receive_tune(self, method: ConnectionTune) -> None:
        engine, terms = self.engine, self.engine.terms
        self._handshake.finish(None)
        engine.emit(Authenticated(self._handshake.mechanism, None))
        frame_max = agreed(method.frame_max, max(FRAME_MIN_SIZE, terms.max_frame_size))
        if frame_max < FRAME_MIN_SIZE:
            raise Fault(501, f"frame-max must be {FRAME_MIN_SIZE} or more, not {frame_max}")
        self._channel_max = agreed(method.channel_max, terms.channel_max or 1)
        wanted = math.ceil(terms.idle_timeout / 2) if terms.idle_timeout else 0
        engine.agree(frame_max, min(agreed(method.heartbeat, wanted), 0xFFFF))
        self._frame_max = frame_max
        self.write(ConnectionTuneOk(self._channel_max, frame_max, engine.heartbeat))
        self.write(ConnectionOpen(terms.virtual_host or "/"))

    def receive_open(self, method: ConnectionOpenOk) -> None:
        engine = self.engine
        named = self._properties.get("cluster_name") or self._properties.get("product") or ""
        engine.remote = ConnectionTerms(
            container_id=str(named),
            max_frame_size=self._frame_max,
            channel_max=self._channel_max,
            idle_timeout=2.0 * engine.heartbeat or None,
            offered_capabilities=tuple(sorted(self.capabilities)),
            properties={Symbol(name): value for name, value in self._properties.items()},
        )
        engine.emit(ConnectionOpened())

    # Sessions

    def begin(self, terms: SessionTerms | None) -> ClientSession:
        session = ClientSession(self, terms)
        self.sessions.append(session)
        return session

    def free_channel(self) -> int:
        """Return a free channel number. Numbers take turns, so that late frames meet no other channel.

        Raises:
            LocalProtocolError: all channels are in use.
        """
        if len(self.engine.channels) >= self._channel_max:
            raise LocalProtocolError(
                f"the peer allows {self._channel_max} channels on a connection, and all are in use: close a link, or "
                "open another connection"
            )
        start = self._next_channel
        numbers = chain(range(start, self._channel_max + 1), range(1, start))
        channel = next(number for number in numbers if number not in self.engine.channels)
        self._next_channel = channel % self._channel_max + 1
        return channel

    def unknown_channel(self, number: int, kind: int, payload: bytes) -> None:
        raise Fault(504, f"a frame on channel {number}, which is not open")

    # What the server says

    def receive_blocked(self, method: ConnectionBlocked) -> None:
        self._block(method.reason)

    def receive_unblocked(self, _: ConnectionUnblocked) -> None:
        self._block(None)

    def _block(self, reason: str | None) -> None:
        self.blocked = reason is not None
        self.engine.emit(PeerBlocked(reason))
        for channel in self.engine.channels.values():
            if isinstance(channel.user, ClientSender):
                channel.user.admit()

    def cause_of(self, method: ConnectionClose) -> AmqpError | None:
        if not self.engine.tuned and method.reply_code in REFUSED:
            return AuthenticationFailed(method.reply_text or "the server refused the credentials", 1)
        cause = super().cause_of(method)
        if isinstance(cause, ConnectionClosed) and (method.class_id, method.method_id) == BasicGet.code:
            return self._learn_of_streams(cause)
        return cause

    def _learn_of_streams(self, cause: ConnectionClosed) -> ConnectionClosed:
        """Remember which queues the server's close shows to be streams; return the error to report.

        A stream has no basic.get, and nothing said before that the queue is one. It is not asked again, so the next
        connection lasts.
        """
        users = [channel.user for channel in self.engine.channels.values()]
        links = [each for each in users if isinstance(each, ClientReceiver) and each.drain.getting]
        streams = {link.address.key or "" for link in links if f"'{link.address.key}'" in (cause.description or "")}
        self.engine.streams |= streams
        return ConnectionClosed("amqp:connection:forced", cause.description, cause.info) if streams else cause

    def update_secret(self, pending: PendingRequest[Any]) -> None:
        """Tell the server a new secret."""
        request: UpdateSecret = pending.request  # type: ignore[assignment]
        if ConnectionUpdateSecret not in self.engine.variant.methods:
            raise Unsupported("this dialect has no connection.update-secret: a token cannot be renewed on a connection")
        try:
            self.write(ConnectionUpdateSecret(request.secret.encode(), request.reason))
        except EncodeError as error:
            raise LocalProtocolError(str(error)) from None
        self._updating.add(pending)

    def receive_updated(self, method: ConnectionUpdateSecretOk) -> None:
        if not self._updating:
            raise Fault(503, f"{method.name}, which was not asked for", method.code)
        self._updating.answer(None)

    def over(self, error: AmqpError | None) -> None:
        self._updating.fail_all(error or LocalProtocolError("the connection was closed"))
        super().over(error)


def _wall_clock() -> int:
    return time.time_ns() // 1_000_000


def client_engine(
    variant: Variant,
    capabilities: frozenset[str],
    terms: ConnectionTerms,
    mechanisms: tuple[Mechanism, ...] | None,
    secure: bool,
) -> V09Engine:
    """Return a client engine. `secure`: whether secrets may cross in the clear."""
    engine = V09Engine(variant, Role.CLIENT, replace(terms), capabilities)
    engine.connection = ClientConnection(engine, mechanisms, secure)
    return engine
