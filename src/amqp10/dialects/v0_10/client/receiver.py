"""The client's receiving links: a subscription each, its credit in messages and bytes (0-10 §10.2 "subscribe", "flow").

Flow mode is "credit": only transfers use up what was granted. To reduce the credit, message.stop takes all of it
back; once that is completed, the new amount is granted. A drain is message.flush.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from ....engine import (
    Address,
    FlowReceived,
    IncomingDelivery,
    LinkTerms,
    parse_address,
    route_address,
)
from ....errors import DecodeError, LinkDetached, LocalProtocolError
from ....messaging import Error, NoLocal, Selector, Source, TransactionalState
from ....types import Symbol
from ..._kit.links import PlainReceiver
from ..._kit.message.limits import limit_hint, message_limit
from ..codes import INFINITE, ErrorCode, SessionFault
from ..link import LinkEndpoint
from ..message.from_transfer import read_message
from ..states import Step
from ..wire.commands import (
    ExchangeBind,
    MessageCancel,
    MessageFlow,
    MessageFlush,
    MessageSetFlowMode,
    MessageStop,
    MessageSubscribe,
    MessageTransfer,
    QueueDeclare,
)
from ..wire.struct import Command
from .command_sequence import RequestFailed
from .requests import delete_owned, look_exchange

if TYPE_CHECKING:
    from ....messaging import DeliveryState
    from ..command_ids import PendingCommand
    from ..wire.frames import Assembly
    from .command_sequence import Commands
    from .parents import ClientLinkSession

MESSAGES: Final = 0
OCTETS: Final = 1
CREDIT_MODE: Final = 0
UNREADABLE: Final = b"\xff"
"""An octet that no message of AMQP 1.0 begins with."""
EXCLUSIVE: Final = "exclusive"
EVERY_KEY: Final = {"topic": "#", "fanout": ""}
"""The binding key that matches every message, by type of exchange."""


def arguments_of(source: Source) -> tuple[dict[str, Any], dict[Any, Any]]:
    """Return the arguments of a subscription that express the filters of `source`, and the filters so expressed."""
    arguments: dict[str, Any] = {}
    applied: dict[Any, Any] = {}
    for name, each in (source.filter or {}).items():
        descriptor = getattr(each, "descriptor", None)
        if descriptor in (Selector.descriptor_name, Selector.descriptor_code):
            arguments["x-filter-jms-selector"] = str(each.value)
        elif descriptor in (NoLocal.descriptor_name, NoLocal.descriptor_code):
            arguments["no-local"] = True
        else:
            continue
        applied[name] = each
    return arguments, applied


class ClientReceiver(LinkEndpoint, PlainReceiver):
    """See `ReceiverLink` for the contract."""

    session: ClientLinkSession
    terms: LinkTerms
    credit: int

    def __init__(self, session: ClientLinkSession, terms: LinkTerms, destination: str) -> None:
        super().__init__(session, terms.name)
        self.terms = terms
        self.destination = destination
        self.incoming: deque[IncomingDelivery] = deque()
        self.unsettled: dict[bytes, IncomingDelivery] = {}
        self._granted = 0  # message credit that the server has, unless a stop or flush is under way
        self._octets = False  # the server has byte credit
        self._stopping = False  # a stop or flush is under way: the credit that is left is not known
        self._draining = False
        self._presettled = False
        self._browsing = False
        self._acquired: set[bytes] = set()
        self._queue = ""
        self._named_queue: str | None = None  # the queue that the source names; any other was made for the link

    @property
    def settled_by_sender(self) -> bool:
        return self._presettled

    # Attaching

    def take_large_messages(self) -> None:
        """Tell the engine how large the messages may be that come to this link."""
        self.session.engine.take_messages_of(message_limit(self.terms.max_message_size))

    def begin(self) -> None:
        """Find the queue, or make one, then subscribe to it."""
        self.take_large_messages()
        source = self.terms.source
        if not isinstance(source, Source) or (source.address is None and not source.dynamic):
            self.session.after_round_trip(
                self.attach_failed, Error("amqp:invalid-field", "a receiver needs a source with an address")
            )
            return
        address = None
        if not source.dynamic:
            try:
                address = parse_address(str(source.address))
                self._named_queue = address.queue
            except ValueError as error:
                self.session.after_round_trip(self.attach_failed, Error("amqp:invalid-field", str(error)))
                return
            if address.exchange:
                self.session.run_commands(self._bind(address), self._found, self.attach_failed)
                return
        self.session.find(self, address, self._found)

    def _bind(self, address: Address) -> Commands:
        """Declare a queue for this link, bind it to the exchange of `address`, and return the queue's address."""
        exchange = yield from look_exchange(address.exchange)
        key = address.key if address.key is not None else EVERY_KEY.get(exchange.type)
        if key is None or exchange.type == "headers":
            by = "what a binding asks for: bind a queue" if exchange.type == "headers" else f"their keys: {address}/KEY"
            raise RequestFailed(ErrorCode.ILLEGAL_ARGUMENT, f"a {exchange.type} exchange selects messages by {by}")
        queue = f"amqp10-{uuid4()}"
        yield QueueDeclare(queue, exclusive=True, auto_delete=True)
        yield ExchangeBind(queue, address.exchange, key)
        return Address("", queue)

    def _found(self, address: Address) -> None:
        if self.detached:
            return
        self._queue = address.queue or ""
        self.session.run_commands(self._subscribe(), self._subscribed, self.attach_failed)

    def _subscribe(self) -> Commands:
        source = self.terms.source
        assert isinstance(source, Source)
        self._presettled = self.terms.settle_mode == "settled"
        self._browsing = source.distribution_mode == "copy"
        arguments, self._applied = arguments_of(source)
        yield MessageSubscribe(
            queue=self._queue,
            destination=self.destination,
            accept_mode=int(self._presettled),
            acquire_mode=int(self._browsing),
            exclusive=bool(self.terms.properties.get(EXCLUSIVE)),
            arguments=arguments,
        )

    def _subscribed(self, _: object) -> None:
        if self.detached:
            self.session.invoke(MessageCancel(self.destination))
            return
        requested = self.terms.source
        assert isinstance(requested, Source)
        source = Source(
            route_address("", self._queue) if requested.dynamic else requested.address,
            dynamic=requested.dynamic,
            distribution_mode=requested.distribution_mode,
            filter=self._applied or None,
        )
        properties = {Symbol(EXCLUSIVE): True} if self.terms.properties.get(EXCLUSIVE) else {}
        self.session.invoke(MessageSetFlowMode(self.destination, CREDIT_MODE))
        self.mark_attached(
            LinkTerms(
                self._name,
                source,
                self.terms.target,
                "settled" if self._presettled else "unsettled",
                self.terms.receiver_settle_mode,
                properties=properties,
            )
        )
        self._grant()

    # Credit

    def flow(
        self, credit: int, *, drain: bool = False, echo: bool = False, properties: Mapping[Any, Any] | None = None
    ) -> None:
        if self.detached:
            raise LocalProtocolError(f"the link {self._name!r} is not attached")
        self.check_credit(credit)
        if credit < self.credit and self.attached and not self._stopping:
            self._stop(MessageStop(self.destination))
        self.credit = credit
        self._draining = drain
        self._grant()

    def _grant(self) -> None:
        """Grant the server the credit that it lacks up to `credit`, and flush if the link drains."""
        if not self.attached or self._stopping:
            return
        missing = self.credit - self._granted
        if missing > 0:
            if not self._octets:
                self._octets = True
                self.session.invoke(MessageFlow(self.destination, OCTETS, INFINITE))
            self.session.invoke(MessageFlow(self.destination, MESSAGES, missing))
            self._granted = self.credit
        if self._draining:
            self._stop(MessageFlush(self.destination), flush=True)

    def _stop(self, command: Command, *, flush: bool = False) -> None:
        self._stopping = True
        self.session.invoke(command, self, flush)

    def completed(self, sent: PendingCommand) -> None:
        """Take note that a stop or flush is done: the server has no credit, and no earlier transfer is on its way.

        Credit that was requested while a flush was under way is not part of it: grant it now, and flush again if asked.
        """
        self._stopping = False
        given_back = min(self._granted, self.credit) if sent.about else 0
        self._granted = 0
        self._octets = False
        self.credit -= given_back
        drained = sent.about and not self.credit
        if drained:
            self._draining = False
        if (drained or given_back) and not self.ended:
            self.session.engine.emit(FlowReceived(self, drained, given_back))
        self._grant()

    # Deliveries

    def receive(self, number: int, transfer: MessageTransfer, assembly: Assembly) -> None:
        """Take in the message of a transfer.

        Raises:
            SessionFault: the link had no credit for the message.
        """
        if self._granted <= 0:
            raise SessionFault(ErrorCode.RESOURCE_LIMIT_EXCEEDED, f"a transfer to {self.destination!r} without credit")
        wire = number & 0xFFFF_FFFF
        settled = transfer.accept_mode == 1
        limit = self.terms.max_message_size
        if assembly.excess:
            self._too_large(number, settled, limit)
            return
        try:
            payload = read_message("", assembly.header, assembly.payload).payload
        except DecodeError:
            # For example, some programs send text that is not UTF-8. The application finds that out when it decodes the
            # message, and can then reject it.
            payload = UNREADABLE + (assembly.header or b"") + assembly.payload
        if limit and len(payload) > limit:
            self._too_large(number, settled, limit)
            return
        delivery = self.delivery_type(self, wire, wire.to_bytes(4, "big"), payload, settled)
        self.session.complete(number)
        self._granted -= 1
        if self.credit > 0:
            self.credit -= 1
        if not settled:
            self.unsettled[delivery.tag] = delivery
        self.hand_out(delivery)

    def _too_large(self, number: int, settled: bool, limit: int | None) -> None:
        """Release the message, and end the link as AMQP 1.0 does for a message above max-message-size."""
        self.session.complete(number)
        if not settled:
            self.session.release(number)
        self.detach()
        reason = f"a message of more than {message_limit(limit)} octets{limit_hint(limit)}"
        self.end(True, LinkDetached("amqp:link:message-size-exceeded", reason))

    def settle(self, delivery: IncomingDelivery, state: DeliveryState | None, *, settled: bool | None = None) -> None:
        if delivery.local_settled:
            return
        self.check_attached()
        self.check_own(delivery, self.unsettled)
        state = state if state is not None else delivery.state
        if isinstance(state, TransactionalState):
            branch = self.session.transactions.open.find(state.txn_id)
            outcome = state.outcome
            branch.add(lambda: self._dispose(delivery, outcome), lambda: self.session.release(delivery.delivery_id))
        elif self.terms.receiver_settle_mode == "second" and not settled:
            if delivery.state is None:
                self.session.dispose_exactly(self, delivery, state)
            delivery.state = state
            return
        elif not self._browsing or delivery.tag in self._acquired:
            self._acquired.discard(delivery.tag)
            self._dispose(delivery, state)
        self.settled_by_owner(delivery, state)

    def _dispose(self, delivery: IncomingDelivery, state: Any) -> None:
        assert delivery.delivery_id is not None
        self.session.dispose(delivery.delivery_id, state)

    def acquired(self, delivery: IncomingDelivery) -> None:
        """Record that a delivery which the browser was only shown is now acquired."""
        self._acquired.add(delivery.tag)

    def settled_exactly(self, delivery: IncomingDelivery) -> None:
        """Settle `delivery`, now that the server has confirmed its outcome."""
        delivery.local_settled = delivery.remote_settled = True
        self.unsettled.pop(delivery.tag, None)
        self.session.settlement(self, delivery)

    def suspended(self) -> list[Any]:
        return self._unresumed.beside(self.unsettled)

    # The end

    def detach(self, *, closed: bool = True, error: Error | None = None) -> None:
        if self.detached:
            return
        was_attached = self.attached
        self.advance(Step.DETACH)
        if not was_attached:
            self.session.after_round_trip(self._gone, closed)
            return
        for delivery in list(self.unsettled.values()):
            if delivery.state is None and (not self._browsing or delivery.tag in self._acquired):
                self.session.release(delivery.delivery_id)
        self.unsettled.clear()
        self.session.flush_dispositions()
        self.session.run_commands(self._cancel(), lambda _: self._gone(closed), lambda _: self._gone(closed))

    def _cancel(self) -> Commands:
        yield MessageCancel(self.destination)
        if self._queue != self._named_queue:
            yield from delete_owned(self._queue)
