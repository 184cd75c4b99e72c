"""A channel: methods in their order, and the content that follows some of them (0-9-1 §4.2.6, §1.5).

What uses a channel is a subclass: on a client each link has one of its own, and a session one for its requests; on a
server it is the session.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, ClassVar, Final

from ...errors import AmqpError, RemoteProtocolError
from ...messaging import Error
from ._codes import Fault, as_error, code_of, text_of
from ._engine import text_of_fault, unknown_method
from ._method import Method
from ._methods import ChannelClose, ChannelCloseOk, ChannelFlow, ChannelFlowOk
from ._methods_0_8 import METHODS_0_8
from ._methods_0_9 import IMPLEMENTED, METHODS_0_9
from ._structured import Assembler, Content

if TYPE_CHECKING:
    from ._engine import V09Engine
    from ._frames import FrameReader

BASIC = 60
UNIMPLEMENTED: Final = {*METHODS_0_9, *METHODS_0_8} - IMPLEMENTED
"""Methods that are known to the codec, and to nobody else."""


class State(Enum):
    """Where a channel is."""

    OPEN = "open, or being opened"
    CLOSING = "our close is out: everything but the answer is dropped"
    CLOSED = "closed"


MOST_PARTIAL: Final = 1 << 26
"""Octets of messages in part that a connection may always have here."""
MOST_AT_ONCE: Final = 2
"""They may be so many times as large as the largest message that is taken, if that is more."""
FRAME_WEIGHT: Final = 64
"""Octets that keeping a frame costs besides its own."""


class Channel(ABC):
    """What all channels share.

    Attributes:
        number: the channel's.
        has_runs: it has a quicker way with frames that look alike: `receive_run`.
        hot: by the octets of their code, methods whose payload is taken as it is: what the table of methods would
            refuse is refused there, too.
        handlers: all others, by their type.
    """

    has_runs: ClassVar[bool] = False
    hot: ClassVar[dict[bytes, str]] = {}
    handlers: ClassVar[dict[type[Method], str]] = {ChannelFlow: "receive_flow", ChannelClose: "receive_close"}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        bases = [vars(base).get("handlers", {}) for base in reversed(cls.__mro__)]
        cls.handlers = {kind: name for handlers in bases for kind, name in handlers.items()}

    def open_channel(self, engine: V09Engine, number: int) -> None:
        """Begin to exist."""
        self.engine = engine
        self.number = number
        self.channel_state = State.OPEN
        engine.channels[number] = self
        self._content: Callable[[bytes], None] | None = None  # what takes the body that is to come
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
        if self.channel_state is not State.OPEN:
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
        """Take as many as possible of the frames that begin with this method; False if none."""
        return False

    def check_shape(self, payload: bytes) -> None:
        """What the table of methods says of one that is taken as it is.

        Raises:
            DecodeError: it is malformed, or octets follow it.
        """
        self.engine.variant.methods.decode(payload)

    def _receive_closing(self, payload: bytes) -> None:
        """Our close is out: the peer may not know yet, and may close, too. The rest is not even read."""
        methods = self.engine.variant.methods
        method = methods.decode(payload) if methods.has(payload, ChannelClose, ChannelCloseOk) else None
        if isinstance(method, ChannelClose):
            self._answer_close()
        elif isinstance(method, ChannelCloseOk) and self.channel_state is State.CLOSING:
            self._gone()

    def receive_flow(self, method: ChannelFlow) -> None:
        self.paused(not method.active)
        self.write(ChannelFlowOk(method.active))

    def paused(self, paused: bool) -> None:  # noqa: B027  # few send content
        """The peer wants no content for a while, or wants it again."""

    # Content

    def expect_content(self, take: Callable[[bytes], None]) -> None:
        """Content follows the method that was just received; its body is given to `take` when it is whole."""
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
        """More of a structured content."""
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

    def announced(self, size: int) -> None:  # noqa: B027  # few have a limit
        """A body of so many octets follows."""

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
            Fault: all channels of the connection have more of that than is kept.
        """
        weight = len(payload) + FRAME_WEIGHT
        self._weight += weight
        self.engine.partial += weight
        largest = self.engine.terms.max_message_size
        if largest is None:
            return  # who takes messages of any size has asked for them
        most = max(MOST_PARTIAL, MOST_AT_ONCE * largest)
        if self.engine.partial > most:
            raise Fault(311, f"more than {most} octets of messages that are not whole", soft=True)

    def _drop_parts(self) -> None:
        """The content is whole, or will never be."""
        self.engine.partial -= self._weight
        self._weight = 0
        self._parts, self._assembler = [], None

    def _whole(self, body: bytes) -> None:
        take, self._content = self._content, None
        if take is not None and self.channel_state is State.OPEN:
            take(body)

    def _unexpected(self, what: str) -> None:
        if self.channel_state is State.OPEN:
            raise Fault(self.engine.variant.unexpected, f"{what} that no method announced")

    # The end

    def close_channel(self, error: Error | None = None) -> None:
        """Close it; `closed` is told when the peer has answered."""
        if self.channel_state is not State.OPEN:
            return
        code, text = (200, "") if error is None else (code_of(error.condition), text_of(error))
        self._close(code, text)

    def _close(self, code: int, text: str, method: tuple[int, int] = (0, 0)) -> None:
        self.leave()
        self.channel_state = State.CLOSING
        self._content, self._awaits_header = None, False
        self._drop_parts()
        self.write(ChannelClose(code, text, *method))

    def leave(self) -> None:  # noqa: B027  # few have anything to say
        """Say what is to be said before this side's close, for nothing may be said after it."""

    def fail(self, fault: Fault) -> None:
        """The peer broke a rule whose price is the channel."""
        if self.channel_state is State.OPEN:
            self._close(fault.code, text_of_fault(fault), fault.method)
            self.failed(fault)

    def receive_close(self, method: ChannelClose) -> None:
        self._drop_parts()
        self._answer_close()
        self.channel_state = State.CLOSED
        self.engine.channels.pop(self.number, None)
        normal = method.reply_code in (0, 200)
        text = method.reply_text
        error = None if normal else as_error(method.reply_code, text, method.class_id, method.method_id)
        self.closed(error)

    def _answer_close(self) -> None:
        """Answer the peer's close, at once: what else a subclass keeps back, this it does not."""
        self.engine.write_method(self.number, ChannelCloseOk())

    def _gone(self) -> None:
        self.channel_state = State.CLOSED
        self.engine.channels.pop(self.number, None)
        self.closed(None)

    def failed(self, error: RemoteProtocolError) -> None:  # noqa: B027  # few have anybody to tell
        """This side has closed it for a fault of the peer's; `closed` is still to come."""

    @abstractmethod
    def closed(self, error: Error | None) -> None:
        """The channel is gone: by our close, or by the peer's, with its error."""

    @abstractmethod
    def over(self, error: AmqpError | None) -> None:
        """The connection is over, and the channel with it."""
