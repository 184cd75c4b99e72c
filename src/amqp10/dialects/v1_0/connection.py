"""The connection endpoint: open, close, channels, and which session a frame belongs to (§2.4, §2.7.1, §2.7.9)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar

from ..._machine import Machine
from ...engine import ConnectionOpened, ConnectionTerms, SessionBegun, SessionTerms
from ...errors import AmqpError, ConnectionClosed, LocalProtocolError, RemoteProtocolError
from .._kit.causes import as_exception, end_cause
from .session import SessionEndpoint
from .states import CONNECTION, TRANSPORT_LOST, ConnectionState, Step
from .wire.performatives import Begin, Close, Open

if TYPE_CHECKING:
    from ...messaging import Error
    from ...messaging.payloads import SplitPayload
    from ...types import Composite
    from .parents import EngineCore, LinksByName
    from .wire.frames import FrameReader
    from .wire.transfer import TransferLayout

_OWN_FRAMES = frozenset({Open, Close})
# Our open is out and our close is not: frames, heartbeats among them, may be sent.
_SENDING = frozenset(
    {ConnectionState.OPEN_PIPE, ConnectionState.OPEN_SENT, ConnectionState.OPENED, ConnectionState.CLOSE_RCVD}
)
_CLOSE_SENT = frozenset(
    {
        ConnectionState.OC_PIPE,
        ConnectionState.CLOSE_PIPE,
        ConnectionState.CLOSE_SENT,
        ConnectionState.DISCARDING,
        ConnectionState.END,
    }
)
# Our open may still be sent.
_UNOPENED = frozenset(
    {ConnectionState.HDR_RCVD, ConnectionState.HDR_SENT, ConnectionState.HDR_EXCH, ConnectionState.OPEN_RCVD}
)


class ConnectionEndpoint(Machine[ConnectionState]):
    """State, channels and sessions of one connection; it writes frames and emits events through its engine.

    Attributes:
        close_sent: our close is out, or will never be.
        heartbeats: an empty frame may be sent now (§2.4.5).
        links_by_name: the links of all sessions that the peer has attached, and that were not stolen from it.
    """

    noun = "connection"
    transitions: ClassVar[Mapping[tuple[Any, Any], Any]] = CONNECTION | TRANSPORT_LOST

    def __init__(self, engine: EngineCore) -> None:
        self.engine: EngineCore = engine
        self.state = ConnectionState.START
        self.close_sent: bool = False
        self.heartbeats: bool = False
        self._by_local_channel: dict[int, SessionEndpoint] = {}
        self._by_remote_channel: dict[int, SessionEndpoint] = {}
        self._next_channel = 0
        self.links_by_name: LinksByName = {}

    def entered(self, state: ConnectionState) -> None:
        self.close_sent = state in _CLOSE_SENT
        self.heartbeats = state in _SENDING
        self.engine.opened = state is ConnectionState.OPENED

    # Opening

    def send_open(self, terms: ConnectionTerms) -> None:
        self.advance(Step.SEND_OPEN)
        idle = terms.idle_timeout
        self.engine.write_frame(
            0,
            Open(
                container_id=terms.container_id,
                hostname=terms.hostname,
                max_frame_size=terms.max_frame_size,
                channel_max=terms.channel_max,
                # "advertise half of what we enforce": the peer may be a whole interval late (§2.4.5).
                idle_time_out=max(1, int(idle * 500)) if idle else None,
                offered_capabilities=terms.offered_capabilities,
                desired_capabilities=terms.desired_capabilities,
                properties=dict(terms.properties) or None,
            ),
        )
        self.engine.write_delayed()

    def _receive_open(self, frame: Open) -> None:
        self.advance(Step.RECEIVE_OPEN)
        idle = frame.idle_time_out
        self.engine.remote = ConnectionTerms(
            container_id=frame.container_id,
            hostname=frame.hostname,
            # Every peer takes 512 (§2.8.19). A broker that says 0 is about to refuse us: its close says why, not this.
            max_frame_size=max(512, frame.max_frame_size) - self.engine.spare,
            channel_max=frame.channel_max,
            idle_timeout=idle / 1000 if idle else None,
            offered_capabilities=frame.offered_capabilities,
            desired_capabilities=frame.desired_capabilities,
            properties=frame.properties or {},
        )
        self.engine.take_large_frames()
        self.engine.emit(ConnectionOpened())

    # Sessions

    def begin(self, terms: SessionTerms | None = None) -> SessionEndpoint:
        if self.state not in _SENDING or self.state is ConnectionState.CLOSE_RCVD:
            raise LocalProtocolError(f"no session can begin in connection state {self.state.name}")
        self._check_channels(LocalProtocolError)
        session = SessionEndpoint(self, self._free_channel())
        session.begin(terms)
        return session

    def answer_channel(self, session: SessionEndpoint) -> None:
        session.channel = self._free_channel()

    def map_local(self, session: SessionEndpoint) -> None:
        self._by_local_channel[session.channel] = session

    def _check_channels(self, error: type[AmqpError]) -> None:
        """Raise `error` if there is no channel for one more session, counting unanswered ones of the peer."""
        unanswered = sum(session.channel < 0 for session in self._by_remote_channel.values())
        if len(self._by_local_channel) + unanswered > self._channel_max:
            raise error(f"the peer allows {self._channel_max + 1} sessions on a connection, and all are in use")

    @property
    def _channel_max(self) -> int:
        # Before the peer's open is received, only channel 0 is certainly allowed (§2.4.1).
        return self.engine.remote.channel_max if self.engine.remote is not None else 0

    def _free_channel(self) -> int:
        # Channels take turns: RabbitMQ 4.0 and 4.1 lose input on a channel right after the session there has ended
        # (https://github.com/rabbitmq/rabbitmq-server/pull/14317).
        numbers, start = range(self._channel_max + 1), self._next_channel
        channel = next(each for each in chain(numbers[start:], numbers[:start]) if each not in self._by_local_channel)
        self._next_channel = channel + 1
        return channel

    def sessions(self) -> list[SessionEndpoint]:
        """Return every session that one side has begun, unless both have ended it."""
        return list(
            {id(s): s for table in (self._by_local_channel, self._by_remote_channel) for s in table.values()}.values()
        )

    def unmap(self, session: SessionEndpoint) -> None:
        if self._by_local_channel.get(session.channel) is session:
            del self._by_local_channel[session.channel]
        for channel, other in list(self._by_remote_channel.items()):
            if other is session:
                del self._by_remote_channel[channel]

    def _receive_begin(self, channel: int, frame: Begin) -> None:
        if channel in self._by_remote_channel:
            raise RemoteProtocolError(f"a second begin on channel {channel}", "amqp:illegal-state")
        if frame.remote_channel is None:
            self._check_channels(RemoteProtocolError)  # it could not be answered, not even ended
            session = SessionEndpoint(self, -1)
        else:
            found = self._by_local_channel.get(frame.remote_channel)
            if found is None or found.remote is not None:
                raise RemoteProtocolError(
                    f"the peer answers a begin on channel {frame.remote_channel} that this side did not send",
                    "amqp:invalid-field",
                )
            session = found
        self._by_remote_channel[channel] = session
        session.remote_channel = channel
        session.receive_begin(frame)
        self.engine.emit(SessionBegun(session))

    # Frames in

    def check_channel(self, channel: int) -> None:
        """Check that a channel is one that we take (§2.7.1).

        Raises:
            RemoteProtocolError: it is above our channel-max.
        """
        if channel > self.engine.terms.channel_max:
            raise RemoteProtocolError(f"channel {channel} is above our channel-max {self.engine.terms.channel_max}")

    def receive(self, channel: int, frame: Composite, payload: bytes | SplitPayload) -> None:
        """Receive one frame by the table of §2.4: open and close here, the rest is for its session."""
        session = self._by_remote_channel.get(channel)
        if session is not None and self.state is ConnectionState.OPENED and type(frame) not in _OWN_FRAMES:
            session.receive(frame, payload)
        elif self.state is ConnectionState.DISCARDING and type(frame) is not Close:
            pass  # §2.4.6: after a close with an error, everything up to the peer's close is dropped
        else:
            self._receive_rare(channel, session, frame, payload)

    def receive_alike(self, channel: int, reader: FrameReader, layout: TransferLayout) -> None:
        """Receive the transfers that come next and look like the one before, if each is just a message."""
        session = self._by_remote_channel.get(channel)
        most = 0 if session is None or self.state is not ConnectionState.OPENED else session.room_for(layout)
        if session is None or not most:
            return
        run = reader.run(channel, layout, most)
        if not run or session.receive_alike(layout, run):
            return
        # What the session does not take as a matter of course is received like any other frame.
        for number, tag, payload in run:
            layout.transfer.delivery_id, layout.transfer.delivery_tag = number, tag
            self.receive(channel, layout.transfer, payload)
            if self.engine.over:
                return

    def receive_by_turns(self, channel: int, reader: FrameReader) -> None:
        """Receive the transfers that come next if each is just a message, on whatever link of this session."""
        session = self._by_remote_channel.get(channel)
        most = 0 if session is None or self.state is not ConnectionState.OPENED else session.room_for_any
        if session is None or not most:
            return
        found = reader.by_turns(channel, most)
        taken = session.receive_by_turns(found) if found else 0
        for layout, number, tag, payload in found[taken:]:
            layout.transfer.delivery_id, layout.transfer.delivery_tag = number, tag
            self.receive(channel, layout.transfer, payload)

    def _receive_rare(
        self, channel: int, session: SessionEndpoint | None, frame: Composite, payload: bytes | SplitPayload
    ) -> None:
        self.check_channel(channel)
        if type(frame) is Open:
            if channel:
                raise RemoteProtocolError(
                    f"the peer sent open on channel {channel}, although it belongs on channel 0", "amqp:not-allowed"
                )
            self._receive_open(frame)
        elif type(frame) is Close:
            self._receive_close(frame)
        elif self.engine.remote is None or self.state is ConnectionState.CLOSE_RCVD:
            raise RemoteProtocolError(
                f"the peer sent {type(frame).__name__.lower()} in connection state {self.state.name}",
                "amqp:illegal-state",
            )
        elif type(frame) is Begin and self.state is not ConnectionState.CLOSE_SENT:
            self._receive_begin(channel, frame)
        elif session is not None:
            session.receive(frame, payload)
        elif self.state is not ConnectionState.CLOSE_SENT:
            raise RemoteProtocolError(
                f"the peer sent {type(frame).__name__.lower()} on channel {channel}, which has no session",
                "amqp:not-allowed",
            )

    # Closing

    def send_close(self, error: Error | None) -> None:
        for session in self.sessions():
            session.stop_writing()
        with_error = error is not None and self.may(Step.SEND_CLOSE_WITH_ERROR)
        self.advance(Step.SEND_CLOSE_WITH_ERROR if with_error else Step.SEND_CLOSE)
        self.engine.write_frame(0, Close(error=error))

    def _receive_close(self, frame: Close) -> None:
        if frame.error is not None and self.engine.remote is None:
            # Out of order, yet the reason in it is worth more than that it is.
            self.engine.finish(as_exception(ConnectionClosed, frame.error))
            return
        if self.state is ConnectionState.OPEN_RCVD:  # open and close came together (§2.4.6 CLOSE PIPE)
            self.send_open(self.engine.terms)
        self.advance(Step.RECEIVE_CLOSE)
        cause = end_cause(ConnectionClosed, frame.error, asked=self.state is not ConnectionState.CLOSE_RCVD)
        if self.state is ConnectionState.CLOSE_RCVD:
            self.send_close(None)
        self.engine.finish(cause)

    def close_after_fault(self, error: Error) -> None:
        """Tell the peer why, if the state allows a close; open first where it must come first (§2.4.3)."""
        if self.close_sent or self.state is ConnectionState.START:
            return
        try:
            if self.state in _UNOPENED:
                self.send_open(self.engine.terms)
            self.send_close(error)
        except LocalProtocolError:
            pass  # the state has no close left; the end of the transport says the rest

    def drop_all(self, error: AmqpError | None) -> None:
        """End all sessions and links with the connection's cause."""
        for session in self.sessions():
            session.over(error)
        self._by_local_channel.clear()
        self._by_remote_channel.clear()
        self.advance(Step.LOSE_TRANSPORT)
