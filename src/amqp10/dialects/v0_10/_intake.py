"""The server's receiving link: what a client transfers on a session, to whatever exchange (0-10 §10.2 "transfer").

One link a session, to the anonymous terminus: the destination of each message is its field `to`. Clients have no credit
here, so what comes beyond the owner's waits in the engine, and when that is much the transport is read no more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from ...engine import (
    DeliveriesReceived,
    FlowReceived,
    IncomingDelivery,
    LinkTerms,
    ReceiverLink,
    RoutedDelivery,
    route_address,
)
from ...errors import AmqpError, LocalProtocolError
from ...messaging import Accepted, Error, Rejected, Released, Source, Target, TransactionalState
from ._codes import SERVERS_REJECT, UNROUTABLE, UNSPECIFIED, SessionFault, reject_text
from ._link import LinkEndpoint
from ._read_message import read_message

if TYPE_CHECKING:
    from ...messaging import DeliveryState
    from ._commands import MessageTransfer
    from ._frames import Assembly
    from ._server_session import ServerSession

OUTCOMES: Final = ("amqp:accepted:list", "amqp:rejected:list", "amqp:released:list", "amqp:modified:list")

_FATAL: Final = {
    "amqp:not-found": 404,
    "amqp:unauthorized-access": 403,
}  # what ends a session, though one message did it


class IntakeLink(LinkEndpoint, ReceiverLink):
    """See `ReceiverLink` for the contract."""

    session: ServerSession
    is_sender = False
    streaming = False
    available = 0
    partial_state = None

    def __init__(self, session: ServerSession, name: str, target: Any = None) -> None:
        super().__init__(session, name)
        terminus = target if target is not None else Target(None)
        self.remote = LinkTerms(name, Source(outcomes=OUTCOMES), terminus, on_demand=False)
        self.incoming: deque[IncomingDelivery] = deque()
        self.unsettled: dict[bytes, IncomingDelivery] = {}
        self.delivery_type = RoutedDelivery
        self.credit = 0
        self._held: deque[IncomingDelivery] = deque()
        self._waiting: list[Callable[[], None]] = []
        self._numbers: dict[bytes, int] = {}
        self._quiet: set[bytes] = set()  # whose sender does not want to hear that nobody takes them

    @property
    def settled_by_sender(self) -> bool:
        return False

    # Attaching

    def attach(self, terms: LinkTerms, *, resuming: Iterable[Any] | None = None) -> None:
        if self._ended:
            return
        if self.terms is not None:
            raise LocalProtocolError(f"the link {self._name!r} does not wait for an answer")
        self.terms = terms
        self.attached = True

    def refuse(self, error: Error) -> None:
        if not self._ended:
            self.session.refuse_all(error)

    # Deliveries

    def receive(self, number: int, transfer: MessageTransfer, assembly: Assembly) -> None:
        """A message came."""
        read = read_message(transfer.destination, assembly.header, assembly.payload)
        settled = transfer.accept_mode == 1
        wire = number & 0xFFFF_FFFF
        delivery = RoutedDelivery(self, wire, wire.to_bytes(4, "big"), read.payload, settled)
        delivery.address = route_address(transfer.destination, read.delivery.routing_key or "")
        if self.session.transaction is not None:
            delivery.remote_state = TransactionalState(self.session.transaction)
        self.take_in(delivery, number)
        if read.delivery.discard_unroutable and not settled:
            self._quiet.add(delivery.tag)

    def take_in(self, delivery: IncomingDelivery, number: int) -> None:
        """Hand it over if there is credit for it, else hold it."""
        if delivery.local_settled:
            self.session.complete(number)
        else:
            self.unsettled[delivery.tag] = delivery
            self._numbers[delivery.tag] = number
        if self.credit > 0 and not self._held:
            self._hand_over(delivery)
        else:
            self._held.append(delivery)
            self.session.engine.hold(1, len(delivery.payload))

    def _hand_over(self, delivery: IncomingDelivery) -> None:
        self.credit -= 1
        if not self.incoming:
            self.session.engine.emit(DeliveriesReceived(self))
        self.incoming.append(delivery)

    def flow(
        self, credit: int, *, drain: bool = False, echo: bool = False, properties: Mapping[Any, Any] | None = None
    ) -> None:
        self.credit = credit
        while self._held and self.credit > 0:
            delivery = self._held.popleft()
            self.session.engine.hold(-1, -len(delivery.payload))
            self._hand_over(delivery)
        if not self._held:
            waiting, self._waiting = self._waiting, []
            for call in waiting:
                call()
        if drain:
            given_back, self.credit = self.credit, 0
            self.session.engine.emit(FlowReceived(self, True, given_back))

    def when_empty(self, call: Callable[[], None]) -> None:
        """Call it when nothing is held."""
        if self._held:
            self._waiting.append(call)
        else:
            call()

    # Outcomes

    def settle(self, delivery: IncomingDelivery, state: DeliveryState | None, *, settled: bool | None = None) -> None:
        if delivery.local_settled:
            return
        if not self.attached:
            raise LocalProtocolError(f"the link {self._name!r} is not attached")
        delivery.state = state
        delivery.local_settled = True
        self.unsettled.pop(delivery.tag, None)
        number = self._numbers.pop(delivery.tag)
        outcome = state.outcome if isinstance(state, TransactionalState) else state
        quiet = delivery.tag in self._quiet
        self._quiet.discard(delivery.tag)
        if isinstance(outcome, Released):
            if not quiet:
                self.session.reject(number, UNROUTABLE, "unroutable")
        elif isinstance(outcome, Rejected):
            error = outcome.error
            code = _FATAL.get(error.condition) if error is not None else None
            if error is not None and code is not None and (code != 404 or not quiet):
                self.incoming.clear()  # what came after it is not done
                self.session.fail(SessionFault(code, error.description or error.condition), number, None)
                return
            self.session.reject(number, UNSPECIFIED, reject_text(error, SERVERS_REJECT))
        elif not isinstance(outcome, Accepted) and outcome is not None:
            self.session.reject(number, UNSPECIFIED, "it was not taken")
        self.session.complete(number)

    def read(self, delivery: IncomingDelivery) -> bytes | None:
        raise LocalProtocolError("the link does not stream")

    def discard(self, delivery: IncomingDelivery) -> None:
        raise LocalProtocolError("the link does not stream")

    def suspended(self) -> list[Any]:
        return []

    # The end

    def detach(self, *, closed: bool = True, error: Error | None = None) -> None:
        """A client that may not send any more has no link to be told so: its session ends."""
        if self._ended or self.detach_sent:
            return
        self.detach_sent = True
        if error is not None:
            self.session.end(error)
        else:
            self.end(closed, None)

    def over(self, error: AmqpError | None) -> None:
        """The session is over."""
        for delivery in self._held:
            self.session.engine.hold(-1, -len(delivery.payload))
        self._held.clear()
        super().over(error)
