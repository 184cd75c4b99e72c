"""The facade: bytes in, events out, bytes out; the protocol header, channels, and time (0-9-1 §4.2).

    receive_data ──> FrameReader ──> channel 0 ──> _client | _server (handshake, close)
                                 └─> channel n ──> a link of a client, a session of a server, or its requests
    data_to_send <── the list of frames that any of these wrote

The peer's faults are caught here, in one place: a soft one closes its channel, any other the connection.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from ...engine import (
    OTHER_PROTOCOLS,
    ConnectionEnded,
    ConnectionTerms,
    Engine,
    Event,
    Role,
    Session,
    SessionTerms,
    foreign_header,
)
from ...errors import AmqpError, ConnectionLost, DecodeError, EncodeError, LocalProtocolError, RemoteProtocolError
from ...messaging import Error
from .._kit.engine import COSTLY, EngineBase
from .codes import NO_FRAME, Fault, code_of, text_of, text_of_fault, unknown_method
from .message.from_basic import FromBasic
from .states import CONNECTION, ConnectionState, Step
from .wire.frames import FrameReader
from .wire.framing import BODY, FIRST_FRAMES, FRAME_MIN_SIZE, HEADER, HEARTBEAT, METHOD, TRACE
from .wire.method_table import Method
from .wire.methods import ConnectionClose, ConnectionCloseOk, ConnectionOpen
from .wire.tables import BadName
from .wire.variant import Variant

if TYPE_CHECKING:
    from .._kit.parents import Batcher
    from .channel import Channel
    from .connection import Connection

HEADER_SIZE = 8
_FAST = b"\x80\x01"  # a server of AMQP/Fast
_TELLING = 5  # octets by which other protocols are told apart
# Exceptions that malformed frames of the peer may raise: each counts as a fault of the peer.
MALFORMED = (IndexError, struct.error, UnicodeDecodeError)
PEER_ERRORS = (AmqpError, *MALFORMED)


# No header was exchanged.
_BEFORE = frozenset({ConnectionState.IDLE, ConnectionState.HEADER})


class V09Engine(EngineBase[ConnectionState]):
    """One end of a connection (see `Engine` for the contract).

    Args:
        variant: which dialect of the family.
        role: client or server.
        terms: what this side announces.
    """

    transitions: ClassVar[dict[tuple[ConnectionState, Step], ConnectionState]] = CONNECTION
    opened: bool
    over: bool
    output_size: int
    behind: bool
    left: float

    connection: Connection

    def __init__(self, variant: Variant, role: Role, terms: ConnectionTerms, capabilities: frozenset[str]) -> None:
        super().__init__(role, terms, capabilities)
        self.variant = variant
        self.reading: bool = True
        self.channels: dict[int, Channel] = {}
        self.incoming: FromBasic = FromBasic(variant.tables)
        self.streams: set[str] = set()  # queues known to be streams: declared as such, or shown to be by the peer
        self.single_active: set[str] = set()  # queues that were declared so: one consumer has all, and others wait
        self.heartbeat: int = 0  # seconds, as agreed
        self.longest_silence = terms.idle_timeout or None  # of the peer, seconds; None for no limit; `agree` changes it
        self.max_payload: int = FRAME_MIN_SIZE - variant.framing.overhead  # the largest payload that the peer takes
        self.output: list[bytes] = []
        self.event_batch: int = 0  # how often `events` was called: outcomes are merged between two calls
        self._later: deque[Callable[[], None]] = deque()
        self._batchers: list[Batcher] = []
        self._reader = FrameReader(variant.framing, FIRST_FRAMES - variant.framing.overhead)
        self.state = ConnectionState.IDLE
        self.closing: bool = False  # whether our close was sent
        self.tuned: bool = False  # whether the login is over and the limits are agreed
        self._last: list[bytes] | None = None  # the rest of the output, once nothing more may be written

    # Opening

    def start(self) -> None:
        if self.state is not ConnectionState.IDLE:
            raise LocalProtocolError("the engine was started already")
        if self.role is Role.CLIENT:
            self.advance(Step.SEND_HEADER)
            self.write(self.variant.header)
        else:
            self.advance(Step.START)

    def entered(self, state: ConnectionState) -> None:
        self.opened = state is ConnectionState.OPENED
        self.over = state is ConnectionState.OVER
        self.tuned = self.tuned or state is ConnectionState.TUNED
        self.closing = self.closing or state is ConnectionState.CLOSING

    def open_if_asked(self) -> None:
        if self._open_asked:
            self.connection.open()

    def refuse(self, error: Error, terms: ConnectionTerms | None = None) -> None:
        """See `Engine.refuse`: in place of open-ok."""
        if not (self.over or self.closing):
            code = (error.info or {}).get("reply-code") or code_of(error.condition)
            self._close(code, text_of(error), ConnectionOpen.code)

    def inherit(self, before: Engine) -> None:
        if isinstance(before, V09Engine):
            self.streams, self.single_active = before.streams, before.single_active

    def block(self, reason: str | None) -> None:
        if not self.over:
            self.connection.block("the owner's", reason)

    def read_ahead(self, *, far: bool) -> None:
        if not self.over:
            self.connection.read_ahead(far=far)

    def begin(self, terms: SessionTerms | None = None) -> Session:
        if not self.opened:
            raise LocalProtocolError("the connection is not open")
        return self.connection.begin(terms)

    # Bytes in

    def receive_data(self, data: bytes) -> None:
        if self.over:
            return
        reader = self._reader
        if data:
            reader.feed(data)
        if self.portion is not None:
            self.begin_portion()
        try:
            if self.state not in _BEFORE or self._receive_header():
                self._read()
        except PEER_ERRORS as error:
            self.blame(error)
        self._note_input(len(data), reader.within_frame)

    def blame(self, error: Exception) -> None:
        """End the connection, because the peer sent something wrong or unreadable."""
        if isinstance(error, DecodeError):
            error = Fault(503 if isinstance(error, BadName) else 502, str(error))
        elif isinstance(error, MALFORMED):
            error = Fault(502, f"a frame ends early, or is malformed: {error}")
        assert isinstance(error, AmqpError)
        self.fail(error)

    def _receive_header(self) -> bool:
        """Read the client's header on a server; return False while it is not whole."""
        if self.state is ConnectionState.IDLE:
            return False
        header = self._reader.take(HEADER_SIZE)
        if header is None:
            return False
        if header != self.variant.header:
            self.write(self.variant.header)
            raise foreign_header(header)
        self.advance(Step.RECEIVE_HEADER)
        self.connection.started()
        return True

    def _read(self) -> None:
        channels = self.channels
        asking = self.remote is None and self.role is Role.CLIENT
        if asking and (self._reader.starts_with(b"AMQP") or self._reader.starts_with(_FAST)):
            header = self._reader.take(len(_FAST) if self._reader.starts_with(_FAST) else HEADER_SIZE)
            if header is not None:
                raise foreign_header(header)
            return
        if asking and any(map(self._reader.starts_with, OTHER_PROTOCOLS)):
            begin = self._reader.take(_TELLING)
            if begin is not None:
                raise foreign_header(begin)
            return
        if not self.take_up():
            return
        frames = self._reader.frames()
        for kind, number, payload in frames:
            self.left -= COSTLY if kind == METHOD else 1
            channel = channels.get(number)
            if channel is None or kind > BODY:
                self._receive_rare(kind, number, payload)
            elif self.closing:
                continue
            else:
                try:
                    if kind == METHOD:
                        if not channel.has_runs or not channel.receive_run(self._reader):
                            channel.receive_method(payload)
                    elif kind == HEADER:
                        channel.receive_header(payload)
                    else:
                        channel.receive_body(payload)
                except Fault as fault:
                    if not fault.soft:
                        raise
                    channel.fail(fault)
            if self.over:
                return
            if self.left <= 0:
                frames.close()
                self.behind = True
                return

    def _receive_rare(self, kind: int, number: int, payload: bytes) -> None:
        if kind in (HEARTBEAT, TRACE):
            if number:
                raise Fault(501, f"a frame of the type {kind} on channel {number}: it belongs on channel 0")
        elif kind > BODY:
            raise Fault(540, "out-of-band content, which is not supported")
        elif number:
            if not self.closing:
                self.connection.unknown_channel(number, kind, payload)
        elif kind != METHOD:
            raise Fault(504, "content on channel 0")
        else:
            if self.closing and not self.variant.methods.has(payload, ConnectionClose, ConnectionCloseOk):
                return
            method = self.variant.methods.decode(payload)
            if method is None:
                raise unknown_method(payload)
            if method.code[0] != 10:
                raise Fault(503, f"{method.name} on channel 0", method.code)
            self.connection.receive(method)

    def receive_eof(self) -> None:
        self._transport_ended(self.closing, None)

    # Events out, bytes out

    def later(self, action: Callable[[], None]) -> None:
        """Call `action` when the owner has acted on all events so far, before it gets the next ones."""
        self._later.append(action)

    def events(self) -> list[Event]:
        while self._later and not self._events:
            self._later.popleft()()
        events, self._events = self._events, []
        self.event_batch += 1
        return events

    def write(self, data: bytes) -> None:
        self.output.append(data)
        self.output_size += len(data)

    def write_last(self, method: Method) -> None:
        """Queue a method on channel 0, also after this side's close."""
        self.write_method(0, method)
        if self._last is not None:
            self._last.append(self.output.pop())

    def _fall_silent(self) -> None:
        """Send nothing but what was written by now, because the connection is closed or of no further use."""
        if self._last is None:
            self._last, self.output = self.output, []

    def encode(self, method: Method) -> bytes:
        """Return the payload of a method's frame.

        Raises:
            EncodeError: a field is out of range, or the method is larger than the peer's frames.
        """
        payload = self.variant.methods.encode(method)
        if len(payload) > self.max_payload:
            raise EncodeError(
                f"{method.name} has {len(payload)} octets, but the peer's frames hold at most {self.max_payload}"
            )
        return payload

    def write_method(self, channel: int, method: Method) -> None:
        """Queue a method.

        Raises:
            EncodeError: see `encode`; nothing was queued.
        """
        self.write(self.variant.framing.frame(METHOD, channel, self.encode(method)))

    def flush_later(self, batcher: Batcher) -> None:
        """Call `batcher.flush()` before the next output, because it has methods to merge and write."""
        self._batchers.append(batcher)
        self.output_size += 1

    def flush(self) -> None:
        while self._batchers:
            batchers, self._batchers = self._batchers, []
            for each in batchers:
                each.flush()

    def data_to_send(self) -> bytes:
        if self._batchers:
            self.flush()
        output = self.output
        self.output_size = 0
        if self._last is not None:
            output, self._last = self._last, []
        if not output:
            return b""
        self.output = []
        self._sent = True
        return output[0] if len(output) == 1 else b"".join(output)

    # Time (0-9-1 §4.2.7)

    def agree(self, frame_max: int, heartbeat: int) -> None:
        """Apply the limits that both sides have agreed on (0-9-1 §4.2.3).

        Args:
            frame_max: the largest frame, octets, that either side sends. Before, `FIRST_FRAMES` is the largest taken.
            heartbeat: seconds; after two of them without a sign of life the peer is given up.
        """
        self.max_payload = self._reader.limit = frame_max - self.variant.framing.overhead
        self.heartbeat = heartbeat
        self.longest_silence = 2.0 * heartbeat or None

    def tick(self, now: float) -> float | None:
        """See `Engine.tick`. A heartbeat is sent after half an interval of silence; two of the peer's may be missed."""
        if self.over:
            return None
        return self._beat(now, self.longest_silence, self.heartbeat / 4 if self.opened else None)

    def _fell_silent(self, limit: float) -> None:
        self.fail(ConnectionLost(f"the peer was silent for {limit:g} s"))

    def _send_heartbeat(self) -> None:
        self.write(self.variant.framing.heartbeat)

    # Closing

    def close(self, error: Error | None = None) -> None:
        if self.over or self.closing:
            return
        if not self.opened:
            self.finish(None)  # nothing was opened: the transport's end says all
            return
        self.flush()
        code, text = (200, "") if error is None else (code_of(error.condition), text_of(error))
        self._close(code, text)

    def _close(self, code: int, text: str, method: tuple[int, int] = (0, 0)) -> None:
        self.advance(Step.SEND_CLOSE)
        self._batchers.clear()
        self.write_method(0, ConnectionClose(code, text, *method))
        self._fall_silent()

    def fail(self, error: AmqpError) -> None:
        """End the connection, because the peer broke the protocol or is gone; tell it why if a close may be sent."""
        if self.over:
            return
        if self.may(Step.SEND_CLOSE):
            if isinstance(error, Fault):
                if error.code != NO_FRAME:
                    self._close(error.code, text_of_fault(error), error.method)
            elif isinstance(error, RemoteProtocolError):
                reason = Error(error.condition, str(error))
                self._close(code_of(reason.condition), text_of(reason))
        self.finish(error.plain() if isinstance(error, Fault) else error)

    def finish(self, error: AmqpError | None) -> None:
        if self.over:
            return
        self.advance(Step.END)
        self._fall_silent()
        self.reading = True
        self._batchers.clear()
        self._later.clear()
        self.connection.over(error)
        self.channels.clear()
        self._events.append(ConnectionEnded(error))
