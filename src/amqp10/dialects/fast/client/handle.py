"""A handle as the client has it, from its opening to its close: its owner, and the tags that wait for replies."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from ...._machine import Machine
from ....engine import Dispatcher, Handlers
from ....errors import RemoteProtocolError
from ....messaging import Error
from ..codes import code_of, error_of
from ..states import HANDLE, HandleState, Step
from ..wire.command_table import Command
from ..wire.commands import HandleClose, HandleOpen, HandleReply
from .replies import PendingReplies

if TYPE_CHECKING:
    from .parents import Answered, ClientSessionEngine, HandleChannel


class HandleOwner(Dispatcher, ABC):
    """The owner of a handle. Its handlers are called with the handle, the command and the content."""

    @abstractmethod
    def handle_closed(self, handle: ClientHandle, error: Error | None, requested: bool) -> None:
        """React to a handle that both sides have closed; `requested`: this side closed it first."""

    def handle_received(self, handle: ClientHandle, command: Command, content: bytes) -> None:
        """Take a command for the handle that is neither a reply nor a close."""
        handler = self.by_type.get(type(command))
        if handler is None:
            raise unasked(handle, command)
        handler(self, handle, command, content)


def unasked(handle: ClientHandle, command: Command) -> RemoteProtocolError:
    """Return the error for a command that the owner of the handle did not ask for."""
    return RemoteProtocolError(f"{command.title()} for handle {handle.id}, which did not ask for it")


class ClientHandle(Dispatcher, Machine[HandleState]):
    """See the module.

    Attributes:
        id: its number on the connection.
        closing: the handle is closed, or this side has sent its close.
        replies: what waits for replies.
    """

    noun = "handle"
    transitions: ClassVar[dict[tuple[HandleState, Step], HandleState]] = HANDLE
    handlers: ClassVar[Handlers] = {HandleReply: "_receive_reply", HandleClose: "_receive_close"}

    def __init__(self, channel: HandleChannel, owner: HandleOwner) -> None:
        self.channel = channel
        self.engine: ClientSessionEngine = channel.engine
        self.id: int = channel.engine.free_handle()
        self.state = HandleState.OPEN
        self.closing: bool = False
        self._owner = owner
        self.replies: PendingReplies = PendingReplies()
        self.engine.handles[self.id] = self
        channel.handles[self] = None

    def entered(self, state: HandleState) -> None:
        self.closing = state is not HandleState.OPEN

    def open(self, command: HandleOpen, answered: Answered) -> None:
        """Open the handle by `command`, in which only the numbers are still to be set."""
        command.channel_id = self.channel.id
        self.ask(command, answered)

    def ask(self, command: Any, answered: Answered) -> None:
        """Write a command that the server is to confirm, and call `answered` with its reply."""
        command.handle_id = self.id
        command.confirm_tag = self.replies.tag(answered)
        self.engine.write(command)

    def close(self, error: Error | None = None) -> None:
        """Close the handle; read what still arrives for it until the server has closed it, too."""
        if self.may(Step.SEND_HANDLE_CLOSE):
            self.advance(Step.SEND_HANDLE_CLOSE)
            code, text = code_of(error)
            self.engine.write(HandleClose(handle_id=self.id, reply_code=code, reply_text=text))

    def receive(self, command: Command, content: bytes) -> None:
        """Take a command of the server for this handle."""
        handler = self.by_type.get(type(command))
        if handler is None:
            self._owner.handle_received(self, command, content)
        else:
            handler(self, command)

    def _receive_reply(self, command: HandleReply) -> None:
        self.replies.receive(command)

    def _receive_close(self, command: HandleClose) -> None:
        requested = self.closing
        self.advance(Step.RECEIVE_HANDLE_CLOSE)
        self.close()
        self.forget()
        self._owner.handle_closed(self, error_of(command.reply_code, command.reply_text), requested)

    def forget(self) -> None:
        """Remove the handle from the connection and its channel, which frees its number."""
        self.advance(Step.FINISH)
        if self.engine.handles.get(self.id) is self:
            del self.engine.handles[self.id]
        self.channel.handles.pop(self, None)
