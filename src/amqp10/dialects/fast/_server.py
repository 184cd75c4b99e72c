"""The server's end of a connection: login, limits, opening; channels and handles as the client opens them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar, Final

from ...engine import Authenticated, Backlog, ConnectionOpened, ConnectionTerms, Role, SessionBegun
from ...errors import LocalProtocolError, RemoteProtocolError, Unsupported
from ...messaging import Error
from ...sasl import Success
from ...types import Symbol
from ._codes import OK
from ._commands import (
    ChannelAck,
    ChannelClose,
    ChannelCommit,
    ChannelOpen,
    ChannelRollback,
    Command,
    ConnectionClose,
    ConnectionOpen,
    ConnectionReply,
    ConnectionResponse,
    ConnectionTune,
    HandleBrowse,
    HandleCancel,
    HandleClose,
    HandleConsume,
    HandleFlow,
    HandleOpen,
    HandlePrepare,
    HandleQuery,
    HandleReady,
    HandleSend,
    HandleUnget,
)
from ._engine import FastEngine, Phase
from ._frames import INITIATION, LEAST_FRAME_MAX
from ._login import ServerLogin
from ._server_session import ServerSession
from ._tables import read_names, to_table

if TYPE_CHECKING:
    from ...engine import SessionTerms
    from ...sasl import Authenticator
    from ._server_handle import ServerHandle

MOST_HANDLES: Final = 4096
"""The highest handle that a client may choose."""


class ServerEngine(FastEngine):
    """See `Engine`.

    Attributes:
        channels, handles: those that are not closed by both sides, by number.
        partial: octets of messages that are not whole.
        uncommitted: octets of those that were sent in transactions.
    """

    def __init__(self, terms: ConnectionTerms, authenticator: Authenticator) -> None:
        super().__init__(Role.SERVER, terms)
        self.channels: dict[int, ServerSession] = {}
        self.handles: dict[int, ServerHandle] = {}
        self._login = ServerLogin(authenticator)
        self.partial = self.uncommitted = 0
        self._open_tag = 0
        self.backlog = Backlog(self)
        self._deferred: list[Command] = []  # closes that wait for what is held

    # Opening

    def start(self) -> None:
        if self.phase is not Phase.IDLE:
            raise LocalProtocolError("the engine was started already")
        self.phase = Phase.INITIATION

    def _begun(self) -> bool:
        initiation = self.reader.initiation()
        if initiation is None:
            return False
        if initiation[:1] != INITIATION[:1] or initiation[1] < INITIATION[1]:
            raise Unsupported(f"the peer does not speak AMQP/Fast: it began with {initiation.hex(' ')}")
        # A client that speaks a later version is told ours, and closes if that is not enough.
        self.phase = Phase.LOGIN
        self.write(self._login.offer())
        return True

    def _on_response(self, command: ConnectionResponse, content: bytes) -> None:
        self.expect(Phase.LOGIN, command)
        answer = self._login.receive(command)
        if not isinstance(answer, Success):
            self.write(answer)
            return
        self.identity = answer.identity
        self.emit(Authenticated(self._login.mechanism, self.identity))
        options = to_table(self.terms, named=True)
        if answer.additional is not None:
            options["additional"] = answer.additional
        self.write(
            ConnectionTune(
                frame_max=max(LEAST_FRAME_MAX, self.terms.max_frame_size),
                channel_max=self.terms.channel_max,
                handle_max=MOST_HANDLES,
                heartbeat=self.own_heartbeat,
                options=options,
            )
        )
        self.phase = Phase.TUNE

    def _on_tune(self, command: ConnectionTune, content: bytes) -> None:
        self.expect(Phase.TUNE, command)
        most = max(LEAST_FRAME_MAX, self.terms.max_frame_size)
        if not LEAST_FRAME_MAX <= command.frame_max <= most:
            raise RemoteProtocolError(
                f"a frame-max of {command.frame_max}, where it is {LEAST_FRAME_MAX} to {most}", "amqp:not-allowed"
            )
        if self.own_heartbeat and command.heartbeat > self.own_heartbeat:
            raise RemoteProtocolError(f"a heartbeat of {command.heartbeat} s, above ours", "amqp:not-allowed")
        self.agree(command.frame_max, command.heartbeat)
        self.phase = Phase.OPENING

    def _on_open(self, command: ConnectionOpen, content: bytes) -> None:
        self.expect(Phase.OPENING, command)
        names = read_names(command.options)
        path = command.virtual_path
        self.remote = ConnectionTerms(
            container_id=command.client_name,
            hostname=names.hostname if path in ("", "/") else f"vhost:{path}",
            max_frame_size=self.frame_max,
            channel_max=self.terms.channel_max,
            idle_timeout=self.heartbeat or None,
            offered_capabilities=names.capabilities,
            properties=names.properties,
        )
        self._open_tag = command.confirm_tag
        self.phase = Phase.OPEN
        self.emit(ConnectionOpened())

    def open(self, terms: ConnectionTerms | None = None) -> None:
        if self.opened:
            raise LocalProtocolError("the connection was opened already")
        if self.over:
            return
        if self.phase is not Phase.OPEN:
            raise LocalProtocolError("the client has not asked to open yet")
        self.opened = True
        if self._open_tag:
            self.write(ConnectionReply(confirm_tag=self._open_tag, reply_code=OK, reply_text="OK"))

    # Channels

    def begin(self, terms: SessionTerms | None = None) -> ServerSession:
        raise LocalProtocolError("in AMQP/Fast it is the client who opens channels")

    def sessions(self) -> Iterable[ServerSession]:
        return list(self.channels.values())

    def _on_channel_open(self, command: ChannelOpen, content: bytes) -> None:
        number, most = command.channel_id, self.terms.channel_max or 0xFFFF
        if not 1 <= number <= most or number in self.channels:
            raise RemoteProtocolError(f"channel {number} is in use, or not from 1 to {most}", "amqp:not-allowed")
        session = self.channels[number] = ServerSession(self, command)
        if command.out_of_band:
            session.fault("amqp:not-implemented", "there is no band but the connection")
        else:
            self.emit(SessionBegun(session))

    def _on_channel(self, command: Any, content: bytes) -> None:
        session = self.channels.get(command.channel_id)
        if session is None:
            raise RemoteProtocolError(
                f"{command.title()} for channel {command.channel_id}, which is not open", "amqp:not-allowed"
            )
        if isinstance(command, ChannelClose) and self._defers(command, session.holding):
            return
        session.receive(command)

    def _on_handle_open(self, command: HandleOpen, content: bytes) -> None:
        session, number = self.channels.get(command.channel_id), command.handle_id
        if session is None or number in self.handles or not 1 <= number <= MOST_HANDLES:
            raise RemoteProtocolError(
                f"handle {number} is in use or none, or channel {command.channel_id} is not open", "amqp:not-allowed"
            )
        if not session.closing:
            session.open_handle(command)

    def _on_handle(self, command: Any, content: bytes) -> None:
        handle = self.handles.get(command.handle_id)
        if handle is None:
            if command.handle_id in self._dropped():
                return
            raise RemoteProtocolError(
                f"{command.title()} for handle {command.handle_id}, which is not open", "amqp:not-allowed"
            )
        if isinstance(command, HandleClose) and self._defers(command, handle.holding):
            return
        handle.receive(command, content)

    def _dropped(self) -> set[int]:
        """Handles of channels that this side has closed: what still comes for them is read and dropped."""
        return {number for session in self.channels.values() if session.closing for number in session.dropped}

    # Messages for which there is no credit

    def hold(self, messages: int, octets: int) -> None:
        """Something is held, or is not any more (negative numbers)."""
        self.backlog.add(messages, octets)
        if self._deferred and messages < 0:
            deferred, self._deferred = self._deferred, []
            for command in deferred:
                self.guard(lambda command=command: self.receive(command, b""))  # type: ignore[misc]

    def _owed(self) -> bool:
        return any(session.unacknowledged for session in self.channels.values())

    def tick(self, now: float) -> float | None:
        if self.opened and self.backlog.stands(now, owed=self._owed()):
            self._give_up()
        deadline = super().tick(now)
        return min(deadline or math.inf, now + self.backlog.PATIENCE / 3) if self.opened else deadline

    def _give_up(self) -> None:
        """What the client has sent finds no room, and what would make room may be behind it."""
        held = self.backlog
        reason = (
            f"no room for {held.PATIENCE:g} s for {held.items} messages of {held.octets} octets, which are dropped: "
            "what would make room is perhaps behind them; publish and consume on different connections"
        )
        self.close(Error(Symbol("amqp:resource-limit-exceeded"), reason))

    def _send_close(self, error: Error | None, reply_code: int | None = None) -> None:
        super()._send_close(error, reply_code)
        self.backlog.finish()

    def _defers(self, command: Command, holding: bool) -> bool:
        """Whether a close has to wait for messages that came before it."""
        if holding:
            self._deferred.append(command)
        return holding

    def _receive_close(self, command: ConnectionClose) -> None:
        if not (self.backlog.items and not self.close_sent):
            super()._receive_close(command)
        else:
            self._deferred.append(command)

    _actions: ClassVar[dict[type[Command], Callable[[Any, Any, bytes], None]]] = {
        ConnectionResponse: _on_response,
        ConnectionTune: _on_tune,
        ConnectionOpen: _on_open,
        ChannelOpen: _on_channel_open,
        ChannelAck: _on_channel,
        ChannelCommit: _on_channel,
        ChannelRollback: _on_channel,
        ChannelClose: _on_channel,
        HandleOpen: _on_handle_open,
        HandleSend: _on_handle,
        HandleConsume: _on_handle,
        HandleCancel: _on_handle,
        HandleFlow: _on_handle,
        HandleUnget: _on_handle,
        HandleQuery: _on_handle,
        HandleBrowse: _on_handle,
        HandlePrepare: _on_handle,
        HandleReady: _on_handle,
        HandleClose: _on_handle,
    }


def server(terms: ConnectionTerms, authenticator: Authenticator) -> ServerEngine:
    """A server engine; who may connect, and how, is the authenticator's."""
    return ServerEngine(terms, authenticator)
