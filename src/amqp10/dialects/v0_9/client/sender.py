"""The sending end of a client's link: publishes, numbered from 1, and the peer's confirms of them.

0-9-1 grants no credit to publishers. Each link allows itself a window of publishes without a confirm, and no credit
while the peer takes no messages: `connection.blocked`, or `channel.flow`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import takewhile
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from ....engine import (
    CreditChanged,
    Handlers,
    LinkTerms,
    OutcomeCounter,
    OutcomesReceived,
    OutgoingDelivery,
    UnsettledCount,
    UntrackedAccepted,
    count_unsettled,
)
from ....errors import EncodeError, LocalProtocolError
from ....messaging import ACCEPTED, DeliveryState, Target, TransactionalState
from ..._kit.links import PlainSender
from ..acks import SIZE
from ..channel import BASIC
from ..codes import Fault
from ..message.places import DIRECT_REPLY
from ..message.to_basic import PublishTemplate, ToBasic
from ..states import ChannelState
from ..wire.framing import END, METHOD
from ..wire.methods import BasicPublish, BasicReturn, ConfirmSelect, ConfirmSelectOk
from .link import ClientLink
from .returns import Returnable, outcome_of
from .untracked import UntrackedRun

if TYPE_CHECKING:
    from ..wire.frames import FrameReader
    from .parents import ClientLinkSession

WINDOW = 2048
"""Publishes that may be without a confirm, on one link."""

ACK, NACK = b"\0\x3c\0\x50", b"\0\x3c\0\x78"


class ClientSender(ClientLink, PlainSender):
    """See `SenderLink` for the contract."""

    has_runs = True
    hot: ClassVar[dict[bytes, str]] = {ACK: "receive_ack", NACK: "receive_nack"}
    handlers: ClassVar[Handlers] = {ConfirmSelectOk: "receive_select", BasicReturn: "receive_return"}
    credit: int

    def __init__(self, session: ClientLinkSession, terms: LinkTerms, resuming: Iterable[Any] | None) -> None:
        super().__init__(session, terms, resuming)
        self._unsettled: dict[bytes, OutgoingDelivery] = {}
        self._untracked: deque[UntrackedRun] = deque()  # newer than all that is in `_outgoing`
        self.frame_room: int = session.engine.max_payload
        self._withheld = WINDOW  # credit to grant once the peer takes messages
        self._paused = False  # by channel.flow
        self._confirms = terms.settle_mode != "settled"
        self._may_settle = terms.settle_mode != "unsettled"
        self._number = 0  # of the last publish
        self._spare_tag = 1 << 63  # for a publish that cannot have its number as its tag
        self._first = 1  # all publishes before this number are confirmed
        self._outgoing: dict[int, OutgoingDelivery | None] = {}  # None: nobody waits for its confirm
        self._returnable = Returnable()  # publishes up to `_returnable_to`; some may be confirmed by now
        self._returnable_to = 0  # the last publish when a message last came back
        self._methods: dict[tuple[str, str, bool], bytes] = {}  # frames of publish: (exchange, key, settled) -> octets
        self._outcomes: list[OutgoingDelivery] = []
        self._outcomes_batch = -1

    @property
    def settled_by_sender(self) -> bool:
        return not self._confirms

    @property
    def unsettled(self) -> dict[bytes, OutgoingDelivery]:  # type: ignore[override]
        if self._untracked:
            self._materialize_untracked(self._number)
        return self._unsettled

    def count_unsettled(self) -> UnsettledCount:
        made = count_unsettled(self._unsettled)
        if not self._untracked:
            return made
        runs = self._untracked
        total = made.total + sum(len(run.payloads) for run in runs)
        first = made.first if made.first is not None else runs[0].first
        return UnsettledCount(total, first, runs[-1].first + len(runs[-1].payloads) - 1)

    def prepare(self) -> None:
        if self._confirms:
            self._ask(ConfirmSelect())

    def receive_select(self, _: ConfirmSelectOk) -> None:
        self._answered()

    def begin_flow(self) -> None:
        target, address = self.terms.target, self.address
        anonymous = isinstance(target, Target) and target.address is None and not target.dynamic
        self._mapping = ToBasic(
            self.session.connection.tables,
            address.exchange,
            address.key,
            anonymous=anonymous,
            clock=self.session.connection.expiry_clock,
            max_payload=self.engine.max_payload,
        )
        self.frame_room = self.engine.max_payload
        self.admit()

    # Credit

    @property
    def sendable(self) -> bool:
        return self.credit > 0 and self.session.begun

    def admit(self) -> None:
        """Grant the credit if the peer takes publishes; withhold it if the peer does not."""
        if self._paused or self.session.connection.blocked or not self.attached:
            self._withheld += self.credit
            self.credit = 0
        elif self._withheld:
            self._add_credit(0)

    def paused(self, paused: bool) -> None:
        self._paused = paused
        self.admit()

    def _add_credit(self, count: int) -> None:
        before = self.credit
        if self._paused or self.session.connection.blocked:
            self._withheld += count
            return
        self.credit = before + count + self._withheld
        self._withheld = 0
        if before <= 0 < self.credit:
            self.engine.emit(CreditChanged(self))

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
        if self.credit <= 0 or not self.attached or more or (settled and not self._may_settle):
            self._refuse(more)
        if not settled and not self._confirms:
            raise LocalProtocolError("the link's settle mode is 'settled': send with settled=True")
        if tag is None:
            tag = self._new_tag()
        else:
            self.check_tag(tag)
        if state is not None:
            return self._send_in_transaction(payload, settled, tag, message_format, state)
        delivery = self.delivery_type(self, tag, payload, settled, message_format)
        self.publish(delivery, payload)
        return delivery

    def _send_in_transaction(
        self, payload: bytes, settled: bool, tag: bytes, message_format: int, state: DeliveryState
    ) -> OutgoingDelivery:
        self.check(payload)
        if not isinstance(state, TransactionalState):
            raise LocalProtocolError(f"the state of a message can only be that it is in a transaction, not {state!r}")
        transaction = self.session.connection.transactions.find(state.txn_id)
        delivery = self.delivery_type(self, tag, payload, True, message_format)
        transaction.publish(self, delivery, state)
        if not settled:
            self.engine.emit(OutcomesReceived(self, [delivery]))
        return delivery

    def send_untracked(
        self, payload: bytes, waiter: OutcomeCounter, *, settled: bool = False
    ) -> OutgoingDelivery | None:
        """See `SenderLink`. The path of nearly every message of `send_many`. benchmarks/amqp091.py."""
        number, unsettled = self._number + 1, self._unsettled
        if (
            self.credit <= 0
            or not self.attached
            or settled
            or not self._confirms
            or (unsettled and number.to_bytes(8, "big") in unsettled)
        ):
            return super().send_untracked(payload, waiter, settled=settled)
        self._write(payload, False)
        self.credit -= 1
        self._number = number
        untracked = self._untracked
        if not untracked or untracked[-1].waiter is not waiter:
            untracked.append(UntrackedRun(waiter, number))
        untracked[-1].payloads.append(payload)
        return None

    def _materialize_untracked(self, last: int) -> None:
        """Make objects of untracked publishes up to number `last`, for `unsettled` or for another outcome."""
        untracked = self._untracked
        while untracked and untracked[0].first <= last:
            for delivery in untracked[0].take(last + 1 - untracked[0].first, self):
                self._outgoing[delivery.delivery_id or 0] = delivery
                self._unsettled[delivery.tag] = delivery
            if not untracked[0].payloads:
                untracked.popleft()

    def _new_tag(self) -> bytes:
        """Return the number of the next publish as its tag; another if an earlier unsettled delivery has that tag."""
        tag = (self._number + 1).to_bytes(8, "big")
        while tag in self._unsettled:
            self._spare_tag += 1
            tag = self._spare_tag.to_bytes(8, "big")
        return tag

    def _refuse(self, more: bool) -> NoReturn:
        """Raise the reason why a message cannot be sent now."""
        if not self.attached:
            raise LocalProtocolError(f"the link {self.name!r} is not attached")
        if more:
            raise LocalProtocolError(
                "AMQP 0-9-1 can stream only a body of known size: give `size`, or send the message in one call"
            )
        if self.credit <= 0:
            raise LocalProtocolError(f"no credit on the link {self.name!r}")
        raise LocalProtocolError("the link's settle mode is 'unsettled': send with settled=False")

    def publish(self, delivery: OutgoingDelivery, payload: bytes) -> None:
        """Write a message and keep its delivery."""
        settled = delivery.local_settled
        self._write(payload, settled)
        delivery.on_wire = True
        if self._confirms:
            if self._untracked:
                self._materialize_untracked(self._number)
            self.credit -= 1
            self._number = number = self._number + 1
            delivery.delivery_id = number
            if settled:
                self._outgoing[number] = None
            else:
                self._outgoing[number] = delivery
                self._unsettled[delivery.tag] = delivery

    def _write(self, payload: bytes, settled: bool) -> None:
        """Write a message."""
        route, body = self.map(payload)
        engine, size = self.engine, len(body)
        if route.opening_fits == (settled, size):  # like the last one of its route. benchmarks/amqp091.py
            opening = route.opening
            engine.output += (opening, body, END)
            engine.output_size += len(opening) + size + 1
            return
        method = self._methods.get((route.exchange, route.key, settled))
        if method is None:
            method = self._method_frame(route, settled)
        framing = engine.variant.framing
        content = framing.message(
            self.channel.number, BASIC, route.properties, body, engine.max_payload, route.children
        )
        engine.output += (method, content)
        engine.output_size += len(method) + len(content)
        if 0 < size <= engine.max_payload and not route.children:
            route.opening_fits, route.opening = (settled, size), method + content[: -size - 1]

    def check(self, payload: bytes) -> None:
        """Check that the dialect can express a message.

        Raises:
            LocalProtocolError: it cannot.
        """
        route, _ = self.map(payload)
        self._method(route, True)

    def frames(self, payload: bytes, channel: int) -> bytes:
        """Return the frames of a message that is part of a transaction, for the channel that commits it.

        Raises:
            LocalProtocolError: the dialect cannot express it.
        """
        route, body = self.map(payload)
        framing = self.engine.variant.framing
        content = framing.message(channel, BASIC, route.properties, body, self.engine.max_payload, route.children)
        return framing.frame(METHOD, channel, self._method(route, True)) + content

    def map(self, payload: bytes) -> tuple[PublishTemplate, bytes]:
        """Return the route of a message, and its body.

        Raises:
            LocalProtocolError: the dialect cannot express it.
        """
        try:
            return self._mapping.map(payload)
        except EncodeError as error:
            raise LocalProtocolError(str(error)) from error

    def _method_frame(self, route: PublishTemplate, settled: bool) -> bytes:
        """Return the frame of basic.publish, with which all messages of `route` begin."""
        if len(self._methods) >= WINDOW:
            self._methods.clear()
        frame = self.engine.variant.framing.frame(METHOD, self.channel.number, self._method(route, not settled))
        self._methods[route.exchange, route.key, settled] = frame
        return frame

    def _method(self, route: PublishTemplate, mandatory: bool) -> bytes:
        """Return the payload of the method basic.publish for a message.

        Replies to a pseudo-queue are never mandatory: RabbitMQ would return them although they arrive.
        """
        mandatory = mandatory and (bool(route.exchange) or not route.key.startswith(f"{DIRECT_REPLY}."))
        publish = BasicPublish(exchange=route.exchange, routing_key=route.key, mandatory=mandatory)
        try:
            return self.engine.variant.methods.encode(publish)
        except EncodeError as error:
            raise LocalProtocolError(str(error)) from error

    def resend(self, delivery: OutgoingDelivery) -> None:
        if delivery.local_settled or not self.attached or not self._confirms:
            raise LocalProtocolError("the delivery is settled, or the link is not attached")
        delivery.link = self
        if delivery.tag in self.unsettled:
            delivery.tag = self._new_tag()
        delivery.remote_state = None
        self.publish(delivery, delivery.payload)

    def forget(self, delivery: OutgoingDelivery) -> None:
        delivery.local_settled = True
        self._forget(delivery)

    # Outcomes

    def receive_run(self, reader: FrameReader) -> bool:
        """Do for a run of confirms what `receive_ack` does for each."""
        channel = self.channel
        if channel.take is not None or channel.state is not ChannelState.OPEN:
            return False
        numbers = reader.confirms(channel.number)
        if numbers:
            first, last = numbers[0], numbers[-1]
            is_whole = last - first + 1 == len(numbers) and numbers == [*range(first, last + 1)]
            if last <= self._number and is_whole:
                self._confirmed(first, last, ACCEPTED)
            else:
                for number in numbers:
                    self._confirmed(number, number, ACCEPTED)
        return bool(numbers)

    def receive_ack(self, payload: bytes) -> None:
        self._confirmed(*self._read_confirm(payload), ACCEPTED)

    def receive_nack(self, payload: bytes) -> None:
        self._confirmed(*self._read_confirm(payload), self.session.connection.nack_outcome)

    def _read_confirm(self, payload: bytes) -> tuple[int, int]:
        """Return the first and the last number that a confirm covers."""
        if len(payload) != SIZE:
            self.channel.check_shape(payload)
        number = int.from_bytes(payload[4:12], "big")
        if payload[12] & 1:  # multiple: all up to that; with 0, all
            return self._first, number or self._number
        return number, number

    def _confirmed(self, first: int, last: int, state: DeliveryState) -> None:
        if last > self._number or not self._confirms:
            raise Fault(
                406, f"a confirm of publish {last}, although the last one is {self._number}", (60, 80), soft=True
            )
        end = last + 1  # one past the last number that may be an object
        if self._untracked and self._untracked[0].first <= last:
            if state is ACCEPTED and first <= self._untracked[0].first:
                end = self._untracked[0].first
                self._accept_untracked(last)
            else:
                self._materialize_untracked(last)
        if self._outgoing:
            self._confirm_objects(first, end, state)
        if first <= self._first <= last:
            self._first = last + 1
            if self._first not in self._outgoing:  # others were confirmed before, out of order
                untracked = self._untracked[0].first if self._untracked else self._number + 1
                self._first = next(iter(self._outgoing), untracked)

    def _accept_untracked(self, last: int) -> None:
        """Report all untracked publishes up to number `last` as accepted."""
        while self._untracked and (left := last + 1 - self._untracked[0].first) > 0:
            run = self._untracked[0]
            count = min(left, len(run.payloads))
            run.drop(count)
            if not run.payloads:
                self._untracked.popleft()
            self.engine.emit(UntrackedAccepted(self, run.waiter, count))
            self._add_credit(count)

    def _confirm_objects(self, first: int, end: int, state: DeliveryState) -> None:
        outgoing = self._outgoing
        before = len(outgoing)
        engine = self.engine
        if self._outcomes_batch != engine.event_batch:
            self._outcomes, self._outcomes_batch = [], engine.event_batch
        outcomes, there = self._outcomes, len(self._outcomes)
        for number in range(first, end):
            delivery = outgoing.pop(number, None)
            if delivery is not None:
                self._settled(delivery, state, outcomes)
        if outcomes and not there:
            engine.emit(OutcomesReceived(self, outcomes))
        if len(self._returnable) > 2 * len(outgoing):  # most are confirmed: the next return finds the others again
            self._returnable, self._returnable_to = Returnable(), 0
        self._add_credit(before - len(outgoing))

    def _settled(self, delivery: OutgoingDelivery, state: DeliveryState, outcomes: list[OutgoingDelivery]) -> None:
        if delivery.remote_state is None:  # else the message came back before
            delivery.remote_state = state
        delivery.remote_settled = delivery.local_settled = True
        self._unsettled.pop(delivery.tag, None)
        outcomes.append(delivery)

    def receive_return(self, method: BasicReturn) -> None:
        self.channel.expect_content(lambda body: self._returned(method, body))

    def _returned(self, method: BasicReturn, body: bytes) -> None:
        """Record that a message came back because it could not be routed.

        Its confirm is still to come; at Broker-J it has come before, as a nack.
        """
        self._materialize_untracked(self._number)
        delivery = self._updated_returnable().find(method, self.channel.properties_octets, body)
        if delivery is not None:
            delivery.remote_state = outcome_of(method)

    def _updated_returnable(self) -> Returnable:
        """Return what may come back, with the publishes since the last time that something came back."""
        new = takewhile(lambda number: number > self._returnable_to, reversed(self._outgoing))
        for number in reversed(list(new)):
            delivery = self._outgoing[number]
            if delivery is not None:
                self._returnable.add(self, delivery)
        self._returnable_to = self._number
        return self._returnable

    def settle(self, delivery: OutgoingDelivery, state: DeliveryState | None = None) -> None:
        if delivery.local_settled:
            return
        delivery.local_settled = True
        if state is not None:
            delivery.state = state
        self._forget(delivery)

    def _forget(self, delivery: OutgoingDelivery) -> None:
        if self._unsettled.get(delivery.tag) is delivery:
            del self._unsettled[delivery.tag]
        number = delivery.delivery_id
        if number is not None and self._outgoing.get(number) is delivery:
            self._outgoing[number] = None
