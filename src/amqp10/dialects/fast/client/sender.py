"""Sending, at the client: a handle for a producer, and a tag for each message that is to be confirmed.

The server knows no credit for producers, so the credit here is a window of messages that are not confirmed.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar, Final

from ....engine import Handlers, LinkTerms, OutgoingDelivery
from ....errors import AmqpError, DecodeError, LocalProtocolError, RemoteProtocolError
from ....messaging import ACCEPTED, Error, Rejected, Returned, Target, TransactionalState, read_properties
from ..._kit.links import PlainSender
from ..codes import BAD_CONTENTS, UNROUTABLE, reply_code_of
from ..message.destinations import opening
from ..message.stream_fragmenter import StreamFragmenter
from ..message.to_head import to_fast
from ..restart import restart_options
from ..wire.commands import HandleOpen, HandlePrepare, HandleReady, HandleSend
from ..wire.fragments import body_hash, fragments
from ..wire.values import MAX_SHORTSTR
from .handle import ClientHandle
from .link import ClientLink
from .send_window import SenderShare

if TYPE_CHECKING:
    from ....messaging import DeliveryState
    from .parents import ClientLinkSession

WINDOW: Final = 1000
"""Messages that may be on their way without an outcome."""


class ClientSender(ClientLink, PlainSender):
    """See `SenderLink`."""

    keeps_name = True
    handle: ClientHandle
    handlers: ClassVar[Handlers] = {HandleReady: "_on_ready"}

    def __init__(
        self, session: ClientLinkSession, terms: LinkTerms, resuming: Iterable[OutgoingDelivery] | None
    ) -> None:
        super().__init__(session, terms, resuming)
        self.share: SenderShare = SenderShare(session.engine.send_window)
        self.unsettled: dict[bytes, OutgoingDelivery] = {}
        self.frame_room: int = session.engine.frame_max
        self._outflow: tuple[OutgoingDelivery, StreamFragmenter, str] | None = (
            None  # the message that is sent in parts, and its destination
        )
        self._collected: tuple[OutgoingDelivery, list[bytes]] | None = None  # the parts of a message in a transaction
        self._abandoned: set[ClientHandle] = set()  # closed in the midst of a message: their end is not the link's
        self._again: list[OutgoingDelivery] = []  # to be sent again, before anything newer
        self._preparing: OutgoingDelivery | None = None  # the message that the server was asked about
        self._prepared = b""  # the body of `_preparing`
        self._window = 0  # messages that may be sent and want a reply
        self._restart = ""

    # Attaching

    def begin(self, opening: HandleOpen) -> None:
        """Open the handle; ask the server to keep parts for a restart, if the destination has a permanent name."""
        if opening.dest_name and not opening.temporary:
            self._restart, options = restart_options(self._name, self.session.engine.restart_names)
            self.session.engine.restart_names.add(self._restart)
            opening.options = opening.options | options
        self.handle.open(opening, self._on_producing)

    def _on_producing(self, error: Error | None) -> None:
        if error is not None:
            self._on_opened(error)
        elif self.is_open:
            self._window = WINDOW
            self.mark_attached()

    def begin_flow(self) -> None:
        self.engine.report_credit(self)
        for delivery in self._unresumed.deliveries:
            delivery.delivery_id = None

    @property
    def settled_by_sender(self) -> bool:
        return self.terms.settle_mode == "settled"

    # Sending

    @property
    def credit(self) -> int:  # type: ignore[override]  # it is the engine's, no one sets it
        return 0 if self._preparing is not None or self.session.engine.send_window.full else self._window

    def send(
        self,
        payload: bytes,
        *,
        settled: bool = False,
        tag: bytes | None = None,
        message_format: int = 0,
        state: DeliveryState | None = None,
        batchable: bool = False,
        more: bool = False,
    ) -> OutgoingDelivery:
        self._check_sendable(settled)
        if tag is None:
            tag = self.new_tag()
        else:
            self.check_tag(tag)
        delivery = self.delivery_type(self, tag, payload, settled, message_format)
        delivery.state = state
        if isinstance(state, TransactionalState) and more:
            self.session.engine.transactions.find(state.txn_id)  # raise now, and not only at its end
            self._collected = delivery, [payload]
            delivery.past = 4
        elif isinstance(state, TransactionalState):
            self._post(delivery, payload, state)
            return delivery
        elif more:
            self._begin_stream(delivery, payload)
        else:
            self._write(delivery, payload)
        if not settled:
            self._window -= 1
            self.unsettled[tag] = delivery
        return delivery

    def _check_sendable(self, settled: bool) -> None:
        if self._outflow is not None or self._collected is not None:
            raise LocalProtocolError(
                "the delivery before is not complete: call send_more() to its end, or abort() it first"
            )
        self.check_sendable(settled)

    def _write(self, delivery: OutgoingDelivery, payload: bytes) -> None:
        """Send a whole message."""
        max_octets = self.engine.frame_max
        head, body = to_fast(payload, time.time(), message_format=delivery.message_format, max_octets=max_octets)
        if len(body) > 0xFFFF_FFFF:
            raise LocalProtocolError(f"a body must have at most 2^32 - 1 octets in AMQP/Fast, not {len(body)}")
        to = self._to(payload)
        tag = self._tag_for(delivery, len(body))
        for content, partial in fragments(head.write(), body, max_octets):
            self._write_fragment(content, partial, tag, to)
        delivery.delivery_id = self.session.give_id()
        delivery.on_wire = True

    def _tag_for(self, delivery: OutgoingDelivery, octets: int) -> int:
        """Return the confirm-tag of a message whose body has `octets` octets; 0 if the message needs no reply."""
        covered = self.share.add(octets, asks=not delivery.local_settled)
        return self.handle.replies.tag(lambda error: self._on_outcome(delivery, covered, error)) if covered else 0

    def _to(self, payload: bytes) -> str:
        """Return the destination of a message on a link without an address; "" if the link has an address.

        Raises:
            LocalProtocolError: the destination is too long.
        """
        target = self.terms.target
        if not isinstance(target, Target) or target.address or target.dynamic:
            return ""
        try:
            to = read_properties(payload).to or ""
        except DecodeError:
            return ""
        if len(to.encode()) > MAX_SHORTSTR:
            raise LocalProtocolError(f"an address must have at most {MAX_SHORTSTR} octets, not {len(to.encode())}")
        return to

    def _write_fragment(self, content: bytes, partial: bool, tag: int, to: str, *, recovery: bool = False) -> None:
        self.engine.write(
            HandleSend(
                handle_id=self.handle.id,
                confirm_tag=0 if partial else tag,
                fragment_size=len(content),
                partial=partial,
                recovery=recovery,
                dest_name="" if partial else to,
            ),
            content,
        )

    def _post(self, delivery: OutgoingDelivery, payload: bytes, state: TransactionalState) -> None:
        """Keep a message until its transaction is committed, and report it as accepted in the transaction."""
        transaction = self.session.engine.transactions.find(state.txn_id)
        command = opening(self.terms, producer=True)
        if self.created is not None:
            command.dest_name = self.created
        transaction.post(command, self._to(payload), payload, delivery.message_format)
        delivery.delivery_id = self.session.give_id()
        delivery.on_wire = True
        self.settled_by_peer(delivery, TransactionalState(state.txn_id, ACCEPTED))
        self.engine.report_outcome(self, delivery)

    # In parts

    def _begin_stream(self, delivery: OutgoingDelivery, payload: bytes) -> None:
        outflow = StreamFragmenter(self.engine.frame_max, delivery.message_format)
        self._outflow = delivery, outflow, self._to(payload)
        delivery.past = 4
        delivery.delivery_id = self.session.give_id()
        for content, partial in outflow.feed(payload, True):
            self._write_fragment(content, partial, 0, "")

    def send_more(self, delivery: OutgoingDelivery, payload: bytes, *, more: bool = False) -> None:
        if self._collected is not None and self._collected[0] is delivery:
            self._collect(delivery, payload, more)
            return
        if self._outflow is None or self._outflow[0] is not delivery:
            raise LocalProtocolError("send_more is for the delivery begun last with more=True")
        self.check_attached()
        _, outflow, to = self._outflow
        parts = outflow.feed(payload, more)
        tag = 0 if more else self._tag_for(delivery, outflow.size)
        for content, partial in parts:
            self._write_fragment(content, partial, tag, to)
        if not more:
            self._outflow = None
            delivery.on_wire = True
            self._send_again()

    def _collect(self, delivery: OutgoingDelivery, payload: bytes, more: bool) -> None:
        """Collect a part of a message in a transaction; post the message when it is complete."""
        assert self._collected is not None
        _, parts = self._collected
        parts.append(payload)
        if not more:
            assert isinstance(delivery.state, TransactionalState)
            self._post(delivery, b"".join(parts), delivery.state)
            self._collected = None
            self._regain()

    def abort(self, delivery: OutgoingDelivery) -> None:
        if self._collected is not None and self._collected[0] is delivery:
            self._collected = None
            self.settle(delivery)
            return
        if self._outflow is None or self._outflow[0] is not delivery or not self.attached:
            raise LocalProtocolError("only a delivery that was not yet sent completely can be aborted, and only once")
        _, outflow, _ = self._outflow
        self._outflow = None
        if not delivery.local_settled:
            delivery.local_settled = True
            self.unsettled.pop(delivery.tag, None)
            self._regain()
        if outflow.begun:
            # Only a close of the handle makes the server forget the part of a message that it has.
            self.handle.close()
            self._abandoned.add(self.handle)
            self.handle = ClientHandle(self.channel, self)
            again = opening(self.terms, producer=True)
            if self.created is not None:
                again.dest_name, again.temporary = self.created, False
            self.handle.open(again, self._on_opened)
        self._send_again()

    # Outcomes

    def _on_outcome(self, delivery: OutgoingDelivery, covered: int, error: Error | None) -> None:
        self.share.acknowledge(covered)
        delivery.remote_state = outcome_of(error)
        delivery.remote_settled = True
        if delivery.local_settled and self.unsettled.get(delivery.tag) is not delivery:
            return  # forgotten meanwhile
        delivery.local_settled = True
        self.unsettled.pop(delivery.tag, None)
        self.engine.report_outcome(self, delivery)
        self._regain()

    def _regain(self) -> None:
        if self.attached:
            self._window += 1
            if self.credit:
                self.engine.report_credit(self)

    def settle(self, delivery: OutgoingDelivery, state: DeliveryState | None = None) -> None:
        if not delivery.local_settled:
            delivery.local_settled = True
            if state is not None:
                delivery.state = state
            if self.unsettled.pop(delivery.tag, None) is not None:
                self._regain()

    # After a loss

    def suspended(self) -> list[OutgoingDelivery]:
        """Return the unsettled deliveries, without a stream that was not sent to its end."""
        under_way = self._outflow[0] if self._outflow is not None else None
        for delivery in self.unsettled.values():
            if delivery.delivery_id is not None:
                delivery.past |= 2 if delivery.on_wire else 1
        return [each for each in self.unsettled.values() if each is not under_way] + self._unresumed.deliveries

    def resend(self, delivery: OutgoingDelivery) -> None:
        if delivery.local_settled or delivery.streamed or not self.attached:
            raise LocalProtocolError("only an unsettled delivery that was not streamed can be sent again")
        if delivery.tag in self.unsettled and self.unsettled[delivery.tag] is not delivery:
            delivery.tag = self.new_tag()
        delivery.link = self
        self.unsettled[delivery.tag] = delivery
        self._window -= 1
        self._again.append(delivery)
        self._send_again()

    def _send_again(self) -> None:
        while self._again and self._outflow is None and self._preparing is None:
            delivery = self._again.pop(0)
            delivery.on_wire = False
            if not (delivery.past & 3 and len(delivery.payload) > self.engine.frame_max and self._prepare(delivery)):
                self._write(delivery, delivery.payload)

    def _prepare(self, delivery: OutgoingDelivery) -> bool:
        """Ask how much of a message the server has, and wait; return False if it fits one fragment (`restart`)."""
        head, body = to_fast(delivery.payload, time.time(), message_format=delivery.message_format)
        front = head.write()
        if len(front) > self.engine.frame_max or len(front) + len(body) <= self.engine.frame_max:
            return False
        self._preparing, self._prepared = delivery, body
        command = HandlePrepare(handle_id=self.handle.id, fragment_size=len(front), content_hash=body_hash(body))
        self.engine.write(command, front)
        return True

    def _on_ready(self, handle: ClientHandle, command: HandleReady, content: bytes) -> None:
        """Send the rest of the prepared message, because the server has answered how much of it is there."""
        delivery, body = self._preparing, self._prepared
        if delivery is None or command.message_size > len(body):
            raise RemoteProtocolError(
                "a handle-ready that answers no handle-prepare, or for more octets than the body has",
                "amqp:illegal-state",
            )
        self._preparing, self._prepared = None, b""
        covered = self.share.add(len(body), asks=True)
        tag = self.handle.replies.tag(lambda error: self._on_resumed(delivery, covered, error))
        rest = body[command.message_size :]
        for content, partial in fragments(b"", rest, self.engine.frame_max):
            self._write_fragment(content, partial, tag, self._to(delivery.payload), recovery=True)
        delivery.delivery_id = self.session.give_id()
        delivery.on_wire = True
        self.engine.report_credit(self)
        self._send_again()

    def _on_resumed(self, delivery: OutgoingDelivery, covered: int, error: Error | None) -> None:
        """Take the outcome of a resumed message; send it again, whole, if the server's part was of another message."""
        if error is None or reply_code_of(error) != BAD_CONTENTS or delivery.local_settled:
            self._on_outcome(delivery, covered, error)
            return
        self.share.acknowledge(covered)
        delivery.past &= ~3
        self._again.insert(0, delivery)
        self._send_again()

    def forget(self, delivery: OutgoingDelivery) -> None:
        delivery.local_settled = True
        if self.unsettled.get(delivery.tag) is delivery:
            del self.unsettled[delivery.tag]

    # Ending

    def over(self, closed: bool, cause: AmqpError | None) -> None:
        super().over(closed, cause)
        self.share.give_up()
        self.session.engine.restart_names.discard(self._restart)

    def handle_closed(self, handle: ClientHandle, error: Error | None, requested: bool) -> None:
        if handle in self._abandoned:
            self._abandoned.discard(handle)
        else:
            super().handle_closed(handle, error, requested)


def outcome_of(error: Error | None) -> DeliveryState:
    """Return the outcome that a reply reports; `error` is None for success."""
    if error is None:
        return ACCEPTED
    return Returned(error) if reply_code_of(error) == UNROUTABLE else Rejected(error)
