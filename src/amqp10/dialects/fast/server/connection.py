"""The server's end of a connection: login, limits, opening; channels and handles as the client opens them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar, Final

from ....engine import Authenticated, ConnectionOpened, ConnectionTerms, Handlers, Role, SessionBegun
from ....errors import LocalProtocolError, RemoteProtocolError, Unsupported
from ....messaging import Error
from ....sasl import Success
from ....types import Symbol
from ..._kit.backlog import Backlog
from ..codes import OK
from ..engine import FastEngine, OpenSession
from ..login import ServerLogin
from ..states import ConnectionState, Step
from ..wire.command_table import Command
from ..wire.commands import (
    ChannelAck,
    ChannelClose,
    ChannelCommit,
    ChannelOpen,
    ChannelRollback,
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
from ..wire.frames import INITIATION, MIN_FRAME_MAX
from ..wire.options import read_names, to_table
from .session import ServerSession

if TYPE_CHECKING:
    from ....engine import SessionTerms
    from ....sasl import Authenticator
    from .parents import EngineChannel, EngineHandle

MAX_HANDLES: Final = 4096
"""The highest handle number that a client may choose."""


class ServerEngine(FastEngine):
    """See `Engine`."""

    identity: str | None
    remote: ConnectionTerms | None
    handlers: ClassVar[Handlers] = {
        ConnectionResponse: "_receive_response",
        ConnectionTune: "_receive_tune",
        ConnectionOpen: "_receive_open",
        ChannelOpen: "_receive_channel_open",
        ChannelAck: "_receive_channel",
        ChannelCommit: "_receive_channel",
        ChannelRollback: "_receive_channel",
        ChannelClose: "_receive_channel",
        HandleOpen: "_receive_handle_open",
        HandleSend: "_receive_handle",
        HandleConsume: "_receive_handle",
        HandleCancel: "_receive_handle",
        HandleFlow: "_receive_handle",
        HandleUnget: "_receive_handle",
        HandleQuery: "_receive_handle",
        HandleBrowse: "_receive_handle",
        HandlePrepare: "_receive_handle",
        HandleReady: "_receive_handle",
        HandleClose: "_receive_handle",
    }

    def __init__(self, terms: ConnectionTerms, authenticator: Authenticator) -> None:
        super().__init__(Role.SERVER, terms)
        self.channels: dict[int, EngineChannel] = {}
        self.handles: dict[int, EngineHandle] = {}
        self._login = ServerLogin(authenticator)
        self.uncommitted: int = 0
        self._open_tag = 0
        self.backlog: Backlog = Backlog(self)
        self._deferred: list[Command] = []  # closes that wait for the messages held before them

    # Opening

    def start(self) -> None:
        if self.state is not ConnectionState.IDLE:
            raise LocalProtocolError("the engine was started already")
        self.advance(Step.START)

    def _begun(self) -> bool:
        initiation = self.reader.initiation()
        if initiation is None:
            return False
        if initiation[:1] != INITIATION[:1] or initiation[1] < INITIATION[1]:
            raise Unsupported(f"the peer does not speak AMQP/Fast: it began with {initiation.hex(' ')}")
        # A client with a later version learns ours from the answer, and closes if it cannot speak that.
        self.advance(Step.RECEIVE_INITIATION)
        self.write(self._login.offer())
        return True

    def _receive_response(self, command: ConnectionResponse, content: bytes) -> None:
        self.expect(ConnectionState.LOGIN, command)
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
                frame_max=max(MIN_FRAME_MAX, self.terms.max_frame_size),
                channel_max=self.terms.channel_max,
                handle_max=MAX_HANDLES,
                heartbeat=self.own_heartbeat,
                options=options,
            )
        )
        self.advance(Step.SEND_TUNE)

    def _receive_tune(self, command: ConnectionTune, content: bytes) -> None:
        self.expect(ConnectionState.TUNE, command)
        most = max(MIN_FRAME_MAX, self.terms.max_frame_size)
        if not MIN_FRAME_MAX <= command.frame_max <= most:
            raise RemoteProtocolError(
                f"frame-max must be {MIN_FRAME_MAX} to {most}, not {command.frame_max}", "amqp:not-allowed"
            )
        if self.own_heartbeat and command.heartbeat > self.own_heartbeat:
            raise RemoteProtocolError(
                f"a heartbeat of {command.heartbeat} s exceeds the one offered", "amqp:not-allowed"
            )
        for name, chosen, offered in (
            ("channel-max", command.channel_max, self.terms.channel_max or 0xFFFF),
            ("handle-max", command.handle_max, MAX_HANDLES),
        ):
            if chosen > offered:
                raise RemoteProtocolError(f"{name} must be {offered} or less, not {chosen}", "amqp:not-allowed")
        self.agree(command.frame_max, command.heartbeat)
        self.advance(Step.RECEIVE_TUNE)

    def _receive_open(self, command: ConnectionOpen, content: bytes) -> None:
        self.expect(ConnectionState.OPENING, command)
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
        self.advance(Step.RECEIVE_OPEN)
        self.emit(ConnectionOpened())
        self.open_if_asked()

    def open_if_asked(self) -> None:
        if not self._open_asked or self.state is not ConnectionState.OPEN_RCVD:
            return
        self.advance(Step.SEND_REPLY)
        if self._open_tag:
            self.write(ConnectionReply(confirm_tag=self._open_tag, reply_code=OK, reply_text="OK"))

    def refuse(self, error: Error, terms: ConnectionTerms | None = None) -> None:
        """See `Engine.refuse`: in place of connection-reply."""
        if not (self.over or self.close_sent):
            self._send_close(error)

    # Channels

    def begin(self, terms: SessionTerms | None = None) -> ServerSession:
        raise LocalProtocolError("only the client begins sessions in AMQP/Fast")

    def sessions(self) -> Iterable[OpenSession]:
        return list(self.channels.values())

    def _receive_channel_open(self, command: ChannelOpen, content: bytes) -> None:
        number, most = command.channel_id, self.terms.channel_max or 0xFFFF
        if not 1 <= number <= most:
            raise RemoteProtocolError(f"channel {number}, where channels are 1 to {most}", "amqp:not-allowed")
        if number in self.channels:
            raise RemoteProtocolError(f"channel {number} is open already", "amqp:not-allowed")
        session = self.channels[number] = ServerSession(self, command)
        if command.out_of_band:
            session.fault("amqp:not-implemented", "there is no band but the connection")
        else:
            self.emit(SessionBegun(session))

    def _receive_channel(self, command: Any, content: bytes) -> None:
        session = self.channels.get(command.channel_id)
        if session is None:
            raise RemoteProtocolError(
                f"{command.title()} for channel {command.channel_id}, which is not open", "amqp:not-allowed"
            )
        if isinstance(command, ChannelClose) and self._defers(command, session.holding):
            return
        session.receive(command)

    def _receive_handle_open(self, command: HandleOpen, content: bytes) -> None:
        session, number = self.channels.get(command.channel_id), command.handle_id
        if session is None:
            raise RemoteProtocolError(
                f"handle-open for channel {command.channel_id}, which is not open", "amqp:not-allowed"
            )
        if not 1 <= number <= MAX_HANDLES:
            raise RemoteProtocolError(f"handle {number}, where handles are 1 to {MAX_HANDLES}", "amqp:not-allowed")
        if number in self.handles:
            raise RemoteProtocolError(f"handle {number} is open already", "amqp:not-allowed")
        if not session.closing:
            session.open_handle(command)

    def _receive_handle(self, command: Any, content: bytes) -> None:
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
        """Return the handles of channels that this side has closed; commands that still arrive for them are dropped."""
        return {number for session in self.channels.values() if session.closing for number in session.dropped}

    # Messages for which there is no credit

    def hold(self, messages: int, octets: int) -> None:
        """Count messages and octets that wait for credit; negative numbers for those that no longer wait."""
        self.backlog.add(messages, octets)
        if self._deferred and messages < 0:
            deferred, self._deferred = self._deferred, []
            for command in deferred:
                self.guard(lambda command=command: self.receive(command, b""))  # type: ignore[misc]

    def count_uncommitted(self, change: int) -> bool:
        """Count `change` more octets of messages in uncommitted transactions; return whether there is room for them."""
        self.uncommitted += change
        return self.count_partial(change)

    def read_ahead(self, *, far: bool) -> None:
        self.backlog.read_ahead(far=far)

    def _owed(self) -> bool:
        return any(session.unacknowledged for session in self.channels.values())

    def tick(self, now: float) -> float | None:
        if self.opened and self.backlog.is_stuck(now, owed=self._owed()):
            self._give_up()
        deadline = super().tick(now)
        return min(deadline or math.inf, now + self.backlog.STUCK_AFTER / 3) if self.opened else deadline

    def _give_up(self) -> None:
        """Close the connection: held messages find no room, and commands that would make room may be behind them."""
        backlog = self.backlog
        reason = (
            f"no credit for {backlog.STUCK_AFTER:g} s for "
            f"{backlog.items} messages of {backlog.octets} octets, which are dropped: "
            "what would free credit may be behind them; publish and consume on different connections"
        )
        self.close(Error(Symbol("amqp:resource-limit-exceeded"), reason))

    def _send_close(self, error: Error | None, reply_code: int | None = None) -> None:
        super()._send_close(error, reply_code)
        self.backlog.finish()

    def _defers(self, command: Command, holding: bool) -> bool:
        """Keep a close for later if `holding`, because messages that came before it still wait; return `holding`."""
        if holding:
            self._deferred.append(command)
        return holding

    def _receive_close(self, command: ConnectionClose, content: bytes) -> None:
        if not (self.backlog.items and not self.close_sent):
            super()._receive_close(command, content)
        else:
            self._deferred.append(command)


def server_engine(terms: ConnectionTerms, authenticator: Authenticator) -> ServerEngine:
    """Return a server engine; the authenticator decides who may connect, and by which mechanisms."""
    return ServerEngine(terms, authenticator)
