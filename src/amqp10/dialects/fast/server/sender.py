"""A link on which the server sends: messages by the channel's numbers, as many unacknowledged as the prefetch says."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ....engine import LinkAttached, LinkTerms, OutgoingDelivery
from ....errors import LocalProtocolError
from ....messaging import RELEASED, Error, Source
from ..._kit.links import PlainSender
from ..link import LinkEndpoint
from ..message.from_head import delivery_count_of
from ..message.stream_fragmenter import StreamFragmenter
from ..message.to_head import to_fast
from ..states import Step
from ..wire.commands import HandleConsume, HandleFlow, HandleNotify, HandlePrepare, MessageHead
from ..wire.fragments import body_hash, fragments

if TYPE_CHECKING:
    from ....errors import AmqpError
    from ....messaging import DeliveryState
    from .parents import ServerLinkHandle, ServerLinkSession


class ServerSender(LinkEndpoint, PlainSender):
    """See `SenderLink`.

    Args:
        command: the client's command to consume; None for a temporary destination, which exists before that command.
    """

    session: ServerLinkSession
    terms: LinkTerms | None
    drain: bool
    credit: int

    def __init__(self, handle: ServerLinkHandle, remote: LinkTerms, command: HandleConsume | None) -> None:
        super().__init__(handle.session, remote.name)
        self.remote: LinkTerms = remote
        self.unsettled: dict[bytes, OutgoingDelivery] = {}
        self.frame_room: int = handle.engine.frame_max
        self._handle = handle
        self._created = command is None
        self._consuming = command  # the command that is not answered yet
        self._prefetch = 0
        self._unreliable = False
        self._unacknowledged = 0
        self._numbers: set[int] = set()  # of its deliveries in the session's `unacknowledged`
        self._stopping: list[int] = []  # tags of confirmed pauses
        self._sending: tuple[OutgoingDelivery, StreamFragmenter] | None = None
        self._preparing: tuple[OutgoingDelivery, bytes] | None = None  # message asked about, and its body
        if command is not None:
            self._unreliable = command.unreliable
            self.remote = replace(remote, settle_mode="settled" if command.unreliable else "unsettled")
            self._set_prefetch(command)
        self.engine.emit(LinkAttached(self))

    @property
    def lists(self) -> bool:
        """Return whether a list that the client asked for is not complete yet; only browsers make lists."""
        return False

    # Attaching

    def attach(self, terms: LinkTerms, *, resuming: Iterable[Any] | None = None) -> None:
        if not self.take_answer(terms):
            return
        self.advance(Step.ATTACH)
        source = terms.source
        if self._created:
            self._handle.opened(source.address if isinstance(source, Source) else None)
        if self._consuming is not None:
            self._handle.reply(self._consuming.confirm_tag)
            self._consuming = None
        self._handle.go_on()

    def refuse(self, error: Error) -> None:
        self.terms = self.remote
        self._handle.close(error)

    @property
    def settled_by_sender(self) -> bool:
        return self._unreliable

    # Credit

    def consume(self, command: HandleConsume) -> None:
        """Take the prefetch of another command to consume, and reply."""
        self._set_prefetch(command)
        self._handle.reply(command.confirm_tag)
        self.engine.report_credit(self)

    def _set_prefetch(self, command: HandleConsume) -> None:
        self._prefetch = command.prefetch
        if self._unreliable:
            self._unacknowledged = 0
        self._count()

    def flow(self, command: HandleFlow) -> None:
        """Pause, or go on, as the client asks; confirm a pause once the messages allowed by the credit were sent."""
        if command.flow_pause and command.confirm_tag and (self.credit or self._preparing is not None):
            self._stopping.append(command.confirm_tag)
            self.drain = True
            self.engine.report_credit(self)
            return
        self.recount()
        self._handle.reply(command.confirm_tag)

    def recount(self) -> None:
        """Compute the credit again, and tell the owner if it rose."""
        before = self.credit
        self._count()
        if self.credit > before:
            self.engine.report_credit(self)

    def _count(self) -> None:
        paused = (self._handle.paused and not self.drain) or self._preparing is not None
        self.credit = 0 if paused else max(0, self._prefetch - self._unacknowledged)

    def drained(self, available: int = 0) -> None:
        if self.drain and self._preparing is None:  # else the owner is asked again, with the credit that is left
            self.drain = False
            self._count()
            for tag in self._stopping:
                self._handle.reply(tag)
            self._stopping.clear()

    # Sending

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
        self.check_attached()
        if self.credit <= 0 or self._sending is not None:
            raise LocalProtocolError(f"no credit on the link {self._name!r}, or the delivery before is not complete")
        if tag is None:
            tag = self.new_tag()
        else:
            self.check_tag(tag)
        head, body = MessageHead(), b""
        if not more:  # encode first: this may fail, and then no state has changed
            head, body = to_fast(payload, time.time(), message_format=message_format, max_octets=self.engine.frame_max)
        delivery = self.delivery_type(self, tag, payload, settled or self._unreliable, message_format)
        delivery.state = state
        self.credit -= 1
        self._unacknowledged += 1
        if not delivery.local_settled:
            self.unsettled[tag] = delivery
        if more:
            self._number(delivery)
            outflow = StreamFragmenter(self.engine.frame_max, message_format)
            self._sending = delivery, outflow
            delivery.past = 4
            parts = outflow.feed(payload, True)
            self._write(delivery, parts, redelivered=False)
            return delivery
        max_octets = self.engine.frame_max
        front, again = head.write(), delivery_count_of(head) > 0
        if (
            again
            and self.session.restartable
            and len(front) <= max_octets < len(front) + len(body)
            and not self._unreliable
        ):
            self._prepare(delivery, front, body)
            return delivery
        self._number(delivery)
        self._write(delivery, fragments(front, body, max_octets), redelivered=again)
        delivery.on_wire = True
        return delivery

    def _number(self, delivery: OutgoingDelivery) -> None:
        """Give the delivery its message number, because it is sent now."""
        number = delivery.delivery_id = self.session.next_number()
        if not self._unreliable:
            self.session.unacknowledged[number] = delivery
            self._numbers.add(number)

    def _prepare(self, delivery: OutgoingDelivery, front: bytes, body: bytes) -> None:
        """Ask how much of a message the client has from an earlier attempt; wait for the answer (`restart`)."""
        self._preparing = delivery, body
        self.credit = 0
        command = HandlePrepare(handle_id=self._handle.id, fragment_size=len(front), content_hash=body_hash(body))
        self.engine.write(command, front)

    def ready(self, size: int) -> bool:
        """Send the rest of a body, after the `size` octets that the client has.

        Return False if the client was not asked, or if `size` is larger than the body.
        """
        if self._preparing is None or size > len(self._preparing[1]):
            return False
        (delivery, body), self._preparing = self._preparing, None
        self._number(delivery)
        rest = fragments(b"", body[size:], self.engine.frame_max)
        self._write(delivery, rest, redelivered=True, recovery=True)
        delivery.on_wire = True
        self._count()
        self.engine.report_credit(self)
        return True

    def _write(
        self,
        delivery: OutgoingDelivery,
        parts: Iterable[tuple[bytes, bool]],
        *,
        redelivered: bool,
        recovery: bool = False,
    ) -> None:
        for content, partial in parts:
            self.engine.write(
                HandleNotify(
                    handle_id=self._handle.id,
                    message_nbr=delivery.delivery_id or 0,
                    fragment_size=len(content),
                    partial=partial,
                    recovery=recovery,
                    delivered=True,
                    redelivered=redelivered,
                    dest_name="" if partial else self._name_of_source(),
                ),
                content,
            )

    def _name_of_source(self) -> str:
        source = self.terms.source if self.terms is not None else None
        return (source.address or "") if isinstance(source, Source) and len(source.address or "") < 64 else ""

    def send_more(self, delivery: OutgoingDelivery, payload: bytes, *, more: bool = False) -> None:
        if self._sending is None or self._sending[0] is not delivery:
            raise LocalProtocolError("send_more is for the delivery begun last with more=True")
        self.check_attached()
        self._write(delivery, self._sending[1].feed(payload, more), redelivered=False)
        if not more:
            self._sending = None
            delivery.on_wire = True

    def abort(self, delivery: OutgoingDelivery) -> None:
        if delivery not in [each[0] for each in (self._sending, self._preparing) if each is not None]:
            raise LocalProtocolError("only a delivery that was not yet sent completely can be aborted, and only once")
        self._sending = self._preparing = None
        self.forget(delivery)
        self._handle.close(Error("amqp:internal-error", "a message was aborted before its end"))

    # Outcomes

    def on_outcome(self, delivery: OutgoingDelivery, state: DeliveryState) -> None:
        """Settle a delivery with the outcome that the client gave; the session has already removed it."""
        self._unacknowledged -= 1
        self._numbers.discard(delivery.delivery_id or 0)
        if self.unsettled.pop(delivery.tag, None) is None:
            return  # it was sent settled on an unsettled link, so no owner waits for an outcome
        delivery.remote_state = state
        delivery.remote_settled = delivery.local_settled = True
        self.engine.report_outcome(self, delivery)

    def on_provisional_outcome(self, delivery: OutgoingDelivery, state: DeliveryState) -> None:
        """Record the outcome that a delivery gets when its transaction is committed."""
        delivery.remote_state = state
        self.engine.report_outcome(self, delivery)

    def unget(self, number: int) -> None:
        """Release the message with this number, because the client gives it back."""
        if number in self._numbers:
            self.on_outcome(self.session.unacknowledged.pop(number), RELEASED)
            self.recount()

    def settle(self, delivery: OutgoingDelivery, state: DeliveryState | None = None) -> None:
        if not delivery.local_settled:
            delivery.local_settled = True
            if state is not None:
                delivery.state = state
            self.unsettled.pop(delivery.tag, None)
            prepared = self._preparing is not None and self._preparing[0] is delivery
            number = delivery.delivery_id or 0
            if self.session.unacknowledged.pop(number, None) is not None or prepared:
                self._numbers.discard(number)
                self._unacknowledged -= 1
                self.recount()

    def forget(self, delivery: OutgoingDelivery) -> None:
        delivery.local_settled = True
        self.unsettled.pop(delivery.tag, None)

    # Ending

    def suspended(self) -> list[OutgoingDelivery]:
        return [delivery for delivery in self.unsettled.values() if not delivery.streamed]

    def drop_over_credit(self) -> None:
        """Do nothing: a sender holds no messages."""

    def detach(self, *, closed: bool = True, error: Error | None = None) -> None:
        if not self.ended:
            self._handle.close(error)

    def leave(self, closed: bool | None, cause: AmqpError | None) -> None:
        """End the link, because the client has left.

        Args:
            closed: whether the link is closed for good; None: closed unless its source is a durable subscription.
        """
        for number in self._numbers:
            del self.session.unacknowledged[number]
        self._numbers.clear()
        source = self.remote.source if self.remote is not None else None
        kept = isinstance(source, Source) and source.durable != "none"
        self.over(not kept if closed is None else closed, cause)


class UnsubscribeLink(ServerSender):
    """A link that is attached only to end a subscription, by the subscription's name."""

    terms: LinkTerms | None

    def __init__(self, handle: ServerLinkHandle, remote: LinkTerms, tag: int) -> None:
        super().__init__(handle, remote, None)
        self._tag = tag

    def attach(self, terms: LinkTerms, *, resuming: Iterable[Any] | None = None) -> None:
        if self.take_answer(terms):
            self.advance(Step.ATTACH)
        self._answer(None)

    def refuse(self, error: Error) -> None:
        self.terms = self.remote
        self._answer(error)

    def _answer(self, error: Error | None) -> None:
        self._handle.reply(self._tag, error)
        self._handle.unsubscribed()
        self.leave(True, None)
        self._handle.go_on()
