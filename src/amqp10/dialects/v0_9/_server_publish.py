"""All that a client publishes on a channel, as one link to the anonymous terminus.

Each message says by its `to` where it goes. What became of it is a confirm, if the client asked for confirms; and a
return, where it could not be routed and was mandatory; and the end of the channel, where there is no such exchange.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ...engine import (
    CopiedDelivery,
    DeliveriesReceived,
    IncomingDelivery,
    LinkTerms,
    ReceiverLink,
    RoutedDelivery,
    route_address,
)
from ...errors import LocalProtocolError
from ...messaging import Accepted, DeliveryState, Error, Rejected, Released, Source, Target, TransactionalState
from ._acks import ACCEPT, DISCARD, Acks, confirm
from ._channel import BASIC
from ._codes import Fault
from ._incoming import read_expiration, read_route
from ._mapping import DIRECT_REPLY
from ._methods import BasicPublish, BasicReturn
from ._properties import BasicProperties
from ._server_link import ServerLink

if TYPE_CHECKING:
    from ._server_session import ServerSession
    from ._structured import Content

MOST_ADDRESSES = 1000
"""Exchanges and routing keys whose addresses a channel remembers."""

_HAS_EXPIRATION: Final = 1  # in the first octet of the flags
_LONGEST: Final = 315_360_000_000  # ms, RabbitMQ's: ten years


class PublishLink(ServerLink, ReceiverLink):
    """See `ReceiverLink` for the contract."""

    is_sender = False

    def __init__(self, session: ServerSession) -> None:
        name = f"publish-{session.number}"
        super().__init__(
            session,
            LinkTerms(
                name,
                Source(outcomes=("amqp:accepted:list", "amqp:rejected:list", "amqp:released:list")),
                Target(None),
                settle_mode="mixed",
                on_demand=False,
            ),
        )
        self.delivery_type = RoutedDelivery
        self.credit = 0
        self.available = 0
        self.incoming: deque[IncomingDelivery] = deque()
        self.unsettled: dict[bytes, IncomingDelivery] = {}
        self.partial_state: DeliveryState | None = None
        self.streaming = False
        self._number = 0
        self._route = b""
        self._addresses: dict[bytes, str] = {}  # of the routes so far
        self._mandatory = False
        # Of what is mandatory: route, properties, body, and the contents within it.
        self._returnable: dict[int, tuple[bytes, bytes, bytes, list[Content]]] = {}
        self._checked = b""  # the last properties with an expiration
        self._acks: Acks | None = None
        self._confirmed_before = 0  # how many publishes came before confirms were asked for
        if session.confirming:
            self.begin_confirming()

    def begin_confirming(self) -> None:
        """Confirms count from the next publish."""
        if self._acks is None:
            self._confirmed_before = self._number
            self._acks = Acks(self.session, _nothing, confirm)

    # Publishes

    def begin_publish(self, route: bytes, mandatory: bool) -> None:
        self._route, self._mandatory = route, mandatory

    def arrived(self, body: bytes) -> None:
        """A message is whole."""
        session, engine = self.session, self.engine
        properties, also = session.properties_octets, list[str]()
        if properties[0] & _HAS_EXPIRATION and properties != self._checked:
            self._check_expiration(properties)
        if b"CC" in properties:
            properties, also = self._carbon_copies(properties)
        if DIRECT_REPLY.encode() in properties:
            properties = self._with_reply_to(properties)
        payload = engine.incoming.map(self._route, properties, body, session.children)
        self._number = number = self._number + 1
        tag = number.to_bytes(8, "big")
        if self._mandatory:
            self._returnable[number] = self._route, properties, body, session.children
        delivery = RoutedDelivery(self, number, tag, payload, False)
        if also:
            exchange, _ = read_route(self._route)
            delivery = CopiedDelivery(self, number, tag, payload, False)
            delivery.also = tuple(route_address(exchange, key) for key in also)
        delivery.address = self._addresses.get(self._route) or self._address(self._route)
        txn_id = session.transactions.txn_id
        if txn_id is not None:
            delivery.remote_state = TransactionalState(txn_id)
        self.unsettled[tag] = delivery
        self.incoming.append(delivery)
        self.credit -= 1
        if self.terms is None:
            if number == 1:
                self.announce()
        elif len(self.incoming) == 1:
            engine.emit(DeliveriesReceived(self))
        if self.credit <= 0:
            session.hold(self)

    def _check_expiration(self, properties: bytes) -> None:
        """What is no time to live would live for ever, and nobody would know: RabbitMQ refuses it, too.

        Raises:
            Fault: it is no number of milliseconds, or of more than ten years.
        """
        said = BasicProperties.decode(properties, self.engine.variant.tables).expiration
        found = read_expiration(said) if said is not None else 0
        if found is None or found > _LONGEST:
            raise Fault(406, f"invalid expiration {said!r:.80}", BasicPublish.code, soft=True)
        self._checked = properties

    def _carbon_copies(self, properties: bytes) -> tuple[bytes, list[str]]:
        """RabbitMQ's headers CC and BCC: further routing keys; the second is for nobody else to see.

        Raises:
            Fault: they are no lists of strings.
        """
        tables = self.engine.variant.tables
        read = BasicProperties.decode(properties, tables)
        headers = dict(read.headers or {})
        found = [headers.get("CC"), headers.pop("BCC", None)]
        keys: list[str] = []
        for each in found:
            if each is not None and not (isinstance(each, list) and all(isinstance(key, str) for key in each)):
                raise Fault(406, "CC and BCC are lists of strings", BasicPublish.code, soft=True)
            keys += each or []
        if found[1] is not None:
            read.headers = headers
            properties = read.encode(tables)
        return properties, keys

    def _with_reply_to(self, properties: bytes) -> bytes:
        """In place of the pseudo-queue the queue that stands for it.

        Raises:
            Fault: there is none, so that nobody would get the reply; RabbitMQ refuses it, too.
        """
        tables = self.engine.variant.tables
        said = BasicProperties.decode(properties, tables)
        if said.reply_to != DIRECT_REPLY:
            return properties
        if not self.session.replies_at:
            raise Fault(406, f"no consumer of {DIRECT_REPLY} on this channel", BasicPublish.code, soft=True)
        said.reply_to = self.session.replies_at
        return bytes(said.encode(tables))

    def _address(self, route: bytes) -> str:
        if len(self._addresses) >= MOST_ADDRESSES:
            self._addresses.clear()
        exchange, key = read_route(route)
        address = self._addresses[route] = route_address(exchange, key)
        return address

    def begin(self) -> None:
        if self.incoming:
            self.engine.emit(DeliveriesReceived(self))

    def flow(self, credit: int, *, drain: bool = False, echo: bool = False, properties: Any = None) -> None:
        self.credit = credit
        if credit > 0:
            self.session.release(self)

    # What became of them

    def settle(self, delivery: IncomingDelivery, state: DeliveryState | None, *, settled: bool | None = None) -> None:
        if delivery.local_settled:
            return
        delivery.local_settled = True
        if state is not None:
            delivery.state = state
        self.unsettled.pop(delivery.tag, None)
        if not self.attached:
            return  # the channel is closed: nothing is said there any more
        number = delivery.delivery_id
        assert number is not None
        said = self._returnable.pop(number, None) if self._returnable else None
        verb = ACCEPT
        if type(state) is TransactionalState:
            state = state.outcome
        if not isinstance(state, Accepted):
            if isinstance(state, Released):
                if said is not None and delivery.remote_state is None:
                    self._return(*said)
                elif said is not None:  # part of a transaction: it comes back at the commit, as RabbitMQ does it
                    self.session.transactions.at_commit.append(partial(self._return, *said))
            elif self._refused(state):
                return
            else:
                verb = DISCARD
        if self._acks is not None and number > self._confirmed_before:
            self._acks.add(number - self._confirmed_before, verb)

    def _return(self, route: bytes, properties: bytes, body: bytes, children: list[Content]) -> None:
        exchange, key = read_route(route)
        session, engine = self.session, self.engine
        session.write(BasicReturn(312, "NO_ROUTE", exchange, key))
        framing = engine.variant.framing
        engine.write(framing.message(session.number, BASIC, properties, body, engine.room, children))

    def _refused(self, state: DeliveryState | None) -> bool:
        """Nobody may publish there: that ends the channel."""
        error = state.error if isinstance(state, Rejected) else None
        if error is None or error.condition not in ("amqp:not-found", "amqp:unauthorized-access"):
            return False
        self.session.refuse_method(error, BasicPublish(), (error.info or {}).get("reply-code", 0))
        return True

    def drop(self) -> None:
        """Nothing of what was not looked at is to be done; what was is confirmed, if that may be said."""
        self.incoming.clear()
        self._returnable.clear()
        if self._acks is not None:
            self._acks.flush()
            self._acks.forget(self._number)

    def detach(self, *, closed: bool = True, error: Error | None = None) -> None:
        if self.attached:
            self.session.end(error)

    def read(self, delivery: IncomingDelivery) -> bytes | None:
        raise LocalProtocolError("the link does not stream")

    def discard(self, delivery: IncomingDelivery) -> None:
        raise LocalProtocolError("the link does not stream")


def _nothing(count: int) -> None:
    """Nobody counts confirms here."""
