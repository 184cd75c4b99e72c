"""The consumers of a server's channel: each is a sender link, whose credit is what its prefetch leaves (0-9-1 §1.8.3).

A cancelled consumer is sent nothing more, but what it has may still be acked: its link ends with the last ack.
"""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, Any

from ...engine import (
    CreditChanged,
    LinkEnded,
    LinkTerms,
    OutcomesReceived,
    OutgoingDelivery,
    SenderLink,
    route_address,
)
from ...errors import EncodeError, LocalProtocolError
from ...messaging import (
    ACCEPTED,
    DeliveryState,
    Error,
    Modified,
    Rejected,
    Source,
    Target,
    TransactionalState,
    unapplied_filters,
)
from ...types import Symbol
from ._channel import BASIC, State
from ._codes import Fault
from ._fields import write_shortstr
from ._frames import METHOD
from ._methods import (
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
)
from ._outgoing import Outgoing, Route, as_it_is
from ._server_link import ServerLink
from ._streams import stream_filters
from ._table import Latin1, octets_of

if TYPE_CHECKING:
    from ...engine import Link
    from ._server_session import ServerSession

ACK, NACK, REJECT = b"\0\x3c\0\x50", b"\0\x3c\0\x78", b"\0\x3c\0\x5a"
DELIVER = b"\0\x3c\0\x3c"
NO_LIMIT = 0x7FFF_FFFF
# A failed attempt: the message is to have the bit "redelivered" the next time.
AGAIN = Modified(delivery_failed=True)


class Consumers:
    """Those of one channel, and what is out to them.

    Attributes:
        unacked: number -> delivery, oldest first.
    """

    def __init__(self, session: ServerSession) -> None:
        self.session = session
        self.unacked: dict[int, OutgoingDelivery] = {}
        self.number = 0  # of the last delivery
        self._by_tag: dict[str, ConsumeLink] = {}
        self._links: dict[ConsumeLink, None] = {}
        self._prefetch = 0  # of consumers to come
        self._shared = 0  # of all of them together; 0 for no limit
        self._paused = False
        self._tags = 0

    def links(self) -> list[Link]:
        return list(self._links)

    def clear(self) -> None:
        self._links.clear()
        self._by_tag.clear()
        self.unacked.clear()

    # Beginning, and ending

    def limit(self, count: int, shared: bool) -> None:
        """basic.qos: for consumers to come, or for all of the channel."""
        if shared:
            self._shared = count
            self.admit()
        else:
            self._prefetch = count

    def consume(self, method: BasicConsume) -> None:
        tag = method.consumer_tag
        if not tag:
            self._tags += 1
            tag = f"amq.ctag-{self.session.number}-{self._tags}"
        if tag in self._by_tag:
            raise Fault(530, f"attempt to reuse consumer tag '{tag}'", method.code)
        properties: dict[Any, Any] = {}
        arguments = method.arguments or {}
        priority = arguments.get("x-priority")
        if isinstance(priority, int):
            properties[Symbol("priority")] = priority
        if method.exclusive:
            properties[Symbol("exclusive")] = True
        link = ConsumeLink(self, method, tag, method.queue, method.no_ack, properties, stream_filters(arguments))
        link.limit = self._prefetch or NO_LIMIT
        self._by_tag[tag] = link
        self._links[link] = None
        link.announce()

    def get(self, method: BasicGet) -> None:
        self._tags += 1
        name = f"get-{self.session.number}-{self._tags}"
        link = GetLink(self, method, name, method.queue, method.no_ack, {Symbol("x-opt-get"): True})
        self._links[link] = None
        link.announce()

    def cancel(self, method: BasicCancel) -> None:
        link = self._by_tag.pop(method.consumer_tag, None)
        if link is not None:
            link.cancelled = True
            link.credit = 0
            self.session.replies_end(link.queue)
            self.end_if_done(link)
        if not method.nowait:
            self.session.write(BasicCancelOk(method.consumer_tag))

    def end_if_done(self, link: ConsumeLink) -> None:
        """A consumer that is cancelled, or was a get, is over with its last ack, if that can not be rolled back."""
        if link.cancelled and not link.unsettled and not link.revocable and link in self._links:
            self.forget(link)
            self.session.engine.emit(LinkEnded(link, True, None))

    def forget(self, link: ConsumeLink) -> None:
        link.attached = False
        self.session.replies_end(link.queue)
        self._links.pop(link, None)
        if self._by_tag.get(link.name) is link:
            del self._by_tag[link.name]

    # Credit

    def pause(self, paused: bool) -> None:
        """channel.flow."""
        self._paused = paused
        self.admit()

    def room(self, link: ConsumeLink) -> int:
        """How many deliveries it may be sent now."""
        if self._paused or link.cancelled:
            return 0
        left = link.limit - len(link.unsettled)
        return min(left, self._shared - len(self.unacked)) if self._shared else left

    def admit(self) -> None:
        """See what each consumer may be sent by now."""
        for link in list(self._links):
            link.admit()

    # Settling

    def settle(self, number: int, multiple: bool, verb: bytes) -> None:
        """What the client says of deliveries."""
        unacked = self.unacked
        if multiple:
            numbers = list(takewhile(number.__ge__, unacked) if number else unacked)  # they are in order
        else:
            numbers = [number]
        if (not numbers and number) or (not multiple and number not in unacked):
            raise Fault(406, f"unknown delivery tag {number}", (60, verb[3]), soft=True)
        self.take(numbers, ACCEPTED if verb == ACK else AGAIN if verb == NACK else Rejected())

    def take(self, numbers: list[int], state: DeliveryState) -> None:
        """These are settled so, or are to be when the transaction is committed."""
        transactions = self.session.transactions
        told: dict[ConsumeLink, list[OutgoingDelivery]] = {}
        for number in numbers:
            delivery = self.unacked.pop(number)
            link = delivery.link
            assert isinstance(link, ConsumeLink)
            if transactions.txn_id is not None:
                delivery.remote_state = TransactionalState(transactions.txn_id, state)
                transactions.acked.append(delivery)
                link.revocable += 1
            else:
                delivery.remote_state = state
                delivery.remote_settled = delivery.local_settled = True
            link.unsettled.pop(delivery.tag, None)
            told.setdefault(link, []).append(delivery)
        for link, deliveries in told.items():
            self.session.engine.emit(OutcomesReceived(link, deliveries))
            self.end_if_done(link)
        if self._shared:
            self.admit()
        else:
            for link in told:
                link.admit()

    def recover(self) -> None:
        """All that is out comes again."""
        self.take(list(self.unacked), AGAIN)

    def committed(self, deliveries: list[OutgoingDelivery]) -> None:
        """These acks count."""
        for link in {each.link: None for each in deliveries}:
            assert isinstance(link, ConsumeLink)
            link.revocable = 0
            self.end_if_done(link)

    def give_back(self, deliveries: list[OutgoingDelivery]) -> None:
        """A transaction was rolled back: these acks were never said."""
        for delivery in deliveries:
            link = delivery.link
            if isinstance(link, ConsumeLink) and link in self._links and delivery.delivery_id is not None:
                self.unacked[delivery.delivery_id] = delivery
                link.unsettled[delivery.tag] = delivery
                link.revocable = 0
        self.unacked = dict(sorted(self.unacked.items()))


class ConsumeLink(ServerLink, SenderLink):
    """See `SenderLink` for the contract."""

    is_sender = True

    def __init__(
        self,
        consumers: Consumers,
        method: BasicConsume | BasicGet,
        name: str,
        queue: str,
        no_ack: bool,
        properties: dict[Any, Any],
        filters: dict[Any, Any] | None = None,
    ) -> None:
        super().__init__(
            consumers.session,
            LinkTerms(
                name,
                Source(route_address("", queue), filter=filters),
                Target(None),
                settle_mode="settled" if no_ack else "unsettled",
                properties=properties,
                on_demand=False,
            ),
        )
        self.delivery_type = OutgoingDelivery
        self.credit = 0
        self.drain = False
        self.auto_settle = True
        self.unsettled: dict[bytes, OutgoingDelivery] = {}
        self.frame_room = self.engine.room
        self.limit = NO_LIMIT
        self.queue = queue
        self.cancelled = False
        self.revocable = 0  # acks in a transaction that is not over
        self._consumers = consumers
        self._method = method
        self._no_ack = no_ack
        self._mapping = Outgoing(self.engine.variant.tables, "", queue, came=True, room=self.engine.room)
        prefix = bytearray(DELIVER)
        write_shortstr(prefix, name, self.engine.variant.tables)
        self._prefix = bytes(prefix)
        self._routes: dict[tuple[str, str], bytes] = {}

    def begin(self) -> None:
        assert isinstance(self._method, BasicConsume)
        asked, source = self.remote.source, self.terms.source if self.terms is not None else None
        if asked is not None and unapplied_filters(asked.filter, source.filter if source is not None else None):
            error = Error("amqp:precondition-failed", "invalid arg 'x-stream-...': the queue is no stream")
            self.session.refuse_method(error, self._method)
            return
        if not self._method.nowait:
            self.session.write(BasicConsumeOk(self.name))
        self.session.release(self)
        self.admit()

    def admit(self) -> None:
        """What it may be sent has changed, perhaps."""
        if not self.attached:
            return
        before, self.credit = self.credit, max(0, self._consumers.room(self))
        if self.credit > before:
            self.engine.emit(CreditChanged(self))

    def refuse(self, error: Error) -> None:
        self._consumers.forget(self)
        self.terms = self.remote
        code = (error.info or {}).get("reply-code")
        self.session.refuse_method(error, self._method, code if isinstance(code, int) else 0)

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
        if self.credit <= 0 or not self.attached or more:
            raise LocalProtocolError(f"no credit on the link {self.name!r}, or not attached; or a message in parts")
        consumers, engine = self._consumers, self.engine
        try:
            route, body = self._mapping.map(payload)
        except EncodeError:
            route, body = as_it_is(payload, engine.variant.tables)
        consumers.number = number = consumers.number + 1
        octets = number.to_bytes(8, "big")
        delivery = self.delivery_type(self, octets, payload, settled or self._no_ack, message_format)
        delivery.delivery_id = number
        delivery.state = state
        self._write(number, octets, route)
        framing, channel = engine.variant.framing, self.session.number
        engine.write(framing.message(channel, BASIC, route.properties, body, engine.room, route.children))
        delivery.on_wire = True
        if not self._no_ack:
            self.unsettled[octets] = delivery
            consumers.unacked[number] = delivery
            self.credit -= 1
            if consumers._shared:
                consumers.admit()
        return delivery

    def _write(self, number: int, octets: bytes, route: Route) -> None:
        """The method before the content."""
        odd = Latin1 in (type(route.exchange), type(route.key))  # which are equal to others, and not the same
        place = self._routes.get((route.exchange, route.key)) if not odd else None
        if place is None:
            end = bytearray()
            for text in (route.exchange, route.key):
                data = octets_of(text)[:255]
                end.append(len(data))
                end += data
            if len(self._routes) > 1000:
                self._routes.clear()
            place = bytes(end)
            if not odd:
                self._routes[route.exchange, route.key] = place
        redelivered = b"\1" if route.redelivered else b"\0"
        payload = b"".join((self._prefix, octets, redelivered, place))
        self.engine.write(self.engine.variant.framing.frame(METHOD, self.session.number, payload))

    def send_more(self, delivery: OutgoingDelivery, payload: bytes, *, more: bool = False) -> None:
        raise LocalProtocolError("no delivery is under way in parts")

    def abort(self, delivery: OutgoingDelivery) -> None:
        raise LocalProtocolError("only a delivery that is not whole on the wire can be aborted")

    def settle(self, delivery: OutgoingDelivery, state: DeliveryState | None = None) -> None:
        if delivery.local_settled:
            return
        delivery.local_settled = True
        self.unsettled.pop(delivery.tag, None)
        if delivery.delivery_id is not None:
            self._consumers.unacked.pop(delivery.delivery_id, None)
        self._consumers.end_if_done(self)
        self.admit()

    def resend(self, delivery: OutgoingDelivery) -> None:
        raise LocalProtocolError("nothing is resumed in this dialect")

    def forget(self, delivery: OutgoingDelivery) -> None:
        self.settle(delivery)

    def drained(self, available: int = 0) -> None:
        pass

    def offer(self, available: int) -> None:
        pass

    def detach(self, *, closed: bool = True, error: Error | None = None) -> None:
        """The queue is gone, mostly: who understands it is told."""
        if not self.attached:
            return
        self._consumers.forget(self)
        session = self.session
        if session.channel_state is State.OPEN and session.connection.told_of_cancels and not self.cancelled:
            session.write(BasicCancel(self.name, nowait=True))
        self.engine.emit(LinkEnded(self, closed, None))


class GetLink(ConsumeLink):
    """One basic.get: a credit of one, drained."""

    more = 0  # how many more messages there are

    def begin(self) -> None:
        self.credit = 1
        self.drain = True
        self.engine.emit(CreditChanged(self))

    def admit(self) -> None:
        pass

    def _write(self, number: int, octets: bytes, route: Route) -> None:
        self.session.write(BasicGetOk(number, route.redelivered, route.exchange, route.key, self.more))

    def offer(self, available: int) -> None:
        self.more = available

    def send(self, payload: bytes, **options: Any) -> OutgoingDelivery:
        delivery = super().send(payload, **options)
        self._answered()
        return delivery

    def drained(self, available: int = 0) -> None:
        if self.drain:
            self.session.write(BasicGetEmpty())
            self._answered()
            self._consumers.end_if_done(self)

    def _answered(self) -> None:
        self.credit = 0
        self.drain = False
        self.cancelled = True
        self.session.release(self)

    def detach(self, *, closed: bool = True, error: Error | None = None) -> None:
        if self.attached and self.drain:
            self.drained()
        elif self.attached:
            super().detach(closed=closed, error=error)
