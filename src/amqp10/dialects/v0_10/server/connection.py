"""A server's engine: it answers the client that opens the connection, and sessions as they are attached (0-10 §9.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from ....engine import Authenticated, ConnectionOpened, ConnectionTerms, Handlers, Role, SessionBegun, SessionTerms
from ....errors import AuthenticationFailed, LocalProtocolError, RemoteProtocolError
from ..._kit.backlog import Backlog
from ..engine import V010Engine, out_of_order
from ..login import ServerLogin
from ..states import ConnectionState, Step
from ..wire.controls import (
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionSecureOk,
    ConnectionStartOk,
    ConnectionTuneOk,
    SessionAttach,
)
from ..wire.frames import CONTROL, HEAD_SIZE, PROTOCOL_HEADER, Assembly
from ..wire.struct import decode_control
from .session import ServerSession

if TYPE_CHECKING:
    from ....engine import BranchId, Session
    from ....sasl import Authenticator
    from .transactions import ServedBranch


class ServerEngine(V010Engine):
    """See `Engine`.

    Args:
        terms: the terms of this side.
        authenticator: decides who may connect, and by which mechanisms.
    """

    remote: ConnectionTerms | None
    max_payload: int
    identity: str | None
    handlers: ClassVar[Handlers] = {
        ConnectionStartOk: "_receive_start_ok",
        ConnectionSecureOk: "_receive_secure_ok",
        ConnectionTuneOk: "_receive_tune_ok",
        ConnectionOpen: "_receive_open",
    }

    def __init__(self, terms: ConnectionTerms, authenticator: Authenticator) -> None:
        super().__init__(Role.SERVER, terms)
        self.login: ServerLogin = ServerLogin(self.write_control, terms, authenticator)
        self.branches: dict[BranchId, ServedBranch] = {}
        self.backlog: Backlog = Backlog(self, self._ask)
        self.stopping: set[str] = set()

    # Opening

    def _begin_opening(self) -> None:
        self.write(PROTOCOL_HEADER)
        self.login.offer()

    def open_if_asked(self) -> None:
        if self._open_asked and self.state is ConnectionState.OPEN_RCVD:
            self.write_control(ConnectionOpenOk(known_hosts=[]))
            self.advance(Step.SEND_OPEN_OK)
            self._use_agreed_limits()

    def _receive_start_ok(self, control: ConnectionStartOk) -> None:
        self.login.start_ok(control)
        self._check_login()

    def _receive_secure_ok(self, control: ConnectionSecureOk) -> None:
        self.login.secure_ok(control)
        self._check_login()

    def _receive_tune_ok(self, control: ConnectionTuneOk) -> None:
        self.login.tune_ok(control)
        self._reader.max_frame_size = self.login.max_frame_size
        self._check_login()

    def _receive_open(self, control: ConnectionOpen) -> None:
        if self.remote is not None:
            raise out_of_order(control)
        self.remote = self.login.opened(control)
        self.max_payload = self.login.max_frame_size - HEAD_SIZE
        self.advance(Step.RECEIVE_OPEN)
        self.emit(ConnectionOpened())
        self.open_if_asked()

    def _check_login(self) -> None:
        """Tell the owner when the client has proved who it is; end the connection if the login is refused."""
        login = self.login
        if login.refused:
            error = AuthenticationFailed(login.handshake.refusal, 1)
            if login.handshake.was_offered:
                raise error
            self.finish(error)  # the server sends nothing more (§9.1 "start-ok")
            return
        if login.proved and self.identity is None and not login.tuned:
            self.identity = login.identity
            self.emit(Authenticated(login.mechanism, self.identity))

    # Sessions

    def begin(self, terms: SessionTerms | None = None) -> Session:
        raise LocalProtocolError("only the client begins sessions in AMQP 0-10")

    def _receive_stray(self, assembly: Assembly) -> None:
        """Begin a session on a free channel, or answer input that comes late, for a session that is over."""
        if assembly.kind == CONTROL and assembly.front[:2] == b"\2\1":
            if assembly.channel > self.login.channel_max:
                raise RemoteProtocolError(f"channel {assembly.channel} exceeds channel-max {self.login.channel_max}")
            attach = decode_control(assembly.front)
            assert isinstance(attach, SessionAttach)
            session = ServerSession(self, assembly.channel)
            if session.is_new(attach):
                self.sessions[assembly.channel] = session
                session.receive(assembly)
                self.emit(SessionBegun(session))
        else:
            ServerSession(self, assembly.channel).not_attached(assembly)

    # Holding publishers back

    def hold(self, messages: int, octets: int) -> None:
        # If much waits, publishers are asked to stop; if too much waits, the engine reads no more.
        self.backlog.add(messages, octets)

    def read_ahead(self, *, far: bool) -> None:
        self.backlog.read_ahead(far=far)

    def block(self, reason: str | None) -> None:
        self._stop("the owner's", reason is not None)

    def _ask(self, stop: bool) -> None:
        self._stop("our own", stop)

    def _stop(self, whose: str, stop: bool) -> None:
        before = bool(self.stopping)
        if stop:
            self.stopping.add(whose)
        else:
            self.stopping.discard(whose)
        if bool(self.stopping) is not before:
            for session in list(self.sessions.values()):
                assert isinstance(session, ServerSession)
                session.throttle_publishers(stop)
