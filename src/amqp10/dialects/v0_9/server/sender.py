"""The consumers of a server's channel: each is a sender link, whose credit is what its prefetch leaves (0-9-1 §1.8.3).

A cancelled consumer is sent nothing more, but what it has may still be acked: its link ends with the last ack.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from ....engine import (
    CreditChanged,
    LinkTerms,
    OutcomesReceived,
    OutgoingDelivery,
    WindowOpened,
    route_address,
)
from ....errors import EncodeError, LocalProtocolError
from ....messaging import (
    RELEASED,
    DeliveryState,
    Error,
    Modified,
    Source,
    Target,
    TransactionalState,
    unapplied_filters,
)
from ....types import Symbol
from ..._kit.links import PlainSender
from ..channel import BASIC
from ..codes import Fault
from ..message.pass_through import pass_through
from ..message.streams import stream_filters
from ..message.to_basic import PublishTemplate, ToBasic, as_encoded_sections
from ..states import ChannelState, LinkState, Step
from ..wire.fields import write_shortstr
from ..wire.framing import METHOD
from ..wire.methods import BasicCancel, BasicCancelOk, BasicConsume, BasicConsumeOk, BasicGet, BasicGetEmpty, BasicGetOk
from ..wire.tables import Latin1, octets_of
from .link import ServerLink
from .parents import TransactionWork

if TYPE_CHECKING:
    from .parents import ServerLinkSession

ACK, NACK, REJECT = b"\0\x3c\0\x50", b"\0\x3c\0\x78", b"\0\x3c\0\x5a"
DELIVER = b"\0\x3c\0\x3c"
NO_LIMIT = 0x7FFF_FFFF
# A failed attempt: the message is to have the bit "redelivered" the next time.
FAILED = Modified(delivery_failed=True)


class Unacked(dict[int, OutgoingDelivery]):
    """The deliveries without an ack, by their numbers: in that order, but for those that a rollback gave back.

    A client may roll one ack of many deliveries back, again and again: so they are never sorted anew.
    """

    def __init__(self) -> None:
        self._late: list[int] = []  # a heap of what was given back; some may be acked, or here twice

    def give_back(self, delivery: OutgoingDelivery, number: int) -> None:
        """Take a delivery whose ack was rolled back."""
        self[number] = delivery
        heappush(self._late, number)
        if len(self._late) > 2 * len(self) + 100:
            self._late = sorted(set(self._late) & self.keys())

    def up_to(self, number: int) -> list[int]:
        """Return the numbers up to `number`, in order; the caller removes them."""
        found = list(takewhile(number.__ge__, self))  # what is behind a larger one was given back, and is late
        late = self._late
        if not late:
            return found
        while late and late[0] <= number:
            found.append(heappop(late))
        return sorted(self.keys() & found)


def _nothing() -> None:
    """Do nothing: most methods that settle have no answer."""


class Consumers:
    """The consumers of one channel, and the deliveries that are out to them.

    Attributes:
        unacked: number -> delivery without an ack, oldest first; what a rollback gave back may stand behind.
        shared: limit of all consumers together; 0 for no limit. It is the window of the session.
    """

    def __init__(self, session: ServerLinkSession) -> None:
        self.session = session
        self.unacked: Unacked = Unacked()
        self.number = 0  # of the last delivery
        self._by_tag: dict[str, ServerSender] = {}
        self._links: dict[ServerSender, None] = {}
        self._prefetch = 0  # limit of each consumer to come
        self.shared: int = 0
        self._paused = False
        self._tags = 0

    def links(self) -> list[ServerLink]:
        return list(self._links)

    def clear(self) -> None:
        self._links.clear()
        self._by_tag.clear()
        self.unacked.clear()

    # Beginning, and ending

    def limit(self, count: int, shared: bool) -> None:
        """Set the prefetch (basic.qos) of consumers to come or, if `shared`, of the whole channel."""
        if shared:
            self.shared = count
            self._opened()
        else:
            self._prefetch = count

    def consume(self, method: BasicConsume) -> None:
        tag = method.consumer_tag
        if not tag:
            self._tags += 1
            tag = f"amq.ctag-{self.session.channel.number}-{self._tags}"
        if tag in self._by_tag:
            raise Fault(530, f"attempt to reuse consumer tag '{tag}'", method.code)
        properties: dict[Any, Any] = {}
        arguments = method.arguments or {}
        priority = arguments.get("x-priority")
        if isinstance(priority, int):
            properties[Symbol("priority")] = priority
        elif priority is not None:
            raise Fault(406, f"x-priority must be a whole number, not {priority!r:.60}", method.code, soft=True)
        timeout = arguments.get("x-consumer-timeout")
        if isinstance(timeout, int):
            properties[Symbol("rabbitmq:consumer-timeout")] = timeout
        if method.exclusive:
            properties[Symbol("exclusive")] = True
        link = ServerSender(self, method, tag, method.queue, method.no_ack, properties, stream_filters(arguments))
        link.limit = self._prefetch or NO_LIMIT
        self._by_tag[tag] = link
        self._links[link] = None
        link.announce()

    def get(self, method: BasicGet) -> None:
        self._tags += 1
        name = f"get-{self.session.channel.number}-{self._tags}"
        link = GetLink(self, method, name, method.queue, method.no_ack, {Symbol("x-opt-get"): True})
        self._links[link] = None
        link.announce()

    def cancel(self, method: BasicCancel) -> None:
        link = self._by_tag.pop(method.consumer_tag, None)
        if link is not None:
            link.cancel()
            self.session.replies_end(link.queue)
            self.end_if_done(link)
        if not method.nowait:
            self.session.channel.write(BasicCancelOk(method.consumer_tag))

    def end_if_done(self, link: ServerSender) -> None:
        """End a consumer that was cancelled, or was a get, with its last ack, once that ack cannot be rolled back."""
        if link.cancelled and not link.unsettled and not link.revocable and link in self._links:
            self.forget(link)
            link.end(True, None)

    def forget(self, link: ServerSender) -> None:
        self.session.replies_end(link.queue)
        self._links.pop(link, None)
        if self._by_tag.get(link.name) is link:
            del self._by_tag[link.name]

    # Credit

    def pause(self, paused: bool) -> None:
        """Stop sending to the client, or go on, as it asks by channel.flow."""
        self._paused = paused
        self._opened()

    @property
    def room(self) -> int | None:
        """How many deliveries all consumers together may be sent now; None: any number."""
        if self._paused:
            return 0
        return max(0, self.shared - len(self.unacked)) if self.shared else None

    def _opened(self) -> None:
        """Tell the owner if there is room, because there may have been none before."""
        if self.room != 0:
            self.session.engine.emit(WindowOpened(self.session))

    # Settling

    def settle(self, number: int, multiple: bool, verb: bytes, state: DeliveryState | None) -> None:
        """Settle the delivery `number`, or all up to it if `multiple`, as the client's method `verb` asks.

        `state` None: they are put back, and nobody says whether they failed.
        """
        unacked = self.unacked
        if number not in unacked and (number or not multiple):
            raise Fault(406, f"unknown delivery tag {number}", (60, verb[3]), soft=True)
        if multiple:
            numbers = unacked.up_to(number) if number else sorted(unacked)
        else:
            numbers = [number]
        self._take_in_portions(numbers, state, self.session.work, _nothing)

    def _take_in_portions(
        self, numbers: list[int], outcome: DeliveryState | None, work: TransactionWork, then: Callable[[], None]
    ) -> None:
        """Settle deliveries as `_take` does, many of them in several portions of the input; at last call `then`."""
        engine = self.session.engine
        if len(numbers) <= engine.left:
            engine.left -= len(numbers)
            self._take(numbers, outcome, work)
            then()
            return

        def take(some: Iterable[int]) -> None:
            self._take([number for number in some if number in self.unacked], outcome, work)

        engine.in_portions(numbers, take, then)

    def _take(self, numbers: list[int], outcome: DeliveryState | None, work: TransactionWork) -> None:
        """Settle the deliveries `numbers`; in a transaction, which `work` is of, when that is committed."""
        settled: dict[ServerSender, list[OutgoingDelivery]] = {}
        for number in numbers:
            delivery = self.unacked.pop(number)
            link = delivery.link
            assert isinstance(link, ServerSender)
            state = link.put_back if outcome is None else outcome
            if work.txn_id is not None:
                delivery.remote_state = TransactionalState(work.txn_id, state)
                work.acked.append(delivery)
                link.revocable += 1
            else:
                delivery.remote_state = state
                delivery.remote_settled = delivery.local_settled = True
            link.unsettled.pop(delivery.tag, None)
            settled.setdefault(link, []).append(delivery)
        for link, deliveries in settled.items():
            self.session.engine.emit(OutcomesReceived(link, deliveries))
            self.end_if_done(link)
        self.freed(settled)

    def freed(self, links: Iterable[ServerSender]) -> None:
        """Let more be sent, because deliveries of these links were settled."""
        for link in links:
            link.admit()
        if self.shared:
            self._opened()

    def recover(self, then: Callable[[], None]) -> None:
        """Requeue all deliveries without an ack, so that they come again; that is no part of a transaction."""
        self._take_in_portions(sorted(self.unacked), None, TransactionWork(), then)

    def return_acked(self, link: ServerSender) -> None:
        """Count what a link has acked in the open transaction among its deliveries again, because its owner ends it.

        The owner knows which of these acks still count: those of a transaction that took too long do not.
        """
        for delivery in self.session.work.acked:
            if delivery.link is link:
                link.unsettled[delivery.tag] = delivery

    def committed(self, deliveries: list[OutgoingDelivery]) -> None:
        """Make the acks of a committed transaction final."""
        for link in {each.link: None for each in deliveries}:
            assert isinstance(link, ServerSender)
            link.revocable = 0
            self.end_if_done(link)

    def give_back(self, deliveries: list[OutgoingDelivery]) -> None:
        """Undo the acks of a transaction that was rolled back."""
        for delivery in deliveries:
            link = delivery.link
            if isinstance(link, ServerSender) and link in self._links and delivery.delivery_id is not None:
                self.unacked.give_back(delivery, delivery.delivery_id)
                link.unsettled[delivery.tag] = delivery
                link.revocable = 0


class ServerSender(ServerLink, PlainSender):
    """See `SenderLink` for the contract."""

    credit: int
    terms: LinkTerms | None

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
        self.unsettled: dict[bytes, OutgoingDelivery] = {}
        self.frame_room: int = self.engine.max_payload
        self.limit = NO_LIMIT
        self.queue = queue
        self.cancelled: bool = False
        self.revocable = 0  # acks in a transaction that is not over
        # The client knows that an ack took too long. No state: it may be so before and after a cancel of the client.
        self._told_late = False
        self._consumers = consumers
        self._method = method
        self._no_ack = no_ack
        self._mapping = ToBasic(
            self.engine.variant.tables, "", queue, forwarded=True, max_payload=self.engine.max_payload
        )
        self._passing = pass_through(self.engine.variant.tables)
        prefix = bytearray(DELIVER)
        write_shortstr(prefix, name, self.engine.variant.tables)
        self._prefix = bytes(prefix)
        self._routes: dict[tuple[str, str], bytes] = {}

    def entered(self, state: LinkState) -> None:
        super().entered(state)
        self.cancelled = state is LinkState.CANCELLED

    @property
    def put_back(self) -> DeliveryState:
        """The outcome of what is put back without a word on whether it failed: its source has one for that."""
        source = self.terms.source if self.terms is not None else None
        return RELEASED if source is not None and source.default_outcome == RELEASED else FAILED

    def begin(self) -> None:
        assert isinstance(self._method, BasicConsume)
        requested, source = self.remote.source, self.terms.source if self.terms is not None else None
        if requested is not None and unapplied_filters(requested.filter, source.filter if source is not None else None):
            error = Error("amqp:precondition-failed", "invalid arg 'x-stream-...': the queue is no stream")
            self.session.refuse_method(error, self._method)
            return
        if not self._method.nowait:
            self.session.channel.write(BasicConsumeOk(self.name))
        self.session.channel.release(self)
        self.admit()

    def admit(self) -> None:
        """Update the credit, because the number of deliveries that may be sent may have changed."""
        if not self.attached:
            return
        before, self.credit = self.credit, 0 if self.cancelled else max(0, self.limit - len(self.unsettled))
        if self.credit > before:
            self.engine.emit(CreditChanged(self))

    def refuse(self, error: Error) -> None:
        self._consumers.forget(self)
        self.end_untold()
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
        if not (self.sendable and self.attached) or more:
            raise LocalProtocolError(f"no credit on the link {self.name!r}, or not attached; or a message in parts")
        consumers, engine = self._consumers, self.engine
        try:
            route, body = self._passing.find(payload, engine.max_payload) or self._mapping.map(payload)
        except EncodeError:
            route, body = as_encoded_sections(payload, engine.variant.tables)
        consumers.number = number = consumers.number + 1
        octets = number.to_bytes(8, "big")
        delivery = self.delivery_type(self, octets, payload, settled or self._no_ack, message_format)
        delivery.delivery_id = number
        delivery.state = state
        self._write(number, octets, route)
        framing, channel = engine.variant.framing, self.session.channel.number
        engine.write(framing.message(channel, BASIC, route.properties, body, engine.max_payload, route.children))
        delivery.on_wire = True
        if not self._no_ack:
            self.unsettled[octets] = delivery
            consumers.unacked[number] = delivery
            self.credit -= 1
        return delivery

    def _write(self, number: int, octets: bytes, route: PublishTemplate) -> None:
        """Write the method that comes before the content."""
        odd = Latin1 in (type(route.exchange), type(route.key))  # a Latin1 is equal to a str of other octets
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
        self.engine.write(self.engine.variant.framing.frame(METHOD, self.session.channel.number, payload))

    def settle(self, delivery: OutgoingDelivery, state: DeliveryState | None = None) -> None:
        if delivery.local_settled:
            return
        delivery.local_settled = True
        self.unsettled.pop(delivery.tag, None)
        if delivery.delivery_id is not None:
            self._consumers.unacked.pop(delivery.delivery_id, None)
        self._consumers.end_if_done(self)
        self._consumers.freed((self,))

    def cancel(self) -> None:
        """Send nothing more; acks are still to come."""
        self.credit = 0
        if self.may(Step.CANCEL):  # else it is over
            self.advance(Step.CANCEL)

    def take_back(self, delivery: OutgoingDelivery) -> None:
        """Cancel the consumer, as RabbitMQ 4.3 does; where its tag is gone, close the channel.

        The client may still ack what it holds; such acks change nothing.
        """
        session = self.session
        if session.channel.state is not ChannelState.OPEN or self._told_late:
            return
        self._told_late = True
        if session.connection.takes_cancel_notify and not self.cancelled:
            session.channel.write(BasicCancel(self.name, nowait=True))
            self._consumers.cancel(BasicCancel(self.name, nowait=True))
        else:
            reason = f"delivery acknowledgement on channel {session.channel.number} timed out"
            session.end(Error(Symbol("amqp:precondition-failed"), reason))

    def detach(self, *, closed: bool = True, error: Error | None = None) -> None:
        """End the link, mostly because its queue is gone; tell a client that understands basic.cancel."""
        if not self.attached:
            return
        self._consumers.return_acked(self)
        self._consumers.forget(self)
        if self.session.connection.takes_cancel_notify and not self.cancelled:
            self.engine.flush_later(self)  # behind the answer to who deleted the queue, for which py-amqp waits
        self.end(closed, None)

    def flush(self) -> None:
        """Tell the client that the consumer is gone."""
        if self.session.channel.state is ChannelState.OPEN:
            self.session.channel.write(BasicCancel(self.name, nowait=True))


class GetLink(ServerSender):
    """One basic.get: a credit of one, drained."""

    more: int = 0  # how many more messages there are
    credit: int
    drain: bool

    @property
    def sendable(self) -> bool:
        return self.credit > 0  # no prefetch limits a get

    def begin(self) -> None:
        self.credit = 1
        self.drain = True
        self.engine.emit(CreditChanged(self))

    def admit(self) -> None:
        pass

    def _write(self, number: int, octets: bytes, route: PublishTemplate) -> None:
        self.session.channel.write(BasicGetOk(number, route.redelivered, route.exchange, route.key, self.more))

    def offer(self, available: int) -> None:
        self.more = available

    def send(self, payload: bytes, **options: Any) -> OutgoingDelivery:
        delivery = super().send(payload, **options)
        self._answered()
        return delivery

    def drained(self, available: int = 0) -> None:
        if self.drain:
            self.session.channel.write(BasicGetEmpty())
            self._answered()
            self._consumers.end_if_done(self)

    def _answered(self) -> None:
        self.cancel()
        self.drain = False
        self.session.channel.release(self)

    def detach(self, *, closed: bool = True, error: Error | None = None) -> None:
        if self.attached and self.drain:
            self.drained()
        elif self.attached:
            super().detach(closed=closed, error=error)
