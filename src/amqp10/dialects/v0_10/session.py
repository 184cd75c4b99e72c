"""What both ends of a session share: attach and detach, command ids, completion (0-10 §7, §9.2).

Commands are numbered, controls are not. A command of this side waits in `outbox` until the peer completes it. Commands
of the peer are completed by `complete`; the next output tells all completions as one set. If an owner waits for the
completion of its command, the last command of an output asks for it by its sync flag.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Final

from ..._machine import Machine
from ...engine import (
    Dispatcher,
    Handlers,
    OutcomesReceived,
    Session,
    SessionTerms,
    SessionUnmapped,
    SettlementsReceived,
)
from ...errors import AmqpError, DecodeError, LocalProtocolError, RemoteProtocolError, SessionEnded
from ...messaging import Error
from ...types import SERIAL_MASK
from .codes import DETACH_REASONS, UNKNOWN_IDS, ErrorCode, SessionFault, condition
from .command_ids import (
    MAX_RANGES_IN_CONTROL,
    CommandOwner,
    PendingCommand,
    ReceivedCommands,
    SentCommands,
    from_ranges,
    unwrap_serial,
)
from .states import SESSION, SessionState, Step
from .wire.commands import ExecutionException, ExecutionResult, ExecutionSync, MessageTransfer
from .wire.controls import (
    SessionAttach,
    SessionAttached,
    SessionCommandPoint,
    SessionCompleted,
    SessionConfirmed,
    SessionDetach,
    SessionDetached,
    SessionExpected,
    SessionFlush,
    SessionGap,
    SessionKnownCompleted,
    SessionRequestTimeout,
    SessionTimeout,
)
from .wire.frames import CONTROL, Assembly, FrameReader, encode_command, encode_control
from .wire.struct import Command, Control, Ranges, decode_command, decode_control

if TYPE_CHECKING:
    from ...engine import Event, IncomingDelivery, Link, OutgoingDelivery
    from .parents import EndpointEngine

SYNC_FLAG: Final = 15
"""The place of the sync flag in a command's first frame: in the session header, behind head, code and size."""
KNOWN_COMPLETED_EVERY: Final = 1024
"""The number of completions after which the peer is asked to confirm them, so that the set stays short."""
KNOWN_TRANSFERS: Final = 64
MAX_SYNCS: Final = 10_000
"""The number of commands that may wait for the completion of those before them."""


_BEGUN: Final = frozenset(
    {SessionState.ATTACHED, SessionState.SUSPENDED, SessionState.REATTACH_SENT, SessionState.RESUMING}
)
_AWAY: Final = frozenset({SessionState.SUSPENDED, SessionState.REATTACH_SENT, SessionState.RESUMING})
_ENDED_LOCALLY: Final = frozenset(
    {SessionState.DETACH_PIPE, SessionState.DETACH_SENT, SessionState.CLOSING, SessionState.OVER}
)
_WRITABLE: Final = frozenset({SessionState.ATTACH_RCVD, SessionState.ATTACHED})


class SessionEndpoint(Dispatcher, Session, Machine[SessionState]):
    """One end of a session, on a channel.

    Attributes:
        away: commands are only noted, to be sent once the session is resumed.
        ended_locally: this side sends nothing more on the session, and drops the commands that still come.
        writable: commands may be sent: the session is attached.
        name: names the session as long as it lives, on any transport.
        outbox, inbox: the commands of this side, and of the peer.
        handlers: those of controls are called with the control, those of commands with the number and the command.
        timeout: seconds that the peer keeps the session after its transport is lost.
    """

    noun = "session"
    transitions: ClassVar[dict[tuple[SessionState, Step], SessionState]] = SESSION
    engine: EndpointEngine
    begun: bool
    suspended: bool
    away: bool
    ended_locally: bool
    writable: bool
    handlers: ClassVar[Handlers] = {
        SessionAttach: "_receive_attach",
        SessionAttached: "_receive_attached",
        SessionDetach: "_receive_detach",
        SessionDetached: "_receive_detached",
        SessionRequestTimeout: "_receive_request_timeout",
        SessionTimeout: "_receive_timeout",
        SessionCommandPoint: "_receive_command_point",
        SessionExpected: "_receive_expected",
        SessionConfirmed: "_receive_confirmed",
        SessionCompleted: "_receive_completed",
        SessionKnownCompleted: "_receive_known_completed",
        SessionFlush: "_receive_flush",
        SessionGap: "_receive_gap",
        ExecutionSync: "_receive_sync",
        ExecutionResult: "_receive_result",
        ExecutionException: "_receive_exception",
    }

    def __init__(self, engine: EndpointEngine, channel: int) -> None:
        self.engine = engine
        self.channel: int = channel
        self.name = b""
        self.terms: SessionTerms | None = None
        self.remote: SessionTerms | None = None
        self.state = SessionState.DETACHED
        self.begun = self.away = self.ended_locally = self.writable = False
        self.strict_window = True
        self.outbox: SentCommands = SentCommands()
        self.inbox: ReceivedCommands = ReceivedCommands()
        self.timeout: int = 0
        self._resumed = False  # attached before; no state of the table, for every later state has it
        self._waiting: list[bytes | bytearray] = []  # output until the session is attached
        # command-point was sent, was received: no states, for each direction has its own time for that.
        self._point_sent = self._point_received = False
        self._last: bytearray | None = None  # the last command of this output
        self._needs_completion = False  # an owner waits for the completion of a command in this output
        self._confirmed_at = 0
        # The session.flush to answer: the id that all commands before must be completed, and whether it asks for
        # session.confirmed and for session.completed.
        self._flush: tuple[int, bool, bool] | None = None
        self._outcomes: dict[Any, list[Any]] = {}
        self._settlements: dict[Any, list[Any]] = {}
        self._known: dict[bytes, MessageTransfer] = {}  # decoded once: each transfer of a link has the same command

    def entered(self, state: SessionState) -> None:
        self.begun = state in _BEGUN
        self.suspended = state is SessionState.SUSPENDED
        self.away = state in _AWAY
        self.ended_locally = state in _ENDED_LOCALLY
        self.writable = state in _WRITABLE

    @property
    def sendable(self) -> bool:
        return not self.ended_locally

    # Output

    def write(self, data: bytes | bytearray) -> None:
        """Queue bytes, once the session is attached."""
        if self.writable:
            self.engine.write(data)
        elif not (self.ended_locally or self.away):
            self._waiting.append(data)

    def write_control(self, control: Control) -> None:
        """Queue a control; drop it while the session has no transport, and after our close of the connection."""
        if not self.suspended and self.state is not SessionState.CLOSING:
            self.engine.write_control(control, self.channel)

    def invoke(self, command: Command, owner: CommandOwner | None = None, about: Any = None) -> PendingCommand:
        """Send `command`; `owner` hears of its completion."""
        frames = bytearray(encode_command(self.channel, command.encode(), None, None, self.engine.max_payload))
        return self.send(frames, owner, about)

    def send(self, frames: bytearray, owner: CommandOwner | None, about: Any, size: int = 0) -> PendingCommand:
        """Send the frames of one command."""
        sent = self.outbox.add(frames, owner, about, size)
        if self.away:
            return sent
        if not self._point_sent:
            self._point_sent = True
            self._write_point(sent.number)
        self.write(frames)
        self._last = frames
        if owner is not None:
            self._needs_completion = True
        self.engine.flush_later(self)
        return sent

    def _write_point(self, number: int) -> None:
        self.write(encode_control(self.channel, SessionCommandPoint(number & SERIAL_MASK, 0).encode()))

    def flush(self) -> None:
        """Write the merged dispositions, set the sync flag if it is needed, and tell which commands are completed."""
        if self.ended_locally or self.away:
            return
        self.flush_dispositions()
        if self._last is not None and self._needs_completion:
            self._last[SYNC_FLAG] = 1
            self._needs_completion = False
        self._last = None
        if self._flush is not None:
            self._answer_flush(*self._flush)
        inbox = self.inbox
        if inbox.unreported:
            inbox.unreported = False
            timely = (
                inbox.done.last - self._confirmed_at >= KNOWN_COMPLETED_EVERY
                or inbox.done.parts > MAX_RANGES_IN_CONTROL
            )
            if timely:
                self._confirmed_at = inbox.done.last
            self.write_control(SessionCompleted(inbox.done.wire(MAX_RANGES_IN_CONTROL), timely))

    @abstractmethod
    def flush_dispositions(self) -> None:
        """Send the dispositions that were merged."""

    def complete(self, number: int) -> None:
        """Complete the peer's command `number`; the next output tells it."""
        self.inbox.complete(number)
        self.engine.flush_later(self)

    # Events

    def announce(self, event: Event) -> None:
        """Tell the owner an event of the session itself."""
        self.engine.emit(event)

    def outcome(self, link: Link, delivery: OutgoingDelivery) -> None:
        """Add `delivery` to those whose outcome is told with the next events."""
        self._outcomes.setdefault(link, []).append(delivery)
        self.engine.tell_later(self)

    def settlement(self, link: Link, delivery: IncomingDelivery) -> None:
        """Add `delivery` to those whose settlement by the sender is told with the next events."""
        self._settlements.setdefault(link, []).append(delivery)
        self.engine.tell_later(self)

    def settle_events(self) -> None:
        """Tell the outcomes and settlements that were gathered."""
        if self._outcomes:
            outcomes, self._outcomes = self._outcomes, {}
            for link, sent in outcomes.items():
                self.engine.emit(OutcomesReceived(link, sent))
        if self._settlements:
            settlements, self._settlements = self._settlements, {}
            for link, received in settlements.items():
                self.engine.emit(SettlementsReceived(link, received))

    # Input

    def receive(self, assembly: Assembly) -> None:
        """Handle a control or command of the peer on this channel."""
        if assembly.kind == CONTROL:
            control = decode_control(assembly.front)
            handler = self.by_type.get(type(control))
            if handler is None:
                raise RemoteProtocolError(f"{control.spec_name} on a session's channel", "amqp:illegal-state")
            handler(self, control)
            return
        if self.ended_locally:
            return
        if not self._point_received:
            self._detach_with(UNKNOWN_IDS)
            return
        number = self.inbox.take()
        if number is None:
            return  # sent again by the peer, in case this side missed it
        command = self._known.get(assembly.front)
        try:
            if assembly.excess and assembly.header is None and assembly.body is None:
                raise SessionFault(
                    ErrorCode.RESOURCE_LIMIT_EXCEEDED,
                    f"a command of more than {self.engine.terms.max_message_size} octets",
                )
            if command is None:
                command = self._decode(assembly)
            if not command.has_content and (assembly.header is not None or assembly.body is not None):
                raise SessionFault(ErrorCode.COMMAND_INVALID, f"{command.spec_name} with content")
            self.execute(number, command, assembly)
        except SessionFault as fault:
            self.fail(fault, number, command)
        except DecodeError as error:
            self.fail(SessionFault(ErrorCode.COMMAND_INVALID, str(error)), number, command)

    def _decode(self, assembly: Assembly) -> Any:
        command = decode_command(assembly.front)
        if isinstance(command, MessageTransfer):
            if len(self._known) >= KNOWN_TRANSFERS:
                self._known.clear()
            self._known[assembly.front] = command
        return command

    @abstractmethod
    def execute(self, number: int, command: Command, assembly: Assembly) -> None:
        """Do a command of the peer, and complete it now or later.

        Raises:
            SessionFault: the command can not be done.
        """

    @abstractmethod
    def fail(self, fault: SessionFault, number: int, command: Command | type[Command] | None) -> None:
        """End the session because a command of the peer failed."""

    # Controls

    def _receive_attach(self, control: SessionAttach) -> None:
        raise RemoteProtocolError("session.attach on a channel that is in use", "amqp:illegal-state")

    def _receive_attached(self, control: SessionAttached) -> None:
        raise self.illegal(Step.RECEIVE_ATTACHED)

    def _receive_detach(self, control: SessionDetach) -> None:
        self.write_control(SessionDetached(control.name, 0))
        self._drop(SessionEnded() if not self.ended_locally else None)

    def _receive_detached(self, control: SessionDetached) -> None:
        if control.code == 0 and self.ended_locally:
            self._drop(None)
        else:
            words = DETACH_REASONS.get(control.code, (None, None))
            self._drop(SessionEnded(*words, {"reply-code": control.code}) if words[0] else SessionEnded())

    def _detach_with(self, code: int) -> None:
        """Detach with `code`, and end the session, for the peer broke the rules of sessions."""
        self.write_control(SessionDetached(self.name, code))
        words = DETACH_REASONS[code]
        self._drop(RemoteProtocolError(words[1], words[0]))

    def _receive_request_timeout(self, control: SessionRequestTimeout) -> None:
        self.timeout = min(control.timeout if control.timeout is not None else 0xFFFF_FFFF, self.longest_timeout)
        self.write_control(SessionTimeout(self.timeout))
        self.timeout_agreed()

    def timeout_agreed(self) -> None:
        """Take note that the timeout of the session is agreed."""

    longest_timeout = 0

    def _receive_timeout(self, control: SessionTimeout) -> None:
        self.timeout = control.timeout if control.timeout is not None else 0xFFFF_FFFF
        self.remote = SessionTerms(timeout=self.timeout)

    def _receive_command_point(self, control: SessionCommandPoint) -> None:
        first = not (self._point_received or self._resumed)
        self._point_received = True
        if control.command_offset:
            raise RemoteProtocolError("a command without its first segment", "amqp:not-implemented")
        number = unwrap_serial(control.command_id, self.inbox.next)
        if first:
            self.inbox.begin(control.command_id)  # plain numbers are never negative, wherever they begin
        elif 0 <= number <= self.inbox.next:
            self.inbox.point(number)
        else:
            self._detach_with(UNKNOWN_IDS)  # commands may be left out by session.gap only

    def _receive_expected(self, control: SessionExpected) -> None:
        """Send all commands again from the first one that the peer is missing, and go on with the resumed session.

        If they are not all here, the peer has lost the session.
        """
        if self.state is not SessionState.RESUMING:
            return
        point = unwrap_serial(control.commands[0][0], self.outbox.next) if control.commands else -1
        wanted, there = self.outbox.next - point, sum(number >= point for number in self.outbox.open)
        if point < 0 or wanted < 0 or there < wanted:
            self.forgotten()
            return
        self.advance(Step.RECEIVE_EXPECTED)
        self._point_sent = True
        self._write_point(point)
        for number in range(point, self.outbox.next):
            sent = self.outbox.open[number]
            sent.frames = self._last = reframe(sent.frames, self.channel, self.engine.max_payload)
            self.write(sent.frames)
        self._needs_completion = True
        self.inbox.unreported = bool(self.inbox.done)
        self.engine.flush_later(self)
        self.on_resumed()

    def _receive_confirmed(self, control: SessionConfirmed) -> None:
        """Ignore the control: while the peer has the session, confirmed commands are not sent again anyway."""

    def _receive_completed(self, control: SessionCompleted) -> None:
        ranges: Ranges = control.commands
        for sent in self.outbox.take(ranges):
            if sent.owner is not None:
                sent.owner.completed(sent)
        if control.timely_reply and not self.ended_locally:
            self.write_control(SessionKnownCompleted(ranges))

    def _receive_known_completed(self, control: SessionKnownCompleted) -> None:
        more = self.inbox.done.parts > MAX_RANGES_IN_CONTROL
        self.inbox.known(control.commands)
        if more:
            self.inbox.unreported = True  # ranges that the last session.completed had no room for
            self.engine.flush_later(self)

    def _receive_flush(self, control: SessionFlush) -> None:
        """Answer session.flush: with session.expected at once, with the rest when all commands before are completed.

        The rest waits because one of those commands may end with an exception.
        """
        if control.expected:
            number = self.inbox.next & SERIAL_MASK
            self.write_control(SessionExpected(((number, number),) if self._point_received or self._resumed else ()))
        if control.confirmed or control.completed:
            _, confirmed, completed = self._flush or (0, False, False)
            self._flush = self.inbox.next, confirmed or control.confirmed, completed or control.completed
            self.engine.flush_later(self)

    def _answer_flush(self, end: int, confirmed: bool, completed: bool) -> None:
        """Answer the last session.flush, if all commands before the id `end` are completed."""
        if not self.inbox.is_done(end):
            return
        self._flush = None
        self.inbox.unreported = self.inbox.unreported or completed
        if confirmed:
            self.write_control(SessionConfirmed(self.inbox.done.wire(MAX_RANGES_IN_CONTROL)))

    def _receive_gap(self, control: SessionGap) -> None:
        for first, last in from_ranges(control.commands, self.inbox.next):
            if first <= self.inbox.next <= last:
                self.inbox.skip(last)
                self.engine.flush_later(self)

    # What every session does with commands

    def _receive_sync(self, number: int, command: ExecutionSync) -> None:
        """Complete the command `number` once all before it are completed.

        Raises:
            SessionFault: too many commands wait like that.
        """
        if len(self.inbox.syncs) >= MAX_SYNCS:
            raise SessionFault(ErrorCode.RESOURCE_LIMIT_EXCEEDED, f"{MAX_SYNCS} syncs are pending")
        self.inbox.complete_in_turn(number)
        self.engine.flush_later(self)

    def _receive_result(self, number: int, command: ExecutionResult) -> None:
        """Hand the result of a command of this side to its owner."""
        sent = self.outbox.open.get(unwrap_serial(command.command_id, self.outbox.next))
        if sent is not None and sent.owner is not None:
            sent.owner.result(sent, command.value)
        self.complete(number)

    def _receive_exception(self, number: int, exception: ExecutionException) -> None:
        """End the session, for a command of this side failed."""
        text = exception.description
        info = {"reply-code": exception.error_code}
        if exception.command_id is not None:
            sent = self.outbox.open.pop(unwrap_serial(exception.command_id, self.outbox.next), None)
            if sent is not None and sent.owner is not None:
                sent.owner.failed(sent, Error(condition(exception.error_code), text, dict(info)))
        self.finish(SessionEnded(condition(exception.error_code), text, info))

    # Resuming (0-10 §7.2)

    @property
    def resumable(self) -> bool:
        """Return whether the session outlives the loss of its transport."""
        return self.begun and not self.ended_locally and self.timeout > 0

    def suspend(self) -> None:
        """Suspend the session, for its transport is lost."""
        self.advance(Step.LOSE_TRANSPORT)
        self._last = None
        self._known.clear()

    def rebind(self, engine: EndpointEngine, channel: int) -> None:
        """Move the session to `channel` of another connection."""
        self.engine, self.channel = engine, channel
        engine.sessions[channel] = self
        engine.tell_later(self)  # what was gathered without a transport
        self._resumed = True
        self._point_received = False

    def ask_expected(self) -> None:
        """Ask which commands the peer is missing, now that the session is attached again."""
        self.write_control(SessionFlush(expected=True))

    @abstractmethod
    def forgotten(self) -> None:
        """End the session, for the peer has lost it."""

    @abstractmethod
    def on_resumed(self) -> None:
        """Tell that the session was resumed."""

    # Ending

    def detach(self) -> None:
        """Send session.detach: this side sends nothing more, and drops what the peer still sends.

        A session whose attach is not answered yet is detached when the answer comes.
        """
        self._waiting.clear()
        self.advance(Step.SEND_DETACH)
        if self.state is SessionState.DETACH_SENT:
            self._write_detach()

    def _write_detach(self) -> None:
        self.write_control(SessionRequestTimeout(0))
        self.write_control(SessionDetach(self.name))

    def connection_closes(self) -> None:
        """Send nothing more, because the connection closes."""
        if self.may(Step.SEND_CLOSE):
            self.advance(Step.SEND_CLOSE)

    def over(self, error: AmqpError | None) -> None:
        """End the session, for its connection is over."""
        self.finish(error)

    def _drop(self, error: AmqpError | None) -> None:
        """End the session, which is detached, and free its channel."""
        self.over(error)
        if self.engine.sessions.get(self.channel) is self:
            del self.engine.sessions[self.channel]

    def finish(self, error: AmqpError | None) -> None:
        """Tell once that the session is over, after the end of its links."""
        if self.state is SessionState.OVER:
            return
        self.advance(Step.FINISH)
        self._waiting.clear()
        self.settle_events()
        self.end_links(error)
        self.outbox.open.clear()
        self.announce(SessionUnmapped(self, error))

    @abstractmethod
    def end_links(self, error: AmqpError | None) -> None:
        """End the links and requests of the session, with `error`."""

    def check_live(self) -> None:
        """Raise if nothing can be sent on the session.

        Raises:
            LocalProtocolError: the session is over, or was not begun.
        """
        if self.ended_locally or self.terms is None:
            raise LocalProtocolError("the session is over, or was not begun")


def reframe(frames: bytearray, channel: int, max_payload: int) -> bytearray:
    """Return the frames of a command, rewritten for another channel and frames with `max_payload` octets of payload."""
    reader = FrameReader()
    reader.feed(bytes(frames))
    assembly = reader.next()
    assert assembly is not None
    body = assembly.payload if assembly.body is not None else None
    return bytearray(encode_command(channel, assembly.front, assembly.header, body, max_payload))
