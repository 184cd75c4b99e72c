"""The server's receiving link: all messages that a client sends on a session (0-10 §10.2 "transfer").

Each session has one, to the anonymous terminus: the destination of each message is its field `to`. Clients need no
credit in 0-10, so messages beyond the owner's credit wait in the engine; if much waits, the engine reads no more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from ....engine import (
    FlowReceived,
    ImmediateDelivery,
    IncomingDelivery,
    LinkTerms,
    RoutedDelivery,
    route_address,
)
from ....errors import AmqpError, LocalProtocolError
from ....messaging import OUTCOME_NAMES, Accepted, Error, Rejected, Released, Source, Target, TransactionalState
from ..._kit.links import PlainReceiver
from ..codes import SERVERS_REJECT, UNROUTABLE, UNSPECIFIED, SessionFault, execution_code, reject_text
from ..link import LinkEndpoint
from ..message.from_transfer import read_message
from ..states import Step
from ..wire.commands import MessageTransfer

if TYPE_CHECKING:
    from ....messaging import DeliveryState
    from ..wire.frames import Assembly
    from .parents import ServerLinkSession


# The conditions that end the session, though only one message failed.
_FATAL: Final = frozenset({"amqp:not-found", "amqp:unauthorized-access"})


class ServerReceiver(LinkEndpoint, PlainReceiver):
    """See `ReceiverLink` for the contract."""

    session: ServerLinkSession
    credit: int

    def __init__(self, session: ServerLinkSession, name: str, target: Any = None) -> None:
        super().__init__(session, name)
        terminus = target if target is not None else Target(None)
        self.remote: LinkTerms = LinkTerms(name, Source(outcomes=OUTCOME_NAMES), terminus, on_demand=False)
        self.incoming: deque[IncomingDelivery] = deque()
        self.unsettled: dict[bytes, IncomingDelivery] = {}
        self.delivery_type: type[RoutedDelivery] = RoutedDelivery
        self._over_credit: deque[IncomingDelivery] = deque()
        self._waiting: list[Callable[[], None]] = []
        self._numbers: dict[bytes, int] = {}
        self._discards_unroutable: set[bytes] = (
            set()
        )  # tags of deliveries with discard-unroutable: their sender is not told

    @property
    def settled_by_sender(self) -> bool:
        return False

    # Attaching

    def attach(self, terms: LinkTerms, *, resuming: Iterable[Any] | None = None) -> None:
        if self.take_answer(terms):
            self.advance(Step.ATTACH)

    def refuse(self, error: Error) -> None:
        if not self.ended:
            self.session.refuse_all(error)

    # Deliveries

    def receive(self, number: int, transfer: MessageTransfer, assembly: Assembly) -> None:
        """Take in the message of a transfer."""
        read = read_message(transfer.destination, assembly.header, assembly.payload)
        settled = transfer.accept_mode == 1
        wire = number & 0xFFFF_FFFF
        kind = ImmediateDelivery if read.delivery.immediate else RoutedDelivery
        delivery = kind(self, wire, wire.to_bytes(4, "big"), read.payload, settled)
        delivery.address = route_address(transfer.destination, read.delivery.routing_key or "")
        if self.session.transaction is not None:
            delivery.remote_state = TransactionalState(self.session.transaction)
        self.take_in(delivery, number)
        if read.delivery.discard_unroutable and not settled:
            self._discards_unroutable.add(delivery.tag)

    def take_in(self, delivery: IncomingDelivery, number: int) -> None:
        """Hand `delivery`, of the command `number`, to the owner if there is credit for it, else hold it."""
        if delivery.local_settled:
            self.session.complete(number)
        else:
            self.unsettled[delivery.tag] = delivery
            self._numbers[delivery.tag] = number
        if self.credit > 0 and not self._over_credit:
            self._hand_over(delivery)
        else:
            self._over_credit.append(delivery)
            self.session.hold(1, len(delivery.payload))

    def _hand_over(self, delivery: IncomingDelivery) -> None:
        self.credit -= 1
        self.hand_out(delivery)

    def flow(
        self, credit: int, *, drain: bool = False, echo: bool = False, properties: Mapping[Any, Any] | None = None
    ) -> None:
        if self.detached:
            raise LocalProtocolError(f"the link {self._name!r} is not attached")
        self.credit = credit
        while self._over_credit and self.credit > 0:
            delivery = self._over_credit.popleft()
            self.session.hold(-1, -len(delivery.payload))
            self._hand_over(delivery)
        if not self._over_credit:
            waiting, self._waiting = self._waiting, []
            for call in waiting:
                call()
        if drain:
            given_back, self.credit = self.credit, 0
            self.session.engine.emit(FlowReceived(self, True, given_back))

    def when_empty(self, call: Callable[[], None]) -> None:
        """Call `call` when no delivery is held."""
        if self._over_credit:
            self._waiting.append(call)
        else:
            call()

    # Outcomes

    def settle(self, delivery: IncomingDelivery, state: DeliveryState | None, *, settled: bool | None = None) -> None:
        if delivery.local_settled:
            return
        self.check_attached()
        self.settled_by_owner(delivery, state)
        number = self._numbers.pop(delivery.tag)
        outcome = state.outcome if isinstance(state, TransactionalState) else state
        discards_unroutable = delivery.tag in self._discards_unroutable
        self._discards_unroutable.discard(delivery.tag)
        if isinstance(outcome, Released):
            if not discards_unroutable:
                self.session.reject(number, UNROUTABLE, "unroutable")
        elif isinstance(outcome, Rejected):
            error = outcome.error
            is_discarded = discards_unroutable and error is not None and error.condition == "amqp:not-found"
            if error is not None and error.condition in _FATAL and not is_discarded:
                self.incoming.clear()  # messages after it are not processed
                fault = SessionFault(execution_code(error), error.description or error.condition)
                self.session.fail(fault, number, MessageTransfer)
                return
            self.session.reject(number, UNSPECIFIED, reject_text(error, SERVERS_REJECT))
        elif not isinstance(outcome, Accepted) and outcome is not None:
            self.session.reject(number, UNSPECIFIED, "it was not taken")
        self.session.complete(number)

    # The end

    def over(self, error: AmqpError | None) -> None:
        """End the link, for its session is over, and drop the deliveries that are held."""
        for delivery in self._over_credit:
            self.session.hold(-1, -len(delivery.payload))
        self._over_credit.clear()
        super().over(error)
