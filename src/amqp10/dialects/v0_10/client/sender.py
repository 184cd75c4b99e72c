"""The client's sending links: transfers to an exchange, confirmed by their completion (0-10 §10.2 "transfer").

A server completes a transfer when it has taken charge of the message; messages not rejected by then are accepted.
Servers grant publishers no credit unasked, so a link may have `WINDOW` transfers without completion. A server that
limits publishers does so for the whole session, by message.flow for the destination "".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ....engine import CreditChanged, LinkTerms, OutgoingDelivery, parse_address, route_address
from ....errors import DecodeError, EncodeError, LocalProtocolError
from ....messaging import ACCEPTED, RELEASED, Error, Target, TransactionalState
from ..._kit.links import PlainSender
from ..codes import outcome_of
from ..link import LinkEndpoint
from ..message.to_transfer import WrittenMessage, write_message
from ..states import Step
from ..wire.commands import MessageTransfer
from ..wire.frames import encode_command
from .requests import delete_owned

if TYPE_CHECKING:
    from ....engine import Address
    from ....messaging import DeliveryState
    from ..command_ids import PendingCommand
    from .branches import Branch
    from .parents import ClientLinkSession

WINDOW: Final = 1000
"""The greatest number of transfers without completion, on one link."""


class ClientSender(LinkEndpoint, PlainSender):
    """See `SenderLink` for the contract."""

    session: ClientLinkSession
    terms: LinkTerms
    frame_room = 0

    def __init__(self, session: ClientLinkSession, terms: LinkTerms) -> None:
        super().__init__(session, terms.name)
        self.terms = terms
        self.unsettled: dict[bytes, OutgoingDelivery] = {}
        self._out = 0  # transfers that are not completed
        self._address: Address | None = None  # None: each message names it in its field `to`
        self._owned: str | None = None  # a queue that was made for the link
        self._fronts: dict[tuple[str, bool], bytes] = {}

    # Attaching

    def begin(self) -> None:
        """Find the node that messages go to, or make one."""
        target = self.terms.target
        assert isinstance(target, Target)
        if target.address is None and not target.dynamic:
            self.session.after_round_trip(self._found, None)
            return
        address = None
        if not target.dynamic:
            try:
                address = parse_address(str(target.address))
            except ValueError as error:
                self.attach_failed(Error("amqp:invalid-field", str(error)))
                return
        self.session.find(self, address, self._found)

    def _found(self, address: Address | None) -> None:
        self._address = address
        target = self.terms.target
        assert isinstance(target, Target)
        if target.dynamic and address is not None:
            target = Target(route_address(address.exchange, address.key), dynamic=True)
            self._owned = address.queue
        terms = LinkTerms(
            self._name, self.terms.source, target, self.terms.settle_mode, properties=self.terms.properties
        )
        self.mark_attached(terms)
        if self.attached:
            self.session.engine.emit(CreditChanged(self))

    # Credit

    @property
    def credit(self) -> int:  # type: ignore[override]
        if not self.attached:
            return 0
        limit = self.session.publisher_credit
        return max(0, WINDOW - self._out if limit is None else min(WINDOW - self._out, limit))

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
        if self.credit <= 0 or more or message_format or settled != self.settled_by_sender:
            self._check_sendable(settled, more, message_format)
        if tag is None:
            tag = self.new_tag()
        else:
            self.check_tag(tag)
        written = self._written(payload)
        delivery = self.delivery_type(self, tag, payload, settled, 0)
        delivery.state = state
        if not settled:
            self.unsettled[tag] = delivery
        if isinstance(state, TransactionalState):
            self._send_later(delivery, written, self.session.transactions.open.find(state.txn_id))
        else:
            self._transfer(delivery, written)
        return delivery

    def _written(self, payload: bytes) -> WrittenMessage:
        try:
            return write_message(payload, self._address, to_qpid=self.session.to_qpid)
        except (DecodeError, EncodeError) as error:
            raise LocalProtocolError(f"the message cannot be sent in AMQP 0-10: {error}") from error

    def _check_sendable(self, settled: bool, more: bool, message_format: int) -> None:
        if more:
            raise LocalProtocolError("AMQP 0-10 cannot send a message in parts: send it in one call")
        if message_format:
            raise LocalProtocolError("message_format must be 0 in AMQP 0-10")
        self.check_sendable(settled)

    def _send_later(self, delivery: OutgoingDelivery, written: WrittenMessage, branch: Branch) -> None:
        """Keep a message of a transaction until its commit, and tell the provisional outcome "accepted"."""
        branch.size += len(delivery.payload)
        branch.add(lambda: self._transfer(delivery, written, branch))
        delivery.on_wire = True
        if not delivery.local_settled:
            self.session.after_round_trip(self._report_outcome, delivery, TransactionalState(branch.id, ACCEPTED))

    def _transfer(self, delivery: OutgoingDelivery, written: WrittenMessage, branch: Branch | None = None) -> None:
        settled = delivery.local_settled and branch is None
        key = written.exchange, settled
        front = self._fronts.get(key)
        if front is None:
            front = self._fronts[key] = MessageTransfer(written.exchange, int(settled), 0).encode()
        session = self.session
        frames = bytearray(
            encode_command(session.channel, front, written.header, written.body, session.engine.max_payload)
        )
        sent = session.send(frames, self if branch is None else branch, delivery)
        delivery.delivery_id = sent.number & 0xFFFF_FFFF
        delivery.on_wire = True
        if branch is None:
            self._out += 1
            session.used_credit()

    # Outcomes

    def completed(self, sent: PendingCommand) -> None:
        """Take note that the server is done with a message: it is accepted, unless another outcome was told before."""
        was = self.credit
        self._out -= 1
        delivery: OutgoingDelivery = sent.about
        if not delivery.local_settled:
            self._report_outcome(delivery, ACCEPTED)
        if was <= 0 < self.credit:
            self.session.credit_changed(self)

    def rejected(self, sent: PendingCommand, code: int, text: str | None) -> None:
        """Record that the server rejected a message, or that no queue takes it."""
        if not sent.about.local_settled:
            self._report_outcome(sent.about, outcome_of(code, text))

    def released(self, sent: PendingCommand) -> None:
        """Record that the server released a message."""
        if not sent.about.local_settled:
            self._report_outcome(sent.about, RELEASED)

    def _report_outcome(self, delivery: OutgoingDelivery, state: DeliveryState) -> None:
        self.settled_by_peer(delivery, state)
        self.session.outcome(self, delivery)

    # What an earlier attachment left

    def suspended(self) -> list[Any]:
        return self._unresumed.beside(self.unsettled)

    def resend(self, delivery: OutgoingDelivery) -> None:
        if delivery.local_settled or not self.attached:
            raise LocalProtocolError("the delivery is settled, or the link is not attached")
        if delivery.tag in self.unsettled:
            delivery.tag = self.new_tag()
        written = self._written(delivery.payload)
        delivery.link = self
        delivery.past = 0
        self.unsettled[delivery.tag] = delivery
        self._transfer(delivery, written)

    # The end

    def detach(self, *, closed: bool = True, error: Error | None = None) -> None:
        if self.detached:
            return
        was_attached = self.attached
        self.advance(Step.DETACH)
        if was_attached and self._owned is not None:
            self.session.run_commands(
                delete_owned(self._owned), lambda _: self._gone(closed), lambda _: self._gone(closed)
            )
        else:
            self.session.after_round_trip(self._gone, closed)
