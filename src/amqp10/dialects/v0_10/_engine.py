"""The facade: bytes in, events out, bytes out; the protocol header, the connection's controls, and time (0-10 §9.1).

    receive_data ──> FrameReader ──> header? ──> connection control? ──> here, _login
                                             └─> the rest            ──> _session ──> its links and requests
    data_to_send <── the list of frames that any of these wrote

The peer's faults are caught here, in one place: whatever the layers below raise ends the connection with its code.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar

from ...engine import (
    Authenticated,
    Backlog,
    ConnectionEnded,
    ConnectionOpened,
    ConnectionTerms,
    Engine,
    Event,
    Role,
    SessionBegun,
    SessionTerms,
    TimedEngine,
    foreign_header,
)
from ...errors import (
    AmqpError,
    AuthenticationFailed,
    ConnectionClosed,
    ConnectionLost,
    DecodeError,
    LocalProtocolError,
    RemoteProtocolError,
)
from ...messaging import Error
from ._aftermath import Aftermath
from ._capabilities import CAPABILITIES
from ._client_session import ClientSession
from ._codes import CLOSE_CONDITIONS, close_code
from ._content import FileQos as FileQos  # enters the classes that no session here does in the table of commands
from ._controls import (
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionHeartbeat,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionRedirect,
    ConnectionSecure,
    ConnectionSecureOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    SessionAttach,
)
from ._declare import Control, decode_control
from ._frames import (
    CONTROL,
    HEAD_SIZE,
    MIN_FRAME_SIZE,
    MOST_EARLY,
    PROTOCOL_HEADER,
    Assembly,
    FrameReader,
    encode_control,
)
from ._login import ClientLogin, ServerLogin
from ._server_session import ServerSession

if TYPE_CHECKING:
    from ...engine import BranchId, Session
    from ...sasl import Authenticator, Mechanism
    from ._controller import ServedBranch
    from ._session import SessionEndpoint


S = TypeVar("S", bound=ClientSession)


class Phase(Enum):
    """What the next bytes from the peer are."""

    IDLE = "nothing yet: start() was not called"
    HEADER = "the peer's protocol header"
    OPENING = "the controls that open a connection"
    OPEN = "frames of sessions"
    CLOSING = "the answer to our close"
    OVER = "nothing more is read"


class V010Engine(TimedEngine):
    """One end of an AMQP 0-10 connection (see `Engine` for the contract).

    Attributes:
        room: octets of payload that fit one frame of ours.
        stopping: who, at the server, asks publishers to stop.
    """

    finds_out = True

    def __init__(self, role: Role, terms: ConnectionTerms) -> None:
        self.role = role
        self.terms = terms
        self.remote: ConnectionTerms | None = None
        self.identity: str | None = None
        self.capabilities = CAPABILITIES
        self.opened = False
        self.output_size = 0
        self.context: Any = None
        self.login: ClientLogin | ServerLogin
        self.room = MIN_FRAME_SIZE - HEAD_SIZE
        self.output: list[bytes | bytearray] = []
        self.sessions: dict[int, SessionEndpoint] = {}
        self._phase = Phase.IDLE
        self._reader = FrameReader(max_size=terms.max_message_size)
        self._reader.most_in_part = MOST_EARLY
        self._events: list[Event] = []
        self._untold = 0
        self._dirty: dict[SessionEndpoint, None] = {}
        self._open_asked = False
        self._next_channel = 1
        self.branches: dict[BranchId, ServedBranch] = {}
        self.backlog = Backlog(self, self._ask)
        self.stopping: set[str] = set()
        self.aftermath = Aftermath(self)
        self._answering = False  # server: the client's open is here, and is to be answered

    # Opening

    def start(self) -> None:
        if self._phase is not Phase.IDLE:
            raise LocalProtocolError("the engine was started already")
        self._phase = Phase.HEADER
        if self.role is Role.CLIENT:
            self.write(PROTOCOL_HEADER)

    def open(self, terms: ConnectionTerms | None = None) -> None:
        if self._open_asked:
            raise LocalProtocolError("the connection was opened already")
        if self._phase is Phase.OVER:
            return  # it ended while the answer was on its way: `ConnectionEnded` is among the same events
        if terms is not None:
            self.terms = terms
        self._open_asked = True
        self._open_if_asked()

    def refuse(self, error: Error, terms: ConnectionTerms | None = None) -> None:
        """See `Engine.refuse`: in place of open-ok."""
        self.close(error)

    def inherit(self, before: Engine) -> None:
        if isinstance(before, V010Engine):
            self.aftermath.inherit(before.aftermath)

    def _open_if_asked(self) -> None:
        if not self._open_asked:
            return
        if isinstance(self.login, ClientLogin):
            if self.login.proved:
                self.login.open(self.terms)
        elif self._answering:
            self._answering = False
            self.say(ConnectionOpenOk(known_hosts=[]))
            self._opened()

    def _opened(self) -> None:
        self._phase = Phase.OPEN
        self.opened = True
        self._reader.most_in_part = None
        self.room = self.login.max_frame_size - HEAD_SIZE

    def resume(self, session: Session) -> None:
        if self._phase is not Phase.OPEN or not isinstance(session, ClientSession) or not session.suspended:
            raise LocalProtocolError("only a session that is suspended is resumed, on a connection that is open")
        session.resume(self, self._free_channel())

    def begin(self, terms: SessionTerms | None = None) -> SessionEndpoint:
        if self._phase is not Phase.OPEN:
            raise LocalProtocolError(f"no session can begin while the next to come is {self._phase.value}")
        session = self.begin_as(lambda channel: ClientSession(self, channel))
        session.begin(terms)
        return session

    def begin_as(self, kind: Callable[[int], S]) -> S:
        """A session on a channel that is free.

        Raises:
            LocalProtocolError: none is.
        """
        session = kind(self._free_channel())
        self.sessions[session.channel] = session
        return session

    def _free_channel(self) -> int:
        """The numbers take turns, from 1: Broker-J counts 0 as one, and how many there are, not the highest."""
        top = min(self.terms.channel_max, max(1, self.login.channel_max - 1))
        for _ in range(top):
            channel = self._next_channel
            self._next_channel = channel % top + 1
            if channel not in self.sessions:
                return channel
        raise LocalProtocolError(f"{top} sessions are taken on a connection, and all are in use")

    # Bytes in

    def receive_data(self, data: bytes) -> None:
        if self._phase is Phase.OVER:
            return
        self._reader.feed(data)
        try:
            self._read()
        except DecodeError as error:
            self.fail(RemoteProtocolError(str(error), "amqp:connection:framing-error"))
        except AmqpError as error:
            self.fail(error)
        self._came(len(data), self._reader.within_frame)

    def _read(self) -> None:
        reader, sessions = self._reader, self.sessions
        if self._phase is Phase.HEADER:
            header = reader.protocol_header()
            if header is None:
                return
            self._receive_header(bytes(header))
        while self._phase is not Phase.OVER and (assembly := reader.next()) is not None:
            if assembly.kind == CONTROL and assembly.front[:1] == b"\1":
                self._receive_control(decode_control(assembly.front))
            elif self._phase is Phase.OPEN:
                session = sessions.get(assembly.channel)
                if session is not None:
                    session.receive(assembly)
                else:
                    self._receive_stray(assembly)
            elif self._phase is not Phase.CLOSING:
                raise RemoteProtocolError("a frame of a session before the connection is open", "amqp:illegal-state")

    def _receive_header(self, header: bytes) -> None:
        if header != PROTOCOL_HEADER:
            if self.role is Role.SERVER:
                self.write(PROTOCOL_HEADER)
            self._end(foreign_header(header))
            return
        self._phase = Phase.OPENING
        if isinstance(self.login, ServerLogin):
            self.write(PROTOCOL_HEADER)
            self.login.offer()

    def _receive_control(self, control: Control) -> None:
        """A control of the connection."""
        if isinstance(control, ConnectionHeartbeat):
            return
        if isinstance(control, ConnectionClose):
            self._receive_close(control)
        elif isinstance(control, ConnectionCloseOk) and self._phase is Phase.CLOSING:
            self._end(None)
        elif self._phase is Phase.CLOSING:
            pass
        elif self._phase is not Phase.OPENING:
            raise RemoteProtocolError(f"{control.spec_name} on a connection that is open", "amqp:illegal-state")
        elif isinstance(self.login, ClientLogin):
            self._open_as_client(self.login, control)
        else:
            self._open_as_server(self.login, control)

    def _open_as_client(self, login: ClientLogin, control: Control) -> None:
        if isinstance(control, ConnectionStart):
            login.start(control)
        elif isinstance(control, ConnectionSecure):
            login.secure(control)
        elif isinstance(control, ConnectionTune):
            login.tune(control)
            self.emit(Authenticated(login.mechanism or "", None))
            self._open_if_asked()
        elif isinstance(control, ConnectionOpenOk) and login.proved and self._open_asked:
            properties = login.server_properties
            self.remote = ConnectionTerms(
                container_id=str(properties.get("qpid.federation_tag", "")),
                max_frame_size=login.max_frame_size,
                channel_max=login.channel_max,
                idle_timeout=2.0 * login.heartbeat if login.heartbeat else None,
                properties=properties,
            )
            self._opened()
            # Before anybody looks for the messages that are in there.
            self.aftermath.settle(lambda: self.emit(ConnectionOpened()))
        elif isinstance(control, ConnectionRedirect) and login.proved:
            self._end(ConnectionClosed("amqp:connection:redirect", control.host, _redirect_info(control.host)))
        else:
            raise RemoteProtocolError(f"{control.spec_name} out of order", "amqp:illegal-state")

    def _open_as_server(self, login: ServerLogin, control: Control) -> None:
        if isinstance(control, ConnectionStartOk):
            login.start_ok(control)
        elif isinstance(control, ConnectionSecureOk):
            login.secure_ok(control)
        elif isinstance(control, ConnectionTuneOk):
            login.tune_ok(control)
            self._reader.max_frame_size = login.max_frame_size
        elif isinstance(control, ConnectionOpen) and self.remote is None:
            self.remote = login.opened(control)
            self.room = login.max_frame_size - HEAD_SIZE
            self._answering = True
            self.emit(ConnectionOpened())
            self._open_if_asked()
            return
        else:
            raise RemoteProtocolError(f"{control.spec_name} out of order", "amqp:illegal-state")
        if login.refused:
            error = AuthenticationFailed(f"the client's credentials were refused ({login.mechanism})", 1)
            if login.was_offered:
                raise error
            self._end(error)  # nothing more is sent (§9.1 "start-ok")
            return
        if login.proved and self.identity is None and not login.tuned:
            self.identity = login.identity
            self.emit(Authenticated(login.mechanism or "", self.identity))

    def _receive_stray(self, assembly: Assembly) -> None:
        """Something on a channel that has no session: the begin of one, or what comes late for one that is over."""
        if self.role is Role.SERVER and assembly.kind == CONTROL and assembly.front[:2] == b"\2\1":
            if assembly.channel > self.login.channel_max:
                raise RemoteProtocolError(f"channel {assembly.channel} is above {self.login.channel_max}")
            attach = decode_control(assembly.front)
            assert isinstance(attach, SessionAttach)
            session = ServerSession(self, assembly.channel)
            if session.is_new(attach):
                self.sessions[assembly.channel] = session
                session.receive(assembly)
                self.emit(SessionBegun(session))
        elif self.role is Role.SERVER:
            ServerSession(self, assembly.channel).not_attached(assembly)

    def receive_eof(self) -> None:
        if self._phase is Phase.OVER:
            return
        if self._phase is Phase.CLOSING:
            self._end(None)
        elif self._phase is Phase.OPEN:
            self._end(ConnectionLost("the peer ended the transport without closing the connection"))
        else:
            self._end(ConnectionLost(f"the peer ended the transport while this side waited for {self._phase.value}"))

    # Events out, bytes out

    def hold(self, messages: int, octets: int) -> None:
        """So many more are held, for which the owner gave no credit; when it is much nothing more is read."""
        self.backlog.add(messages, octets)

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
                if isinstance(session, ServerSession):
                    session.regulate(stop)

    def emit(self, event: Event) -> None:
        """Tell the owner. What its own calls lead to counts as output until it is told, so that somebody looks."""
        self._events.append(event)
        self._untold += 1
        self.output_size += 1

    def events(self) -> list[Event]:
        for session in self.sessions.values():
            session.settle_events()
        events, self._events = self._events, []
        self.output_size -= self._untold
        self._untold = 0
        return events

    def write(self, data: bytes | bytearray) -> None:
        """Queue bytes; frames are whole, so any point between two writes is a frame boundary."""
        self.output.append(data)
        self.output_size += len(data)

    def say(self, control: Control, channel: int = 0) -> None:
        """Queue a control."""
        self.write(encode_control(channel, control.encode()))

    def owe(self, session: SessionEndpoint) -> None:
        """The session has something to be merged and written with the next output."""
        if session not in self._dirty:
            self._dirty[session] = None
            self.output_size += 1

    def flush(self) -> None:
        dirty, self._dirty = self._dirty, {}
        for session in dirty:
            session.flush()

    def data_to_send(self) -> bytes:
        while self._dirty:
            self.flush()
        output = self.output
        self.output_size = self._untold = 0
        if not output:
            return b""
        self.output = []
        self._sent = True
        return b"".join(output)

    # Time

    def tick(self, now: float) -> float | None:
        if self._phase is Phase.OVER:
            return None
        heartbeat = self.login.heartbeat
        limit = 2.0 * heartbeat or None if self.opened else self.terms.idle_timeout
        return self._beat(now, limit, heartbeat / 2 if self.opened else None)

    def _fell_silent(self, limit: float) -> None:
        self.fail(ConnectionLost(f"the peer was silent for {limit:g} s"))

    def _send_heartbeat(self) -> None:
        self.say(ConnectionHeartbeat())

    # Closing

    def close(self, error: Error | None = None) -> None:
        if self._phase in (Phase.OVER, Phase.CLOSING):
            return
        if self._phase is not Phase.OPEN and not self._answering:
            self._end(None)  # nothing was opened, so there is nothing to close
            return
        for session in self.sessions.values():
            if isinstance(session, ClientSession) and session.begun:
                session.leave()
        self.flush()
        self._say_close(error)
        self._phase = Phase.CLOSING
        self.opened = False

    def _say_close(self, error: Error | None) -> None:
        text = (error.description or error.condition)[:80] if error is not None else None
        self.say(ConnectionClose(close_code(error), text))

    def _receive_close(self, close: ConnectionClose) -> None:
        self.say(ConnectionCloseOk())
        condition = CLOSE_CONDITIONS.get(close.reply_code, "amqp:internal-error")
        if self._phase is Phase.CLOSING:
            self._end(None)
        elif isinstance(self.login, ClientLogin) and not self.login.proved and self.login.mechanism is not None:
            self._end(AuthenticationFailed(f"the server refused the credentials: {close.reply_text or ''}", 1))
        else:
            info = {"reply-code": close.reply_code} if condition is not None else {}
            self._end(ConnectionClosed(condition, close.reply_text or None, info))

    def fail(self, error: AmqpError) -> None:
        """The peer broke the protocol, or is gone: say why if it may be said, and end."""
        if self._phase is Phase.OVER:
            return
        # Only to somebody who has begun to speak 0-10. Who was silent may hear it late, and end what is to be resumed.
        if self._phase in (Phase.OPENING, Phase.OPEN) and not isinstance(error, ConnectionLost):
            condition = getattr(error, "condition", None) or "amqp:connection:forced"
            self._say_close(Error(condition, str(error)))
        self._end(error)

    def _end(self, error: AmqpError | None) -> None:
        if self._phase is Phase.OVER:
            return
        self._phase = Phase.OVER
        self.opened = False
        self._dirty.clear()
        for session in list(self.sessions.values()):
            if session.resumable and isinstance(error, ConnectionLost):
                session.settle_events()
                session.suspend()
            else:
                session.over(error)
        self.sessions.clear()
        self.emit(ConnectionEnded(error))


def client(terms: ConnectionTerms, mechanisms: tuple[Mechanism, ...] | None, secure: bool) -> V010Engine:
    """A client engine; `mechanisms` None: ANONYMOUS. `secure`: secrets may cross in the clear."""
    engine = V010Engine(Role.CLIENT, terms)
    engine.login = ClientLogin(engine.say, terms, mechanisms, secure)
    return engine


def server(terms: ConnectionTerms, authenticator: Authenticator) -> V010Engine:
    """A server engine; who may connect, and how, is the authenticator's."""
    engine = V010Engine(Role.SERVER, terms)
    engine.login = ServerLogin(engine.say, terms, authenticator)
    return engine


def _redirect_info(said: str) -> dict[str, Any]:
    """Return the info that a redirect of 1.0 would have: a host, and a port where one is said behind a colon."""
    found = re.fullmatch(r"(\[.+\]|[^:]*):([0-9]{1,5})", said, re.DOTALL)
    host, port = found.groups() if found is not None else (said, None)
    if host[:1] + host[-1:] == "[]":
        host = host[1:-1]
    return {"network-host": host} if port is None else {"network-host": host, "port": int(port)}
