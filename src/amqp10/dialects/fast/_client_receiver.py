"""Receiving, at the client: a channel and a handle of its own, messages by number, acknowledgments for all up to one.

What the server may send is bounded by the messages it has sent and not seen acknowledged, the prefetch. The credit here
counts messages that are to come; so the prefetch is said anew whenever it is not what is unacknowledged and the credit
together, and lowered before an acknowledgment would make room that no credit is for (`_client_acks`).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...engine import (
    DeliveriesReceived,
    DeliveriesUnresumed,
    FlowReceived,
    IncomingDelivery,
    IncomingStream,
    LinkAttached,
    LinkTerms,
    PartsReceived,
    ReceiverLink,
)
from ...errors import AmqpError, LocalProtocolError, RemoteProtocolError, Unsupported
from ...messaging import Accepted, Error, Modified, Released, Source, TransactionalState
from ...types import Symbol
from ._client_acks import Acknowledging
from ._client_handle import ClientHandle, HandleOwner
from ._client_session import ClientChannel
from ._codes import BadContents
from ._commands import (
    Command,
    HandleCancel,
    HandleConsume,
    HandleCreated,
    HandleFlow,
    HandleNotify,
    HandleOpen,
    HandlePrepare,
    HandleReady,
    MessageHead,
)
from ._content import Assembly, read_head
from ._endpoints import FastLink, link_cause
from ._incoming import payload_of, stream_front
from ._restart import kept_part, known_by, parts_of
from ._services import identifier_of, restrict, termini_of

if TYPE_CHECKING:
    from ...messaging import DeliveryState
    from ._client_session import ClientSession


class ClientReceiver(FastLink, ReceiverLink, HandleOwner):
    """See `ReceiverLink`.

    Attributes:
        acknowledges: messages are the server's until they are settled; else they are copies.
    """

    session: ClientSession
    is_sender = False
    keeps_parts = True
    acknowledges = True

    def __init__(self, session: ClientSession, terms: LinkTerms, resuming: Iterable[IncomingDelivery] | None) -> None:
        super().__init__(session, terms.name)
        self.terms = terms
        self.credit = 0
        self.available = 0
        self.incoming: deque[IncomingDelivery] = deque()
        self.unsettled: dict[bytes, IncomingDelivery] = {}
        self.partial_state: DeliveryState | None = None
        self.delivery_type = IncomingDelivery
        self.streaming = False
        self._created: str | None = None
        self._coming: tuple[IncomingDelivery, Assembly] | None = None  # a message of which more is to come
        self._prepared: Assembly | None = None  # of which the rest is to come
        self._kept = {known_by(each.head): each for each in parts_of(resuming or ()).values()}  # of the last handle
        self._unread = 0  # octets of bodies that are read while they come in
        self._unresumed = [each for each in resuming or () if getattr(each, "stream", None) is None]
        self._closed = not identifier_of(terms)  # what it receives from is over with the link
        settles = terms.settle_mode == "settled" or not self.acknowledges
        self.channel = ClientChannel(session.engine, self._on_channel_closed, self._on_channel, transacted=not settles)
        self.handle = ClientHandle(self.channel, self)
        self.acks = Acknowledging(self, unreliable=settles)

    # Attaching

    def begin(self, opening: HandleOpen) -> None:
        """Open the handle, and consume in pause: so the server looks whether there is something to consume from."""
        self.handle.open(opening, self._on_opened)
        self.engine.write(HandleFlow(handle_id=self.handle.id, flow_pause=True))
        self.handle.ask(self.consume(1), self._on_consuming)

    def begin_ending(self, opening: HandleOpen) -> None:
        """End the subscription of this name, whatever it is of."""
        self.handle.open(opening, self._on_opened)
        self.handle.ask(HandleCancel(identifier=self._name), self._on_consuming)

    def consume(self, prefetch: int) -> HandleConsume:
        """The command that says the prefetch, and says what from again."""
        assert self.terms is not None
        command = HandleConsume(
            handle_id=self.handle.id,
            prefetch=prefetch,
            unreliable=self.acks.unreliable,
            identifier=identifier_of(self.terms),
        )
        restrict(command, self.terms.source)
        return command

    def _on_channel(self, error: Error | None) -> None:
        if error is not None:
            self._give_up(error)

    def _on_opened(self, error: Error | None) -> None:
        if error is not None:
            self._give_up(error)

    def _on_consuming(self, error: Error | None) -> None:
        if error is not None:
            self._give_up(error)
        elif not self.gone and not self.handle.closing:
            assert self.terms is not None
            self.remote = termini_of(self.terms, self._created)
            if self.terms.source is None:  # there was a subscription, of whatever
                self.remote = replace(self.remote, source=Source())
            self.attached = True
            self.engine.emit(LinkAttached(self))
            unresumed, self._unresumed = self._unresumed, []
            if unresumed:
                self.engine.emit(DeliveriesUnresumed(self, unresumed))

    def _give_up(self, error: Error) -> None:
        """The server refuses."""
        self.channel.close()
        self.over(True, link_cause(error))

    def attach(self, terms: LinkTerms, *, resuming: Iterable[Any] | None = None) -> None:
        raise LocalProtocolError("a server attaches no links in AMQP/Fast, so there is none to be answered")

    def refuse(self, error: Error) -> None:
        raise LocalProtocolError("a server attaches no links in AMQP/Fast, so there is none to be refused")

    @property
    def settled_by_sender(self) -> bool:
        return self.acks.unreliable

    # Credit

    def flow(
        self, credit: int, *, drain: bool = False, echo: bool = False, properties: Mapping[Any, Any] | None = None
    ) -> None:
        if self.gone or self.handle.closing:
            raise LocalProtocolError(f"the link {self._name!r} is not attached")
        if not 0 <= credit <= 0xFFFF_FFFF:
            raise LocalProtocolError(f"a credit of {credit}")
        if properties:
            raise Unsupported("AMQP/Fast has no properties of a flow, so nothing can be acquired in a transaction")
        self.credit = credit
        self.acks.granted(drain)
        self.engine.owe(self)

    def pay(self) -> None:
        """Write what settling and credit come to."""
        if not self.gone and not self.handle.closing:
            self.acks.write()

    def drained(self) -> None:
        """The server has sent what it has, and waits."""
        given_back, self.credit = self.credit, 0
        self.engine.emit(FlowReceived(self, True, given_back))

    # Messages

    def handle_received(self, handle: ClientHandle, command: Command, content: bytes) -> None:
        if isinstance(command, HandleNotify):
            self._on_notify(command, content)
        elif isinstance(command, HandleCreated):
            self._created = command.dest_name
        elif isinstance(command, HandlePrepare):
            self._on_prepare(command, content)
        else:
            super().handle_received(handle, command, content)

    def _on_notify(self, command: HandleNotify, content: bytes) -> None:
        if command.out_of_band:
            raise RemoteProtocolError("a message out of band, where no band was agreed on", "amqp:not-implemented")
        if command.streaming:
            raise RemoteProtocolError("a stream from a service that is none of peers", "amqp:not-implemented")
        if self.handle.closing:
            return
        if self._coming is None and command.recovery:
            assembly, self._prepared = self._prepared, None
            if assembly is None:
                raise RemoteProtocolError("the rest of a message that was not prepared", "amqp:illegal-state")
            self._coming = self._begin(command, assembly)
        elif self._coming is None:
            head, content = read_head(content)
            if self._too_large(head):
                return
            self._coming = self._begin(command, Assembly(head))
        delivery, assembly = self._coming
        if command.message_nbr != delivery.delivery_id:
            raise RemoteProtocolError(
                "a message began before the last fragment of the one before it", "amqp:illegal-state"
            )
        assembly.add(content, keep=not self.streaming)
        if not command.partial:
            self._coming = None
        if self.streaming:
            self._on_part(delivery, content, whole=not command.partial)
            if not command.partial:
                assembly.check()
        elif not command.partial:
            self._on_whole(command, delivery, assembly)

    def _on_whole(self, command: HandleNotify, delivery: IncomingDelivery, assembly: Assembly) -> None:
        """All of a message is here, or of two: what was kept may be another's with the same head."""
        try:
            delivery.payload, delivery.message_format = payload_of(
                assembly, redelivered=command.redelivered, to=self._address_of(command)
            )
        except BadContents:
            if not assembly.kept:
                raise
            self.credit += 1  # it comes again, and then of nothing else
            self.acks.give_back(delivery)
            self.engine.owe(self)
        else:
            self._hand_out(delivery)

    def _on_prepare(self, command: HandlePrepare, content: bytes) -> None:
        """The server asks how much is here of a message: what the last handle had, or what comes with the question."""
        if self._prepared is not None or self._coming is not None:
            raise RemoteProtocolError("a message is prepared while another comes in", "amqp:illegal-state")
        if self.handle.closing:
            return
        head, content = read_head(content)
        if self._too_large(head):
            return
        assembly = Assembly(head, command.content_hash)
        kept = self._kept.pop(known_by(head), None)
        assembly.kept = kept is not None and not self.streaming
        for part in kept.parts if kept is not None and assembly.kept else [content]:
            assembly.add(part)
        self._prepared = assembly
        self.engine.write(HandleReady(handle_id=self.handle.id, message_size=assembly.size))

    def _too_large(self, head: MessageHead) -> bool:
        """Whether a message is larger than this side takes: the link ends over that, as in AMQP 1.0."""
        limit = self.terms.max_message_size if self.terms is not None else None
        if not limit or head.body_size <= limit:
            return False
        reason = f"a message of {head.body_size} octets; {limit} are taken"
        error = Error(Symbol("amqp:link:message-size-exceeded"), reason)
        self.acks.finish()
        self.handle.close(error)
        self.over(True, link_cause(error))
        return True

    def _begin(self, command: HandleNotify, assembly: Assembly) -> tuple[IncomingDelivery, Assembly]:
        """A message whose first fragment is here."""
        number = command.message_nbr
        delivery = self.delivery_type(self, number, number.to_bytes(4, "big"), b"", self.acks.unreliable)
        self.acks.came(delivery)
        self.credit = max(0, self.credit - 1)
        if self.streaming:
            delivery.stream = IncomingStream()
            front = stream_front(
                assembly.head, time.time(), redelivered=command.redelivered, to=self._address_of(command)
            )
            delivery.stream.parts.append(front)
            for part in assembly.parts:
                self._on_part(delivery, part, whole=False)
            assembly.parts.clear()
            self._hand_out(delivery)
        return delivery, assembly

    def _address_of(self, command: HandleNotify) -> str | None:
        """Where the message went, if that is more than is known."""
        assert self.terms is not None
        known = self._created or (self.terms.source.address if self.terms.source is not None else None)
        return command.dest_name if command.dest_name and command.dest_name != known else None

    def _hand_out(self, delivery: IncomingDelivery) -> None:
        if not delivery.local_settled:
            self.unsettled[delivery.tag] = delivery
        self.incoming.append(delivery)
        if len(self.incoming) == 1:
            self.engine.emit(DeliveriesReceived(self))

    # A message that is read while it comes in

    def _on_part(self, delivery: IncomingDelivery, content: bytes, *, whole: bool) -> None:
        stream = delivery.stream
        stream.size += len(content)
        tell = whole
        if content and not stream.discarded:
            tell = tell or not stream.parts
            stream.parts.append(content)
            self._count(len(content))
        stream.whole = whole
        if tell:
            self.engine.emit(PartsReceived(delivery))

    def read(self, delivery: IncomingDelivery) -> bytes | None:
        parts = delivery.stream.parts
        if not parts:
            return None
        part = parts.popleft()
        if delivery.stream.lent:  # all but the first, which is the front
            self._count(-len(part))
        delivery.stream.lent = True
        return part

    def discard(self, delivery: IncomingDelivery) -> None:
        stream = delivery.stream
        waiting = list(stream.parts)[0 if stream.lent else 1 :]
        self._count(-sum(map(len, waiting)))
        stream.discarded = stream.lent = True
        stream.parts.clear()

    def _count(self, octets: int) -> None:
        """So many octets more wait to be read; of a link that is over none count."""
        if not self.gone:
            self._unread += octets
            self.session.engine.unread(octets)

    def over(self, closed: bool, cause: AmqpError | None) -> None:
        self._count(-self._unread)
        super().over(closed, cause)

    # Settling

    def settle(self, delivery: IncomingDelivery, state: DeliveryState | None, *, settled: bool | None = None) -> None:
        if delivery.local_settled:
            return
        if self.gone or self.handle.closing:
            raise LocalProtocolError(f"the link {self._name!r} is gone: the delivery is the sender's to send again")
        self.check_outcome(state)
        if isinstance(state, TransactionalState):
            self._settle_in(state, delivery)
            return
        if isinstance(state, Released | Modified):
            self.acks.give_back(delivery)
        else:
            self.acks.settled(delivery)
        self.note_settled(delivery, state)
        self.engine.owe(self)

    def _settle_in(self, state: TransactionalState, delivery: IncomingDelivery) -> None:
        """It is part of a transaction, and settled when that is committed."""
        transaction = self.session.engine.transactions.get(state.txn_id)
        if transaction is None:
            raise LocalProtocolError("no such transaction is open")
        transaction.accept(self, delivery)
        self.note_settled(delivery, state)

    def undo(self, delivery: IncomingDelivery) -> None:
        """The transaction in which it was accepted is rolled back: it comes again, to whomever."""
        if not self.gone and not self.handle.closing:
            self.acks.give_back(delivery)
            self.engine.owe(self)

    def check_outcome(self, state: DeliveryState | None) -> None:
        """Raise for what cannot be told."""
        if isinstance(state, TransactionalState):
            if not isinstance(state.outcome, Accepted):
                raise Unsupported("in AMQP/Fast only accepted can be part of a transaction")
            return
        plain = isinstance(state, Modified) and not (state.undeliverable_here or state.message_annotations)
        if state is not None and not isinstance(state, Accepted | Released) and not plain:
            raise Unsupported(f"AMQP/Fast has no outcome {type(state).__name__.lower()}: accept or release")

    def note_settled(self, delivery: IncomingDelivery, state: DeliveryState | None) -> None:
        """It is settled at this end, and so at both."""
        if state is not None:
            delivery.state = state
        delivery.local_settled = True
        self.unsettled.pop(delivery.tag, None)

    # Ending

    def suspended(self) -> list[IncomingDelivery]:
        coming = self._coming[1] if self._coming is not None else self._prepared
        parts = [coming] if coming is not None else list(self._kept.values())
        return [*self.unsettled.values(), *(kept_part(self, each) for each in parts if each.parts)]

    def detach(self, *, closed: bool = True, error: Error | None = None) -> None:
        if self.gone or self.handle.closing:
            return
        self.acks.finish()
        self.attached = False
        self._closed = closed
        identifier = identifier_of(self.terms) if self.terms is not None and closed else ""
        if identifier:
            self.engine.write(HandleCancel(handle_id=self.handle.id, identifier=identifier))
        self.handle.close()
        self.channel.close()

    def session_ends(self) -> None:
        """The session is going away."""
        if not self.gone and not self.handle.closing:
            self.acks.finish()
            self.handle.close()
            self.channel.close()
        self.attached = False

    def handle_closed(self, handle: ClientHandle, error: Error | None, asked: bool) -> None:
        self.channel.close()
        self.over(self._closed, None if asked and error is None else link_cause(error))

    def _on_channel_closed(self, error: Error | None, asked: bool) -> None:
        self.over(self._closed, None if asked and error is None else link_cause(error))
