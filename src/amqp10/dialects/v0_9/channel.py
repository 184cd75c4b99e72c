"""A channel: methods in their order, and the content that follows some of them (0-9-1 §4.2.6, §1.5).

What uses a channel is a subclass: on a client each link has one of its own, and a session one for its requests; on a
server it is the session.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, Final

from ...errors import AmqpError, RemoteProtocolError
from ...messaging import Error
from .._kit.machine import Machine
from .._kit.partial import most_in_part
from .codes import Fault, as_error, code_of, text_of, text_of_fault, unknown_method
from .states import CHANNEL, ChannelState, Step
from .wire.draft import Assembler, Content
from .wire.method_table import Method
from .wire.methods import ChannelClose, ChannelCloseOk, ChannelFlow, ChannelFlowOk
from .wire.rare_methods import UNIMPLEMENTED

if TYPE_CHECKING:
    from .owners import Wire
    from .wire.frames import FrameReader

BASIC = 60


FRAME_WEIGHT: Final = 64
"""Octets that keeping a frame costs besides its own."""


class Channel(Machine[ChannelState], ABC):
    """The base of all channels.

    Attributes:
        number: the channel's number.
        has_runs: whether `receive_run` reads frames that look alike in a quicker way.
        hot: code of a method (octets) -> name of the handler that takes the payload undecoded. The handler refuses
            what the table of methods would refuse.
        handlers: type of a method -> name of the handler, for all other methods.
    """

    noun = "channel"
    transitions = CHANNEL
    state = ChannelState.CLOSED
    has_runs: ClassVar[bool] = False
    hot: ClassVar[dict[bytes, str]] = {}
    handlers: ClassVar[dict[type[Method], str]] = {ChannelFlow: "receive_flow", ChannelClose: "receive_close"}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        bases = [vars(base).get("handlers", {}) for base in reversed(cls.__mro__)]
        cls.handlers = {kind: name for handlers in bases for kind, name in handlers.items()}

    def open_channel(self, engine: Wire, number: int) -> None:
        """Enter the channel into the engine's table."""
        self.advance(Step.OPEN)
        self.engine = engine
        self.number = number
        engine.channels[number] = self
        self._content: Callable[[bytes], None] | None = None  # called with the body when it is whole
        self._awaits_header = False
        self.properties_octets = b""
        self._assembler: Assembler | None = None  # of structured content
        self.children: list[Content] = []
        self._left = 0
        self._parts: list[bytes] = []
        self._weight = 0  # of the content that is not whole
        self._hot = {code: getattr(self, name) for code, name in self.hot.items()}

    def write(self, method: Method) -> None:
        self.engine.write_method(self.number, method)

    # Methods

    def receive_method(self, payload: bytes) -> None:
        if self.state is not ChannelState.OPEN:
            self._receive_closing(payload)
            return
        if self._content is not None:
            raise Fault(self.engine.variant.unexpected, "a method in the middle of content")
        hot = self._hot.get(payload[:4])
        if hot is not None:
            hot(payload)
            return
        method = self.engine.variant.methods.decode(payload)
        if method is None:
            raise unknown_method(payload)
        name = self.handlers.get(type(method))
        if name is None:
            if type(method) in UNIMPLEMENTED:
                raise unknown_method(payload)
            raise Fault(503, f"{method.name}, which is not expected here", method.code)
        getattr(self, name)(method)

    def receive_run(self, reader: FrameReader) -> bool:
        """Read as many frames as possible, from this method on, in a quicker way; return False if it does not apply."""
        return False

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
            self._gone()

    def receive_flow(self, method: ChannelFlow) -> None:
        self.paused(not method.active)
        self.write(ChannelFlowOk(method.active))

    def paused(self, paused: bool) -> None:  # few send content
        """Act on the peer's wish to get no content for a while (`paused`), or to get it again."""

    # Content

    def expect_content(self, take: Callable[[bytes], None]) -> None:
        """Expect content after the method that was just received; give its body to `take` when it is whole."""
        self._content = take
        self._awaits_header = True

    def receive_header(self, payload: bytes) -> None:
        if self._assembler is not None:
            self._assemble(payload, True)
            return
        if not self._awaits_header:
            self._unexpected("a content header")
            return
        if payload[:2] != b"\0\x3c":
            raise Fault(501, f"content of the class {int.from_bytes(payload[:2], 'big')} after a method of class 60")
        if payload[2:4] != b"\0\0":
            if not self.engine.variant.structured:
                raise Fault(501, "the weight of a content header is not 0")
            self._assembler = Assembler()
            self._awaits_header = False
            self._assemble(payload, True)
            return
        self._awaits_header = False
        self.properties_octets = payload[12:]
        self._left = size = int.from_bytes(payload[4:12], "big")
        if len(payload) < 14:
            raise Fault(502, "a content header ends early")
        self.announced(size)
        if not size:
            self._whole(b"")

    def _assemble(self, payload: bytes, header: bool) -> None:
        """Add a frame to the structured content."""
        assembler = self._assembler
        assert assembler is not None
        if header:
            assembler.header(payload)
            self.announced(assembler.octets)
        else:
            assembler.body(payload)
        whole = assembler.whole
        if whole is None:
            self._weigh(payload)
        else:
            self._drop_parts()
            self.properties_octets = whole.properties
            self.children = whole.children
            self.announced(len(whole.body))
            self._whole(whole.body)
            self.children = []

    largest: int | None = None
    """The largest message that the user of this channel takes; None: nothing was said."""

    def announced(self, size: int) -> None:  # few have a limit
        """Check that a body of `size` octets may follow."""

    def receive_body(self, payload: bytes) -> None:
        if self._content is None or self._awaits_header:
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
            Fault: all channels of the connection together keep more octets than is allowed.
        """
        weight = len(payload) + FRAME_WEIGHT
        self._weight += weight
        self.engine.partial += weight
        most = most_in_part(self.engine.terms.max_message_size, self.largest)
        if self.engine.partial > most:
            raise Fault(311, f"more than {most} octets of messages that are not whole", soft=True)

    def _drop_parts(self) -> None:
        """Drop the frames that were kept: the content is whole, or will never be."""
        self.engine.partial -= self._weight
        self._weight = 0
        self._parts, self._assembler = [], None

    def _whole(self, body: bytes) -> None:
        take, self._content = self._content, None
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
        self._close(code, text)

    def _close(self, code: int, text: str, method: tuple[int, int] = (0, 0)) -> None:
        self.leave()
        self.advance(Step.SEND_CLOSE)
        self._content, self._awaits_header = None, False
        self._drop_parts()
        self.write(ChannelClose(code, text, *method))

    def leave(self) -> None:  # few have anything to say
        """Write what has to come before this side's close, for nothing may be written after it."""

    def fail(self, fault: Fault) -> None:
        """Close the channel, because the peer broke a rule; the connection goes on."""
        if self.state is ChannelState.OPEN:
            self._close(fault.code, text_of_fault(fault), fault.method)
            self.failed(fault.plain())

    def receive_close(self, method: ChannelClose) -> None:
        self._drop_parts()
        self._answer_close()
        self.advance(Step.RECEIVE_CLOSE)
        self.engine.channels.pop(self.number, None)
        normal = method.reply_code in (0, 200)
        text = method.reply_text
        error = None if normal else as_error(method.reply_code, text, method.class_id, method.method_id)
        self.closed(error)

    def _answer_close(self) -> None:
        """Answer the peer's close at once, even where a subclass keeps back other methods."""
        self.engine.write_method(self.number, ChannelCloseOk())

    def _gone(self) -> None:
        self.advance(Step.RECEIVE_CLOSE_OK)
        self.engine.channels.pop(self.number, None)
        self.closed(None)

    def failed(self, error: RemoteProtocolError) -> None:  # few have anybody to tell
        """Act on a fault of the peer for which this side has closed the channel; `closed` is still to come."""

    @abstractmethod
    def closed(self, error: Error | None) -> None:
        """Act on the end of the channel: by our close, or by the peer's, with its error."""

    @abstractmethod
    def over(self, error: AmqpError | None) -> None:
        """Act on the end of the connection, which ends the channel."""
