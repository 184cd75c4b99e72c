"""Sessions and channels as the client has them.

A session has a channel for what belongs to no link, and each link one of its own: fragments of a message may have no
others of its channel between them, an acknowledgment is for all of a channel up to a number, and so is a transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ...engine import (
    IncomingDelivery,
    LinkTerms,
    OutgoingDelivery,
    PendingRequest,
    SenderLink,
    SessionBegun,
    SessionTerms,
    WindowOpened,
)
from ...errors import LocalProtocolError, RemoteProtocolError
from ...messaging import Error
from ...types import Symbol
from ._codes import code_of, error_of
from ._commands import ChannelClose, ChannelOpen, ChannelReply
from ._endpoints import FastSession, session_cause

if TYPE_CHECKING:
    from ...engine import Request
    from ...engine._requests import R
    from ...errors import AmqpError
    from ._client import ClientEngine
    from ._client_handle import Answered, ClientHandle
    from ._client_receiver import ClientReceiver
    from ._client_requests import Looks

Closed = Callable[[Error | None, bool], None]
"""Told that a channel is closed by both sides: why, and whether this side closed it first."""


class ClientChannel:
    """A channel, from its opening to its close.

    Attributes:
        id: its number.
        handles: those on it that are not closed.
        transacted: what is sent and acknowledged on it counts when it is committed.
        closing: our close is out.
        commits: those under way on it; told when it is closed.
    """

    def __init__(self, engine: ClientEngine, closed: Closed, opened: Answered, *, transacted: bool = False) -> None:
        self.engine = engine
        self.id = engine.free_channel()
        self.handles: dict[ClientHandle, None] = {}
        self.transacted = transacted
        self.closing = False
        self.commits: dict[Answered, None] = {}
        self._closed = closed
        self._waiting: dict[int, Answered] = {}
        self._last_tag = 0
        engine.channels[self.id] = self
        self.ask(ChannelOpen(transacted=transacted, restartable=True), opened)

    def ask(self, command: Any, answered: Answered) -> None:
        """Write a command that is to be confirmed."""
        self._last_tag = self._last_tag % 0xFFFF + 1
        self._waiting[self._last_tag] = answered
        command.channel_id, command.confirm_tag = self.id, self._last_tag
        self.engine.write(command)

    def close(self, error: Error | None = None) -> None:
        """Close it, and all handles on it; what still comes is read until the server does the same."""
        if not self.closing:
            self.closing = True
            code, text = code_of(error)
            self.engine.write(ChannelClose(channel_id=self.id, reply_code=code, reply_text=text))

    def receive(self, command: ChannelReply | ChannelClose) -> None:
        """A command of the server for it."""
        error = error_of(command.reply_code, command.reply_text)
        if isinstance(command, ChannelReply):
            answered = self._waiting.pop(command.confirm_tag, None)
            if answered is None:
                raise RemoteProtocolError(
                    f"a channel-reply with the tag {command.confirm_tag}, which was not asked for"
                )
            answered(error)
            return
        asked = self.closing
        self.close()
        del self.engine.channels[self.id]
        for handle in list(self.handles):
            handle.forget()
        for commit in list(self.commits):
            commit(error or Error(Symbol("amqp:transaction:rollback"), "the channel was closed"))
        self._closed(error, asked)


class ClientSession(FastSession):
    """See `Session`: its own channel, and those of its links."""

    engine: ClientEngine

    def __init__(self, engine: ClientEngine) -> None:
        super().__init__(engine)
        self.channel: ClientChannel
        self.next_delivery_id = 0
        self._looks: Looks | None = None

    def begin(self, terms: SessionTerms | None = None) -> None:
        if self.terms is not None:
            raise LocalProtocolError("the session was begun already")
        self.channel = ClientChannel(self.engine, self._on_closed, self._on_opened)
        self.terms = terms if terms is not None else SessionTerms()

    def _on_opened(self, error: Error | None) -> None:
        if error is not None:
            self.channel.close()
            self._finish(error)
        elif not self.gone:
            self.remote = SessionTerms(handle_max=self.engine.handle_max)
            self.begun = not self.channel.closing
            self.engine.emit(SessionBegun(self))
            if self.begun:  # a coordinator is attached before
                self.engine.emit(WindowOpened(self))

    def give_id(self) -> int:
        """The number of the next delivery."""
        number = self.next_delivery_id
        self.next_delivery_id = number + 1 & 0xFFFF_FFFF
        return number

    # Links

    def attach_sender(self, terms: LinkTerms, *, resuming: Iterable[OutgoingDelivery] | None = None) -> SenderLink:
        from ._client_attach import sender

        self._check(terms, is_sender=True)
        return sender(self, terms, resuming)

    def attach_receiver(
        self, terms: LinkTerms, *, resuming: Iterable[IncomingDelivery] | None = None
    ) -> ClientReceiver:
        from ._client_attach import receiver

        self._check(terms, is_sender=False)
        return receiver(self, terms, resuming)

    def _check(self, terms: LinkTerms, *, is_sender: bool) -> None:
        if self.gone or self.terms is None or self.channel.closing or self.engine.close_sent:
            raise LocalProtocolError("no link can attach: the session is not there")
        if any(link.name == terms.name and link.is_sender is is_sender for link in self.links):
            raise LocalProtocolError(f"the session has a link {terms.name!r} of this direction already")

    # Requests

    def request(self, request: Request[R]) -> PendingRequest[R]:
        if self.gone or self.terms is None or self.channel.closing or self.engine.close_sent:
            raise LocalProtocolError("nothing can be asked: the session is not there")
        if self._looks is None:
            from ._client_requests import Looks

            self._looks = Looks(self)
        pending = PendingRequest(self, request)
        self._looks.ask(pending)
        return pending

    def over(self, cause: AmqpError | None) -> None:
        looks, self._looks = self._looks, None
        for look in list(looks.values()) if looks is not None else ():
            look.lose(cause)
        super().over(cause)

    # Ending

    def end(self, error: Error | None = None) -> None:
        if self.gone or self.terms is None or self.channel.closing:
            return
        self.engine.flush()
        for link in list(self.links):
            link.session_ends()
        self.begun = False
        self.channel.close(error)

    def _on_closed(self, error: Error | None, asked: bool) -> None:
        if not asked:
            for link in list(self.links):
                link.session_ends()
        self._finish(None if asked else error, peer=not asked)

    def _finish(self, error: Error | None, *, peer: bool = True) -> None:
        self.engine.forget(self)
        self.over(session_cause(error) if peer else None)
