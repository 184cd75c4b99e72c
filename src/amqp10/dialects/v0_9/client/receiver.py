"""The receiving end of a client's link: a consumer whose prefetch follows the credit, and acks merged into ranges.

Credit counts deliveries, and prefetch limits those without an ack: once some are acked, a peer may send more than the
credit. What comes beyond the credit is held here until there is credit for it. An owner that refills its credit
(`ReceiverLink.refills`) thus has its next deliveries a little earlier. So has a consumer that is exclusive, or that is
the single active one of a queue: nobody else could have the messages. Any other consumer is cancelled as soon as the
credit is used up, and what came beyond it is given back.

A drain takes the consumer away and gets one message after the other, until the credit is used or the queue is empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from struct import pack
from typing import TYPE_CHECKING, Any, ClassVar

from ....engine import (
    Handlers,
    IncomingDelivery,
    LinkTerms,
    PendingRequest,
    RequestAnswered,
)
from ....errors import AmqpError, LinkDetached, LocalProtocolError
from ....messaging import Accepted, DeliveryState, Source, TransactionalState
from ....messaging.payloads import ForeignPayload
from ..._kit.causes import as_exception
from ..._kit.lazy_deliveries import LazyReceiver
from ..._kit.links import PlainReceiver
from ..._kit.message.limits import limit_hint, message_limit
from ..acks import ACCEPT, REQUEUE, AckBatcher, NoAcks, outcome, verb_of
from ..channel import Channel
from ..codes import Fault, as_error
from ..message.from_basic import read_route
from ..message.streams import place_after, place_of
from ..requests import LimitUnsettled
from ..states import ChannelState, ConsumerState, Step
from ..wire.bulk import ContentRun, DeliveryScanner
from ..wire.methods import (
    BasicCancel,
    BasicCancelOk,
    BasicConsumeOk,
    BasicDeliver,
    BasicGetEmpty,
    BasicQosOk,
    BasicRecoverOk,
)
from ..wire.rare_methods import BasicRecoverSyncOk
from .link import ClientLink
from .receiving.consumer import Consumer
from .receiving.drain import Drain
from .receiving.prefetch import MAX_PREFETCH, NO_LIMIT, Prefetch
from .receiving.prefetch_buffer import PrefetchBuffer
from .receiving.recoveries import Recoveries
from .transactional_channel import TransactionalChannel

if TYPE_CHECKING:
    from ..wire.frames import FrameReader
    from .parents import ClientLinkSession

DELIVER, GET_OK = b"\0\x3c\0\x3c", b"\0\x3c\0\x47"
ANY_SIZE = 0xFFFF_FFFF  # of a frame
# The least prefetch of a consumer for whose place others wait: a wider one would take a new consumer, and between the
# two the place would be lost.
PLACE_PREFETCH = 1000
DELIVERY_TAGS = 1 << 64  # how many there are


class ClientReceiver(ClientLink, LazyReceiver, PlainReceiver):
    """See `ReceiverLink` for the contract."""

    session: ClientLinkSession
    channel: TransactionalChannel
    channel_type: ClassVar[type[Channel]] = TransactionalChannel
    has_runs = True
    hot: ClassVar[dict[bytes, str]] = {DELIVER: "receive_deliver", GET_OK: "receive_get"}
    handlers: ClassVar[Handlers] = {
        BasicQosOk: "receive_qos",
        BasicConsumeOk: "receive_consume",
        BasicCancelOk: "receive_cancel_ok",
        BasicCancel: "receive_cancel",
        BasicGetEmpty: "receive_empty",
        BasicRecoverOk: "receive_recovered",
        BasicRecoverSyncOk: "receive_recovered",
    }
    credit: int

    def __init__(self, session: ClientLinkSession, terms: LinkTerms, resuming: Iterable[Any] | None) -> None:
        ClientLink.__init__(self, session, terms, resuming)
        LazyReceiver.__init__(self)
        self.largest: int | None = terms.max_message_size or None
        self.consumer: Consumer = self.new_consumer()
        self.drain: Drain = Drain(self, session, self.consumer)
        self._settled = terms.settle_mode == "settled" or self.consumer.no_ack
        self._prefetch = Prefetch(NO_LIMIT if self.consumer.no_ack else 0)
        self._prefetched = PrefetchBuffer()
        self._recoveries = Recoveries(self, session)
        self._last = 0  # the number of the last delivery
        self._settling_all = False  # whether the acks being written are those of a transaction
        self._scanner: DeliveryScanner | None = None  # of its consumer's messages
        self._begin = b""  # of the last delivery's method, up to the consumer's tag
        self._number_octets = b""
        self._route = b""

    def new_consumer(self) -> Consumer:
        """Make the consumer of the link."""
        return Consumer(self, self.name)

    @property
    def settled_by_sender(self) -> bool:
        return self._settled

    def check_encodable(self) -> None:
        self.engine.encode(self.consumer.consume())

    def applied(self) -> dict[Any, Any] | None:
        source = self.terms.source
        return source.filter if isinstance(source, Source) and self.session.connection.has_streams else None

    def begin_flow(self) -> None:
        nack = "basic.nack" in self.session.connection.capabilities
        batcher = AckBatcher(self.channel, self._acked, partial(outcome, nack=nack))
        self._acks = NoAcks() if self.consumer.no_ack else batcher
        self._adjust()

    # Credit

    def flow(
        self, credit: int, *, drain: bool = False, echo: bool = False, properties: Mapping[Any, Any] | None = None
    ) -> None:
        if self.ended:
            raise LocalProtocolError(f"the link {self._name!r} is not attached")
        self.check_credit(credit)
        self.credit = credit
        self.drain.on = drain
        while self._prefetched and self.credit > 0:
            self._hand_out(self._prefetched.take(self.credit))
        self._adjust()

    def _adjust(self) -> None:
        """Take the next step towards a consumer that fits the credit.

        Steps are taken one at a time: RabbitMQ 4.0 has an internal error when a consumer is cancelled right after the
        method that makes it.
        """
        consumer, drain = self.consumer, self.drain
        if not self.attached or consumer.changing:
            return
        wanted = self.credit - len(self._prefetched)
        if drain.on and (consumer.no_ack or consumer.state is ConsumerState.NONE):
            get = drain.step()
            if get is not None:
                self.channel.write(get)
        elif consumer.state is ConsumerState.NONE:
            if wanted > 0 and not drain.getting:
                self._start(wanted)
        elif drain.on or (self.credit <= 0 and not self._keeps_consumer):
            self.channel.write(consumer.cancel())
        elif wanted > 0 and self._prefetch.room <= 0:
            self._acks.flush()
            if self._prefetch.room <= 0:
                self._widen(wanted)

    @property
    def _keeps_consumer(self) -> bool:
        """Return whether the consumer stays at the peer even without credit."""
        return self.refills or self.consumer.holds_exclusive_slot

    def _start(self, wanted: int) -> None:
        by_consumer = self.session.connection.prefetch_by_consumer
        self._set_prefetch(wanted if by_consumer else wanted + len(self._unsettled) + len(self._prefetched))
        self.consumer.start(self._last)
        self.channel.write(self.consumer.consume())

    def _set_prefetch(self, wanted: int) -> None:
        least = PLACE_PREFETCH if self.consumer.holds_exclusive_slot else 1
        before = self._prefetch.count if self.refills else 1
        self.channel.write(self._prefetch.set(max(wanted, before, least)))

    def _widen(self, wanted: int) -> None:
        """Make room for more unacked deliveries: by a wider prefetch, or by another consumer that has one."""
        if self.session.connection.prefetch_by_consumer:
            self.channel.write(self.consumer.cancel())
        elif self._prefetch.count < MAX_PREFETCH:
            self._set_prefetch(self._prefetch.unacked + wanted)

    def receive_qos(self, _: BasicQosOk) -> None:
        pass

    def receive_consume(self, method: BasicConsumeOk) -> None:
        self.consumer.advance(Step.RECEIVE_CONSUME_OK)
        if self.session.connection.prefetch_by_consumer:
            self._acks.counted_from, self._prefetch.unacked = self._last, 0
        self._adjust()

    def receive_cancel_ok(self, method: BasicCancelOk) -> None:
        consumer = self.consumer
        consumer.advance(Step.RECEIVE_CANCEL_OK)
        if self._last != consumer.after:  # else the place is unchanged
            consumer.place = place_after(self.channel.properties_octets, self.engine.variant.tables)
        if not self._keeps_consumer and self.credit <= 0:
            if consumer.place is not None and self._prefetched:
                consumer.place = place_of(self._prefetched.payload)
            for number in self._prefetched.drop():
                if not self._recoveries.pending:  # else the peer has them back already
                    self._acks.add(number, REQUEUE)
        self._adjust()

    def receive_cancel(self, method: BasicCancel) -> None:
        """End the link, because the peer has cancelled the consumer: its queue is gone."""
        if method.consumer_tag == self.consumer.tag:
            self.cancelled(
                LinkDetached("amqp:resource-deleted", "the peer canceled the consumer, for its queue no longer exists")
            )

    def receive_get(self, payload: bytes) -> None:
        self.channel.check_shape(payload)
        self._number_octets = payload[4:12]
        self._route = payload[12:-4]
        self.channel.expect_content(self._got)

    def _got(self, body: bytes) -> None:
        self.drain.getting = False
        self._delivered(body)
        self._adjust()

    def receive_empty(self, _: BasicGetEmpty) -> None:
        self.drain.getting = False
        if self.drain.on:
            self.drain.give_back()
        self._adjust()

    # Deliveries

    def receive_run(self, reader: FrameReader) -> bool:
        """Do for a run of messages, column by column, what `receive_deliver` and `_delivered` do for each."""
        scanner, free, channel = self._scanner, self._prefetch.room, self.channel
        if scanner is None or free <= 0 or channel.take is not None or channel.state is not ChannelState.OPEN:
            return False
        run = reader.run(scanner, free, self.largest or ANY_SIZE)
        if run is None:
            return False
        octets, routes, properties, _ = run
        count, first, incoming = len(octets), self._last + 1, self.engine.incoming
        numbers = range(first, first + count)
        alike = properties.count(properties[0]) == count
        if (
            routes.count(self._route) < count
            or first + count > DELIVERY_TAGS
            or pack(f">{count}Q", *numbers) != b"".join(octets)
            or not all(map(incoming.can_wait, properties[:1] if alike else properties))
        ):
            for self._number_octets, route, channel.properties_octets, body in zip(*run, strict=True):
                if route != self._route:
                    read_route(route)
                    self._route = route
                self._delivered(body)
            return True
        channel.properties_octets = properties[-1]  # they say the place in a stream
        self._last += count
        self._prefetch.unacked += count
        arrived = ContentRun(self.delivery_type, self._settled, numbers, incoming.head, run)
        is_more = count > self.credit
        if self.credit > 0:
            self._hand_out(arrived.cut(self.credit) if is_more else arrived)
            if self.credit <= 0 or self._prefetch.room <= 0:
                self._adjust()
        if is_more:
            self._prefetched.add_run(arrived)
        return True

    def receive_deliver(self, payload: bytes) -> None:
        at = 5 + payload[4]
        route = payload[at + 8 :]
        if payload[:at] != self._begin:
            self.channel.check_shape(payload)
            self._begin, self._route = payload[:at], route
            self._scanner = DeliveryScanner(self.engine.variant.framing, self.channel.number, self._begin)
        elif route != self._route:
            read_route(route)
            self._route = route
        self._number_octets = payload[at : at + 8]
        channel = self.channel
        channel.take = self._delivered
        channel.awaits_header = True

    def announced(self, size: int) -> None:
        limit = message_limit(self.largest)
        if size > limit:
            error = as_error(311, f"a message of {size} octets; this side takes {limit}{limit_hint(self.largest)}")
            self.channel.close_channel(error)
            self.end(True, as_exception(LinkDetached, error))

    def _delivered(self, body: bytes) -> None:
        """Take a message that is whole. benchmarks/amqp091.py."""
        incoming, channel = self.engine.incoming, self.channel
        properties = channel.properties_octets
        payload: bytes | ForeignPayload
        if incoming.can_wait(properties) and not channel.children:
            payload = ForeignPayload((incoming.head, self._route, properties, body))
        else:
            payload = incoming.map(self._route, properties, body, channel.children)
        octets = self._number_octets
        number = int.from_bytes(octets, "big")
        if number <= self._last and not self._settled:  # many of RabbitMQ's direct replies have the same number
            raise Fault(
                406,
                f"a delivery has the number {number}, although the last one had {self._last}",
                BasicDeliver.code,
                soft=True,
            )
        self._last = number
        self._prefetch.unacked += 1
        delivery = self.delivery_type(self, number, octets, payload, self._settled)
        if self.credit > 0:
            self._hand_out(delivery)
            if self.credit <= 0 or self._prefetch.room <= 0:
                self._adjust()
        else:
            self._prefetched.add(delivery)
            if len(self._prefetched) > (most := self._prefetch.most_waiting):
                raise Fault(506, f"more than {most} deliveries beyond the credit", BasicDeliver.code, soft=True)

    def _hand_out(self, arrived: IncomingDelivery | ContentRun) -> None:
        """Pass on a delivery, or a run of deliveries, for which there is credit."""
        if self._settled and self._recoveries.pending:
            return  # the peer has it back already, and it comes again
        if isinstance(arrived, ContentRun):
            self.credit -= len(arrived.numbers)
            if self._settled:
                self._acks.add_run(arrived.numbers[0], arrived.numbers[-1])
            self._arrive_many(arrived)
            return
        self.credit -= 1
        if self._settled:
            self._acks.add(arrived.delivery_id or 0, ACCEPT)
        else:
            self._unsettled[arrived.tag] = arrived
        self._arrive(arrived)

    # Settling

    def settle_like_last(self, number: int | None, tag: bytes, state: DeliveryState) -> bool:
        if number is None or type(state) is not Accepted or not self.attached or not self._acks.extend_run(number):
            return False
        del self._unsettled[tag]
        return True

    def settle(self, delivery: IncomingDelivery, state: DeliveryState | None, *, settled: bool | None = None) -> None:
        if delivery.local_settled:
            return
        if not self.attached:
            raise LocalProtocolError(f"the link {self.name!r} is over: the peer may send the message again")
        self.check_own(delivery, self._unsettled)
        if isinstance(state, TransactionalState):
            self.session.connection.transactions.find(state.txn_id).retire(self, delivery, state)
            return
        if state is not None:
            delivery.state = state
        if self._recoveries.pending:
            return  # the peer has it back already: its answer makes the delivery stale
        self._acks.add(delivery.delivery_id or 0, ACCEPT if type(state) is Accepted else verb_of(delivery.state))
        delivery.local_settled = True
        del self._unsettled[delivery.tag]

    def _acked(self, count: int) -> None:
        """Note that `count` acks of the present consumer were written; commit them if the channel is transactional."""
        self._prefetch.unacked -= count
        if self.channel.transactional and not self._settling_all:
            self.channel.commit()

    def settle_all(self, settled: list[tuple[IncomingDelivery, DeliveryState | None]]) -> None:
        """Settle the deliveries of a transaction, after all earlier acks, together with its publishes."""
        for delivery, state in settled:
            self._acks.add(delivery.delivery_id or 0, verb_of(state))
        self._settling_all = True
        self._acks.flush()
        self._settling_all = False

    def give_back(self, deliveries: Iterable[IncomingDelivery]) -> None:
        """Requeue the deliveries of a transaction that was rolled back."""
        if self.attached:
            for delivery in deliveries:
                if not self.has_back(delivery):
                    self._acks.add(delivery.delivery_id or 0, REQUEUE)

    def has_back(self, delivery: IncomingDelivery) -> bool:
        """Return whether the peer has the delivery back, by a recover, so that it must not be settled."""
        return self._recoveries.took_back(delivery)

    def flush_acks(self) -> None:
        """Write the acks so far, which are no part of the transaction that follows."""
        self._acks.flush()

    # What only this dialect can be asked for

    def carry_out(self, pending: PendingRequest[Any]) -> None:
        """Carry out a request that concerns this link."""
        request = pending.request
        if isinstance(request, LimitUnsettled):
            self._prefetch.least = least = max(1, min(request.count, MAX_PREFETCH))
            if self.consumer.state is ConsumerState.CONSUMING and self._prefetch.count < least:
                self._widen(least)
            pending.answer(None)
            self.engine.emit(RequestAnswered(pending))
        else:
            self._acks.flush()
            self.channel.write(self._recoveries.ask(pending))

    def receive_recovered(self, _: BasicRecoverOk | BasicRecoverSyncOk) -> None:
        """Forget all open deliveries: the peer has them back, and sends them again under other numbers."""
        gone = list(self.unsettled.values())
        self._recoveries.answer(self._last, gone)
        self.unsettled.clear()
        self._prefetched.drop()
        self._acks.forget(self._last)
        self._prefetch.unacked = 0
        for delivery in gone:
            if delivery in self.incoming:
                self.incoming.remove(delivery)
                self.credit += 1
        self._adjust()

    def end(self, closed: bool, cause: AmqpError | None) -> None:
        self.materialize(self.unmaterialized)
        self._recoveries.pending.fail_all(cause or LocalProtocolError("the link was detached"))
        super().end(closed, cause)

    def before_close(self) -> None:
        if self.attached:
            self._acks.flush()
        super().before_close()
