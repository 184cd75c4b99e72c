"""The facade: bytes in, events out, bytes out; the protocol header, the connection's controls, and time (0-10 §9.1).

    receive_data ──> FrameReader ──> header? ──> connection control? ──> here, login
                                             └─> the rest            ──> session ──> its links and requests
    data_to_send <── the list of frames that any of these wrote

The peer's faults are caught here, in one place: an error that the layers below raise ends the connection with its code.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar

from ...engine import (
    ConnectionEnded,
    ConnectionTerms,
    Dispatcher,
    Event,
    Handlers,
    Role,
    foreign_header,
)
from ...errors import (
    AmqpError,
    ConnectionClosed,
    ConnectionLost,
    DecodeError,
    LocalProtocolError,
    RemoteProtocolError,
)
from ...messaging import Error
from .._kit.engine import COSTLY, EngineBase
from .._kit.message.limits import NO_ROOM, message_limit
from .capabilities import CAPABILITIES
from .codes import close_code, close_condition
from .login import ClientLogin, ServerLogin
from .states import CONNECTION, ConnectionState, Step
from .wire.controls import (
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionHeartbeat,
)
from .wire.frames import (
    CONTROL,
    HEAD_SIZE,
    MAX_EARLY,
    MIN_MAX_FRAME_SIZE,
    PROTOCOL_HEADER,
    Assembly,
    FrameReader,
    encode_control,
)
from .wire.rare_commands import UNIMPLEMENTED as UNIMPLEMENTED  # registers them: they decode, and are refused with 540
from .wire.struct import Control, decode_control

if TYPE_CHECKING:
    from .parents import EngineSession


# The peer is known to speak 0-10, and our close was not sent.
_TELLING = frozenset({ConnectionState.OPENING, ConnectionState.OPEN_RCVD, ConnectionState.OPEN})


class V010Engine(Dispatcher, EngineBase[ConnectionState]):
    """One end of an AMQP 0-10 connection, see `Engine`; `ClientEngine` and `ServerEngine` are the two."""

    transitions: ClassVar[dict[tuple[ConnectionState, Step], ConnectionState]] = CONNECTION
    opened: bool
    over: bool
    output_size: int
    behind: bool
    left: float
    login: ClientLogin | ServerLogin
    handlers: ClassVar[Handlers] = {
        ConnectionHeartbeat: "_receive_heartbeat",
        ConnectionClose: "_receive_close",
        ConnectionCloseOk: "_receive_close_ok",
    }

    def __init__(self, role: Role, terms: ConnectionTerms) -> None:
        super().__init__(role, terms, CAPABILITIES)
        self.max_payload: int = MIN_MAX_FRAME_SIZE - HEAD_SIZE
        self.output: list[bytes | bytearray] = []
        self.sessions: dict[int, EngineSession] = {}
        self.state = ConnectionState.IDLE
        self._reader = FrameReader(max_size=message_limit(terms.max_message_size))
        self._reader.most_in_part = MAX_EARLY
        self._pending_events = 0
        self._dirty: dict[EngineSession, None] = {}
        self._gathered: dict[EngineSession, None] = {}  # sessions that have something to tell

    def take_messages_of(self, size: int) -> None:
        """Put together messages of up to `size` octets, if smaller ones were the limit."""
        self._reader.max_size = max(size, self._reader.max_size or 0)

    # Opening

    def start(self) -> None:
        if self.state is not ConnectionState.IDLE:
            raise LocalProtocolError("the engine was started already")
        self.advance(Step.START)
        if self.role is Role.CLIENT:
            self.write(PROTOCOL_HEADER)

    def refuse(self, error: Error, terms: ConnectionTerms | None = None) -> None:
        """Close the connection in place of open-ok; see `Engine.refuse`."""
        self.close(error)

    def entered(self, state: ConnectionState) -> None:
        self.opened = state is ConnectionState.OPEN
        self.over = state is ConnectionState.OVER

    def _use_agreed_limits(self) -> None:
        """Send and take frames of the size that was agreed, now that the connection is open."""
        self._reader.most_in_part = None
        self._reader.max_frame_size = self.login.max_frame_size
        self.max_payload = self.login.max_frame_size - HEAD_SIZE

    # Bytes in

    def receive_data(self, data: bytes) -> None:
        if self.over:
            return
        if data:
            self._reader.feed(data)
        if self.portion is not None:
            self.begin_portion()
        try:
            self._read()
            if not self.count_partial(self._reader.partial - self.partial) and self.state is ConnectionState.OPEN:
                raise RemoteProtocolError(NO_ROOM, "amqp:resource-limit-exceeded")
        except DecodeError as error:
            self.fail(RemoteProtocolError(str(error), "amqp:connection:framing-error"))
        except AmqpError as error:
            self.fail(error)
        self._note_input(len(data), self._reader.within_frame)

    def _read(self) -> None:
        reader, sessions = self._reader, self.sessions
        if self.state is ConnectionState.HEADER:
            header = reader.protocol_header()
            if header is None:
                return
            self._receive_header(bytes(header))
        self.take_up()
        while self.left > 0 and not self.over:
            assembly = reader.next()
            if assembly is None:
                return
            self.left -= COSTLY if assembly.body is None else 1
            if assembly.kind == CONTROL and assembly.front[:1] == b"\1":
                self._receive_control(decode_control(assembly.front))
            elif self.state is ConnectionState.OPEN:
                session = sessions.get(assembly.channel)
                if session is not None:
                    session.receive(assembly)
                else:
                    self._receive_stray(assembly)
            elif self.state is not ConnectionState.CLOSING:
                raise RemoteProtocolError("a frame of a session before the connection is open", "amqp:illegal-state")
        self.behind = not self.over

    def _receive_header(self, header: bytes) -> None:
        if header != PROTOCOL_HEADER:
            if self.role is Role.SERVER:
                self.write(PROTOCOL_HEADER)
            self.finish(foreign_header(header))
            return
        self.advance(Step.RECEIVE_HEADER)
        self._begin_opening()

    def _begin_opening(self) -> None:
        """Go on after the peer's header."""

    def _receive_control(self, control: Control) -> None:
        """Handle a control of the connection; after this side's close, drop all that does not end it."""
        kind = type(control)
        handler = self.by_type.get(kind)
        if self.state is ConnectionState.CLOSING and kind not in V010Engine.handlers:
            return
        if self.state is not ConnectionState.OPENING and kind not in V010Engine.handlers:
            raise RemoteProtocolError(f"{control.spec_name} on a connection that is open", "amqp:illegal-state")
        if handler is None:
            raise out_of_order(control)
        handler(self, control)

    def _receive_heartbeat(self, control: ConnectionHeartbeat) -> None:
        """Do nothing: that something came is noted already."""

    def _receive_close_ok(self, control: ConnectionCloseOk) -> None:
        if self.state is not ConnectionState.CLOSING:
            raise out_of_order(control)
        self.finish(None)

    def _receive_stray(self, assembly: Assembly) -> None:
        """Receive input on a channel without a session: it comes late."""

    def receive_eof(self) -> None:
        self._transport_ended(self.state is ConnectionState.CLOSING, None if self.opened else self.state.value)

    # Events out, bytes out

    def emit(self, event: Event) -> None:
        """Queue `event` for the owner.

        Until the owner takes it, the event counts as output: so the owner looks for events that its own calls caused.
        """
        self._events.append(event)
        self._pending_events += 1
        self.output_size += 1

    def events(self) -> list[Event]:
        self.settle_events()
        events, self._events = self._events, []
        self.output_size -= self._pending_events
        self._pending_events = 0
        return events

    def tell_later(self, session: EngineSession) -> None:
        self._gathered[session] = None

    def settle_events(self) -> None:
        if self._gathered:
            gathered, self._gathered = self._gathered, {}
            for session in gathered:
                if self.sessions.get(session.channel) is session:
                    session.settle_events()

    def write(self, data: bytes | bytearray) -> None:
        """Queue bytes; frames are whole, so any point between two writes is a frame boundary."""
        self.output.append(data)
        self.output_size += len(data)

    def write_control(self, control: Control, channel: int = 0) -> None:
        """Queue a control."""
        self.write(encode_control(channel, control.encode()))

    def flush_later(self, session: EngineSession) -> None:
        """Flush `session` before the next output."""
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
        self.output_size = self._pending_events = 0
        if not output:
            return b""
        self.output = []
        self._sent = True
        return b"".join(output)

    # Time

    def tick(self, now: float) -> float | None:
        if self.over:
            return None
        heartbeat = self.login.heartbeat
        limit = 2.0 * heartbeat or None if self.opened else self.terms.idle_timeout
        return self._beat(now, limit, heartbeat / 2 if self.opened else None)

    def _fell_silent(self, limit: float) -> None:
        self.fail(ConnectionLost(f"the peer was silent for {limit:g} s"))

    def _send_heartbeat(self) -> None:
        self.write_control(ConnectionHeartbeat())

    # Closing

    def close(self, error: Error | None = None) -> None:
        if self.state in (ConnectionState.OVER, ConnectionState.CLOSING):
            return
        if not self.may(Step.SEND_CLOSE):
            self.finish(None)  # nothing was opened, so there is nothing to close
            return
        self._leave_sessions()
        self.flush()
        self._write_close(error)
        self.advance(Step.SEND_CLOSE)
        for session in self.sessions.values():
            session.connection_closes()

    def _leave_sessions(self) -> None:
        """Say what has to be said on sessions before the close."""

    def _write_close(self, error: Error | None) -> None:
        text = (error.description or error.condition)[:80] if error is not None else None
        self.write_control(ConnectionClose(close_code(error), text))

    def _receive_close(self, close: ConnectionClose) -> None:
        self.when_handled(partial(self._close, close))

    def _close(self, close: ConnectionClose) -> None:
        self.write_control(ConnectionCloseOk())
        condition = close_condition(close.reply_code)
        if self.state is ConnectionState.CLOSING:
            self.finish(None)
        else:
            info = {"reply-code": close.reply_code} if condition is not None else {}
            self.finish(self._cause_of(ConnectionClosed(condition, close.reply_text or None, info)))

    def _cause_of(self, closed: ConnectionClosed) -> AmqpError:
        """Return the error for a close of the peer."""
        return closed

    def fail(self, error: AmqpError) -> None:
        """End the connection because of `error`; tell the peer why, unless the connection is lost or not yet 0-10."""
        if self.over:
            return
        # Only a peer that speaks 0-10 is told. A silent peer might read the close late, and end sessions to be resumed.
        if self.state in _TELLING and not isinstance(error, ConnectionLost):
            condition = getattr(error, "condition", None) or "amqp:connection:forced"
            self._write_close(Error(condition, str(error)))
        self.finish(error)

    def finish(self, error: AmqpError | None) -> None:
        if self.over:
            return
        self.advance(Step.END)
        self._dirty.clear()
        for session in list(self.sessions.values()):
            if session.resumable and isinstance(error, ConnectionLost):
                session.settle_events()
                session.suspend()
            else:
                session.over(error)
        self.sessions.clear()
        self.emit(ConnectionEnded(error))


def out_of_order(control: Control) -> RemoteProtocolError:
    """Return the error for a control that has no place in the present state of the connection."""
    return RemoteProtocolError(f"{control.spec_name} out of order", "amqp:illegal-state")
