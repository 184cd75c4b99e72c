"""The client's end of a connection: login, limits, opening; and what comes for channels and handles."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final

from ....engine import (
    OTHER_PROTOCOLS,
    Authenticated,
    ConnectionOpened,
    ConnectionTerms,
    Handlers,
    Role,
    SenderLink,
    foreign_header,
)
from ....errors import (
    AmqpError,
    AuthenticationFailed,
    LocalProtocolError,
    RemoteProtocolError,
    Unsupported,
)
from ..._kit.coordinators import OpenTransactions
from ..codes import REFUSED
from ..engine import FastEngine, is_done
from ..login import ClientLogin
from ..states import ConnectionState, Step
from ..wire.commands import (
    ChannelClose,
    ChannelReply,
    ConnectionChallenge,
    ConnectionOpen,
    ConnectionReply,
    ConnectionTune,
    HandleClose,
    HandleCreated,
    HandleIndex,
    HandleNotify,
    HandlePrepare,
    HandleReady,
    HandleReply,
)
from ..wire.frames import INITIATION, MIN_FRAME_MAX
from ..wire.options import read_names, to_table
from ..wire.values import MAX_SHORTSTR
from .send_window import SendWindow
from .session import ClientSession

if TYPE_CHECKING:
    from ....engine import Session, SessionTerms
    from ....messaging import Error
    from ....sasl import Mechanism
    from .parents import EngineChannel, EngineHandle, OpenTransaction

OPEN_TAG: Final = 1
MAX_UNREAD: Final = 1 << 22
"""Octets of streamed bodies that may wait to be read by the owner; beyond that the engine stops reading."""


class ClientEngine(FastEngine):
    """See `Engine`."""

    remote: ConnectionTerms | None
    reading: bool
    handlers: ClassVar[Handlers] = {
        ConnectionChallenge: "_receive_challenge",
        ConnectionTune: "_receive_tune",
        ConnectionReply: "_receive_reply",
        ChannelReply: "_receive_channel",
        ChannelClose: "_receive_channel",
        HandleCreated: "_receive_handle",
        HandleNotify: "_receive_handle",
        HandleIndex: "_receive_handle",
        HandlePrepare: "_receive_handle",
        HandleReady: "_receive_handle",
        HandleReply: "_receive_handle",
        HandleClose: "_receive_handle",
    }

    def __init__(self, terms: ConnectionTerms, mechanisms: tuple[Mechanism, ...] | None, secure: bool) -> None:
        super().__init__(Role.CLIENT, terms)
        self.channels: dict[int, EngineChannel] = {}
        self.handles: dict[int, EngineHandle] = {}
        self.transactions: OpenTransactions[OpenTransaction] = OpenTransactions("connection")
        self.restart_names: set[str] = set()
        self.send_window: SendWindow = SendWindow(self._report_credit)
        self.handle_max: int = 0xFFFF
        self._channel_max = 0xFFFF
        self._login = ClientLogin(mechanisms, terms.hostname, secure)
        self._sessions: dict[ClientSession, None] = {}
        self._unread = 0
        self._server: ConnectionTune | None = None

    # Opening

    def start(self) -> None:
        if self.state is not ConnectionState.IDLE:
            raise LocalProtocolError("the engine was started already")
        self.advance(Step.SEND_INITIATION)
        self.write_octets(INITIATION)

    def _begun(self) -> bool:
        return True

    def _read(self) -> None:
        front = self.reader.front(8) if self.state is ConnectionState.LOGIN else b""
        # Read as the size of a command, each of these is above the limit before frame-max is agreed on.
        if front.startswith(OTHER_PROTOCOLS):
            raise foreign_header(front)
        if front[:2] != b"AM":
            super()._read()
        elif len(front) == 8:
            raise foreign_header(front)

    def open_if_asked(self) -> None:
        if self._open_asked and self._server is not None:
            self._send_open(self._server)

    def _receive_challenge(self, command: ConnectionChallenge, content: bytes) -> None:
        self.expect(ConnectionState.LOGIN, command)
        if command.version != 1:
            raise Unsupported(f"the server speaks version {command.version} of AMQP/Fast, which this client does not")
        name = self.terms.container_id
        if len(name.encode()) > MAX_SHORTSTR or "\0" in name:
            raise LocalProtocolError(
                f"container_id must have at most {MAX_SHORTSTR} octets, and no NUL: {name[:20]!r}..."
            )
        self.write(self._login.respond(command))

    def _receive_tune(self, command: ConnectionTune, content: bytes) -> None:
        self.expect(ConnectionState.LOGIN, command)
        self._login.finish(command.options)
        if command.frame_max and command.frame_max < MIN_FRAME_MAX:
            raise RemoteProtocolError(f"frame-max must be {MIN_FRAME_MAX} or more, not {command.frame_max}")
        self.emit(Authenticated(self._login.mechanism, None))
        self.advance(Step.RECEIVE_TUNE)
        self._server = command
        self.open_if_asked()

    def _send_open(self, server: ConnectionTune) -> None:
        ours = self.terms
        frame_max = min(server.frame_max or 0xFFFF_FFFF, max(MIN_FRAME_MAX, ours.max_frame_size))
        heartbeat = min(server.heartbeat, self.own_heartbeat)
        self._channel_max = min(server.channel_max or 0xFFFF, ours.channel_max or 0xFFFF)
        self.handle_max = server.handle_max or 0xFFFF
        self.write(
            ConnectionTune(
                frame_max=frame_max, channel_max=self._channel_max, handle_max=server.handle_max, heartbeat=heartbeat
            )
        )
        self.agree(frame_max, heartbeat)
        self.write(
            ConnectionOpen(
                confirm_tag=OPEN_TAG,
                virtual_path=ours.virtual_host or "/",
                client_name=ours.container_id,
                options=to_table(ours, named=False),
            )
        )
        self.advance(Step.SEND_OPEN)

    def _receive_reply(self, command: ConnectionReply, content: bytes) -> None:
        server = self._server
        if self.state is not ConnectionState.OPEN_SENT or server is None or command.confirm_tag != OPEN_TAG:
            raise RemoteProtocolError("an unexpected connection-reply", "amqp:illegal-state")
        if not is_done(command.reply_code):
            self.finish(self._cause(command.reply_code, command.reply_text))
            return
        names = read_names(server.options)
        self.remote = ConnectionTerms(
            container_id=names.container_id,
            max_frame_size=self.frame_max,
            channel_max=self._channel_max,
            idle_timeout=self.heartbeat or None,
            offered_capabilities=names.capabilities,
            properties=names.properties,
        )
        self.advance(Step.RECEIVE_REPLY)
        self.emit(ConnectionOpened())

    def _cause(self, code: int, text: str) -> AmqpError | None:
        if self.state is ConnectionState.LOGIN:
            reason = f"the server refused the credentials ({self._login.mechanism})"
            if code == REFUSED:
                return AuthenticationFailed(f"{reason}: {text}" if text else reason, 1)
        return super()._cause(code, text)

    # Sessions

    def begin(self, terms: SessionTerms | None = None) -> ClientSession:
        if not self.opened:
            raise LocalProtocolError("no session can begin: the connection is not open")
        session = ClientSession(self)
        session.begin(terms)
        self._sessions[session] = None
        return session

    def forget(self, session: Session) -> None:
        """Forget a session that is over."""
        if isinstance(session, ClientSession):
            self._sessions.pop(session, None)

    def sessions(self) -> Iterable[ClientSession]:
        return list(self._sessions)

    def free_channel(self) -> int:
        """Return a free number for a channel.

        Raises:
            LocalProtocolError: all numbers that the server allows are in use.
        """
        return _free(self.channels, self._channel_max, "channels")

    def free_handle(self) -> int:
        """Return a free number for a handle.

        Raises:
            LocalProtocolError: all numbers that the server allows are in use.
        """
        return _free(self.handles, self.handle_max, "handles")

    def close(self, error: Error | None = None) -> None:
        self.flush()
        super().close(error)

    def _report_credit(self) -> None:
        """Tell all attached senders that there is room for more messages."""
        for session in self._sessions:
            for link in session.links:
                if isinstance(link, SenderLink) and link.attached:
                    self.report_credit(link)

    def unread(self, octets: int) -> None:
        """Count octets of streamed bodies that wait to be read by the owner; stop reading when there are too many."""
        self._unread += octets
        self.reading = self._unread < MAX_UNREAD

    # What comes

    def _receive_channel(self, command: Any, content: bytes) -> None:
        channel = self.channels.get(command.channel_id)
        if channel is None:
            raise RemoteProtocolError(
                f"{command.title()} for channel {command.channel_id}, which is not open", "amqp:not-allowed"
            )
        channel.receive(command)

    def _receive_handle(self, command: Any, content: bytes) -> None:
        handle = self.handles.get(command.handle_id)
        if handle is None:
            raise RemoteProtocolError(
                f"{command.title()} for handle {command.handle_id}, which is not open", "amqp:not-allowed"
            )
        handle.receive(command, content)


def _free(taken: Mapping[int, object], most: int, what: str) -> int:
    for number in range(1, len(taken) + 2):
        if number not in taken and number <= most:
            return number
    raise LocalProtocolError(
        f"the server allows {most} {what}, and all are in use: close a link, or open another connection"
    )


def client_engine(terms: ConnectionTerms, mechanisms: tuple[Mechanism, ...] | None, secure: bool) -> ClientEngine:
    """Return a client engine.

    Args:
        mechanisms: the logins that the credentials allow; None for an anonymous login.
        secure: secrets may cross the transport as they are.
    """
    return ClientEngine(terms, mechanisms, secure)
