"""A channel, at the server: a session, its handles, and its messages that are not acknowledged, by number."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, Any, ClassVar, Final

from ....engine import Dispatcher, Handlers, LinkTerms, OutgoingDelivery, SessionTerms, SessionUnmapped
from ....errors import LocalProtocolError, SessionEnded
from ....messaging import ACCEPTED, DeliveryState, Error, TransactionalState
from ....types import Symbol, serial_add, serial_lt
from ..._kit.causes import as_exception
from ..codes import OK, code_of, error_of
from ..session import SessionEndpoint
from ..states import SessionState, Step
from ..wire.commands import (
    ChannelAck,
    ChannelClose,
    ChannelCommit,
    ChannelOpen,
    ChannelReply,
    ChannelRollback,
    HandleOpen,
)
from .handle import ServerHandle
from .transactions import ServerCoordinator
from .work import MAX_MESSAGES, MAX_OCTETS, ChannelWork, too_much

if TYPE_CHECKING:
    from ....errors import AmqpError
    from .parents import ChannelCoordinator, ChannelHandle, ServerSessionEngine
    from .sender import ServerSender
    from .work import SendingLink


_LIVE: Final = frozenset({SessionState.OPEN_RCVD, SessionState.OPENED})


class ServerSession(Dispatcher, SessionEndpoint):
    """See `Session`; only the client attaches links.

    Attributes:
        dropped: handles that were on it when it was closed.
        last_number: the number of the last message sent on the channel; the number after 2^32 - 1 is 1.
    """

    engine: ServerSessionEngine
    terms: SessionTerms | None
    handlers: ClassVar[Handlers] = {
        ChannelAck: "_receive_ack",
        ChannelCommit: "_receive_commit",
        ChannelRollback: "_receive_rollback",
        ChannelClose: "_receive_close",
    }

    def __init__(self, engine: ServerSessionEngine, command: ChannelOpen) -> None:
        super().__init__(engine)
        self.remote: SessionTerms = SessionTerms()
        self.id: int = command.channel_id
        self.handles: dict[ChannelHandle, None] = {}
        self.transacted: bool = command.transacted
        self.restartable: bool = command.restartable
        self.unacknowledged: dict[int, OutgoingDelivery] = {}
        self.closing: bool = False
        self.advance(Step.RECEIVE_CHANNEL_OPEN)
        self.dropped: set[int] = set()
        self.sending: ChannelHandle | None = None
        self._tag = command.confirm_tag
        self.last_number: int = 0
        self.work: ChannelWork = ChannelWork()  # since the last commit
        self.coordinator: ChannelCoordinator | None = None

    def begin(self, terms: SessionTerms | None = None) -> None:
        if self.terms is not None:
            raise LocalProtocolError("the session was begun already")
        self.terms = terms if terms is not None else SessionTerms()
        if self.may(Step.BEGIN):  # it may have ended meanwhile
            self.advance(Step.BEGIN)
            self.reply(self._tag)

    def entered(self, state: SessionState) -> None:
        super().entered(state)
        self.closing = state in (SessionState.CLOSE_SENT, SessionState.OVER)

    def reply(self, tag: int, error: Error | None = None) -> None:
        """Reply with the result of a command, unless `tag` is 0: then the client asked for no reply."""
        if tag and not self.engine.close_sent:
            code, text = code_of(error)
            self.engine.write(ChannelReply(channel_id=self.id, confirm_tag=tag, reply_code=code, reply_text=text))

    def attach_sender(self, terms: LinkTerms, *, resuming: Iterable[Any] | None = None) -> Any:
        raise LocalProtocolError("only the client attaches links in AMQP/Fast")

    def attach_receiver(self, terms: LinkTerms, *, resuming: Iterable[Any] | None = None) -> Any:
        raise LocalProtocolError("only the client attaches links in AMQP/Fast")

    # What comes

    def receive(self, command: Any) -> None:
        """Take a command of the client for this channel."""
        if self.state in _LIVE or type(command) is ChannelClose:
            self.by_type[type(command)](self, command)

    def open_handle(self, command: HandleOpen) -> None:
        """Open a handle for the client."""
        handle = ServerHandle(self, command)
        self.handles[handle] = None
        self.engine.handles[handle.id] = handle
        handle.begin()

    def next_number(self) -> int:
        """Return the number of the next message."""
        self.last_number = serial_add(self.last_number, 1) or 1  # no message has the number 0
        return self.last_number

    @property
    def committing(self) -> bool:
        """Return whether a commit is under way, or waits."""
        return self.coordinator is not None and self.coordinator.busy

    @property
    def holding(self) -> bool:
        """Return whether messages wait for credit, or a commit is under way."""
        return self.committing or any(handle.holding for handle in self.handles)

    # Acknowledgments and transactions

    def _receive_ack(self, command: ChannelAck) -> None:
        if self.transacted:
            before = self.work.acknowledged
            if before is None or serial_lt(before, command.message_nbr):
                self.work.acknowledged = command.message_nbr
        else:
            self._accept_in_portions(command.message_nbr, command.confirm_tag)
            return
        self.reply(command.confirm_tag)

    def _accept_in_portions(self, number: int, tag: int) -> None:
        """Accept all messages up to a number, if there are many in several portions of the input; then reply."""

        def accept(some: Sequence[int]) -> None:
            if some:
                self.acknowledge(some[-1], ACCEPTED)

        self.engine.in_portions(self._up_to(number), accept, partial(self.reply, tag))

    def _up_to(self, number: int) -> list[int]:
        """Return the unacknowledged messages up to this number."""
        return list(takewhile(lambda each: not serial_lt(number, each), self.unacknowledged))

    def post(self, link: SendingLink, payload: bytes, message_format: int) -> None:
        """Keep a message until its transaction is committed; end the channel if the transaction grows too large."""
        self.work.sent.append((link, payload, message_format))
        self.work.octets += len(payload)
        fits = self.engine.count_uncommitted(len(payload))
        if self.engine.uncommitted > MAX_OCTETS or len(self.work.sent) > MAX_MESSAGES:
            self.end(too_much())
        elif not fits:
            self.end(Error(Symbol("amqp:resource-limit-exceeded"), "no memory is left for uncommitted transactions"))

    def _take_work(self) -> ChannelWork:
        """Take the work since the last commit, so that the next commit begins with none of it."""
        work, self.work = self.work, ChannelWork()
        self.engine.count_uncommitted(-work.octets)
        return work

    def _is_transacted(self, command: ChannelCommit | ChannelRollback) -> bool:
        """Return whether the channel is transacted; end it if it is not, for the command has no place on it."""
        if not self.transacted:
            self.fault("amqp:illegal-state", f"{command.title()} on a channel that is not transacted")
        return self.transacted

    def _receive_rollback(self, command: ChannelRollback) -> None:
        if self._is_transacted(command):
            self._take_work()
            self.reply(command.confirm_tag)

    def _receive_commit(self, command: ChannelCommit) -> None:
        if not self._is_transacted(command):
            return
        work = self._take_work()
        work.tag = command.confirm_tag
        if work.spoiled is not None:
            self.reply(work.tag, work.spoiled)
        elif work.sent or self.committing:
            if self.coordinator is None:
                self.coordinator = ServerCoordinator(self)
            self.coordinator.commit(work)
        elif work.acknowledged is not None:
            self._accept_in_portions(work.acknowledged, work.tag)
        else:
            self.reply(work.tag)

    def acknowledge(self, number: int | None, state: DeliveryState) -> None:
        """Give all messages up to `number` the outcome `state`; no message if `number` is None.

        A `TransactionalState` is not final: unsettled messages stay unacknowledged until a later outcome.
        """
        if number is None:
            return
        links: dict[ServerSender, None] = {}
        for each in self._up_to(number):
            delivery = self.unacknowledged[each]
            link: Any = delivery.link
            if isinstance(state, TransactionalState) and not delivery.local_settled:
                link.on_provisional_outcome(delivery, state)
                continue
            del self.unacknowledged[each]
            link.on_outcome(delivery, state)
            links[link] = None
        for link in links:
            link.recount()

    # Ending

    def end(self, error: Error | None = None) -> None:
        if self.state in _LIVE:
            code, text = code_of(error)
            self._close(code, text)

    def fault(self, condition: str, description: str) -> None:
        """End the channel with an error, because the client did what is not allowed."""
        self.end(Error(Symbol(condition), description))

    def _close(self, code: int, text: str) -> None:
        self.advance(Step.SEND_CHANNEL_CLOSE)
        self._take_work()
        self.dropped = {handle.id for handle in self.handles}
        self.engine.write(ChannelClose(channel_id=self.id, reply_code=code, reply_text=text))
        for link in self.links:
            link.mark_detached()

    def _receive_close(self, command: ChannelClose) -> None:
        if not self.may(Step.RECEIVE_CHANNEL_CLOSE):
            return
        requested = self.closing
        cause = None if requested else as_exception(SessionEnded, error_of(command.reply_code, command.reply_text))
        self._take_work()
        for handle in list(self.handles):
            handle.leave(cause)
        if self.coordinator is not None:
            self.coordinator.leave(cause)
        self.advance(Step.RECEIVE_CHANNEL_CLOSE)
        self.engine.emit(SessionUnmapped(self, cause))
        # First the owners that read this event write the outcomes of earlier messages.
        if requested:
            self._forget()
        else:
            self.engine.flush_later(self)

    def flush(self) -> None:
        """Answer the client's close."""
        self.engine.write(ChannelClose(channel_id=self.id, reply_code=OK))
        self.advance(Step.SEND_CHANNEL_CLOSE)
        self._forget()

    def _forget(self) -> None:
        for handle in list(self.handles):
            handle.forget()
        self.engine.channels.pop(self.id, None)

    def over(self, cause: AmqpError | None) -> None:
        self._take_work()
        super().over(cause)
        self.engine.channels.pop(self.id, None)
