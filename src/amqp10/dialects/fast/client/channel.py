"""Channels as a client has them.

A session has a channel for what belongs to no link, and each link one of its own: fragments of a message may have no
others of its channel between them, an acknowledgment is for all of a channel up to a number, and so is a transaction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from ...._machine import Machine
from ....engine import Dispatcher, Handlers
from ....messaging import Error
from ....types import Symbol
from ..codes import code_of, error_of
from ..states import CHANNEL, HandleState, Step
from ..wire.commands import ChannelClose, ChannelOpen, ChannelReply
from .replies import PendingReplies

if TYPE_CHECKING:
    from .parents import Answered, ChannelCommand, ChannelHandle, ClientSessionEngine

Closed = Callable[[Error | None, bool], None]
"""Told that a channel is closed by both sides: why, and whether this side closed it first."""


class ClientChannel(Dispatcher, Machine[HandleState]):
    """A channel, from its opening to its close.

    Attributes:
        id: its number.
        handles: those on it that are not closed.
        transacted: what is sent and acknowledged on it counts when it is committed.
        closing: the channel is closed, or this side has sent its close.
        commits: the callbacks of commits that are under way; each gets an error when the channel is closed.
    """

    noun = "channel"
    transitions: ClassVar[dict[tuple[HandleState, Step], HandleState]] = CHANNEL
    handlers: ClassVar[Handlers] = {ChannelReply: "_receive_reply", ChannelClose: "_receive_close"}

    def __init__(
        self, engine: ClientSessionEngine, closed: Closed, opened: Answered, *, transacted: bool = False
    ) -> None:
        self.engine = engine
        self.id: int = engine.free_channel()
        self.handles: dict[ChannelHandle, None] = {}
        self.transacted = transacted
        self.state = HandleState.OPEN
        self.closing: bool = False
        self.commits: dict[Answered, None] = {}
        self._closed = closed
        self._replies = PendingReplies()
        engine.channels[self.id] = self
        self.ask(ChannelOpen(transacted=transacted, restartable=True), opened)

    def entered(self, state: HandleState) -> None:
        self.closing = state is not HandleState.OPEN

    def ask(self, command: ChannelCommand, answered: Answered) -> None:
        """Write a command that the server is to confirm, and call `answered` with its reply."""
        command.channel_id, command.confirm_tag = self.id, self._replies.tag(answered)
        self.engine.write(command)

    def close(self, error: Error | None = None) -> None:
        """Close the channel and its handles; read what still arrives until the server has closed, too."""
        if self.may(Step.SEND_CHANNEL_CLOSE):
            self.advance(Step.SEND_CHANNEL_CLOSE)
            code, text = code_of(error)
            self.engine.write(ChannelClose(channel_id=self.id, reply_code=code, reply_text=text))

    def receive(self, command: ChannelReply | ChannelClose) -> None:
        """Take a command of the server for this channel."""
        self.by_type[type(command)](self, command)

    def _receive_reply(self, command: ChannelReply) -> None:
        self._replies.receive(command)

    def _receive_close(self, command: ChannelClose) -> None:
        error = error_of(command.reply_code, command.reply_text)
        requested = self.closing
        self.advance(Step.RECEIVE_CHANNEL_CLOSE)
        self.close()
        del self.engine.channels[self.id]
        for handle in list(self.handles):
            handle.forget()
        for commit in list(self.commits):
            commit(error or Error(Symbol("amqp:transaction:rollback"), "the channel was closed"))
        self._closed(error, requested)
