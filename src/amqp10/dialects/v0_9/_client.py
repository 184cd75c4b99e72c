"""A client's side of the connection: the handshake, channel numbers, and what the server says on channel 0 (§2.2).

header ─> start ─> start-ok ─> (secure ─> secure-ok)* ─> tune ─> tune-ok, open ─> open-ok
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib.metadata import version
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar

from ...engine import (
    Authenticated,
    ConnectionOpened,
    ConnectionTerms,
    PeerBlocked,
    PendingRequest,
    RequestAnswered,
    Role,
    SessionTerms,
)
from ...errors import (
    AmqpError,
    AuthenticationFailed,
    ConnectionClosed,
    EncodeError,
    LocalProtocolError,
    Unsupported,
)
from ...messaging import DeliveryState, Rejected, Returned
from ...sasl import Anonymous, choose
from ...types import Symbol
from ._amqplain import with_amqplain
from ._asks import UpdateSecret
from ._codes import Fault, as_error
from ._connection import MAX_ROUNDS, Connection
from ._engine import V09Engine
from ._frames import LEAST_FRAME
from ._methods import (
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
from ._receiver import ReceiverEndpoint
from ._sender import SenderEndpoint
from ._session import ClientSession
from ._table import QPID_TABLES
from ._transactions import Transactions
from ._variant import Variant

if TYPE_CHECKING:
    from ...sasl import ClientExchange, Mechanism

CAPABILITIES = frozenset(
    (
        *("anonymous-terminus", "detach-releases", "drain", "dynamic"),
        *("modified", "multi-frame", "rejected", "released", "requests", "stream-filters", "transactions"),
    )
)
# What this side can take that not every client can; RabbitMQ does accordingly.
OURS = (
    *("authentication_failure_close", "basic.nack", "connection.blocked", "consumer_cancel_notify"),
    *("exchange_exchange_bindings", "publisher_confirms"),
)


class ClientConnection(Connection):
    """Channel 0 of a client.

    Attributes:
        capabilities: those in the server's properties.
        blocked: the server takes no messages at present.
        has_streams: it is RabbitMQ, or another that has its streams.
        prefetch_by_consumer: each consumer has a prefetch of its own (RabbitMQ), not the channel.
        expiry_clock: milliseconds since 1970, where the property expiration is a moment, and not a time to live: at
            Qpid, which drops at once what has the latter.
        tables: how the peer writes what messages say.
        nack_outcome: what a nack means: that the server failed, or at those that confirm without being asked to say so
            (Qpid) that the message could not be routed.
    """

    handlers: ClassVar = Connection.handlers | {
        ConnectionStart: "receive_start",
        ConnectionSecure: "receive_secure",
        ConnectionTune: "receive_tune",
        ConnectionOpenOk: "receive_open",
        ConnectionBlocked: "receive_blocked",
        ConnectionUnblocked: "receive_unblocked",
        ConnectionUpdateSecretOk: "receive_updated",
    }

    def __init__(self, engine: V09Engine, mechanisms: tuple[Mechanism, ...] | None, secure: bool) -> None:
        super().__init__(engine)
        self.sessions: list[ClientSession] = []
        self.capabilities: frozenset[str] = frozenset()
        self.blocked = False
        self.prefetch_by_consumer = False
        self.has_streams = False
        self.expiry_clock: Callable[[], int] | None = None
        self.tables = engine.variant.tables
        self.nack_outcome: DeliveryState = Returned(as_error(312, "no queue takes the message"))
        self.transactions = Transactions()
        self._mechanisms = mechanisms if mechanisms is not None else (Anonymous(),)
        self._secure = secure
        self._mechanism: Mechanism | None = None
        self._exchange: ClientExchange | None = None
        self._rounds = 0
        self._properties: dict[Any, Any] = {}
        self._tuned = False
        self._open_asked = False
        self._updating: deque[PendingRequest[Any]] = deque()
        self._next_channel = 1
        self._channel_max = 0xFFFF

    # Opening

    @property
    def may_close(self) -> bool:
        return self._exchange is not None

    def started(self) -> None:
        """The server speaks next."""

    def open(self) -> None:
        """What is said of this side is known."""

    def receive_start(self, method: ConnectionStart) -> None:
        if self._exchange is not None:
            raise Fault(503, "a second connection.start", method.code)
        self._properties = method.server_properties or {}
        self._learn()
        offered = method.mechanisms.decode("ascii", "replace").split()
        self._mechanism = mechanism = choose(offered, with_amqplain(self._mechanisms), secure=self._secure)
        self._exchange = exchange = mechanism.exchange(self.engine.terms.hostname)
        self.write(
            ConnectionStartOk(
                client_properties=self._client_properties(),
                mechanism=mechanism.name,
                response=exchange.initial() or b"",
                locale="en_US",
            )
        )

    def _learn(self) -> None:
        """What the server can do, as its properties say."""
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
        said: dict[str, Any] = {"product": "amqp10", "version": version("amqp10"), "platform": "Python"}
        said["capabilities"] = dict.fromkeys(OURS, True) if tables.holds(True) else " ".join(OURS)
        if tables.names("connection_name"):
            said["connection_name"] = terms.container_id
        if self.expiry_clock is not None:
            said["qpid.close_when_no_route"] = False  # it would, on a message of a transaction that no queue takes
        for name, value in terms.properties.items():
            if isinstance(name, str) and tables.holds({str(name): value}):
                said[str(name)] = value
        return said

    def receive_secure(self, method: ConnectionSecure) -> None:
        self._rounds += 1
        if self._exchange is None or self._tuned or self._rounds > MAX_ROUNDS:
            raise Fault(503, "connection.secure, which is not expected here", method.code)
        self.write(ConnectionSecureOk(self._exchange.respond(method.challenge)))

    def receive_tune(self, method: ConnectionTune) -> None:
        engine, terms = self.engine, self.engine.terms
        if self._exchange is None or self._tuned:
            raise Fault(503, "connection.tune, which is not expected here", method.code)
        assert self._mechanism is not None
        self._exchange.finish(None)
        self._tuned = True
        engine.take_large_frames()
        engine.emit(Authenticated(self._mechanism.name, None))
        frame_max = agreed(method.frame_max, max(LEAST_FRAME, terms.max_frame_size))
        if frame_max < LEAST_FRAME:
            raise Fault(501, f"a frame-max of {frame_max}; {LEAST_FRAME} is the least there is")
        self._channel_max = agreed(method.channel_max, terms.channel_max or 1)
        wanted = math.ceil(terms.idle_timeout / 2) if terms.idle_timeout else 0
        engine.agree(min(agreed(method.heartbeat, wanted), 0xFFFF))
        engine.room = frame_max - engine.variant.framing.overhead
        self._frame_max = frame_max
        self.write(ConnectionTuneOk(self._channel_max, frame_max, engine.heartbeat))
        self.write(ConnectionOpen(terms.virtual_host or "/"))

    def receive_open(self, method: ConnectionOpenOk) -> None:
        engine = self.engine
        if not self._tuned or engine.opened:
            raise Fault(503, "connection.open-ok, which is not expected here", method.code)
        named = self._properties.get("cluster_name") or self._properties.get("product") or ""
        engine.remote = ConnectionTerms(
            container_id=str(named),
            max_frame_size=self._frame_max,
            channel_max=self._channel_max,
            idle_timeout=2.0 * engine.heartbeat or None,
            offered_capabilities=tuple(sorted(self.capabilities)),
            properties={Symbol(name): value for name, value in self._properties.items()},
        )
        engine.opened = True
        engine.emit(ConnectionOpened())

    # Sessions

    def begin(self, terms: SessionTerms | None) -> ClientSession:
        session = ClientSession(self, terms)
        self.sessions.append(session)
        return session

    def free_channel(self) -> int:
        """A number for another channel; they take turns, so that what comes late meets nobody else's.

        Raises:
            LocalProtocolError: all are in use.
        """
        if len(self.engine.channels) >= self._channel_max:
            raise LocalProtocolError(f"the peer takes {self._channel_max} channels on a connection, and all are in use")
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
            if isinstance(channel, SenderEndpoint):
                channel.admit()

    def cause_of(self, method: ConnectionClose) -> AmqpError | None:
        if not self._tuned:
            return AuthenticationFailed(method.reply_text or "the server refused the credentials", 1)
        cause = super().cause_of(method)
        if isinstance(cause, ConnectionClosed) and (method.class_id, method.method_id) == BasicGet.code:
            return self._learn_of_streams(cause)
        return cause

    def _learn_of_streams(self, cause: ConnectionClosed) -> ConnectionClosed:
        """A stream has no basic.get, which nothing told before: it is not asked again, so the next connection lasts."""
        links = [each for each in self.engine.channels.values() if isinstance(each, ReceiverEndpoint) and each.getting]
        streams = {link.address.key or "" for link in links if f"'{link.address.key}'" in (cause.description or "")}
        self.engine.streams |= streams
        return ConnectionClosed("amqp:connection:forced", cause.description, cause.info) if streams else cause

    def update_secret(self, pending: PendingRequest[Any]) -> None:
        """Tell the server a new secret."""
        request: UpdateSecret = pending.request  # type: ignore[assignment]
        if ConnectionUpdateSecret not in self.engine.variant.methods:
            raise Unsupported("the dialect has no connection.update-secret")
        try:
            self.write(ConnectionUpdateSecret(request.secret.encode(), request.reason))
        except EncodeError as error:
            raise LocalProtocolError(str(error)) from None
        self._updating.append(pending)

    def receive_updated(self, method: ConnectionUpdateSecretOk) -> None:
        if not self._updating:
            raise Fault(503, f"{method.name}, for which nobody asked", method.code)
        pending = self._updating.popleft()
        pending.answer(None)
        self.engine.emit(RequestAnswered(pending))

    def over(self, error: AmqpError | None) -> None:
        while self._updating:
            pending = self._updating.popleft()
            pending.fail(error if error is not None else LocalProtocolError("the connection was closed"))
            self.engine.emit(RequestAnswered(pending))
        super().over(error)


def _wall_clock() -> int:
    return time.time_ns() // 1_000_000


def capabilities_of(properties: Mapping[str, Any]) -> frozenset[str]:
    """What the peer can do, as its properties say: a table of flags; or names, where tables have none."""
    said = properties.get("capabilities")
    if isinstance(said, dict):
        return frozenset(name for name, can in said.items() if can is True)
    return frozenset(said.split()) if isinstance(said, str) else frozenset()


def agreed(theirs: int, ours: int) -> int:
    """The lower one of two limits, of which 0 is none."""
    return min(theirs, ours) if theirs and ours else max(theirs, ours)


def client(
    variant: Variant,
    capabilities: frozenset[str],
    terms: ConnectionTerms,
    mechanisms: tuple[Mechanism, ...] | None,
    secure: bool,
) -> V09Engine:
    """A client engine; `secure`: secrets may cross in the clear."""
    engine = V09Engine(variant, Role.CLIENT, replace(terms), capabilities)
    engine.connection = ClientConnection(engine, mechanisms, secure)
    return engine
