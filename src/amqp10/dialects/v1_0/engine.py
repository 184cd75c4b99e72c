"""The facade: bytes in, events out, bytes out; protocol headers, the SASL layer, and time (§2.2, §2.3, §2.4.5, §5.3).

    receive_data ──> FrameReader ──> header? ──> SASL frame? ──> sasl_layer
                                             └─> AMQP frame  ──> connection ──> session ──> endpoints: sender | receiver
    data_to_send <── the list of frames that any of these wrote

The peer's faults are caught here, in one place: whatever the layers below raise ends the connection with its condition.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, ClassVar

from ...engine import Authenticated, ConnectionEnded, ConnectionTerms, Role, SessionTerms, foreign_header
from ...errors import (
    AmqpError,
    AuthenticationFailed,
    ConnectionLost,
    DecodeError,
    LocalProtocolError,
    RemoteProtocolError,
)
from ...messaging import Error
from ...messaging.payloads import LARGE
from ...types import encode
from .._kit.engine import COSTLY, EngineBase
from .connection import ConnectionEndpoint
from .link import MIN_MAX_FRAME_SIZE
from .sasl_layer import ClientSasl, ServerSasl
from .states import TRANSPORT, ConnectionState, Step, TransportState
from .wire.all_fields import MAX_ADDED, with_all_fields
from .wire.frames import AMQP_HEADER, FRAME_AMQP, FRAME_SASL, HEARTBEAT, SASL_HEADER, FrameReader, encode_frame
from .wire.performatives import Close, Detach, End, Transfer

if TYPE_CHECKING:
    from ...messaging import DeliveryState
    from ...sasl import Authenticator, Mechanism
    from ...types import Composite
    from .parents import DispositionsCore
    from .session import SessionEndpoint

CAPABILITIES = frozenset(
    {
        "abort",
        "annotations",
        "anonymous-terminus",
        "browse",
        "drain",
        "durable-subscriptions",
        "dynamic",
        "filters",
        "message-formats",
        "modified",
        "multi-frame",
        "rejected",
        "released",
        "resume",
        "settle-second",
        "stream-filters",
        "streaming",
        "terminus-capabilities",
        "token-nodes",
        "transactional-acquisition",
        "transactions",
        "transactions-over-queues",
    }
)

# How large a SASL frame may be: §5.3.1 says 512, but OAuth tokens are larger and real servers take them.
MAX_SASL_FRAME = 65_536
# How large a frame may be before the peer's open: §2.4.1 says 512, but the properties of real clients need more.
MAX_FIRST_FRAME = 16_384
# Seconds between our heartbeats at least, however impatient the peer says it is.
MIN_PAUSE = 0.005


class V1Engine(EngineBase[TransportState]):
    """One end of an AMQP 1.0 connection (see `Engine` for the contract).

    Args:
        role: client or server.
        terms: what this side says in its open.
        sasl: the SASL layer; None for a client without one.
        bare_allowed: server: a peer may skip SASL and begin with the bare AMQP header.
    """

    noun = "transport"
    transitions: ClassVar[dict[tuple[TransportState, Step], TransportState]] = TRANSPORT
    identity: str | None
    over: bool
    output_size: int
    behind: bool
    left: float
    spare: int = 0

    def __init__(
        self,
        role: Role,
        terms: ConnectionTerms,
        sasl: ClientSasl | ServerSasl | None,
        *,
        bare_allowed: bool = True,
    ) -> None:
        super().__init__(role, terms, CAPABILITIES)
        self.connection: ConnectionEndpoint = ConnectionEndpoint(self)
        self._sasl = sasl
        self._bare_allowed = bare_allowed
        self.state = TransportState.IDLE
        self._reader = FrameReader(reuses=True)
        self.output: list[bytes | memoryview] = []
        self._large_output = False  # something in it is not worth joining
        self._dirty: list[DispositionsCore] = []
        self._delayed: list[tuple[int, Composite]] = []  # answers to what the peer pipelined after an open

    # Opening

    def start(self) -> None:
        if self.state is not TransportState.IDLE:
            raise LocalProtocolError("the engine was started already")
        if self.role is Role.SERVER:
            self.advance(Step.START)
        elif self._sasl is not None:
            self.advance(Step.SEND_SASL_HEADER)
            self.write(SASL_HEADER)
        else:
            self.advance(Step.SEND_HEADER)
            self._send_header()
            self.open_if_asked()

    def entered(self, state: TransportState) -> None:
        self.over = state is TransportState.OVER

    def open_if_asked(self) -> None:
        """Send our open once our header is sent, without waiting for the peer's (§2.4.1, pipelined open)."""
        if self._open_asked and self.connection.may(Step.SEND_OPEN):
            self.connection.send_open(self.terms)

    def _send_header(self) -> None:
        self.connection.advance(Step.SEND_HEADER)
        self.write(AMQP_HEADER)

    def begin(self, terms: SessionTerms | None = None) -> SessionEndpoint:
        return self.connection.begin(terms)

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
        except RemoteProtocolError as error:
            self.fail(error)
        except DecodeError as error:
            self.fail(RemoteProtocolError(str(error), error.condition))
        except AmqpError as error:
            self.fail(error)
        # Silence is when no frames come (§2.4.5): single bytes of one may come for ever.
        self._note_input(len(data), self._reader.within_frame)

    def _read(self) -> None:
        reader, connection = self._reader, self.connection
        while self.state is not TransportState.FRAMES:
            if self.state is TransportState.SASL:
                frame = reader.next()
                if frame is None:
                    return
                if frame[0] != FRAME_SASL:
                    raise RemoteProtocolError("an AMQP frame before the end of SASL")
                self._receive_sasl(frame[2])
            else:
                header = None if self.state in (TransportState.IDLE, TransportState.OVER) else reader.protocol_header()
                if header is None:
                    return
                self._receive_header(bytes(header))
        if self.put_off_work is not None and not self.take_up():
            return
        in_portions = self.portion is not None
        while (frame := reader.next()) is not None:
            kind, channel, performative, payload = frame
            if in_portions:
                self.left -= 1 if type(performative) is Transfer else COSTLY
            if kind != FRAME_AMQP:
                raise RemoteProtocolError(f"a frame of type {kind} among AMQP frames")
            if performative is None:
                connection.check_channel(channel)
            else:
                connection.receive(channel, performative, payload)
                if reader.alike is not None:
                    connection.receive_alike(channel, reader, reader.alike)
                elif reader.mixed:
                    connection.receive_by_turns(channel, reader)
            if self.over:
                return
            if self.left <= 0:
                self.behind = True
                return

    def _receive_header(self, header: bytes) -> None:
        if self.state is TransportState.SASL_HEADER and header == SASL_HEADER:
            if self._sasl is None:
                self._refuse_header(header)
                return
            if self.role is Role.SERVER:
                self.write(SASL_HEADER)
            self._reader.max_frame_size = MAX_SASL_FRAME
            self.advance(Step.RECEIVE_SASL_HEADER)
            self.write(self._sasl.frames())
        elif header == AMQP_HEADER and (
            self.state is TransportState.HEADER or (self.role is Role.SERVER and self._bare_allowed)
        ):
            self.connection.advance(Step.RECEIVE_HEADER)
            if self.connection.may(Step.SEND_HEADER):
                self._send_header()
            self._reader.max_frame_size = min(MAX_FIRST_FRAME, self.terms.max_frame_size)
            self.advance(Step.RECEIVE_HEADER)
            self.open_if_asked()
        else:
            self._refuse_header(header)

    def take_large_frames(self) -> None:
        self._reader.max_frame_size = self.terms.max_frame_size

    def _refuse_header(self, header: bytes) -> None:
        """Answer a header that we do not accept with the one that we do, and end (§2.2)."""
        if self.role is Role.SERVER and self.connection.may(Step.SEND_HEADER):
            self.write(SASL_HEADER if self._sasl is not None else AMQP_HEADER)
        if header == SASL_HEADER:
            self.finish(AuthenticationFailed("the peer asks for SASL, which this side does not do"))
        else:
            self.finish(foreign_header(header))

    def _receive_sasl(self, performative: Composite | None) -> None:
        layer = self._sasl
        assert layer is not None
        if performative is None:
            raise RemoteProtocolError("an empty frame among SASL frames")
        layer.receive(performative)
        self.write(layer.frames())
        if layer.error is not None:
            self.finish(layer.error)
        elif layer.done:
            self.identity = layer.identity if self.role is Role.SERVER else None
            self._events.append(Authenticated(layer.mechanism or "", self.identity))
            self._reader.max_frame_size = 512
            self.advance(Step.RECEIVE_OUTCOME if self.role is Role.CLIENT else Step.SEND_OUTCOME)
            if self.role is Role.CLIENT:
                self._send_header()
                self.open_if_asked()

    def receive_eof(self) -> None:
        awaited = None if self.state is TransportState.FRAMES else self.state.value
        self._transport_ended(self.connection.close_sent, awaited)

    # Events out, bytes out

    def write(self, data: bytes | memoryview) -> None:
        """Queue bytes, which must not be changed afterwards. Frames must be complete and not interleaved."""
        if data:
            self.output.append(data)
            self.output_size += len(data)
            self._large_output = self._large_output or len(data) >= LARGE

    def write_frame(self, channel: int, performative: Composite, payload: bytes = b"") -> None:
        if self.connection.state is ConnectionState.OPEN_RCVD:
            self._delayed.append((channel, performative))  # our open has to come first
            return
        frame = encode_frame(channel, performative, payload)
        limit = self.frame_limit
        if len(frame) > limit and isinstance(performative, Detach | End | Close) and performative.error is not None:
            described = performative.error
            performative.error = Error(described.condition, (described.description or "")[:100])
            frame = encode_frame(channel, performative)
        if len(frame) > limit:
            what = f"{type(performative).__name__.lower()} frame of {len(frame)} bytes; the peer takes {limit}"
            if self.remote is None:
                what += " until it has opened (§2.4.1): shorten the container id, the hostname or the properties"
            error = LocalProtocolError(what)
            error.condition = "amqp:frame-size-too-small"
            raise error
        self.write(frame)

    @property
    def frame_limit(self) -> int:
        return self.remote.max_frame_size if self.remote is not None else MIN_MAX_FRAME_SIZE

    def write_delayed(self) -> None:
        delayed, self._delayed = self._delayed, []
        for channel, performative in delayed:
            self.write_frame(channel, performative)

    def check_state(self, state: DeliveryState, room: int = 64) -> int:
        size, limit = len(encode(state)), self.frame_limit
        if size + room > limit:
            raise LocalProtocolError(
                f"a delivery state of {size} bytes does not fit a frame of the peer: the limit is {limit}"
            )
        return size

    def flush_later(self, dispositions: DispositionsCore) -> None:
        self._dirty.append(dispositions)
        self.output_size += 1

    def flush(self) -> None:
        dirty, self._dirty = self._dirty, []
        for dispositions in dirty:
            dispositions.flush()

    def data_to_send(self) -> bytes:
        return b"".join(self._take_output())

    def buffers_to_send(self) -> list[bytes | memoryview]:
        large = self._large_output
        output = self._take_output()
        if not large:
            return [b"".join(output)] if output else []
        # Of a large payload sent with `sendmsg` no copy is made: benchmarks/run.py, "send 64 KiB".
        buffers: list[bytes | memoryview] = []
        for apart, run in groupby(output, lambda data: len(data) >= LARGE):
            together = list(run)
            buffers += together if apart else [b"".join(together)]
        return buffers

    def _take_output(self) -> list[bytes | memoryview]:
        if self._dirty:
            self.flush()
        output, self.output = self.output, []
        self.output_size = 0
        self._large_output = False
        self._sent = self._sent or bool(output)
        return output

    # Time

    def tick(self, now: float) -> float | None:
        if self.over:
            return None
        theirs = self.remote.idle_timeout if self.remote is not None else None
        # Every quarter of their time a heartbeat goes out if nothing else did since the last look. So our silence lasts
        # half of their time at most (§2.4.5).
        return self._beat(now, self.terms.idle_timeout, max(theirs / 4, MIN_PAUSE) if theirs else None)

    def _fell_silent(self, limit: float) -> None:
        self.fail(
            ConnectionLost(f"the peer was silent for {limit:g} s"),
            Error("amqp:resource-limit-exceeded", f"idle timeout: nothing was received for {limit:g} s"),
        )

    def _send_heartbeat(self) -> None:
        if self.connection.heartbeats:
            self.write(HEARTBEAT)

    # Closing

    def close(self, error: Error | None = None) -> None:
        if self.over or self.connection.close_sent:
            return
        if self.connection.may(Step.SEND_HEADER) or not self._open_asked:
            # Nothing was opened, so there is nothing to close: the transport's end says all (§2.4.3).
            self.finish(None)
            return
        self.connection.send_close(error)

    def fail(self, error: AmqpError, reason: Error | None = None) -> None:
        """End the connection, because the peer broke the protocol or is gone; tell it why if that may be said."""
        if self.over:
            return
        if reason is None:
            reason = Error(getattr(error, "condition", None) or "amqp:internal-error", str(error))
        self.connection.close_after_fault(reason)
        self.finish(error)

    def finish(self, error: AmqpError | None) -> None:
        if self.over:
            return
        self.advance(Step.LOSE_TRANSPORT)
        self._dirty.clear()
        self.connection.drop_all(error)
        self.emit(ConnectionEnded(error))


class CompleteEngine(V1Engine):
    """One whose frames have all their fields (`ConnectionTerms.all_fields`)."""

    spare = MAX_ADDED

    def close(self, error: Error | None = None) -> None:
        if error is not None and error.info is None:
            error = Error(error.condition, error.description or "", {})
        super().close(error)

    def _take_output(self) -> list[bytes | memoryview]:
        output = super()._take_output()
        return [with_all_fields(b"".join(output))] if output else output


def client(terms: ConnectionTerms, mechanisms: tuple[Mechanism, ...] | None, secure: bool) -> V1Engine:
    """Make a client engine; without `mechanisms` it does not use SASL. `secure`: secrets may cross in the clear."""
    sasl = None if mechanisms is None else ClientSasl(mechanisms, terms.hostname, secure)
    return V1Engine(Role.CLIENT, terms, sasl)


def server(terms: ConnectionTerms, authenticator: Authenticator) -> V1Engine:
    """Make a server engine; the authenticator decides who may connect, and how."""
    kind = CompleteEngine if terms.all_fields else V1Engine
    return kind(Role.SERVER, terms, ServerSasl(authenticator), bare_allowed=authenticator.anonymous_allowed)
