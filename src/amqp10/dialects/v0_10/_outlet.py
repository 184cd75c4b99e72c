"""The server's sending links: one a subscription, under its credit in messages and in octets (0-10 §10.2 "flow").

Both kinds of credit are needed for a message. In mode "credit" only message.flow brings them; in mode "window" the
completion of a transfer gives back what it used.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from ...engine import CreditChanged, LinkTerms, OutgoingDelivery, SenderLink, parse_address
from ...errors import AmqpError, DecodeError, EncodeError, LocalProtocolError
from ...messaging import ACCEPTED, RELEASED, Error, Source, Target, TransactionalState
from ._codes import SessionFault, execution_code
from ._commands import MessageFlow, MessageSubscribe, MessageTransfer
from ._frames import encode_command
from ._link import LinkEndpoint
from ._write_message import WrittenMessage, as_it_is, write_message

if TYPE_CHECKING:
    from ...engine import Address
    from ...messaging import DeliveryState
    from ._ledger import Sent
    from ._server_session import ServerSession

INFINITE: Final = 0xFFFF_FFFF
WINDOW_MODE: Final = 1


class Credit:
    """Credit of one unit.

    Attributes:
        left: what may be used still; None for any amount.
    """

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left: int | None = 0

    def add(self, amount: int) -> None:
        """More of it; the greatest amount is any."""
        if amount == INFINITE:
            self.left = None
        elif self.left is not None:
            self.left = min(self.left + amount, INFINITE - 1)

    def use(self, amount: int) -> None:
        """It is used."""
        if self.left is not None:
            self.left -= amount

    def covers(self, amount: int) -> bool:
        """There is that much."""
        return self.left is None or self.left >= amount


class OutletLink(LinkEndpoint, SenderLink):
    """See `SenderLink` for the contract."""

    session: ServerSession
    is_sender = True
    frame_room = 0

    def __init__(self, session: ServerSession, number: int, subscribe: MessageSubscribe, source: Source) -> None:
        super().__init__(session, subscribe.destination or "")
        self.destination = subscribe.destination or ""
        self.number = number
        self._settles = subscribe.accept_mode == 1
        self.shows = subscribe.acquire_mode == 1
        self._acquired: set[OutgoingDelivery] = set()
        self.remote = LinkTerms(
            self.destination,
            source,
            Target(self.destination),
            "unsettled",  # to the owner: see `_transfer`
            properties={"exclusive": True} if subscribe.exclusive else {},
            on_demand=False,
        )
        self._fallback: Address = parse_address(str(source.address))
        self.unsettled: dict[bytes, OutgoingDelivery] = {}
        self.auto_settle = True
        self.delivery_type = OutgoingDelivery
        self.drain = False
        self.messages, self.octets = Credit(), Credit()
        self.window = True
        self._flushes: list[int] = []  # commands that wait for the drain
        self._held: deque[tuple[OutgoingDelivery, WrittenMessage]] = deque()
        self._cancelled = False
        self._front = MessageTransfer(self.destination, int(self._settles), subscribe.acquire_mode).encode()

    # Attaching

    def attach(self, terms: LinkTerms, *, resuming: Iterable[Any] | None = None) -> None:
        if self._ended:
            return
        if self.terms is not None:
            raise LocalProtocolError(f"the link {self._name!r} does not wait for an answer")
        self.terms = terms
        self.attached = True
        self.session.complete(self.number)
        self.session.answered()

    def refuse(self, error: Error) -> None:
        if not self._ended:
            fault = SessionFault(execution_code(error), error.description or str(error.condition))
            self.session.fail(fault, self.number, None)

    # Credit

    @property
    def credit(self) -> int:  # type: ignore[override]
        if not self.attached or self._cancelled or self._held:
            return 0
        if self.octets.left == 0:
            return 0
        return 0x7FFF_FFFF if self.messages.left is None else max(0, self.messages.left)

    def set_mode(self, mode: int) -> None:
        """message.set-flow-mode: it may be done at any time, and takes back what there is.

        Raises:
            SessionFault: there is no such mode.
        """
        if mode > WINDOW_MODE:
            raise SessionFault(531, f"{mode} is no flow mode")
        self.window = mode == WINDOW_MODE
        self.stop()

    def granted(self, flow: MessageFlow) -> None:
        """message.flow"""
        (self.octets if flow.unit else self.messages).add(flow.value)
        self._changed()

    def stop(self) -> None:
        """message.stop: what waits for credit in octets is for others to have."""
        self.messages.left = self.octets.left = 0
        held, self._held = self._held, deque()
        for delivery, _ in held:
            self._say(delivery, RELEASED)

    def flush(self, number: int) -> None:
        """message.flush"""
        self._flushes.append(number)
        self.drain = True
        if self.credit <= 0:
            self.drained()  # nobody else would say so
        else:
            self._changed()

    def _changed(self) -> None:
        self._send_held()
        self.session.engine.emit(CreditChanged(self))

    def completed(self, sent: Sent) -> None:
        """The client has seen a transfer."""
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

    def offer(self, available: int) -> None:
        """Nothing is said of it."""

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
            written = as_it_is(payload, self._fallback)
        number = self.session.next_tag()
        delivery = self.delivery_type(self, tag if tag is not None else number, payload, False, 0)
        delivery.state = state
        self.unsettled[delivery.tag] = delivery
        if not self.octets.covers(len(written.header) + len(written.body)):
            self._held.append((delivery, written))
        else:
            self._transfer(delivery, written)
        return delivery

    def _transfer(self, delivery: OutgoingDelivery, written: WrittenMessage) -> None:
        size = len(written.header) + len(written.body)
        self.messages.use(1)
        self.octets.use(size)
        session = self.session
        frames = bytearray(
            encode_command(session.channel, self._front, written.header, written.body, session.engine.room)
        )
        sent = session.send(frames, self if self.window else None, delivery, size)
        delivery.delivery_id = sent.number & 0xFFFF_FFFF
        delivery.on_wire = True
        if self._settles:
            self._say(delivery, ACCEPTED)  # not before: what waits for credit can still be another's
        else:
            session.deliveries[sent.number] = delivery

    def _send_held(self) -> None:
        held = self._held
        while held and self.messages.covers(1) and self.octets.covers(len(held[0][1].header) + len(held[0][1].body)):
            self._transfer(*held.popleft())

    def send_more(self, delivery: OutgoingDelivery, payload: bytes, *, more: bool = False) -> None:
        raise LocalProtocolError("AMQP 0-10 sends no message in parts")

    def abort(self, delivery: OutgoingDelivery) -> None:
        raise LocalProtocolError("only a delivery that is not whole on the wire can be aborted")

    # Outcomes

    def told(self, delivery: OutgoingDelivery, state: Any) -> None:
        """The client told the outcome of a delivery."""
        transaction = self.session.transaction
        self._acquired.discard(delivery)
        self._say(delivery, TransactionalState(transaction, state) if transaction is not None else state)
        self._end_if_done()

    def _say(self, delivery: OutgoingDelivery, state: DeliveryState) -> None:
        """Tell the owner what becomes of it."""
        delivery.remote_state = state
        delivery.remote_settled = True
        if self.auto_settle:
            delivery.local_settled = True
            self.unsettled.pop(delivery.tag, None)
        self.session.outcome(self, delivery)

    def acquired(self, delivery: OutgoingDelivery) -> None:
        """The client was shown it, and has taken it since."""
        self._acquired.add(delivery)

    def settle(self, delivery: OutgoingDelivery, state: DeliveryState | None = None) -> None:
        if state is not None:
            delivery.state = state
        delivery.local_settled = True
        self.unsettled.pop(delivery.tag, None)
        if delivery.delivery_id is not None:
            self.session.forget_delivery(delivery)

    def suspended(self) -> list[Any]:
        return list(self.unsettled.values())

    def resend(self, delivery: OutgoingDelivery) -> None:
        raise LocalProtocolError("a server sends nothing again on its own accord")

    def forget(self, delivery: OutgoingDelivery) -> None:
        self.settle(delivery)

    # The end

    def cancel(self) -> None:
        """message.cancel: no more of it; what is out is still to be settled."""
        self._cancelled = True
        self.stop()
        for number in self._flushes:
            self.session.complete(number)
        self._flushes.clear()
        if self.shows:
            for delivery in [each for each in self.unsettled.values() if each not in self._acquired]:
                self.settle(delivery)  # there is nothing to be said of what was only shown
        self._end_if_done()

    def _end_if_done(self) -> None:
        if self._cancelled and not any(each.on_wire for each in self.unsettled.values()):
            self.end(True, None)

    def detach(self, *, closed: bool = True, error: Error | None = None) -> None:
        """A subscription that ends by the server's will takes its session along (0-10 §10.2, "queue-deletion")."""
        if self._ended or self.detach_sent:
            return
        self.detach_sent = True
        if error is not None:
            self.session.end(error)
        else:
            self.end(closed, None)

    def over(self, error: AmqpError | None) -> None:
        """The session is over."""
        self._held.clear()
        super().over(error)
