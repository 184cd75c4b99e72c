"""A server's side of the connection: the handshake, and what the client says on channel 0 (0-9-1 §2.2)."""

from __future__ import annotations

import math
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, ClassVar

from ...engine import Authenticated, Backlog, ConnectionOpened, ConnectionTerms, Role, SessionTerms
from ...errors import AuthenticationFailed, LocalProtocolError
from ...sasl import Challenge, Success
from ...types import Symbol
from ._client import agreed, capabilities_of
from ._codes import Fault
from ._connection import MAX_ROUNDS, Connection
from ._engine import V09Engine
from ._frames import LEAST_FRAME, METHOD
from ._methods import (
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
from ._server_session import ServerSession
from ._variant import Variant

if TYPE_CHECKING:
    from ...sasl import Authenticator, ServerExchange

OURS = (
    *("authentication_failure_close", "basic.nack", "connection.blocked", "consumer_cancel_notify"),
    *("consumer_priorities", "exchange_exchange_bindings", "per_consumer_qos", "publisher_confirms"),
)


class ServerConnection(Connection):
    """Channel 0 of a server.

    Attributes:
        told_of_cancels: the client takes basic.cancel.
    """

    handlers: ClassVar = Connection.handlers | {
        ConnectionStartOk: "receive_start_ok",
        ConnectionSecureOk: "receive_secure_ok",
        ConnectionTuneOk: "receive_tune_ok",
        ConnectionOpen: "receive_open",
        ConnectionUpdateSecret: "receive_update_secret",
    }

    def __init__(self, engine: V09Engine, authenticator: Authenticator) -> None:
        super().__init__(engine)
        self.sessions: list[ServerSession] = []
        self.told_of_cancels = False
        self._authenticator = authenticator
        self._offered = tuple(authenticator.mechanisms())
        self._mechanism = ""
        self._exchange: ServerExchange | None = None
        self._last_word = False  # the exchange succeeded, and its last word is out as a challenge
        self._rounds = 0
        self._properties: dict[str, Any] = {}
        self._tune_sent = self._tuned = False
        self._frame_max = 0
        self._channel_max = 0
        self.backlog = Backlog(engine, self._ask, most_items=3000, largest=engine.terms.max_message_size)
        self._told_of_blocking = self._told_of_refusals = False
        self._reasons: dict[str, str] = {}  # for being blocked, by whose they are

    # Opening

    @property
    def may_close(self) -> bool:
        return True

    def started(self) -> None:
        """The client's header is here."""
        terms, tables, variant = self.engine.terms, self.engine.variant.tables, self.engine.variant
        said: dict[str, Any] = {"product": "amqp10", "version": version("amqp10"), "platform": "Python"}
        for name, value in terms.properties.items():
            if isinstance(name, str) and tables.holds({str(name): value}):
                said[str(name)] = value
        if tables.names("cluster_name"):
            said["cluster_name"] = terms.container_id
        offered = [each for each in terms.offered_capabilities if each.islower()]
        if tables.holds(True):
            said["capabilities"] = dict.fromkeys((*OURS, *offered), True)
        else:
            said["capabilities"] = " ".join((*OURS, *offered))
        major, minor = variant.version
        self.write(ConnectionStart(major, minor, said, " ".join(self._offered).encode(), b"en_US"))

    def receive_start_ok(self, method: ConnectionStartOk) -> None:
        if self._exchange is not None:
            raise Fault(503, "a second connection.start-ok", method.code)
        self._properties = method.client_properties or {}
        capable = capabilities_of(self._properties)
        self.told_of_cancels = "consumer_cancel_notify" in capable
        self._told_of_blocking = "connection.blocked" in capable and ConnectionBlocked in self.engine.variant.methods
        self._mechanism = method.mechanism
        self._told_of_refusals = "authentication_failure_close" in capable
        if method.mechanism not in self._offered:
            self._authenticator.refuse(method.mechanism)
            # Nothing more is sent (§2.2.4 "start-ok").
            self.engine.finish(AuthenticationFailed(f"the client chose {method.mechanism}, which was not offered", 1))
            return
        self._exchange = self._authenticator.exchange(method.mechanism)
        # An empty response is none, but to the one mechanism that has nothing to say.
        self._step(method.response if method.response or method.mechanism == "EXTERNAL" else None)

    def receive_secure_ok(self, method: ConnectionSecureOk) -> None:
        if self._exchange is None or self._tune_sent:
            raise Fault(503, "connection.secure-ok, which is not expected here", method.code)
        if self._last_word:
            self._tune()
        else:
            self._step(method.response)

    def _step(self, response: bytes | None) -> None:
        self._rounds += 1
        if self._rounds > MAX_ROUNDS:
            raise Fault(530, "the SASL exchange does not end")
        assert self._exchange is not None
        step = self._exchange.step(response)
        if isinstance(step, Challenge):
            self.write(ConnectionSecure(step.data))
        elif isinstance(step, Success):
            self.engine.identity = step.identity
            if step.additional:
                self._last_word = True
                self.write(ConnectionSecure(step.additional))
            else:
                self._tune()
        else:
            self._refuse(f"the client's credentials were refused ({self._mechanism})")

    def _refuse(self, reason: str) -> None:
        """End the connection; only clients of RabbitMQ's way expect to be told why."""
        if self._told_of_refusals:
            text = f"ACCESS_REFUSED - login was refused using authentication mechanism {self._mechanism[:50]}"
            self.write(ConnectionClose(403, text))
        self.engine.finish(AuthenticationFailed(reason, 1))

    def _tune(self) -> None:
        engine, terms = self.engine, self.engine.terms
        engine.emit(Authenticated(self._mechanism, engine.identity))
        self._tune_sent = True
        self._frame_max = max(LEAST_FRAME, terms.max_frame_size)
        engine.take_large_frames()
        self._channel_max = terms.channel_max or 1
        engine.heartbeat = min(math.ceil(terms.idle_timeout / 2), 0xFFFF) if terms.idle_timeout else 0
        self.write(ConnectionTune(self._channel_max, self._frame_max, engine.heartbeat))

    def receive_tune_ok(self, method: ConnectionTuneOk) -> None:
        engine = self.engine
        if not self._tune_sent or self._tuned:
            raise Fault(503, "connection.tune-ok, which is not expected here", method.code)
        frame_max = method.frame_max or self._frame_max
        if not LEAST_FRAME <= frame_max <= self._frame_max:
            raise Fault(530, f"a frame-max of {frame_max}, not within {LEAST_FRAME} and {self._frame_max}", method.code)
        self._tuned = True
        self._frame_max = frame_max
        self._channel_max = agreed(method.channel_max, self._channel_max)
        engine.agree(method.heartbeat)  # the client has the last word: 0 is none at all
        engine.room = frame_max - engine.variant.framing.overhead

    def receive_open(self, method: ConnectionOpen) -> None:
        engine = self.engine
        if not self._tuned or engine.remote is not None:
            raise Fault(503, "connection.open, which is not expected here", method.code)
        engine.remote = ConnectionTerms(
            container_id=str(self._properties.get("connection_name") or self._properties.get("product") or ""),
            hostname=method.virtual_host,
            max_frame_size=self._frame_max,
            channel_max=self._channel_max,
            idle_timeout=2.0 * engine.heartbeat or None,
            properties={Symbol(name): value for name, value in self._properties.items()},
        )
        engine.emit(ConnectionOpened())

    def open(self) -> None:
        """The owner lets the client in."""
        if self.engine.remote is None:
            raise LocalProtocolError("the client has not asked to open yet")
        if not self.engine.opened:
            self.engine.opened = True
            self.write(ConnectionOpenOk())

    # Channels

    def begin(self, terms: SessionTerms | None) -> ServerSession:
        raise LocalProtocolError("a server of this dialect begins no sessions")

    def unknown_channel(self, number: int, kind: int, payload: bytes) -> None:
        engine = self.engine
        method = engine.variant.methods.decode(payload) if kind == METHOD else None
        if not isinstance(method, ChannelOpen) or not engine.opened:
            raise Fault(504, f"a frame on channel {number}, which is not open")
        if number > self._channel_max:
            raise Fault(504, f"channel {number}, and {self._channel_max} is the last", method.code)
        session = ServerSession(self, number)
        self.sessions.append(session)
        session.announce()

    def waits(self, octets: int, frames: int, *, goes_on: bool = False) -> None:
        """So much more, or less, waits on channels. `goes_on`: it is no publish."""
        self.backlog.add(frames, octets, goes_on=goes_on)

    def _ask(self, stop: bool) -> None:
        self.block("our own", "more is waiting than there is room for" if stop else None)

    @property
    def blocking_channels(self) -> bool:
        """The client is to send no messages, and has to be told on each channel."""
        return bool(self._reasons) and not self._told_of_blocking

    def block(self, whose: str, reason: str | None) -> None:
        """In RabbitMQ's word for it, to those who know that; to others channel by channel."""
        before = bool(self._reasons)
        self._reasons.pop(whose, None)
        if reason is not None:
            self._reasons[whose] = reason
        if bool(self._reasons) is before or not self.engine.opened:
            return
        if self._told_of_blocking:
            self.write(ConnectionUnblocked() if reason is None else ConnectionBlocked(reason[:250]))
        else:
            for session in self.sessions:
                session.ask(active=reason is None)

    # The rest of what a client says

    def receive_update_secret(self, method: ConnectionUpdateSecret) -> None:
        """The transport is the client's as long as it lasts: what it proved when it came counts."""
        self.write(ConnectionUpdateSecretOk())


def server(
    variant: Variant, capabilities: frozenset[str], terms: ConnectionTerms, authenticator: Authenticator
) -> V09Engine:
    """A server engine; who may connect, and how, is the authenticator's."""
    engine = V09Engine(variant, Role.SERVER, terms, capabilities)
    engine.connection = ServerConnection(engine, authenticator)
    return engine
