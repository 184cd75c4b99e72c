"""A channel: methods in their order, and the content that follows some of them (0-9-1 §4.2.6, §1.5).

A channel has one user, which gets what comes on it: on a client a link, the requests of a session, or commits; on a
server the session.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, Final

from ..._machine import Machine
from ...engine import Dispatcher, Handlers
from ...errors import AmqpError, RemoteProtocolError
from ...messaging import Error
from .._kit.message.limits import NO_ROOM, partial_limit
from .codes import Fault, as_error, code_of, text_of, text_of_fault, unknown_method
from .states import CHANNEL, ChannelState, Step
from .wire.draft import Assembler, Content
from .wire.method_table import Method
from .wire.methods import ChannelClose, ChannelCloseOk, ChannelFlow, ChannelFlowOk
from .wire.rare_methods import UNIMPLEMENTED

if TYPE_CHECKING:
    from .parents import Wire
    from .wire.frames import FrameReader

BASIC = 60


FRAME_WEIGHT: Final = 64
"""Octets that keeping a frame costs besides its own."""


class ChannelUser(Dispatcher, ABC):
    """What a channel is there for.

    Attributes:
        channel: the channel. A user may have one after the other.
        has_runs: whether `receive_run` reads frames that look alike in a quicker way.
        hot: code of a method (octets) -> name of the handler that takes the payload undecoded. The handler refuses
            what the table of methods would refuse.
        largest: the largest message that it takes, octets; None: nothing was said.
        handlers: type of a method -> name of its handler, for all other methods.
    """

    channel: Channel
    has_runs: ClassVar[bool] = False
    hot: ClassVar[dict[bytes, str]] = {}
    largest: int | None = None

    def receive_run(self, reader: FrameReader) -> bool:
        """Read as many frames as possible, from this method on, in a quicker way; return False if it does not apply."""
        return False

    def paused(self, paused: bool) -> None:  # few send content
        """Act on the peer's wish to get no content for a while (`paused`), or to get it again."""

    def announced(self, size: int) -> None:  # few have a limit
        """Check that a body of `size` octets may follow."""

    def before_close(self) -> None:  # few have anything to say
        """Write what has to come before this side's close, for nothing may be written after it."""

    def failed(self, error: RemoteProtocolError) -> None:  # few have anybody to tell
        """Act on a fault of the peer for which this side has closed the channel; `closed` is still to come."""

    @abstractmethod
    def closed(self, error: Error | None) -> None:
        """Act on the end of the channel: by our close, or by the peer's, with its error."""

    @abstractmethod
    def over(self, error: AmqpError | None) -> None:
        """Act on the end of the connection, which ends the channel."""


class Channel(Dispatcher, Machine[ChannelState]):
    """One channel, opened as soon as it is made.

    Args:
        engine: the engine, whose table the channel enters.
        number: the channel's number.
        user: gets what comes on it.

    Attributes:
        handlers: type of a method -> name of the channel's own handler; all others go to the user.
        take: called with the body of the expected content when that is whole; None if no content is expected.
        awaits_header: whether the header of the content is still to come.
        properties_octets: the properties of the last content.
        children: the contents inside of it; the draft 0-9 has such.
    """

    noun = "channel"
    transitions: ClassVar[dict[tuple[ChannelState, Step], ChannelState]] = CHANNEL
    handlers: ClassVar[Handlers] = {ChannelFlow: "receive_flow", ChannelClose: "receive_close"}

    def __init__(self, engine: Wire, number: int, user: ChannelUser) -> None:
        self.state = ChannelState.CLOSED
        self.engine = engine
        self.number = number
        engine.channels[number] = self
        self.user = user
        self.has_runs: bool = user.has_runs
        self.receive_run: Callable[[FrameReader], bool] = user.receive_run
        self.take: Callable[[bytes], None] | None = None
        self.awaits_header: bool = False
        self.properties_octets: bytes = b""
        self._assembler: Assembler | None = None  # of structured content
        self.children: list[Content] = []
        self._left = 0
        self._parts: list[bytes] = []
        self._weight = 0  # of the content that is not whole
        self._hot = {code: getattr(user, name) for code, name in user.hot.items()}

    def write(self, method: Method) -> None:
        self.engine.write_method(self.number, method)

    # Methods

    def receive_method(self, payload: bytes) -> None:
        if self.state is not ChannelState.OPEN:
            self._receive_closing(payload)
            return
        if self.take is not None:
            raise Fault(self.engine.variant.unexpected, "a method in the middle of content")
        hot = self._hot.get(payload[:4])
        if hot is not None:
            hot(payload)
            return
        method = self.engine.variant.methods.decode(payload)
        if method is None:
            raise unknown_method(payload)
        kind = type(method)
        if kind in self.by_type:
            self.by_type[kind](self, method)
        elif kind in self.user.by_type:
            self.user.by_type[kind](self.user, method)
        elif kind in UNIMPLEMENTED:
            raise unknown_method(payload)
        else:
            raise Fault(503, f"{method.name}, which is not expected here", method.code)

    def check_shape(self, payload: bytes) -> None:
        """Check the payload of a method that is taken undecoded against the table of methods.

        Raises:
            DecodeError: the payload is malformed, or octets follow it.
        """
        self.engine.variant.methods.decode(payload)

    def _receive_closing(self, payload: bytes) -> None:
        """Take a method after this side's close. The peer may close, too; all but close and close-ok is left unread."""
        methods = self.engine.variant.methods
        method = methods.decode(payload) if methods.has(payload, ChannelClose, ChannelCloseOk) else None
        if isinstance(method, ChannelClose):
            self.advance(Step.RECEIVE_CLOSE)
            self._answer_close()
        elif isinstance(method, ChannelCloseOk) and self.state is ChannelState.CLOSING:
            self.advance(Step.RECEIVE_CLOSE_OK)
            self.engine.channels.pop(self.number, None)
            self.gone(None)

    def receive_flow(self, method: ChannelFlow) -> None:
        self.user.paused(not method.active)
        self.write(ChannelFlowOk(method.active))

    # Content

    def expect_content(self, take: Callable[[bytes], None]) -> None:
        """Expect content after the method that was just received; give its body to `take` when it is whole."""
        self.take = take
        self.awaits_header = True

    def receive_header(self, payload: bytes) -> None:
        if self._assembler is not None:
            self._assemble(payload, True)
            return
        if not self.awaits_header:
            self._unexpected("a content header")
            return
        if payload[:2] != b"\0\x3c":
            raise Fault(501, f"content of class {int.from_bytes(payload[:2], 'big')} after a method of class 60")
        if payload[2:4] != b"\0\0":
            if not self.engine.variant.structured:
                raise Fault(501, "the weight of a content header is not 0")
            self._assembler = Assembler()
            self.awaits_header = False
            self._assemble(payload, True)
            return
        self.awaits_header = False
        self.properties_octets = payload[12:]
        self._left = size = int.from_bytes(payload[4:12], "big")
        if len(payload) < 14:
            raise Fault(502, "a content header ends early")
        self.user.announced(size)
        if not size:
            self._whole(b"")

    def _assemble(self, payload: bytes, header: bool) -> None:
        """Add a frame to the structured content."""
        assembler = self._assembler
        assert assembler is not None
        if header:
            assembler.header(payload)
            self.user.announced(assembler.octets)
        else:
            assembler.body(payload)
        whole = assembler.whole
        if whole is None:
            self._weigh(payload)
        else:
            self._drop_parts()
            self.properties_octets = whole.properties
            self.children = whole.children
            self.user.announced(len(whole.body))
            self._whole(whole.body)
            self.children = []

    def receive_body(self, payload: bytes) -> None:
        if self.take is None or self.awaits_header:
            self._unexpected("a body frame")
            return
        if self._assembler is not None:
            self._assemble(payload, False)
            return
        left = self._left = self._left - len(payload)
        if left:
            if left < 0:
                raise Fault(501, "a body is larger than its header says")
            self._parts.append(payload)
            self._weigh(payload)
        elif self._parts:
            self._parts.append(payload)
            body = b"".join(self._parts)
            self._drop_parts()
            self._whole(body)
        else:
            self._whole(payload)

    def _weigh(self, payload: bytes) -> None:
        """Count a frame of content that is not whole.

        Raises:
            Fault: all channels of the connection, or all connections, together keep more octets than is allowed.
        """
        weight = len(payload) + FRAME_WEIGHT
        self._weight += weight
        fits = self.engine.count_partial(weight)
        most = partial_limit(self.engine.terms.max_message_size, self.user.largest)
        if self.engine.partial > most:
            raise Fault(311, f"more than {most} octets of incomplete messages", soft=True)
        if not fits:
            raise Fault(311, NO_ROOM, soft=True)

    def _drop_parts(self) -> None:
        """Drop the frames that were kept: the content is whole, or will never be."""
        self.engine.count_partial(-self._weight)
        self._weight = 0
        self._parts, self._assembler = [], None

    def _whole(self, body: bytes) -> None:
        take, self.take = self.take, None
        if take is not None and self.state is ChannelState.OPEN:
            take(body)

    def _unexpected(self, what: str) -> None:
        if self.state is ChannelState.OPEN:
            raise Fault(self.engine.variant.unexpected, f"{what} that no method announced")

    # The end

    def close_channel(self, error: Error | None = None) -> None:
        """Close the channel; `closed` is called when the peer has answered."""
        if self.state is not ChannelState.OPEN:
            return
        code, text = (200, "") if error is None else (code_of(error.condition), text_of(error))
        self.close_with(code, text)

    def close_with(self, code: int, text: str, method: tuple[int, int] = (0, 0)) -> None:
        """Close the channel with a reply code and text, and the method that is to blame if there is one."""
        self.user.before_close()
        self.advance(Step.SEND_CLOSE)
        self.take, self.awaits_header = None, False
        self._drop_parts()
        self.write(ChannelClose(code, text, *method))

    def fail(self, fault: Fault) -> None:
        """Close the channel, because the peer broke a rule; the connection goes on."""
        if self.state is ChannelState.OPEN:
            self.close_with(fault.code, text_of_fault(fault), fault.method)
            self.user.failed(fault.plain())

    def receive_close(self, method: ChannelClose) -> None:
        self._drop_parts()
        self._answer_close()
        self.advance(Step.RECEIVE_CLOSE)
        self.engine.channels.pop(self.number, None)
        normal = method.reply_code in (0, 200)
        text = method.reply_text
        error = None if normal else as_error(method.reply_code, text, method.class_id, method.method_id)
        self.gone(error)

    def _answer_close(self) -> None:
        """Answer the peer's close at once, even where a subclass keeps back other methods."""
        self.engine.write_method(self.number, ChannelCloseOk())

    def gone(self, error: Error | None) -> None:
        """Tell the user that the channel is closed."""
        self.user.closed(error)
