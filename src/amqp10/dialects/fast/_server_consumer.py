"""A link on which the server sends: messages by the channel's numbers, as many unacknowledged as the prefetch says."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...engine import LinkAttached, LinkEnded, LinkTerms, OutgoingDelivery, SenderLink
from ...errors import LocalProtocolError
from ...messaging import RELEASED, Error, Source
from ._commands import HandleConsume, HandleFlow, HandleNotify, HandlePrepare, MessageHead
from ._content import Outflow, body_hash, fragments
from ._endpoints import FastLink
from ._mapping import delivery_count_of, to_fast

if TYPE_CHECKING:
    from ...messaging import DeliveryState
    from ._server_handle import ServerHandle
    from ._server_session import ServerSession


class ServerConsumer(FastLink, SenderLink):
    """See `SenderLink`.

    Args:
        command: what the client said to consume; None for a temporary destination, which there is before that.
    """

    session: ServerSession
    is_sender = True

    def __init__(self, handle: ServerHandle, remote: LinkTerms, command: HandleConsume | None) -> None:
        super().__init__(handle.session, remote.name)
        self.remote = remote
        self.credit = 0
        self.drain = False
        self.unsettled: dict[bytes, OutgoingDelivery] = {}
        self.auto_settle = True
        self.delivery_type = OutgoingDelivery
        self.frame_room = handle.engine.frame_max
        self._handle = handle
        self._created = command is None
        self._consuming = command  # the command that is not answered yet
        self._prefetch = 0
        self._unreliable = False
        self._unacknowledged = 0
        self._stopping: list[int] = []  # tags of confirmed pauses
        self._next_tag = 0
        self._sending: tuple[OutgoingDelivery, Outflow] | None = None
        self._preparing: tuple[OutgoingDelivery, bytes] | None = None  # of which the client is asked how much it has
        if command is not None:
            self._unreliable = command.unreliable
            self.remote = replace(remote, settle_mode="settled" if command.unreliable else "unsettled")
            self._set_prefetch(command)
        self.engine.emit(LinkAttached(self))

    @property
    def lists(self) -> bool:
        """What was asked for is not listed yet: of browsers."""
        return False

    # Attaching

    def attach(self, terms: LinkTerms, *, resuming: Iterable[Any] | None = None) -> None:
        if self.terms is not None or self.gone:
            raise LocalProtocolError("the link was answered already")
        self.terms = terms
        self.attached = True
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
        """The client consumes anew: with another prefetch."""
        self._set_prefetch(command)
        self._handle.reply(command.confirm_tag)
        self.engine.tell_credit(self)

    def _set_prefetch(self, command: HandleConsume) -> None:
        self._prefetch = command.prefetch
        if self._unreliable:
            self._unacknowledged = 0
        self._count()

    def flow(self, command: HandleFlow) -> None:
        """The client pauses, or goes on. A pause that is to be confirmed is so when what may be sent was sent."""
        if command.flow_pause and command.confirm_tag and (self.credit or self._preparing is not None):
            self._stopping.append(command.confirm_tag)
            self.drain = True
            self.engine.tell_credit(self)
            return
        self.recount()
        self._handle.reply(command.confirm_tag)

    def recount(self) -> None:
        """The prefetch may have room again."""
        before = self.credit
        self._count()
        if self.credit > before:
            self.engine.tell_credit(self)

    def _count(self) -> None:
        paused = (self._handle.paused and not self.drain) or self._preparing is not None
        self.credit = 0 if paused else max(0, self._prefetch - self._unacknowledged)

    def drained(self, available: int = 0) -> None:
        if self.drain and self._preparing is None:  # else it is asked again, with the credit that is left
            self.drain = False
            self._count()
            for tag in self._stopping:
                self._handle.reply(tag)
            self._stopping.clear()

    def offer(self, available: int) -> None:
        """Nobody is told."""

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
            self._next_tag += 1
            tag = self._next_tag.to_bytes(8, "big")
        elif len(tag) > 32 or tag in self.unsettled:
            raise LocalProtocolError(f"the delivery-tag {tag!r} is longer than 32 bytes, or in use")
        head, body = MessageHead(), b""
        if not more:  # what may fail over the message comes before anything is noted of it
            head, body = to_fast(payload, time.time(), message_format=message_format, room=self.engine.frame_max)
        delivery = self.delivery_type(self, tag, payload, settled or self._unreliable, message_format)
        delivery.state = state
        self.credit -= 1
        self._unacknowledged += 1
        if not delivery.local_settled:
            self.unsettled[tag] = delivery
        if more:
            self._number(delivery)
            outflow = Outflow(self.engine.frame_max, message_format)
            self._sending = delivery, outflow
            delivery.past = 4
            parts = outflow.feed(payload, True)
            self._write(delivery, parts, redelivered=False)
            return delivery
        room = self.engine.frame_max
        front, again = head.write(), delivery_count_of(head) > 0
        if again and self.session.restartable and len(front) <= room < len(front) + len(body) and not self._unreliable:
            self._prepare(delivery, front, body)
            return delivery
        self._number(delivery)
        self._write(delivery, fragments(front, body, room), redelivered=again)
        delivery.on_wire = True
        return delivery

    def _number(self, delivery: OutgoingDelivery) -> None:
        """It goes out now."""
        number = delivery.delivery_id = self.session.next_number()
        if not self._unreliable:
            self.session.unacknowledged[number] = delivery

    def _prepare(self, delivery: OutgoingDelivery, front: bytes, body: bytes) -> None:
        """Ask how much of it the client has, for it was delivered before; until then nothing else is (`_restart`)."""
        self._preparing = delivery, body
        self.credit = 0
        command = HandlePrepare(handle_id=self._handle.id, fragment_size=len(front), content_hash=body_hash(body))
        self.engine.write(command, front)

    def ready(self, size: int) -> bool:
        """The client has so many octets of the body: the rest goes out. False if that was not asked, or cannot be."""
        if self._preparing is None or size > len(self._preparing[1]):
            return False
        (delivery, body), self._preparing = self._preparing, None
        self._number(delivery)
        rest = fragments(b"", body[size:], self.engine.frame_max)
        self._write(delivery, rest, redelivered=True, recovery=True)
        delivery.on_wire = True
        self._count()
        self.engine.tell_credit(self)
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
        if self._sending is None or self._sending[0] is not delivery:
            raise LocalProtocolError("only a delivery that is not whole on the wire can be aborted, and only once")
        self._sending = None
        self.forget(delivery)
        self._handle.close(Error("amqp:internal-error", "a message was given up before its end"))

    # Outcomes

    def told(self, delivery: OutgoingDelivery, state: DeliveryState) -> None:
        """The client says what became of it; it is in the session's books no more."""
        self._unacknowledged -= 1
        if self.unsettled.pop(delivery.tag, None) is None:
            return  # sent settled on a link that is not: there is nothing to be known
        delivery.remote_state = state
        delivery.remote_settled = delivery.local_settled = True
        self.engine.tell_outcome(self, delivery)

    def told_in(self, delivery: OutgoingDelivery, state: DeliveryState) -> None:
        """The client says what is to become of it when a transaction is committed."""
        delivery.remote_state = state
        self.engine.tell_outcome(self, delivery)

    def unget(self, number: int) -> None:
        """The client gives a message back."""
        delivery = self.session.unacknowledged.get(number)
        if delivery is not None and delivery.link is self:
            del self.session.unacknowledged[number]
            self.told(delivery, RELEASED)
            self.recount()

    def settle(self, delivery: OutgoingDelivery, state: DeliveryState | None = None) -> None:
        if not delivery.local_settled:
            delivery.local_settled = True
            if state is not None:
                delivery.state = state
            self.unsettled.pop(delivery.tag, None)
            asked = self._preparing is not None and self._preparing[0] is delivery
            if self.session.unacknowledged.pop(delivery.delivery_id or 0, None) is not None or asked:
                self._unacknowledged -= 1
                self.recount()

    def resend(self, delivery: OutgoingDelivery) -> None:
        raise LocalProtocolError("the link was not resumed, so there is nothing to be sent again")

    def forget(self, delivery: OutgoingDelivery) -> None:
        delivery.local_settled = True
        self.unsettled.pop(delivery.tag, None)

    # Ending

    def suspended(self) -> list[OutgoingDelivery]:
        return [delivery for delivery in self.unsettled.values() if not delivery.streamed]

    def drop_held(self) -> None:
        """Nothing is held."""

    def detach(self, *, closed: bool = True, error: Error | None = None) -> None:
        if not self.gone:
            self._handle.close(error)

    def leave(self, closed: bool | None, cause: Any) -> None:
        """The client has left; `closed` None: for good, but from a subscription that is kept for it."""
        self.attached = False
        self.session.links.pop(self, None)
        unacknowledged = self.session.unacknowledged
        for number in [number for number, each in unacknowledged.items() if each.link is self]:
            del unacknowledged[number]
        if not self.gone:
            self.gone = True
            source = self.remote.source if self.remote is not None else None
            kept = isinstance(source, Source) and source.durable != "none"
            self.engine.emit(LinkEnded(self, not kept if closed is None else closed, cause))


class Ending(ServerConsumer):
    """A link to a subscription of which only the name is known, attached to end it."""

    def __init__(self, handle: ServerHandle, remote: LinkTerms, tag: int) -> None:
        super().__init__(handle, remote, None)
        self._tag = tag

    def attach(self, terms: LinkTerms, *, resuming: Iterable[Any] | None = None) -> None:
        self.terms = terms
        self.attached = True
        self._answer(None)

    def refuse(self, error: Error) -> None:
        self.terms = self.remote
        self._answer(error)

    def _answer(self, error: Error | None) -> None:
        self._handle.reply(self._tag, error)
        self._handle.consumer = None
        self.leave(True, None)
        self._handle.go_on()
