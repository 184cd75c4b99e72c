"""The sending end of a client's link: publishes, numbered from 1, and the peer's confirms of them.

0-9-1 grants no credit to publishers. Each link allows itself a window of publishes without a confirm, and no credit
while the peer takes no messages: `connection.blocked`, or `channel.flow`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar

from ....engine import (
    CreditChanged,
    Handlers,
    LinkTerms,
    OutcomeCounter,
    OutcomesReceived,
    OutgoingDelivery,
    UnsettledCount,
)
from ....errors import LocalProtocolError
from ....messaging import ACCEPTED, DeliveryState, Target, TransactionalState
from ..._kit.links import PlainSender
from ..acks import SIZE
from ..message.to_basic import ToBasic
from ..states import ChannelState
from ..wire.methods import BasicReturn, ConfirmSelect, ConfirmSelectOk
from .link import ClientLink
from .sending.confirms import Confirms
from .sending.publish_writer import PublishWriter
from .sending.returns import outcome_of
from .sending.untracked import UntrackedRun

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
    writer: PublishWriter

    def __init__(self, session: ClientLinkSession, terms: LinkTerms, resuming: Iterable[Any] | None) -> None:
        super().__init__(session, terms, resuming)
        self.frame_room: int = session.engine.max_payload
        self._withheld = WINDOW  # credit to grant once the peer takes messages
        self._paused = False  # by channel.flow
        self._confirmed = terms.settle_mode != "settled"
        self._confirms = Confirms(self, session.engine, self._add_credit)

    @property
    def settled_by_sender(self) -> bool:
        return not self._confirmed

    @property
    def unsettled(self) -> dict[bytes, OutgoingDelivery]:  # type: ignore[override]
        confirms = self._confirms
        if confirms.untracked:
            confirms.materialize()
        return confirms.deliveries

    def count_unsettled(self) -> UnsettledCount:
        return self._confirms.count_unsettled()

    def prepare(self) -> None:
        if self._confirmed:
            self._ask(ConfirmSelect())

    def receive_select(self, _: ConfirmSelectOk) -> None:
        self._answered()

    def begin_flow(self) -> None:
        target, address = self.terms.target, self.address
        anonymous = isinstance(target, Target) and target.address is None and not target.dynamic
        mapping = ToBasic(
            self.session.connection.tables,
            address.exchange,
            address.key,
            anonymous=anonymous,
            clock=self.session.connection.expiry_clock,
            max_payload=self.engine.max_payload,
        )
        self.writer = PublishWriter(self.engine, mapping, self.channel.number)
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
        if self.credit <= 0 or not self.attached or more or settled is self._confirmed:
            self._check_sendable(settled, more)
        if tag is None:
            tag = self._confirms.new_tag()
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
        self.writer.check(payload)
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
        confirms = self._confirms
        number, deliveries = confirms.number + 1, confirms.deliveries
        if (
            self.credit <= 0
            or not self.attached
            or settled
            or not self._confirmed
            or (deliveries and number.to_bytes(8, "big") in deliveries)
        ):
            return super().send_untracked(payload, waiter, settled=settled)
        self.writer.write(payload, False)
        self.credit -= 1
        confirms.number = number
        untracked = confirms.untracked
        if not untracked or untracked[-1].waiter is not waiter:
            untracked.append(UntrackedRun(waiter, number))
        untracked[-1].payloads.append(payload)
        return None

    def _check_sendable(self, settled: bool, more: bool) -> None:
        if more:
            raise LocalProtocolError(
                "AMQP 0-9-1 can stream only a body of known size: give `size`, or send the message in one call"
            )
        self.check_sendable(settled)

    def publish(self, delivery: OutgoingDelivery, payload: bytes) -> None:
        """Write a message and keep its delivery."""
        self.writer.write(payload, delivery.local_settled)
        delivery.on_wire = True
        if self._confirmed:
            self.credit -= 1
            self._confirms.add(delivery)

    def resend(self, delivery: OutgoingDelivery) -> None:
        if delivery.local_settled or not self.attached or not self._confirmed:
            raise LocalProtocolError("the delivery is settled, or the link is not attached")
        delivery.link = self
        if delivery.tag in self.unsettled:
            delivery.tag = self._confirms.new_tag()
        delivery.remote_state = None
        self.publish(delivery, delivery.payload)

    def forget(self, delivery: OutgoingDelivery) -> None:
        delivery.local_settled = True
        self._confirms.forget(delivery)

    # Outcomes

    def receive_run(self, reader: FrameReader) -> bool:
        """Do for a run of confirms what `receive_ack` does for each."""
        channel = self.channel
        if channel.take is not None or channel.state is not ChannelState.OPEN:
            return False
        numbers = reader.confirms(channel.number)
        if numbers:
            self._confirms.receive_run(numbers)
        return bool(numbers)

    def receive_ack(self, payload: bytes) -> None:
        self._receive_confirm(payload, ACCEPTED)

    def receive_nack(self, payload: bytes) -> None:
        self._receive_confirm(payload, self.session.connection.nack_outcome)

    def _receive_confirm(self, payload: bytes, state: DeliveryState) -> None:
        if len(payload) != SIZE:
            self.channel.check_shape(payload)
        self._confirms.receive(int.from_bytes(payload[4:12], "big"), bool(payload[12] & 1), state)

    def receive_return(self, method: BasicReturn) -> None:
        self.channel.expect_content(lambda body: self._returned(method, body))

    def _returned(self, method: BasicReturn, body: bytes) -> None:
        delivery = self._confirms.returned(self.writer, method, self.channel.properties_octets, body)
        if delivery is not None:
            delivery.remote_state = outcome_of(method)

    def settle(self, delivery: OutgoingDelivery, state: DeliveryState | None = None) -> None:
        if delivery.local_settled:
            return
        delivery.local_settled = True
        if state is not None:
            delivery.state = state
        self._confirms.forget(delivery)
