"""Receiving, at the client: a channel and a handle of its own, messages by number, acknowledgments for all up to one.

The prefetch of a handle is the most messages that the server may have sent without an acknowledgment. Our credit is the
number of messages that may still come. So the prefetch must equal unacknowledged + credit. It is sent again whenever
that sum changes, and lowered before an acknowledgment that would otherwise let in more than the credit (`acks`). With 3
messages unacknowledged and a credit of 7, the prefetch is 10. If these 3 are acknowledged and no credit is added, it is
lowered to 7 first; otherwise the server might send 10.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from ....engine import (
    FlowReceived,
    Handlers,
    IncomingDelivery,
    IncomingStream,
    LinkTerms,
    PartsReceived,
)
from ....errors import AmqpError, LinkDetached, LocalProtocolError, RemoteProtocolError, Unsupported
from ....messaging import Accepted, Error, Modified, Released, Source, TransactionalState
from ....types import Symbol
from ..._kit.causes import as_exception
from ..._kit.links import PlainReceiver
from ..._kit.message.limits import limit_hint, message_limit, partial_limit
from ..codes import BadContents
from ..message.destinations import apply_filters, identifier_of
from ..message.from_head import payload_of, stream_front
from ..restart import kept_part, known_by, parts_of
from ..wire.commands import (
    HandleCancel,
    HandleConsume,
    HandleFlow,
    HandleNotify,
    HandleOpen,
    HandlePrepare,
    HandleReady,
    MessageHead,
)
from ..wire.fragments import Assembly, read_head
from .acks import AckTracker
from .handle import ClientHandle
from .link import ClientLink

if TYPE_CHECKING:
    from ....messaging import DeliveryState
    from .parents import ClientLinkSession


class ClientReceiver(ClientLink, PlainReceiver):
    """See `ReceiverLink`.

    Attributes:
        acknowledges: the server keeps messages until they are settled; False: the messages are copies.
    """

    keeps_parts = True
    acknowledges = True
    credit: int
    handlers: ClassVar[Handlers] = {HandleNotify: "_on_notify", HandlePrepare: "_on_prepare"}

    def __init__(
        self, session: ClientLinkSession, terms: LinkTerms, resuming: Iterable[IncomingDelivery] | None
    ) -> None:
        settles = terms.settle_mode == "settled" or not self.acknowledges
        whole = [each for each in resuming or () if getattr(each, "stream", None) is None]
        # The source ends with the link, unless the link has an identifier.
        super().__init__(session, terms, whole, transacted=not settles, closed=not identifier_of(terms))
        self.incoming: deque[IncomingDelivery] = deque()
        self.unsettled: dict[bytes, IncomingDelivery] = {}
        self._coming: tuple[IncomingDelivery, Assembly] | None = None  # the message that is still incomplete
        self._prepared: Assembly | None = None  # the prepared message, whose rest is still to come
        self._kept = {known_by(each.head): each for each in parts_of(resuming or ()).values()}  # of the last handle
        self._weight = 0  # of what is kept of it
        self._unread = 0  # octets of streamed bodies that wait to be read
        self.acks: AckTracker = AckTracker(self, unreliable=settles)

    # Attaching

    def begin(self, opening: HandleOpen) -> None:
        """Open the handle, and consume while paused, so that the server checks the source."""
        self.handle.open(opening, self._on_opened)
        self.engine.write(HandleFlow(handle_id=self.handle.id, flow_pause=True))
        self.handle.ask(self.consume(1), self._on_consuming)

    def begin_ending(self, opening: HandleOpen) -> None:
        """End the subscription that has the link's name, whatever its topic is."""
        self.handle.open(opening, self._on_opened)
        self.handle.ask(HandleCancel(identifier=self._name), self._on_consuming)

    def consume(self, prefetch: int) -> HandleConsume:
        """Return the command that sets the prefetch, which repeats the source."""
        command = HandleConsume(
            handle_id=self.handle.id,
            prefetch=prefetch,
            unreliable=self.acks.unreliable,
            identifier=identifier_of(self.terms),
        )
        apply_filters(command, self.terms.source)
        return command

    def _on_consuming(self, error: Error | None) -> None:
        if error is not None:
            self._on_opened(error)
        elif self.is_open:
            self.mark_attached()

    def answer(self) -> LinkTerms:
        answer = super().answer()
        # If a subscription was ended, its source is unknown.
        return answer if self.terms.source is not None else replace(answer, source=Source())

    @property
    def settled_by_sender(self) -> bool:
        return self.acks.unreliable

    # Credit

    def flow(
        self, credit: int, *, drain: bool = False, echo: bool = False, properties: Mapping[Any, Any] | None = None
    ) -> None:
        if not self.is_open:
            raise LocalProtocolError(f"the link {self._name!r} is not attached")
        self.check_credit(credit)
        if properties:
            raise Unsupported("AMQP/Fast has no flow properties, so a receiver cannot acquire in a transaction")
        self.credit = credit
        self.acks.set_credit(drain)
        self.engine.flush_later(self)

    def flush(self) -> None:
        """Write the acknowledgments and the prefetch that are due."""
        if self.is_open:
            self.acks.write()

    def drained(self) -> None:
        """Give back the rest of the credit and tell the owner, because the server has sent all it has and paused."""
        given_back, self.credit = self.credit, 0
        self.engine.emit(FlowReceived(self, True, given_back))

    # Messages

    def _on_notify(self, handle: ClientHandle, command: HandleNotify, content: bytes) -> None:
        if command.out_of_band:
            raise RemoteProtocolError("an out-of-band message, although no band was agreed on", "amqp:not-implemented")
        if command.streaming:
            raise RemoteProtocolError(
                "a service sent a streaming message, which only peers may exchange", "amqp:not-implemented"
            )
        if self.handle.closing:
            return
        if self._coming is None and self._exceeded():
            self._refuse(Error(Symbol("amqp:resource-limit-exceeded"), "far more messages than the prefetch allows"))
            return
        if self._coming is None and command.recovery:
            assembly, self._prepared = self._prepared, None
            if assembly is None:
                raise RemoteProtocolError("a fragment of a message that was not prepared", "amqp:illegal-state")
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
        if not self._keep_part(assembly if command.partial else None):
            return
        if not command.partial:
            self._coming = None
        if self.streaming:
            self._on_part(delivery, content, whole=not command.partial)
            if not command.partial:
                assembly.check()
        elif not command.partial:
            self._on_whole(command, delivery, assembly)

    def _exceeded(self) -> bool:
        """Return whether the server has sent far more than it was asked for."""
        return self.acks.exceeded

    def _on_whole(self, command: HandleNotify, delivery: IncomingDelivery, assembly: Assembly) -> None:
        """Hand out a complete message; give it back if the kept part was of another message with the same head."""
        try:
            delivery.payload, delivery.message_format = payload_of(
                assembly, redelivered=command.redelivered, to=self._address_of(command)
            )
        except BadContents:
            if not assembly.kept:
                raise
            self.credit += 1  # it comes again, and then without a kept part
            self.acks.give_back(delivery)
            self.engine.flush_later(self)
        else:
            self._arrived(delivery)

    def _on_prepare(self, handle: ClientHandle, command: HandlePrepare, content: bytes) -> None:
        """Answer how much of a message is here: the part kept from the last handle, or the part sent along."""
        if self._prepared is not None or self._coming is not None:
            raise RemoteProtocolError(
                "a message is prepared before the one before it is complete", "amqp:illegal-state"
            )
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
        if not self._keep_part(assembly):
            return
        self._prepared = assembly
        self.engine.write(HandleReady(handle_id=self.handle.id, message_size=assembly.size))

    def _too_large(self, head: MessageHead) -> bool:
        """Return whether a message is larger than the link allows; if so, end the link, as in AMQP 1.0."""
        declared = self.terms.max_message_size
        limit = message_limit(declared)
        if head.body_size <= limit or (self.streaming and not declared):
            return False
        reason = f"a message of {head.body_size} octets; {limit} are taken{limit_hint(declared)}"
        self._refuse(Error(Symbol("amqp:link:message-size-exceeded"), reason))
        return True

    def _refuse(self, error: Error) -> None:
        """End the link, for what comes is not taken."""
        self.acks.finish()
        self.handle.close(error)
        self.over(True, as_exception(LinkDetached, error))

    def _keep_part(self, assembly: Assembly | None) -> bool:
        """Count what is kept of an incomplete message, None for nothing; return False if that ends the link."""
        weight = assembly.weight if assembly is not None else 0
        self.session.engine.count_partial(weight - self._weight)
        self._weight = weight
        most = partial_limit(None, self.terms.max_message_size)
        if assembly is None or self.session.engine.partial <= most:
            return True
        reason = f"more than {most} octets of messages that are not whole"
        self._refuse(Error(Symbol("amqp:resource-limit-exceeded"), reason))
        return False

    def _begin(self, command: HandleNotify, assembly: Assembly) -> tuple[IncomingDelivery, Assembly]:
        """Begin a delivery whose first fragment has arrived."""
        number = command.message_nbr
        delivery = self.delivery_type(self, number, number.to_bytes(4, "big"), b"", self.acks.unreliable)
        self.acks.arrived(delivery)
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
            self._arrived(delivery)
        return delivery, assembly

    def _address_of(self, command: HandleNotify) -> str | None:
        """Return the destination of a message, or None if it is the link's own address."""
        known = self.created or (self.terms.source.address if self.terms.source is not None else None)
        return command.dest_name if command.dest_name and command.dest_name != known else None

    def _arrived(self, delivery: IncomingDelivery) -> None:
        if not delivery.local_settled:
            self.unsettled[delivery.tag] = delivery
        self.hand_out(delivery)

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
        if delivery.stream.last_part_held:  # all but the first, which is the front
            self._count(-len(part))
        delivery.stream.last_part_held = True
        return part

    def discard(self, delivery: IncomingDelivery) -> None:
        stream = delivery.stream
        waiting = list(stream.parts)[0 if stream.last_part_held else 1 :]
        self._count(-sum(map(len, waiting)))
        stream.discarded = stream.last_part_held = True
        stream.parts.clear()

    def _count(self, octets: int) -> None:
        """Count octets that wait to be read, or no longer wait (negative), unless the link is over."""
        if not self.ended:
            self._unread += octets
            self.session.engine.unread(octets)

    def over(self, closed: bool, cause: AmqpError | None) -> None:
        self._count(-self._unread)
        self._keep_part(None)
        super().over(closed, cause)

    # Settling

    def settle(self, delivery: IncomingDelivery, state: DeliveryState | None, *, settled: bool | None = None) -> None:
        if delivery.local_settled:
            return
        if not self.is_open:
            raise LocalProtocolError(f"the link {self._name!r} is over: the sender may send the message again")
        self.check_own(delivery, self.unsettled)
        self.check_outcome(state)
        if isinstance(state, TransactionalState):
            self._settle_in(state, delivery)
            return
        if isinstance(state, Released | Modified):
            self.acks.give_back(delivery)
        else:
            self.acks.settled(delivery)
        self.settled_by_owner(delivery, state)
        self.engine.flush_later(self)

    def _settle_in(self, state: TransactionalState, delivery: IncomingDelivery) -> None:
        """Accept a delivery in a transaction; the server learns of it when the transaction is committed."""
        self.session.engine.transactions.find(state.txn_id).accept(self, delivery)
        self.settled_by_owner(delivery, state)

    def obstacle(self, deliveries: list[IncomingDelivery]) -> Error | None:
        """Return why a transaction cannot accept these deliveries; None if it can."""
        if not self.is_open:
            return Error(Symbol("amqp:transaction:rollback"), "the receiver of what was accepted is gone")
        if not self.acks.covers(deliveries):
            return Error(
                Symbol("amqp:precondition-failed"),
                "messages are acknowledged in order: one that came before is not settled",
            )
        return None

    def settle_before_commit(self, deliveries: list[IncomingDelivery]) -> None:
        """Write the acknowledgments of a transaction, which the next commit makes count."""
        self.acks.write()  # what is due outside of the transaction
        for delivery in deliveries:
            self.acks.settled(delivery)
        self.acks.write(commit=False)

    def undo(self, delivery: IncomingDelivery) -> None:
        """Give a delivery back to the server, because the transaction in which it was accepted is rolled back."""
        if self.is_open:
            self.acks.give_back(delivery)
            self.engine.flush_later(self)

    def check_outcome(self, state: DeliveryState | None) -> None:
        """Raise `Unsupported` for an outcome that AMQP/Fast does not have."""
        if isinstance(state, TransactionalState):
            if not isinstance(state.outcome, Accepted):
                raise Unsupported("the only outcome in a transaction of AMQP/Fast is accepted")
            return
        plain = isinstance(state, Modified) and not (state.undeliverable_here or state.message_annotations)
        if state is not None and not isinstance(state, Accepted | Released) and not plain:
            raise Unsupported(f"AMQP/Fast has no outcome {type(state).__name__.lower()}: accept or release")

    # Ending

    def suspended(self) -> list[IncomingDelivery]:
        coming = self._coming[1] if self._coming is not None else self._prepared
        parts = [coming] if coming is not None else list(self._kept.values())
        kept = [kept_part(self, each) for each in parts if each.parts]
        return [*self._unresumed.deliveries, *self.unsettled.values(), *kept]

    def before_close(self, closed: bool) -> None:
        self.acks.finish()
        identifier = identifier_of(self.terms) if closed else ""
        if identifier:
            self.engine.write(HandleCancel(handle_id=self.handle.id, identifier=identifier))
