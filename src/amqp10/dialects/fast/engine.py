"""What both ends of a connection share: bytes in, events out, bytes out; pings, time, and the end.

    receive_data ──> CommandReader ──> connection level: here, _client or _server
                                  └──> channels and handles: what the two tables say
    data_to_send <── the list of commands that any of these wrote

The peer's faults are caught here, in one place: whatever the layers below raise ends the connection with its code.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar, Final, Protocol

from ...engine import (
    ConnectionEnded,
    ConnectionTerms,
    CreditChanged,
    Dispatcher,
    Handlers,
    OutcomesReceived,
    OutgoingDelivery,
    Role,
    SenderLink,
)
from ...errors import AmqpError, ConnectionClosed, ConnectionLost, LocalProtocolError, RemoteProtocolError
from ...messaging import Error
from .._kit.causes import as_exception
from .._kit.engine import COSTLY, EngineBase
from .codes import BAD_CONTENTS, OK, BadContents, code_of, error_of
from .states import CONNECTION, OPEN, ConnectionState, Step
from .wire.command_table import Command
from .wire.commands import ConnectionClose, ConnectionPing
from .wire.frames import PRE_TUNE_MAX, CommandReader, encode_command

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from .._kit.parents import Batcher


CAPABILITIES: Final = frozenset(
    {
        "abort",
        "anonymous-terminus",
        "browse",
        "drain",
        "durable-subscriptions",
        "dynamic",
        "filters",
        "multi-frame",
        "released",
        "streaming",
        "transactions",
        "transactions-over-queues",
    }
)


class OpenSession(Protocol):
    """A session, as its connection ends it."""

    def connection_closes(self) -> None: ...

    def over(self, cause: AmqpError | None) -> None: ...


class FastEngine(Dispatcher, EngineBase[ConnectionState]):
    """One end of an AMQP/Fast connection, see `Engine`; `ClientEngine` and `ServerEngine` are the two.

    Attributes:
        reader: cuts what comes in.
        frame_max: the largest command, and the largest fragment, that the peer takes.
        heartbeat: the heartbeat agreed on, in seconds; 0 if any silence is allowed.
        close_sent: this side has sent its connection-close.
    """

    transitions: ClassVar[dict[tuple[ConnectionState, Step], ConnectionState]] = CONNECTION
    opened: bool
    over: bool
    output_size: int
    behind: bool
    left: float
    handlers: ClassVar[Handlers] = {
        ConnectionPing: "_receive_ping",
        ConnectionClose: "_receive_close",
    }

    def __init__(self, role: Role, terms: ConnectionTerms) -> None:
        super().__init__(role, terms, CAPABILITIES)
        self.reader: CommandReader = CommandReader()
        self.frame_max: int = PRE_TUNE_MAX
        self.heartbeat: int = 0
        self.close_sent: bool = False
        self.state = ConnectionState.IDLE
        self._output: list[bytes] = []
        self._batchers: dict[Batcher, None] = {}  # their `flush` is called before the next output

    def entered(self, state: ConnectionState) -> None:
        self.opened = state is ConnectionState.OPENED
        self.over = state is ConnectionState.OVER
        self.close_sent = self.close_sent or state is ConnectionState.CLOSING

    # Bytes in

    def receive_data(self, data: bytes) -> None:
        if self.over:
            return
        if data:
            self.reader.feed(data)
        if self.portion is not None:
            self.begin_portion()
        self.guard(self._read)
        self._note_input(len(data), self.reader.within_frame)

    def guard(self, work: Callable[[], None]) -> None:
        """Call `work`, and fail the connection over an `AmqpError` that it raises, because the peer caused it."""
        try:
            work()
        except AmqpError as error:
            self.fail(error)

    def _read(self) -> None:
        if self.state is ConnectionState.INITIATION and not self._begun():
            return
        self.take_up()
        while self.left > 0 and not self.over:
            read = self.reader.next()
            if read is None:
                return
            self.left -= 1 if read[1] else COSTLY
            self.receive(*read)
        self.behind = not self.over

    @abstractmethod
    def _begun(self) -> bool:
        """Read the first octets; return whether they have arrived."""

    def receive(self, command: Command, content: bytes) -> None:
        """Take one command of the peer; after this side's close, drop all but a ping and the peer's close."""
        kind = type(command)
        if self.close_sent and kind not in FastEngine.handlers:
            return
        handler = self.by_type.get(kind)
        if handler is None:
            raise RemoteProtocolError(f"this side must not be sent {command.title()}", "amqp:not-allowed")
        handler(self, command, content)

    def _receive_ping(self, command: ConnectionPing, content: bytes) -> None:
        if command.respond:
            self.write(ConnectionPing())

    def expect(self, state: ConnectionState, command: Command) -> None:
        """Raise `RemoteProtocolError` unless the connection is in `state`, in which `command` is due."""
        if self.state is not state:
            raise RemoteProtocolError(
                f"{command.title()} out of order: expected {self.state.value}", "amqp:illegal-state"
            )

    def receive_eof(self) -> None:
        self._transport_ended(self.close_sent, None if self.state in OPEN else self.state.value)

    # Events out, bytes out

    def report_outcome(self, link: SenderLink, delivery: OutgoingDelivery) -> None:
        """Emit that an outcome came; successive outcomes of one link share one event."""
        last = self._events[-1] if self._events else None
        if isinstance(last, OutcomesReceived) and last.link is link and isinstance(last.deliveries, list):
            last.deliveries.append(delivery)
        else:
            self._events.append(OutcomesReceived(link, [delivery]))

    def report_credit(self, link: SenderLink) -> None:
        """Emit that the credit of a link changed, once in each batch of events."""
        event = CreditChanged(link)
        if event not in self._events:
            self._events.append(event)

    def write(self, command: Command, content: bytes = b"") -> None:
        """Queue a command.

        Raises:
            EncodeError: a field does not fit its type.
            LocalProtocolError: the command is larger than the peer takes.
        """
        data = encode_command(command, content)
        if len(data) - len(content) > self.frame_max + 6:
            raise LocalProtocolError(
                f"a {command.title()} of {len(data) - len(content)} octets exceeds the peer's frame-max of "
                f"{self.frame_max}"
            )
        self.write_octets(data)

    def write_octets(self, data: bytes) -> None:
        """Queue octets, which must be complete commands with the message octets that follow them."""
        self._output.append(data)
        self.output_size += len(data)

    def flush_later(self, batcher: Batcher) -> None:
        """Call `flush` of `batcher` before the next output."""
        if batcher not in self._batchers:
            self._batchers[batcher] = None
            self.output_size += 1

    def flush(self) -> None:
        while self._batchers and not self.close_sent and not self.over:
            batcher = next(iter(self._batchers))
            del self._batchers[batcher]
            batcher.flush()

    def data_to_send(self) -> bytes:
        if self._batchers:
            self.flush()
        output, self._output = self._output, []
        self.output_size = 0
        if not output:
            return b""
        self._sent = True
        return output[0] if len(output) == 1 else b"".join(output)

    # Time

    def agree(self, frame_max: int, heartbeat: int) -> None:
        """Apply the limits that both sides have agreed on."""
        self.frame_max = frame_max
        self.heartbeat = heartbeat
        self.reader.limit = frame_max if frame_max else self.terms.max_frame_size

    @property
    def own_heartbeat(self) -> int:
        """Return the heartbeat to ask for: half of the idle time-out, so that the peer may be one heartbeat late."""
        idle = self.terms.idle_timeout
        return min(0xFFFF, max(1, int(idle / 2))) if idle else 0

    def tick(self, now: float) -> float | None:
        if self.over:
            return None
        idle = self.terms.idle_timeout
        limit = None if self.opened or self.close_sent else idle  # without heartbeats only an open connection is silent
        if self.heartbeat:
            limit = max(2 * self.heartbeat, idle or 0)
        return self._beat(now, limit, self.heartbeat / 2 if self.state in OPEN else None)

    def _fell_silent(self, limit: float) -> None:
        self.fail(
            ConnectionLost(f"the peer was silent for {limit:g} s"),
            Error("amqp:resource-limit-exceeded", f"idle timeout: nothing was received for {limit:g} s"),
        )

    def _send_heartbeat(self) -> None:
        self.write(ConnectionPing())

    # The end

    @abstractmethod
    def sessions(self) -> Iterable[OpenSession]:
        """Return the sessions that are not over."""

    def close(self, error: Error | None = None) -> None:
        if self.over or self.close_sent:
            return
        if not self.opened:
            self.finish(None)  # nothing was opened, so there is nothing to close
            return
        self.flush()
        self._send_close(error)
        for session in self.sessions():
            session.connection_closes()

    def _send_close(self, error: Error | None, reply_code: int | None = None) -> None:
        code, text = code_of(error)
        self.write(ConnectionClose(reply_code=reply_code or code, reply_text=text))
        self.advance(Step.SEND_CLOSE)

    def _receive_close(self, command: ConnectionClose, content: bytes) -> None:
        if self.close_sent:
            self.finish(None)
            return
        cause = self._cause(command.reply_code, command.reply_text)
        if self.may(Step.SEND_CLOSE):
            self._send_close(None)
        self.finish(cause)

    def _cause(self, code: int, text: str) -> AmqpError | None:
        """Return the exception for a close of the peer with this code and text."""
        return as_exception(ConnectionClosed, error_of(code, text))

    def fail(self, error: AmqpError, reason: Error | None = None) -> None:
        """End the connection over `error` of the peer; first send a close with the reason, if one may still be sent."""
        if self.over:
            return
        if self.may(Step.SEND_CLOSE):
            condition = getattr(error, "condition", None) or "amqp:internal-error"
            code = BAD_CONTENTS if isinstance(error, BadContents) else None
            self._send_close(reason if reason is not None else Error(condition, str(error)), code)
        if isinstance(error, BadContents):
            error = RemoteProtocolError(str(error), error.condition)  # reply codes are between the two peers
        self.finish(error)

    def finish(self, error: AmqpError | None) -> None:
        if self.over:
            return
        self.advance(Step.END)
        self._batchers.clear()
        for session in list(self.sessions()):
            session.over(error)
        self.emit(ConnectionEnded(error))


def is_done(code: int) -> bool:
    """Return whether a reply code reports success."""
    return code // 100 == OK // 100
