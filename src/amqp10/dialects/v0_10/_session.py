"""What both ends of a session share: attach and detach, the count of commands, completion (0-10 §7, §9.2).

Commands count, controls do not. What this side sends waits in `outbox` until the peer completes it; what the peer sends
is completed by `complete`, and told with the next output, all of it as one set. Where somebody waits for the completion
of ours, the last command of an output asks for it by its sync flag.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from ...engine import OutcomesReceived, Session, SessionTerms, SessionUnmapped, SettlementsReceived
from ...errors import AmqpError, DecodeError, LocalProtocolError, RemoteProtocolError, SessionEnded
from ...messaging import Error
from ._codes import COMMAND_INVALID, DETACH_REASONS, UNKNOWN_IDS, SessionFault, condition
from ._commands import ExecutionException, ExecutionResult, MessageTransfer
from ._controls import (
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
from ._declare import Command, Control, Ranges, decode_command, decode_control
from ._frames import CONTROL, Assembly, FrameReader, encode_command, encode_control
from ._ledger import MASK, MOST_TOLD, CommandOwner, Inbox, Outbox, Sent, from_ranges, near

if TYPE_CHECKING:
    from ...engine import Event, IncomingDelivery, Link, OutgoingDelivery
    from ._engine import V010Engine

SYNC_FLAG: Final = 15
"""Where in a command's first frame its session header has the sync flag: behind head, code and size."""
TIMELY: Final = 1024
"""After so many completions the peer is asked to say what it knows of them, so that the set stays short."""
KNOWN_TRANSFERS: Final = 64
MOST_SYNCS: Final = 10_000
"""That may wait for what was commanded before them."""


class SessionEndpoint(Session):
    """One end of a session, on a channel.

    Attributes:
        name: names the session for as long as it lives, whatever transport it is on.
        outbox, inbox: the commands of this side, and of the peer.
        timeout: seconds that the peer keeps the session after its transport is lost.
    """

    engine: V010Engine

    def __init__(self, engine: V010Engine, channel: int) -> None:
        self.engine = engine
        self.channel = channel
        self.name = b""
        self.terms: SessionTerms | None = None
        self.remote: SessionTerms | None = None
        self.begun = False
        self.strict_window = True
        self.context: Any = None
        self.outbox = Outbox()
        self.inbox = Inbox()
        self.timeout = 0
        self.muted = False  # nothing more is said on it
        self._attached = False
        self._resuming = False  # attached again, and the peer has still to say what it is missing
        self._resumed = False  # it was attached before
        self._waiting: list[bytes | bytearray] = []  # output until it is attached
        self._pointed = self._was_pointed = False  # command-point is out, is here
        self._last: bytearray | None = None  # the last command of this output
        self._wanted = False  # somebody waits for the completion of one in this output
        self._timely_at = 0
        # A session.flush waits for the commands before this one, and wants session.confirmed, session.completed.
        self._flush: tuple[int, bool, bool] | None = None
        self._outcomes: dict[Any, list[Any]] = {}
        self._settlements: dict[Any, list[Any]] = {}
        self._known: dict[bytes, MessageTransfer] = {}  # the same command comes with each transfer of a link
        self._unmapped = False

    @property
    def sendable(self) -> bool:
        return not self.muted

    # Output

    def write(self, data: bytes | bytearray) -> None:
        """Queue bytes, once the session is attached."""
        if self._attached:
            self.engine.write(data)
        elif not (self.muted or self.away):
            self._waiting.append(data)

    def say(self, control: Control) -> None:
        """Queue a control; nobody hears it while there is no transport."""
        if not self.suspended:
            self.engine.say(control, self.channel)

    @property
    def away(self) -> bool:
        """Commands are noted, to be sent when the session is back."""
        return self.suspended or self._resuming

    def invoke(self, command: Command, owner: CommandOwner | None = None, about: Any = None) -> Sent:
        """Send a command; `owner` hears of its completion."""
        frames = bytearray(encode_command(self.channel, command.encode(), None, None, self.engine.room))
        return self.send(frames, owner, about)

    def send(self, frames: bytearray, owner: CommandOwner | None, about: Any, size: int = 0) -> Sent:
        """Send the frames of one command."""
        sent = self.outbox.add(frames, owner, about, size)
        if self.away:
            return sent
        if not self._pointed:
            self._pointed = True
            self._write_point(sent.number)
        self.write(frames)
        self._last = frames
        if owner is not None:
            self._wanted = True
        self.engine.owe(self)
        return sent

    def _write_point(self, number: int) -> None:
        self.write(encode_control(self.channel, SessionCommandPoint(number & MASK, 0).encode()))

    def flush(self) -> None:
        """Merged dispositions, the sync flag, and what is complete."""
        if self.muted or self.away:
            return
        self.flush_dispositions()
        if self._last is not None and self._wanted:
            self._last[SYNC_FLAG] = 1
            self._wanted = False
        self._last = None
        if self._flush is not None:
            self._answer_flush(*self._flush)
        inbox = self.inbox
        if inbox.news:
            inbox.news = False
            timely = inbox.done.last - self._timely_at >= TIMELY or inbox.done.parts > MOST_TOLD
            if timely:
                self._timely_at = inbox.done.last
            self.say(SessionCompleted(inbox.done.wire(MOST_TOLD), timely))

    @abstractmethod
    def flush_dispositions(self) -> None:
        """Send what was merged."""

    def complete(self, number: int) -> None:
        """A command of the peer's is done."""
        self.inbox.complete(number)
        self.engine.owe(self)

    # Events

    def announce(self, event: Event) -> None:
        """Tell of the session itself."""
        self.engine.emit(event)

    def outcome(self, link: Link, delivery: OutgoingDelivery) -> None:
        """One more whose outcome is known."""
        self._outcomes.setdefault(link, []).append(delivery)

    def settlement(self, link: Link, delivery: IncomingDelivery) -> None:
        """One more that the sender has settled."""
        self._settlements.setdefault(link, []).append(delivery)

    def settle_events(self) -> None:
        """Tell what was gathered."""
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
        """A control or command of the peer's on this channel."""
        if assembly.kind == CONTROL:
            control = decode_control(assembly.front)
            handler = _CONTROLS.get(type(control))
            if handler is None:
                raise RemoteProtocolError(f"{control.spec_name} on a session's channel", "amqp:illegal-state")
            handler(self, control)
            return
        if self.muted:
            return
        if not self._was_pointed:
            self._detach_with(UNKNOWN_IDS)
            return
        number = self.inbox.take()
        if number is None:
            return  # said again, for we might not have heard it
        command = self._known.get(assembly.front)
        try:
            if assembly.excess and assembly.header is None and assembly.body is None:
                raise SessionFault(506, f"a command of more than {self.engine.terms.max_message_size} octets")
            if command is None:
                command = self._decode(assembly)
            if not command.has_content and (assembly.header is not None or assembly.body is not None):
                raise SessionFault(COMMAND_INVALID, f"{command.spec_name} with content")
            self.execute(number, command, assembly)
        except SessionFault as fault:
            self.fail(fault, number, command)
        except DecodeError as error:
            self.fail(SessionFault(COMMAND_INVALID, str(error)), number, command)

    def _decode(self, assembly: Assembly) -> Any:
        command = decode_command(assembly.front)
        if isinstance(command, MessageTransfer):
            if len(self._known) >= KNOWN_TRANSFERS:
                self._known.clear()
            self._known[assembly.front] = command
        return command

    @abstractmethod
    def execute(self, number: int, command: Command, assembly: Assembly) -> None:
        """Do a command of the peer's, and complete it now or later.

        Raises:
            SessionFault: it can not be done.
        """

    @abstractmethod
    def fail(self, fault: SessionFault, number: int, command: Command | None) -> None:
        """End the session over a command of the peer's."""

    # Controls

    def _receive_attach(self, control: SessionAttach) -> None:
        raise RemoteProtocolError("session.attach on a channel that is in use", "amqp:illegal-state")

    def _receive_attached(self, control: SessionAttached) -> None:
        raise RemoteProtocolError("session.attached, which was not asked for", "amqp:illegal-state")

    def _receive_detach(self, control: SessionDetach) -> None:
        self.say(SessionDetached(control.name, 0))
        self._drop(SessionEnded() if not self.muted else None)

    def _receive_detached(self, control: SessionDetached) -> None:
        if control.code == 0 and self.muted:
            self._drop(None)
        else:
            words = DETACH_REASONS.get(control.code, (None, None))
            self._drop(SessionEnded(*words, {"reply-code": control.code}) if words[0] else SessionEnded())

    def _detach_with(self, code: int) -> None:
        """The peer breaks the rules of sessions."""
        self.say(SessionDetached(self.name, code))
        words = DETACH_REASONS[code]
        self._drop(RemoteProtocolError(words[1], words[0]))

    def _receive_request_timeout(self, control: SessionRequestTimeout) -> None:
        self.timeout = min(control.timeout if control.timeout is not None else 0xFFFF_FFFF, self.longest_timeout)
        self.say(SessionTimeout(self.timeout))
        self.timeout_agreed()

    def timeout_agreed(self) -> None:
        """How long it is kept is known."""

    longest_timeout = 0

    def _receive_timeout(self, control: SessionTimeout) -> None:
        self.timeout = control.timeout if control.timeout is not None else 0xFFFF_FFFF
        self.remote = SessionTerms(timeout=self.timeout)

    def _receive_command_point(self, control: SessionCommandPoint) -> None:
        first = not (self._was_pointed or self._resumed)
        self._was_pointed = True
        if control.command_offset:
            raise RemoteProtocolError("a command that begins in its midst", "amqp:not-implemented")
        number = near(control.command_id, self.inbox.next)
        if first:
            self.inbox.begin(control.command_id)  # plain numbers are never negative, wherever they begin
        elif 0 <= number <= self.inbox.next:
            self.inbox.point(number)
        else:
            self._detach_with(UNKNOWN_IDS)  # what was left out is said to be by session.gap

    def _receive_expected(self, control: SessionExpected) -> None:
        """What the peer is missing of a session that is resumed: say all that from there on."""
        if not self._resuming:
            return
        point = near(control.commands[0][0], self.outbox.next) if control.commands else -1
        missing = [number for number in range(max(point, 0), self.outbox.next) if number not in self.outbox.open]
        if point < 0 or point > self.outbox.next or missing:
            self.forgotten()
            return
        self._resuming = False
        self._attached = self._pointed = True
        self._write_point(point)
        for number in range(point, self.outbox.next):
            sent = self.outbox.open[number]
            sent.frames = self._last = cut_anew(sent.frames, self.channel, self.engine.room)
            self.write(sent.frames)
        self._wanted = True
        self.inbox.news = bool(self.inbox.done)
        self.engine.owe(self)
        self.went_on()

    def _receive_confirmed(self, control: SessionConfirmed) -> None:
        """They need not be sent again; nor are they, as long as the peer has the session."""

    def _receive_completed(self, control: SessionCompleted) -> None:
        ranges: Ranges = control.commands
        for sent in self.outbox.take(ranges):
            if sent.owner is not None:
                sent.owner.completed(sent)
        if control.timely_reply and not self.muted:
            self.say(SessionKnownCompleted(ranges))

    def _receive_known_completed(self, control: SessionKnownCompleted) -> None:
        more = self.inbox.done.parts > MOST_TOLD
        self.inbox.known(control.commands)
        if more:
            self.inbox.news = True  # what there was no room for
            self.engine.owe(self)

    def _receive_flush(self, control: SessionFlush) -> None:
        """Say at once what is expected; the rest when what came before is done, for it may end with an exception."""
        if control.expected:
            number = self.inbox.next & MASK
            self.say(SessionExpected(((number, number),) if self._was_pointed or self._resumed else ()))
        if control.confirmed or control.completed:
            _, confirmed, completed = self._flush or (0, False, False)
            self._flush = self.inbox.next, confirmed or control.confirmed, completed or control.completed
            self.engine.owe(self)

    def _answer_flush(self, end: int, confirmed: bool, completed: bool) -> None:
        """Answer the last session.flush, if all before that command is done."""
        if not self.inbox.is_done(end):
            return
        self._flush = None
        self.inbox.news = self.inbox.news or completed
        if confirmed:
            self.say(SessionConfirmed(self.inbox.done.wire(MOST_TOLD)))

    def _receive_gap(self, control: SessionGap) -> None:
        for first, last in from_ranges(control.commands, self.inbox.next):
            if first <= self.inbox.next <= last:
                self.inbox.skip(last)
                self.engine.owe(self)

    # What every session does with commands

    def sync(self, number: int) -> None:
        """Complete this when all before it is."""
        if len(self.inbox.syncs) >= MOST_SYNCS:
            raise SessionFault(506, f"{MOST_SYNCS} commands wait for one before them")
        self.inbox.complete_in_turn(number)
        self.engine.owe(self)

    def result(self, control: ExecutionResult) -> None:
        """What a command of ours gave."""
        sent = self.outbox.open.get(near(control.command_id, self.outbox.next))
        if sent is not None and sent.owner is not None:
            sent.owner.result(sent, control.value)

    def excepted(self, exception: ExecutionException) -> None:
        """A command of ours could not be done: the session is over."""
        text = exception.description
        info = {"reply-code": exception.error_code}
        if exception.command_id is not None:
            sent = self.outbox.open.pop(near(exception.command_id, self.outbox.next), None)
            if sent is not None and sent.owner is not None:
                sent.owner.failed(sent, Error(condition(exception.error_code), text, dict(info)))
        self.mute()
        self.finish(SessionEnded(condition(exception.error_code), text, info))

    # Resuming (0-10 §7.2)

    @property
    def resumable(self) -> bool:
        """It is to live on when its transport is lost."""
        return self.begun and not self.muted and self.timeout > 0

    def suspend(self) -> None:
        """The transport is lost."""
        self.suspended = True
        self._attached = self._resuming = False
        self._last = None
        self._known.clear()

    def rebind(self, engine: V010Engine, channel: int) -> None:
        """On another transport."""
        self.engine, self.channel = engine, channel
        engine.sessions[channel] = self
        self.suspended = False
        self._resuming = self._resumed = True
        self._was_pointed = False

    def ask_expected(self) -> None:
        """The session is attached again: what is the peer missing?"""
        self.say(SessionFlush(expected=True))

    @abstractmethod
    def forgotten(self) -> None:
        """The peer does not have the session any more."""

    @abstractmethod
    def went_on(self) -> None:
        """It was resumed."""

    # Ending

    def mute(self) -> None:
        """Say nothing more; what the peer still sends is dropped."""
        self.muted = True
        self.begun = False
        self._waiting.clear()

    def over(self, error: AmqpError | None) -> None:
        """The connection is over, and the session with it."""
        self.mute()
        self.finish(error)

    def _drop(self, error: AmqpError | None) -> None:
        """Detached: the channel is free."""
        self.over(error)
        if self.engine.sessions.get(self.channel) is self:
            del self.engine.sessions[self.channel]

    def finish(self, error: AmqpError | None) -> None:
        """Tell that it is over, once."""
        if self._unmapped:
            return
        self._unmapped = True
        self.settle_events()
        self.end_links(error)
        self.outbox.open.clear()
        self.announce(SessionUnmapped(self, error))

    @abstractmethod
    def forget(self, link: Any) -> None:
        """A link is over."""

    @abstractmethod
    def end_links(self, error: AmqpError | None) -> None:
        """The links and requests of the session are over."""

    def check_live(self) -> None:
        """Raise if nothing can be sent on it.

        Raises:
            LocalProtocolError: it is over.
        """
        if self.muted or self.terms is None:
            raise LocalProtocolError("the session is not there")


def cut_anew(frames: bytearray, channel: int, room: int) -> bytearray:
    """A command that was written once, for another channel and frames of another size."""
    reader = FrameReader()
    reader.feed(bytes(frames))
    assembly = reader.next()
    assert assembly is not None
    body = assembly.payload if assembly.body is not None else None
    return bytearray(encode_command(channel, assembly.front, assembly.header, body, room))


_CONTROLS: Final[dict[type[Control], Callable[[Any, Any], None]]] = {
    SessionAttach: lambda session, control: session._receive_attach(control),
    SessionAttached: lambda session, control: session._receive_attached(control),
    SessionDetach: lambda session, control: session._receive_detach(control),
    SessionDetached: lambda session, control: session._receive_detached(control),
    SessionRequestTimeout: lambda session, control: session._receive_request_timeout(control),
    SessionTimeout: lambda session, control: session._receive_timeout(control),
    SessionCommandPoint: lambda session, control: session._receive_command_point(control),
    SessionExpected: lambda session, control: session._receive_expected(control),
    SessionConfirmed: lambda session, control: session._receive_confirmed(control),
    SessionCompleted: lambda session, control: session._receive_completed(control),
    SessionKnownCompleted: lambda session, control: session._receive_known_completed(control),
    SessionFlush: lambda session, control: session._receive_flush(control),
    SessionGap: lambda session, control: session._receive_gap(control),
}
