"""A handle as the client has it, from its opening to its close: tags that wait for replies, and whose handle it is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from ...errors import RemoteProtocolError
from ...messaging import Error
from ._codes import code_of, error_of
from ._commands import Command, HandleClose, HandleOpen, HandleReply

if TYPE_CHECKING:
    from ._client_session import ClientChannel

Answered = Callable[[Error | None], None]
"""Told of a reply: the error, or None where it was done."""
MAX_TAG: Final = 0xFFFF


class HandleOwner(ABC):
    """Whose a handle is."""

    @abstractmethod
    def handle_closed(self, handle: ClientHandle, error: Error | None, asked: bool) -> None:
        """It is closed by both sides. `asked`: this side closed it first."""

    def handle_received(self, handle: ClientHandle, command: Command, content: bytes) -> None:
        """Something came for it that is no reply."""
        raise RemoteProtocolError(f"{command.title()} for handle {handle.id}, which does not ask for it")


class ClientHandle:
    """See the module.

    Attributes:
        id: its number on the connection.
        closing: our close is out.
    """

    def __init__(self, channel: ClientChannel, owner: HandleOwner) -> None:
        self.channel = channel
        self.engine = channel.engine
        self.id = channel.engine.free_handle()
        self.closing = False
        self._owner = owner
        self._waiting: dict[int, Answered] = {}
        self._last_tag = 0
        self.engine.handles[self.id] = self
        channel.handles[self] = None

    def open(self, command: HandleOpen, answered: Answered) -> None:
        """Open it; `command` says how, but for the numbers."""
        command.channel_id = self.channel.id
        self.ask(command, answered)

    def ask(self, command: Any, answered: Answered) -> None:
        """Write a command that is to be confirmed."""
        command.handle_id = self.id
        command.confirm_tag = self.tag(answered)
        self.engine.write(command)

    def tag(self, answered: Answered) -> int:
        """A tag for a command; the reply to it is told."""
        tag = self._last_tag
        while True:
            tag = tag % MAX_TAG + 1
            if tag not in self._waiting:
                self._last_tag = tag
                self._waiting[tag] = answered
                return tag

    def drop(self, tag: int) -> None:
        """Another command than a reply has answered."""
        self._waiting.pop(tag, None)

    def close(self, error: Error | None = None) -> None:
        """Close it; what still comes for it is read until the server does the same."""
        if not self.closing:
            self.closing = True
            code, text = code_of(error)
            self.engine.write(HandleClose(handle_id=self.id, reply_code=code, reply_text=text))

    def receive(self, command: Command, content: bytes) -> None:
        """A command of the server for it."""
        if isinstance(command, HandleReply):
            answered = self._waiting.pop(command.confirm_tag, None)
            if answered is None:
                raise RemoteProtocolError(f"a handle-reply with the tag {command.confirm_tag}, which was not asked for")
            answered(error_of(command.reply_code, command.reply_text))
        elif isinstance(command, HandleClose):
            asked = self.closing
            self.close()
            self.forget()
            self._owner.handle_closed(self, error_of(command.reply_code, command.reply_text), asked)
        else:
            self._owner.handle_received(self, command, content)

    def forget(self) -> None:
        """It is no more; its number is free."""
        self.closing = True
        if self.engine.handles.get(self.id) is self:
            del self.engine.handles[self.id]
        self.channel.handles.pop(self, None)
