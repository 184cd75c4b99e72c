"""A channel, at the server: a session, its handles, and its messages that are not acknowledged, by number."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ...engine import LinkTerms, OutgoingDelivery, SessionTerms, SessionUnmapped
from ...errors import LocalProtocolError
from ...messaging import ACCEPTED, DeliveryState, Error, TransactionalState
from ...types import Symbol, serial_add, serial_lt
from ._codes import OK, code_of, error_of
from ._commands import ChannelAck, ChannelClose, ChannelCommit, ChannelOpen, ChannelReply, ChannelRollback, HandleOpen
from ._endpoints import FastSession, session_cause
from ._server_handle import ServerHandle
from ._server_transactions import MOST_MESSAGES, MOST_OCTETS, Transactor, Work, too_much

if TYPE_CHECKING:
    from ._server import ServerEngine
    from ._server_consumer import ServerConsumer
    from ._server_producer import ServerProducer


class ServerSession(FastSession):
    """See `Session`; it is the client who attaches.

    Attributes:
        id: the channel's number.
        handles: those on it that are not closed.
        transacted: what is sent and acknowledged on it counts when it is committed.
        unacknowledged: by number, what was sent on it and not acknowledged.
        closing: our close is out.
        dropped: handles that were on it when it was closed.
        work: what was done on it since the last commit, if it is transacted.
        sending: the handle on which a message is coming in, in fragments.
        last_number: of the messages that were sent on it; the one after 2^32 - 1 is 1.
    """

    engine: ServerEngine

    def __init__(self, engine: ServerEngine, command: ChannelOpen) -> None:
        super().__init__(engine)
        self.remote = SessionTerms()
        self.id = command.channel_id
        self.handles: dict[ServerHandle, None] = {}
        self.transacted = command.transacted
        self.restartable = command.restartable
        self.unacknowledged: dict[int, OutgoingDelivery] = {}
        self.closing = False
        self.dropped: set[int] = set()
        self.sending: ServerHandle | None = None
        self._tag = command.confirm_tag
        self.last_number = 0
        self.work = Work()  # since the last commit
        self.transactor: Transactor | None = None
        self._asked_to_close = False

    def begin(self, terms: SessionTerms | None = None) -> None:
        if self.terms is not None:
            raise LocalProtocolError("the session was begun already")
        self.terms = terms if terms is not None else SessionTerms()
        if self.gone or self.closing:
            return
        self.begun = True
        self.reply(self._tag)

    def reply(self, tag: int, error: Error | None = None) -> None:
        """Say how a command went, if that is asked for."""
        if tag and not self.engine.close_sent:
            code, text = code_of(error)
            self.engine.write(ChannelReply(channel_id=self.id, confirm_tag=tag, reply_code=code, reply_text=text))

    def attach_sender(self, terms: LinkTerms, *, resuming: Iterable[Any] | None = None) -> Any:
        raise LocalProtocolError("in AMQP/Fast it is the client who opens handles")

    def attach_receiver(self, terms: LinkTerms, *, resuming: Iterable[Any] | None = None) -> Any:
        raise LocalProtocolError("in AMQP/Fast it is the client who opens handles")

    # What comes

    def receive(self, command: Any) -> None:
        """A command of the client for this channel."""
        if isinstance(command, ChannelClose):
            self._on_close(command)
        elif self.closing or self._asked_to_close:
            pass
        elif isinstance(command, ChannelAck):
            self._on_ack(command)
        elif not self.transacted:
            self.fault("amqp:illegal-state", f"{command.title()} on a channel that is not transacted")
        elif isinstance(command, ChannelCommit):
            self._on_commit(command)
        elif isinstance(command, ChannelRollback):
            self._take_work()
            self.reply(command.confirm_tag)

    def open_handle(self, command: HandleOpen) -> None:
        """The client opens a handle."""
        handle = ServerHandle(self, command)
        self.handles[handle] = None
        self.engine.handles[handle.id] = handle
        handle.begin()

    def next_number(self) -> int:
        """The number of the next message."""
        self.last_number = serial_add(self.last_number, 1) or 1  # 0 is no message's
        return self.last_number

    @property
    def committing(self) -> bool:
        """Something is, or waits for it."""
        return self.transactor is not None and self.transactor.busy

    @property
    def holding(self) -> bool:
        """Something waits for credit, or is being committed."""
        return self.committing or any(handle.holding for handle in self.handles)

    # Acknowledgments and transactions

    def _on_ack(self, command: ChannelAck) -> None:
        if self.transacted:
            before = self.work.acknowledged
            if before is None or serial_lt(before, command.message_nbr):
                self.work.acknowledged = command.message_nbr
        else:
            self.acknowledge(command.message_nbr, ACCEPTED)
        self.reply(command.confirm_tag)

    def post(self, link: ServerProducer, payload: bytes, message_format: int) -> None:
        """A message was sent in the transaction."""
        self.work.sent.append((link, payload, message_format))
        self.work.octets += len(payload)
        self.engine.uncommitted += len(payload)
        if self.engine.uncommitted > MOST_OCTETS or len(self.work.sent) > MOST_MESSAGES:
            self.end(too_much())

    def _take_work(self) -> Work:
        """What was done since the last commit, which is no concern of the next one."""
        work, self.work = self.work, Work()
        self.engine.uncommitted -= work.octets
        return work

    def _on_commit(self, command: ChannelCommit) -> None:
        work = self._take_work()
        work.tag = command.confirm_tag
        if work.spoiled is not None:
            self.reply(work.tag, work.spoiled)
        elif work.sent or self.committing:
            if self.transactor is None:
                self.transactor = Transactor(self)
            self.transactor.commit(work)
        else:
            self.acknowledge(work.acknowledged, ACCEPTED)
            self.reply(work.tag)

    def acknowledge(self, number: int | None, state: DeliveryState) -> None:
        """All that was sent up to a number has an outcome; one that is part of a transaction is not the last word."""
        links: dict[ServerConsumer, None] = {}
        for each in list(self.unacknowledged):
            if number is None or serial_lt(number, each):
                break
            delivery = self.unacknowledged[each]
            link: Any = delivery.link
            if isinstance(state, TransactionalState) and not delivery.local_settled:
                link.told_in(delivery, state)
                continue
            del self.unacknowledged[each]
            link.told(delivery, state)
            links[link] = None
        for link in links:
            link.recount()

    # Ending

    def end(self, error: Error | None = None) -> None:
        if not self.closing and not self.gone:
            code, text = code_of(error)
            self._close(code, text)

    def fault(self, condition: str, description: str) -> None:
        """The client may not do that: the channel ends."""
        self.end(Error(Symbol(condition), description))

    def _close(self, code: int, text: str) -> None:
        self.closing = True
        self._take_work()
        self.begun = False
        self.dropped = {handle.id for handle in self.handles}
        self.engine.write(ChannelClose(channel_id=self.id, reply_code=code, reply_text=text))
        for link in self.links:
            link.attached = False

    def _on_close(self, command: ChannelClose) -> None:
        if self._asked_to_close:
            return
        asked, self._asked_to_close = self.closing, True
        cause = None if asked else session_cause(error_of(command.reply_code, command.reply_text))
        self._take_work()
        for handle in list(self.handles):
            handle.leave(cause)
        if self.transactor is not None:
            self.transactor.leave(cause)
        self._gone = True
        self.engine.emit(SessionUnmapped(self, cause))
        # The outcomes of what came before are told first, by whoever hears of it now.
        if asked:
            self._forget()
        else:
            self.engine.owe(self)

    def pay(self) -> None:
        """Answer the client's close."""
        self.engine.write(ChannelClose(channel_id=self.id, reply_code=OK))
        self._forget()

    def _forget(self) -> None:
        self.begun = False
        for handle in list(self.handles):
            handle.forget()
        self.engine.channels.pop(self.id, None)

    def over(self, cause: Any) -> None:
        super().over(cause)
        self.engine.channels.pop(self.id, None)
