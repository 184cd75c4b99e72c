"""What both ends of a connection share: bytes in, events out, bytes out; pings, time, and the end.

    receive_data ──> CommandReader ──> connection level: here, _client or _server
                                  └──> channels and handles: what the two tables say
    data_to_send <── the list of commands that any of these wrote

The peer's faults are caught here, in one place: whatever the layers below raise ends the connection with its code.
"""

from __future__ import annotations

from abc import abstractmethod
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Final

from ...engine import (
    ConnectionEnded,
    ConnectionTerms,
    CreditChanged,
    Event,
    OutcomesReceived,
    OutgoingDelivery,
    Role,
    SenderLink,
    TimedEngine,
)
from ...errors import AmqpError, ConnectionClosed, ConnectionLost, LocalProtocolError, RemoteProtocolError
from ...messaging import Error
from ._codes import BAD_CONTENTS, OK, BadContents, code_of, error_of
from ._commands import Command, ConnectionClose, ConnectionPing
from ._frames import PRE_TUNE_MAX, CommandReader, encode_command

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ._endpoints import FastSession

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
    }
)


class Phase(Enum):
    """What the next bytes from the peer are."""

    IDLE = "nothing yet: start() was not called"
    INITIATION = "the peer's first two octets"
    LOGIN = "challenge and response"
    TUNE = "the peer's limits"
    OPENING = "connection-open"
    OPEN = "commands"
    OVER = "nothing more is read"


class FastEngine(TimedEngine):
    """One end of an AMQP/Fast connection, see `Engine`; `ClientEngine` and `ServerEngine` are the two.

    Attributes:
        reader: cuts what comes in.
        frame_max: the largest command, and the largest fragment, that the peer takes.
        heartbeat: seconds of silence that were agreed on; 0 for any.
        close_sent: our connection-close is out.
    """

    _actions: ClassVar[dict[type[Command], Callable[[Any, Any, bytes], None]]]

    def __init__(self, role: Role, terms: ConnectionTerms) -> None:
        self.role = role
        self.terms = terms
        self.remote: ConnectionTerms | None = None
        self.identity: str | None = None
        self.capabilities = CAPABILITIES
        self.opened = False
        self.output_size = 0
        self.context: Any = None
        self.reader = CommandReader()
        self.frame_max = PRE_TUNE_MAX
        self.heartbeat = 0
        self.close_sent = False
        self.phase = Phase.IDLE
        self._output: list[bytes] = []
        self._events: list[Event] = []
        self._owing: dict[Any, None] = {}  # who has something to say with the next output
        # Time: flags that `tick` turns into times, so that no clock is read on the message path.

    # Bytes in

    def receive_data(self, data: bytes) -> None:
        if self.phase is Phase.OVER:
            return
        self.reader.feed(data)
        self.guard(self._read)
        self._came(len(data), self.reader.within)

    def guard(self, work: Callable[[], None]) -> None:
        """Do something whose faults are the peer's."""
        try:
            work()
        except AmqpError as error:
            self.fail(error)

    def _read(self) -> None:
        if self.phase is Phase.INITIATION and not self._begun():
            return
        while (read := self.reader.next()) is not None:
            self.receive(*read)
            if self.over:
                return

    @abstractmethod
    def _begun(self) -> bool:
        """Read the first octets; whether they are here."""

    def receive(self, command: Command, content: bytes) -> None:
        """One command of the peer."""
        kind = type(command)
        if isinstance(command, ConnectionPing):
            if command.respond:
                self.write(ConnectionPing())
        elif isinstance(command, ConnectionClose):
            self._receive_close(command)
        elif not self.close_sent:  # else all but the answer to that is dropped
            action = self._actions.get(kind)
            if action is None:
                raise RemoteProtocolError(f"{command.title()} is not for this side to receive", "amqp:not-allowed")
            action(self, command, content)

    def expect(self, phase: Phase, command: Command) -> None:
        """Raise unless that command is due now."""
        if self.phase is not phase:
            raise RemoteProtocolError(
                f"{command.title()} out of order: {self.phase.value} is due", "amqp:illegal-state"
            )

    def receive_eof(self) -> None:
        if self.over:
            return
        if self.close_sent:
            self.end(None)
        elif self.phase is Phase.OPEN:
            self.end(ConnectionLost("the peer ended the transport without closing the connection"))
        else:
            self.end(ConnectionLost(f"the peer ended the transport while this side waited for {self.phase.value}"))

    @property
    def over(self) -> bool:
        return self.phase is Phase.OVER

    # Events out, bytes out

    def emit(self, event: Event) -> None:
        self._events.append(event)

    def tell_outcome(self, link: SenderLink, delivery: OutgoingDelivery) -> None:
        """An outcome came; those of one link in a row are told at once."""
        last = self._events[-1] if self._events else None
        if isinstance(last, OutcomesReceived) and last.link is link and isinstance(last.deliveries, list):
            last.deliveries.append(delivery)
        else:
            self._events.append(OutcomesReceived(link, [delivery]))

    def tell_credit(self, link: SenderLink) -> None:
        """The credit of a link changed: once in a pass is enough."""
        event = CreditChanged(link)
        if event not in self._events:
            self._events.append(event)

    def events(self) -> list[Event]:
        events, self._events = self._events, []
        return events

    def write(self, command: Command, content: bytes = b"") -> None:
        """Queue a command.

        Raises:
            EncodeError: a field cannot be said.
            LocalProtocolError: it is larger than the peer takes.
        """
        data = encode_command(command, content)
        if len(data) - len(content) > self.frame_max + 6:
            raise LocalProtocolError(
                f"a {command.title()} of {len(data) - len(content)} octets; the peer takes {self.frame_max}"
            )
        self.write_octets(data)

    def write_octets(self, data: bytes) -> None:
        """Queue octets; commands are whole, with what follows them."""
        self._output.append(data)
        self.output_size += len(data)

    def owe(self, debtor: Any) -> None:
        """Someone has something to say with the next output: its `pay` is called then."""
        if debtor not in self._owing:
            self._owing[debtor] = None
            self.output_size += 1

    def flush(self) -> None:
        while self._owing and not self.close_sent and not self.over:
            debtor = next(iter(self._owing))
            del self._owing[debtor]
            debtor.pay()

    def data_to_send(self) -> bytes:
        if self._owing:
            self.flush()
        output, self._output = self._output, []
        self.output_size = 0
        if not output:
            return b""
        self._sent = True
        return output[0] if len(output) == 1 else b"".join(output)

    # Time

    def agree(self, frame_max: int, heartbeat: int) -> None:
        """Both sides have said their limits."""
        self.frame_max = frame_max
        self.heartbeat = heartbeat
        self.reader.limit = frame_max if frame_max else self.terms.max_frame_size

    @property
    def own_heartbeat(self) -> int:
        """What this side asks for: half of the silence that it bears, so that the peer may be a whole one late."""
        idle = self.terms.idle_timeout
        return min(0xFFFF, max(1, int(idle / 2))) if idle else 0

    def tick(self, now: float) -> float | None:
        if self.over:
            return None
        idle = self.terms.idle_timeout
        limit = max(2 * self.heartbeat, idle or 0) if self.heartbeat else idle if self.phase is not Phase.OPEN else None
        return self._beat(now, limit, self.heartbeat / 2 if self.phase is Phase.OPEN and not self.close_sent else None)

    def _fell_silent(self, limit: float) -> None:
        self.fail(
            ConnectionLost(f"the peer was silent for {limit:g} s"),
            Error("amqp:resource-limit-exceeded", f"idle timeout: nothing was received for {limit:g} s"),
        )

    def _send_heartbeat(self) -> None:
        self.write(ConnectionPing())

    # The end

    @abstractmethod
    def sessions(self) -> Iterable[FastSession]:
        """Those that are not over."""

    def close(self, error: Error | None = None) -> None:
        if self.over or self.close_sent:
            return
        if self.phase is not Phase.OPEN or not self.opened:
            self.end(None)  # nothing was opened, so there is nothing to close
            return
        self.flush()
        self._send_close(error)
        for session in self.sessions():
            session.mute()

    def _send_close(self, error: Error | None, reply_code: int | None = None) -> None:
        code, text = code_of(error)
        self.write(ConnectionClose(reply_code=reply_code or code, reply_text=text))
        self.close_sent = True
        self.opened = False

    def _receive_close(self, command: ConnectionClose) -> None:
        if self.close_sent:
            self.end(None)
            return
        self._send_close(None)
        self.end(self._cause(command.reply_code, command.reply_text))

    def _cause(self, code: int, text: str) -> AmqpError | None:
        """What a close of the peer's says."""
        error = error_of(code, text)
        if error is None:
            return ConnectionClosed()
        return ConnectionClosed(error.condition, error.description, error.info)

    def fail(self, error: AmqpError, tell: Error | None = None) -> None:
        """The peer broke the protocol, or is gone: say why if it may be said, and end."""
        if self.over:
            return
        if not self.close_sent and self.phase is not Phase.INITIATION:
            condition = getattr(error, "condition", None) or "amqp:internal-error"
            code = BAD_CONTENTS if isinstance(error, BadContents) else None
            self._send_close(tell if tell is not None else Error(condition, str(error)), code)
        self.end(error)

    def end(self, error: AmqpError | None) -> None:
        """The connection is over, and what is on it."""
        if self.over:
            return
        self.phase = Phase.OVER
        self.opened = False
        self._owing.clear()
        for session in list(self.sessions()):
            session.over(error)
        self.emit(ConnectionEnded(error))


def is_done(code: int) -> bool:
    """Whether a reply code says that it was done."""
    return code // 100 == OK // 100
