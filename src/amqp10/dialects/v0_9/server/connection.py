"""A server's side of the connection: the handshake, and what the client says on channel 0 (0-9-1 §2.2)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar

from ....engine import Authenticated, ConnectionOpened, ConnectionTerms, Handlers, Role, SessionTerms
from ....errors import AuthenticationFailed, LocalProtocolError
from ....sasl import Challenge, ServerHandshake, Success
from ....sasl import Step as LoginStep
from ....types import Symbol
from ..._kit.backlog import Backlog
from ..codes import Fault
from ..connection import OWN_PRODUCT, Connection, agreed, capabilities_of
from ..engine import V09Engine
from ..states import Step
from ..wire.framing import FRAME_MIN_SIZE, METHOD
from ..wire.methods import (
    ChannelOpen,
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
from ..wire.variant import Variant
from .amqplain import AMQPLAIN, PLAIN, plain_of, with_amqplain
from .session import ServerSession

if TYPE_CHECKING:
    from ....sasl import Authenticator

SERVER_CAPABILITIES = (
    *("authentication_failure_close", "basic.nack", "connection.blocked", "consumer_cancel_notify"),
    *("consumer_priorities", "direct_reply_to", "exchange_exchange_bindings", "per_consumer_qos"),
    "publisher_confirms",
)


class ServerConnection(Connection):
    """Channel 0 of a server."""

    handlers: ClassVar[Handlers] = {
        ConnectionStartOk: "receive_start_ok",
        ConnectionSecureOk: "receive_secure_ok",
        ConnectionTuneOk: "receive_tune_ok",
        ConnectionOpen: "receive_open",
        ConnectionUpdateSecret: "receive_update_secret",
    }

    engine: V09Engine

    def __init__(self, engine: V09Engine, authenticator: Authenticator) -> None:
        super().__init__(engine)
        self.sessions: list[ServerSession] = []
        self.takes_cancel_notify: bool = False
        self._authenticator = authenticator
        self._handshake = ServerHandshake(authenticator, last_word=True)
        self._properties: dict[str, Any] = {}
        self._amqplain = False  # the client's responses are those of AMQPLAIN
        self._frame_max = 0
        self._channel_max = 0
        self.backlog: Backlog = Backlog(engine, self._ask, most_items=3000, largest=engine.terms.max_message_size)
        self._takes_blocked = self._takes_refusal = False
        self._reasons: dict[str, str] = {}  # whose reason -> why the client is blocked

    # Opening

    def started(self) -> None:
        """Send connection.start, because the client's header has come."""
        terms, tables, variant = self.engine.terms, self.engine.variant.tables, self.engine.variant
        properties: dict[str, Any] = {**OWN_PRODUCT}
        for name, value in terms.properties.items():
            if isinstance(name, str) and tables.holds({str(name): value}):
                properties[str(name)] = value
        if tables.names("cluster_name"):
            properties["cluster_name"] = terms.container_id
        offered = [each for each in terms.offered_capabilities if each.islower()]
        if tables.holds(True):
            properties["capabilities"] = dict.fromkeys((*SERVER_CAPABILITIES, *offered), True)
        else:
            properties["capabilities"] = " ".join((*SERVER_CAPABILITIES, *offered))
        major, minor = variant.version
        mechanisms = " ".join(with_amqplain(self._handshake.offered))
        self.write(ConnectionStart(major, minor, properties, mechanisms.encode(), b"en_US"))

    def receive_start_ok(self, method: ConnectionStartOk) -> None:
        self._properties = method.client_properties or {}
        capable = capabilities_of(self._properties)
        self.takes_cancel_notify = "consumer_cancel_notify" in capable
        self._takes_blocked = "connection.blocked" in capable and ConnectionBlocked in self.engine.variant.methods
        self._takes_refusal = "authentication_failure_close" in capable
        self._amqplain = method.mechanism == AMQPLAIN
        mechanism = PLAIN if self._amqplain else method.mechanism
        # An empty response counts as absent, except for the one mechanism that may have nothing to send.
        response = self._read(method.response) if method.response or mechanism == "EXTERNAL" else None
        self._take(self._handshake.start(mechanism, response))

    def receive_secure_ok(self, method: ConnectionSecureOk) -> None:
        self._take(self._handshake.step(self._read(method.response)))

    def _read(self, response: bytes) -> bytes:
        return plain_of(response) if self._amqplain else response

    def _take(self, step: LoginStep) -> None:
        """Act on the next step of the login; only clients that know RabbitMQ's way are told why a login is refused."""
        handshake = self._handshake
        if isinstance(step, Challenge):
            self.write(ConnectionSecure(step.data))
        elif isinstance(step, Success):
            self.engine.identity = step.identity
            self._tune()
        else:
            if handshake.was_offered and self._takes_refusal:  # else nothing more is sent (§2.2.4 "start-ok")
                text = f"ACCESS_REFUSED - login was refused using authentication mechanism {handshake.mechanism[:50]}"
                self.write(ConnectionClose(403, text))
            self.engine.finish(AuthenticationFailed(handshake.refusal, 1))

    def _tune(self) -> None:
        engine, terms = self.engine, self.engine.terms
        engine.emit(Authenticated(self._handshake.mechanism, engine.identity))
        self._frame_max = max(FRAME_MIN_SIZE, terms.max_frame_size)
        self._channel_max = terms.channel_max or 1
        engine.heartbeat = min(math.ceil(terms.idle_timeout / 2), 0xFFFF) if terms.idle_timeout else 0
        self.write(ConnectionTune(self._channel_max, self._frame_max, engine.heartbeat))

    def receive_tune_ok(self, method: ConnectionTuneOk) -> None:
        engine = self.engine
        frame_max = method.frame_max or self._frame_max
        if not FRAME_MIN_SIZE <= frame_max <= self._frame_max:
            raise Fault(530, f"frame-max must be in {FRAME_MIN_SIZE}..{self._frame_max}, not {frame_max}", method.code)
        if method.channel_max > self._channel_max:
            text = f"a channel-max of {method.channel_max}, and {self._channel_max} was offered"
            raise Fault(530, text, method.code)
        self._frame_max = frame_max
        self._channel_max = agreed(method.channel_max, self._channel_max)
        engine.agree(frame_max, method.heartbeat)  # the client decides; 0 turns heartbeats off

    def receive_open(self, method: ConnectionOpen) -> None:
        engine = self.engine
        engine.remote = ConnectionTerms(
            container_id=str(self._properties.get("connection_name") or self._properties.get("product") or ""),
            hostname=method.virtual_host,
            max_frame_size=self._frame_max,
            channel_max=self._channel_max,
            idle_timeout=2.0 * engine.heartbeat or None,
            properties={Symbol(name): value for name, value in self._properties.items()},
        )
        engine.emit(ConnectionOpened())
        engine.open_if_asked()

    def open(self) -> None:
        """Let the client in, as the owner has decided, once it has asked."""
        if self.engine.may(Step.SEND_OPEN_OK):
            self.write(ConnectionOpenOk())

    # Channels

    def begin(self, terms: SessionTerms | None) -> ServerSession:
        raise LocalProtocolError("only the client begins sessions in AMQP 0-9-1")

    def unknown_channel(self, number: int, kind: int, payload: bytes) -> None:
        engine = self.engine
        method = engine.variant.methods.decode(payload) if kind == METHOD else None
        if not isinstance(method, ChannelOpen) or not engine.opened:
            blamed = method.code if method is not None else (0, 0)
            raise Fault(504, f"a frame on channel {number}, which is not open", blamed)
        if number > self._channel_max:
            raise Fault(504, f"channel {number} exceeds channel-max {self._channel_max}", method.code)
        session = ServerSession(self, number)
        self.sessions.append(session)
        session.announce()

    def _ask(self, stop: bool) -> None:
        self.block("our own", "more is waiting than there is room for" if stop else None)

    def read_ahead(self, *, far: bool) -> None:
        self.backlog.read_ahead(far=far)

    @property
    def blocking_channels(self) -> bool:
        """Return whether the client may send no messages, and has to be told so on each channel."""
        return bool(self._reasons) and not self._takes_blocked

    def block(self, whose: str, reason: str | None) -> None:
        """Tell the client to stop or to go on: by connection.blocked if it knows that, else channel by channel."""
        before = bool(self._reasons)
        self._reasons.pop(whose, None)
        if reason is not None:
            self._reasons[whose] = reason
        if bool(self._reasons) is before or not self.engine.opened:
            return
        if self._takes_blocked:
            self.write(ConnectionUnblocked() if reason is None else ConnectionBlocked(reason[:250]))
        else:
            for session in self.sessions:
                session.ask(active=reason is None)

    # The rest of what a client says

    def receive_update_secret(self, method: ConnectionUpdateSecret) -> None:
        """Take a new secret, a token mostly, for that of the login."""
        refusal = self._authenticator.renew(method.new_secret) if self.engine.tuned else "the login is not over"
        if refusal is not None:
            raise Fault(530, f"the new secret is refused: {refusal}", method.code)
        self.write(ConnectionUpdateSecretOk())


def server_engine(
    variant: Variant, capabilities: frozenset[str], terms: ConnectionTerms, authenticator: Authenticator
) -> V09Engine:
    """Return a server engine; `authenticator` decides who may connect, and how."""
    engine = V09Engine(variant, Role.SERVER, terms, capabilities)
    engine.connection = ServerConnection(engine, authenticator)
    return engine
