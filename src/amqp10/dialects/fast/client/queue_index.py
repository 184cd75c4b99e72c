"""Requests at the client: a browser's handle for each queue that is looked at, one question after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from ....engine import Handlers, PendingRequest
from ....errors import AmqpError, LocalProtocolError, RemoteProtocolError, SessionEnded, Unsupported
from ....messaging import Error
from ..._kit.requests import WaitingRequests
from ..message.destinations import QUEUE
from ..message.from_head import payload_of
from ..requests import Index, List, Show
from ..wire.commands import HandleBrowse, HandleIndex, HandleNotify, HandleOpen, HandleQuery
from ..wire.fragments import Assembly, read_head
from ..wire.message_list import read_numbers
from ..wire.values import MAX_LONGSTR, MAX_SHORTSTR
from .handle import ClientHandle, HandleOwner, unasked

if TYPE_CHECKING:
    from .channel import ClientChannel
    from .parents import ClientSessionEngine

MAX_LOOKED_AT: Final = 16
"""Queues whose handles are kept open for the next question."""


class QueueBrowsers(dict[tuple[str, str], "QueueBrowser"]):
    """The queues that a session looks at, by address and selector; the one that was asked last comes last."""

    def __init__(self, engine: ClientSessionEngine, channel: ClientChannel) -> None:
        super().__init__()
        self._engine = engine
        self._channel = channel

    def ask(self, pending: PendingRequest[Any]) -> None:
        """Write a request, now or when all requests before it are answered.

        Raises:
            Unsupported: AMQP/Fast does not have the request.
            LocalProtocolError: AMQP/Fast cannot express the request.
        """
        request = pending.request
        if not isinstance(request, List | Show):
            raise Unsupported(f"AMQP/Fast has no request {type(request).__name__}")
        if len(request.address.encode()) > MAX_SHORTSTR or len(request.selector.encode()) > MAX_LONGSTR:
            raise LocalProtocolError("the address or the selector is too long for AMQP/Fast")
        # Check now: a request that cannot be written must not block the requests behind it.
        if "\0" in request.address:
            raise LocalProtocolError(f"an address must not have a NUL: {request.address!r}")
        number = request.after if isinstance(request, List) else request.number
        if not isinstance(number, int) or not 0 <= number < 1 << 32:
            raise LocalProtocolError(f"the number of a message must be in 0..{0xFFFF_FFFF}, not {number}")
        key = request.address, request.selector
        look = self.pop(key, None) or QueueBrowser(self._engine, self._channel, self, *key)
        self[key] = look
        look.ask(pending)
        for old in [old for old, each in self.items() if each.idle][:-MAX_LOOKED_AT]:
            self.pop(old).close()


class QueueBrowser(HandleOwner):
    """The handle of one queue that is looked at, and the questions about the queue."""

    handlers: ClassVar[Handlers] = {HandleIndex: "_on_index", HandleNotify: "_on_notify"}

    def __init__(
        self, engine: ClientSessionEngine, channel: ClientChannel, browsers: QueueBrowsers, address: str, selector: str
    ) -> None:
        self.engine = engine
        self._browsers = browsers
        self._key = address, selector
        self._waiting = WaitingRequests(self)  # the oldest is asked
        self._assembly: Assembly | None = None
        self._tag = 0
        self._handle = ClientHandle(channel, self)
        self._handle.open(HandleOpen(service_type=QUEUE, browser=True, dest_name=address), self._on_opened)

    @property
    def idle(self) -> bool:
        return not self._waiting

    def ask(self, pending: PendingRequest[Any]) -> None:
        """Write a request, now or when all requests before it are answered."""
        self._waiting.add(pending)
        if len(self._waiting) == 1:
            self._write()

    def close(self) -> None:
        """Close the handle."""
        self._handle.close()

    def _write(self) -> None:
        request = self._waiting.oldest.request
        if isinstance(request, List):
            selector = request.selector.encode()
            self.engine.write(HandleQuery(handle_id=self._handle.id, message_nbr=request.after, selector=selector))
        elif isinstance(request, Show):
            command = HandleBrowse(message_nbr=request.number)
            self._handle.ask(command, self._on_refused)
            self._tag = command.confirm_tag

    def _on_opened(self, error: Error | None) -> None:
        if error is not None:
            self._fail(error)

    def _on_refused(self, error: Error | None) -> None:
        if error is not None:
            self._answered(None, error)

    def _asks(self, kind: type[Any]) -> bool:
        return bool(self._waiting) and isinstance(self._waiting.oldest.request, kind)

    def _on_index(self, handle: ClientHandle, command: HandleIndex, content: bytes) -> None:
        if not self._asks(List):
            raise unasked(handle, command)
        self._answered(Index(tuple(read_numbers(command.message_list)), command.message_nbr))

    def _on_notify(self, handle: ClientHandle, command: HandleNotify, content: bytes) -> None:
        if not self._asks(Show) or command.out_of_band:
            raise unasked(handle, command)
        if command.message_nbr != self._waiting.oldest.request.number:  # type: ignore[attr-defined]
            raise RemoteProtocolError(f"message {command.message_nbr} was not asked for", "amqp:illegal-state")
        if self._assembly is None:
            head, content = read_head(content)
            self._assembly = Assembly(head)
        self._assembly.add(content)
        if not command.partial:
            assembly, self._assembly = self._assembly, None
            self._handle.replies.drop(self._tag)
            self._answered(payload_of(assembly)[0])

    def _answered(self, result: Any, error: Error | None = None) -> None:
        if error is None:
            self._waiting.answer(result)
        else:
            self._waiting.refuse(error)
        if self._waiting:
            self._write()

    def _fail(self, error: Error) -> None:
        """Fail all requests that wait, because the server refused or closed the handle."""
        if self._browsers.get(self._key) is self:
            del self._browsers[self._key]
        while self._waiting:
            self._waiting.refuse(error)

    def lose(self, error: AmqpError | None) -> None:
        """Fail all requests that wait, because no answer will come."""
        self._waiting.fail_all(error or SessionEnded())

    def handle_closed(self, handle: ClientHandle, error: Error | None, requested: bool) -> None:
        self._fail(error or Error("amqp:illegal-state", "the server closed the handle"))
