"""The server's sending links: one a subscription, with credit in messages and in octets (0-10 §10.2 "flow").

A message needs credit of both kinds. In mode "credit" only message.flow grants it; in mode "window" the completion of a
transfer also gives back what the transfer used.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from ....engine import CreditChanged, LinkTerms, OutgoingDelivery, parse_address
from ....errors import AmqpError, DecodeError, EncodeError, LocalProtocolError
from ....messaging import ACCEPTED, RELEASED, Error, Source, Target, TransactionalState
from ..._kit.links import PlainSender
from ..codes import INFINITE, ErrorCode, SessionFault, execution_code
from ..link import LinkEndpoint
from ..message.to_transfer import WrittenMessage, as_encoded_sections, write_message
from ..states import LinkState, Step
from ..wire.commands import MessageFlow, MessageSubscribe, MessageTransfer
from ..wire.frames import encode_command

if TYPE_CHECKING:
    from ....engine import Address
    from ....messaging import DeliveryState
    from ..command_ids import PendingCommand
    from .parents import ServerLinkSession

WINDOW_MODE: Final = 1


class Credit:
    """Credit of one unit.

    Attributes:
        left: the amount that may still be used; None: any amount.
    """

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left: int | None = 0

    def add(self, amount: int) -> None:
        """Add `amount`; `INFINITE` grants any amount."""
        if amount == INFINITE:
            self.left = None
        elif self.left is not None:
            self.left = min(self.left + amount, INFINITE - 1)

    def use(self, amount: int) -> None:
        """Use up `amount`."""
        if self.left is not None:
            self.left -= amount

    def covers(self, amount: int) -> bool:
        """Return whether at least `amount` is left."""
        return self.left is None or self.left >= amount


class ServerSender(LinkEndpoint, PlainSender):
    """See `SenderLink` for the contract."""

    session: ServerLinkSession
    frame_room = 0
    drain: bool
    messages: Credit
    octets: Credit

    def __init__(self, session: ServerLinkSession, number: int, subscribe: MessageSubscribe, source: Source) -> None:
        super().__init__(session, subscribe.destination or "")
        self.destination: str = subscribe.destination or ""
        self.number = number
        self._settles = subscribe.accept_mode == 1
        self.shows: bool = subscribe.acquire_mode == 1
        self._acquired: set[OutgoingDelivery] = set()
        self.remote: LinkTerms = LinkTerms(
            self.destination,
            source,
            Target(self.destination),
            "unsettled",  # to the owner: see `_transfer`
            properties={"exclusive": True} if subscribe.exclusive else {},
            on_demand=False,
        )
        self._fallback: Address = parse_address(str(source.address))
        self.unsettled: dict[bytes, OutgoingDelivery] = {}
        self.messages, self.octets = Credit(), Credit()
        self.window: bool = True
        self._flushes: list[int] = []  # ids of the message.flush commands that wait for the drain
        self._over_credit: deque[tuple[OutgoingDelivery, WrittenMessage]] = deque()
        self._front = MessageTransfer(self.destination, int(self._settles), subscribe.acquire_mode).encode()

    # Attaching

    def attach(self, terms: LinkTerms, *, resuming: Iterable[Any] | None = None) -> None:
        if not self.take_answer(terms):
            return
        self.advance(Step.ATTACH)
        self.session.complete(self.number)
        self.session.answered()

    def refuse(self, error: Error) -> None:
        if not self.ended:
            fault = SessionFault(execution_code(error), error.description or str(error.condition))
            self.session.fail(fault, self.number, MessageSubscribe)

    # Credit

    @property
    def credit(self) -> int:  # type: ignore[override]
        if self.state is not LinkState.ATTACHED or self._over_credit:
            return 0
        if self.octets.left == 0:
            return 0
        return 0x7FFF_FFFF if self.messages.left is None else max(0, self.messages.left)

    def set_mode(self, mode: int) -> None:
        """Set the flow mode, for message.set-flow-mode, and take back all credit; allowed at any time.

        Raises:
            SessionFault: there is no such flow mode.
        """
        if mode > WINDOW_MODE:
            raise SessionFault(ErrorCode.ILLEGAL_ARGUMENT, f"{mode} is not a flow mode")
        self.window = mode == WINDOW_MODE
        self.stop()

    def granted(self, flow: MessageFlow) -> None:
        """Add the credit that message.flow grants."""
        (self.octets if flow.unit else self.messages).add(flow.value)
        self._changed()

    def stop(self) -> None:
        """Take back all credit, for message.stop; release the messages that wait for credit in octets."""
        self.messages.left = self.octets.left = 0
        waiting, self._over_credit = self._over_credit, deque()
        for delivery, _ in waiting:
            self._report_outcome(delivery, RELEASED)

    def flush(self, number: int) -> None:
        """Ask the owner to drain the credit, for the message.flush with the id `number`."""
        self._flushes.append(number)
        self.drain = True
        if self.credit <= 0:
            self.drained()  # without credit the owner would not call it
        else:
            self._changed()

    def _changed(self) -> None:
        self._send_waiting()
        self.session.engine.emit(CreditChanged(self))

    def completed(self, sent: PendingCommand) -> None:
        """Give back the credit of a transfer that the client completed, in window mode."""
        if self.window:
            if self.messages.left is not None:
                self.messages.add(1)
            if self.octets.left is not None:
                self.octets.add(sent.size)
            self._changed()

    def drained(self, available: int = 0) -> None:
        if self.drain:
            self.drain = False
            self.stop()
            flushes, self._flushes = self._flushes, []
            for number in flushes:
                self.session.complete(number)

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
        if self.credit <= 0 or more:
            raise LocalProtocolError(f"no credit on the link {self._name!r}, or a message in parts")
        try:
            written = write_message(payload, None, fallback=self._fallback)
        except (DecodeError, EncodeError):
            written = as_encoded_sections(payload, self._fallback)
        number = self.session.next_tag()
        delivery = self.delivery_type(self, tag if tag is not None else number, payload, False, 0)
        delivery.state = state
        self.unsettled[delivery.tag] = delivery
        if not self.octets.covers(len(written.header) + len(written.body)):
            self._over_credit.append((delivery, written))
        else:
            self._transfer(delivery, written)
        return delivery

    def _transfer(self, delivery: OutgoingDelivery, written: WrittenMessage) -> None:
        size = len(written.header) + len(written.body)
        self.messages.use(1)
        self.octets.use(size)
        session = self.session
        frames = bytearray(
            encode_command(session.channel, self._front, written.header, written.body, session.engine.max_payload)
        )
        sent = session.send(frames, self if self.window else None, delivery, size)
        delivery.delivery_id = sent.number & 0xFFFF_FFFF
        delivery.on_wire = True
        if self._settles:
            self._report_outcome(
                delivery, ACCEPTED
            )  # only once sent: a message that waits for credit can still be released
        else:
            session.deliveries[sent.number] = delivery

    def _send_waiting(self) -> None:
        waiting = self._over_credit
        while (
            waiting
            and self.messages.covers(1)
            and self.octets.covers(len(waiting[0][1].header) + len(waiting[0][1].body))
        ):
            self._transfer(*waiting.popleft())

    def abort(self, delivery: OutgoingDelivery) -> None:
        waiting = [each for each in self._over_credit if each[0] is not delivery]
        if len(waiting) == len(self._over_credit):
            super().abort(delivery)
        self._over_credit = deque(waiting)
        self.settle(delivery)
        self._changed()

    # Outcomes

    def on_outcome(self, delivery: OutgoingDelivery, state: Any) -> None:
        """Record the outcome `state` that the client told, as part of the session's transaction if it has one."""
        transaction = self.session.transaction
        self._acquired.discard(delivery)
        self._report_outcome(delivery, TransactionalState(transaction, state) if transaction is not None else state)
        self._end_if_done()

    def _report_outcome(self, delivery: OutgoingDelivery, state: DeliveryState) -> None:
        """Tell the owner the outcome of a delivery."""
        delivery.remote_state = state
        delivery.remote_settled = True
        if self.auto_settle:
            delivery.local_settled = True
            self.unsettled.pop(delivery.tag, None)
        self.session.outcome(self, delivery)

    def acquired(self, delivery: OutgoingDelivery) -> None:
        """Record that the client acquired a delivery that it was only shown before."""
        self._acquired.add(delivery)

    def settle(self, delivery: OutgoingDelivery, state: DeliveryState | None = None) -> None:
        super().settle(delivery, state)
        if delivery.delivery_id is not None:
            self.session.forget_delivery(delivery)

    def suspended(self) -> list[Any]:
        return list(self.unsettled.values())

    # The end

    def cancel(self) -> None:
        """Send nothing more, for message.cancel; the link ends once all deliveries already sent are settled."""
        self.advance(Step.CANCEL)
        self.stop()
        for number in self._flushes:
            self.session.complete(number)
        self._flushes.clear()
        if self.shows:
            for delivery in [each for each in self.unsettled.values() if each not in self._acquired]:
                self.settle(delivery)  # a message that was only shown has no outcome
        self._end_if_done()

    def _end_if_done(self) -> None:
        if self.state is LinkState.CANCELLED and not any(each.on_wire for each in self.unsettled.values()):
            self.end(True, None)

    def over(self, error: AmqpError | None) -> None:
        """End the link, for its session is over."""
        self._over_credit.clear()
        super().over(error)
