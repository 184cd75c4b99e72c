"""All that a client publishes on a channel, as one link to the anonymous terminus.

Each message says by its `to` where it goes. Its outcome becomes a confirm, if the client asked for confirms. It also
becomes a return, if the message was mandatory and could not be routed; and the end of the channel, if there is no such
exchange.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ....engine import (
    CopiedDelivery,
    DeliveriesReceived,
    IncomingDelivery,
    LinkTerms,
    RoutedDelivery,
    route_address,
)
from ....messaging import Accepted, DeliveryState, Error, Rejected, Released, Source, Target, TransactionalState
from ..._kit.links import PlainReceiver
from ..acks import ACCEPT, DISCARD, AckBatcher, confirm
from ..channel import BASIC
from ..codes import Fault
from ..message.from_basic import read_expiration, read_route
from ..message.pass_through import pass_through
from ..message.places import DIRECT_REPLY
from ..wire.methods import BasicPublish, BasicReturn
from ..wire.properties import BasicProperties
from .link import ServerLink

if TYPE_CHECKING:
    from ..wire.draft import Content
    from .parents import ServerLinkSession

MAX_ADDRESSES = 1000
"""Exchanges and routing keys whose addresses a channel remembers."""

_HAS_EXPIRATION: Final = 1  # in the first octet of the flags
_MAX_EXPIRATION: Final = 315_360_000_000  # ms, RabbitMQ's: ten years


class ServerReceiver(ServerLink, PlainReceiver):
    """See `ReceiverLink` for the contract."""

    credit: int

    def __init__(self, session: ServerLinkSession) -> None:
        name = f"publish-{session.channel.number}"
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
        self.delivery_type: type[RoutedDelivery] = RoutedDelivery
        self.incoming: deque[IncomingDelivery] = deque()
        self.unsettled: dict[bytes, IncomingDelivery] = {}
        self._number = 0
        self._route = b""
        self._addresses: dict[bytes, str] = {}  # routes so far -> their addresses
        self._mandatory = False
        # Number of a mandatory publish -> its route, properties, body, and the contents within it.
        self._returnable: dict[int, tuple[bytes, bytes, bytes, list[Content]]] = {}
        self._checked = b""  # the last properties with an expiration
        self._passing = pass_through(self.engine.variant.tables)
        self._acks: AckBatcher | None = None
        self._confirmed_before = 0  # how many publishes came before confirms were asked for
        if session.confirming:
            self.begin_confirming()

    def begin_confirming(self) -> None:
        """Count confirms from the next publish on."""
        if self._acks is None:
            self._confirmed_before = self._number
            self._acks = AckBatcher(self.session.channel, _nothing, confirm)

    # Publishes

    def begin_publish(self, route: bytes, mandatory: bool) -> None:
        self._route, self._mandatory = route, mandatory

    def arrived(self, body: bytes) -> None:
        """Take a message that is whole."""
        session, engine = self.session, self.engine
        properties, also = session.channel.properties_octets, list[str]()
        if properties[0] & _HAS_EXPIRATION and properties != self._checked:
            self._check_expiration(properties)
        if b"CC" in properties:
            properties, also = self._carbon_copies(properties)
        if DIRECT_REPLY.encode() in properties:
            properties = self._with_reply_to(properties)
        children = session.channel.children
        payload = engine.incoming.map(self._route, properties, body, children)
        if not children:
            self._passing.keep(payload, self._route, properties, body)
        self._number = number = self._number + 1
        tag = number.to_bytes(8, "big")
        if self._mandatory:
            self._returnable[number] = self._route, properties, body, children
        delivery = RoutedDelivery(self, number, tag, payload, False)
        if also:
            exchange, _ = read_route(self._route)
            delivery = CopiedDelivery(self, number, tag, payload, False)
            delivery.also = tuple(route_address(exchange, key) for key in also)
        delivery.address = self._addresses.get(self._route) or self._address(self._route)
        txn_id = session.work.txn_id
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
            session.channel.hold(self)

    def _check_expiration(self, properties: bytes) -> None:
        """Check an expiration: a message with an invalid one would live for ever unnoticed. RabbitMQ refuses it, too.

        Raises:
            Fault: it is not a number of milliseconds, or is more than ten years.
        """
        expiration = BasicProperties.decode(properties, self.engine.variant.tables).expiration
        found = read_expiration(expiration) if expiration is not None else 0
        if found is None or found > _MAX_EXPIRATION:
            raise Fault(406, f"invalid expiration {expiration!r:.80}", BasicPublish.code, soft=True)
        self._checked = properties

    def _carbon_copies(self, properties: bytes) -> tuple[bytes, list[str]]:
        """Return the properties without the header BCC, and the further routing keys of RabbitMQ's headers CC and BCC.

        BCC is removed because no receiver may see it.

        Raises:
            Fault: one of them is not a list of strings.
        """
        tables = self.engine.variant.tables
        read = BasicProperties.decode(properties, tables)
        headers = dict(read.headers or {})
        found = [headers.get("CC"), headers.pop("BCC", None)]
        keys: list[str] = []
        for each in found:
            if each is not None and not (isinstance(each, list) and all(isinstance(key, str) for key in each)):
                raise Fault(406, "CC and BCC must be lists of strings", BasicPublish.code, soft=True)
            keys += each or []
        if found[1] is not None:
            read.headers = headers
            properties = read.encode(tables)
        return properties, keys

    def _with_reply_to(self, properties: bytes) -> bytes:
        """Return the properties with the queue of replies in place of the pseudo-queue.

        Raises:
            Fault: the channel has no consumer of replies, so nobody would get the reply; RabbitMQ refuses it, too.
        """
        tables = self.engine.variant.tables
        decoded = BasicProperties.decode(properties, tables)
        if decoded.reply_to != DIRECT_REPLY:
            return properties
        if not self.session.replies_at:
            raise Fault(406, f"no consumer of {DIRECT_REPLY} on this channel", BasicPublish.code, soft=True)
        decoded.reply_to = self.session.replies_at
        return bytes(decoded.encode(tables))

    def _address(self, route: bytes) -> str:
        if len(self._addresses) >= MAX_ADDRESSES:
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
            self.session.channel.release(self)

    # Outcomes

    def settle(self, delivery: IncomingDelivery, state: DeliveryState | None, *, settled: bool | None = None) -> None:
        if delivery.local_settled:
            return
        self.settled_by_owner(delivery, state)
        if not self.attached:
            return  # the channel is closed, so that nothing may be sent on it
        number = delivery.delivery_id
        assert number is not None
        returned = self._returnable.pop(number, None) if self._returnable else None
        verb = ACCEPT
        if type(state) is TransactionalState:
            state = state.outcome
        if not isinstance(state, Accepted):
            if isinstance(state, Released):
                if returned is not None and delivery.remote_state is None:
                    self._return(*returned)
                elif returned is not None:  # part of a transaction: it comes back at the commit, as RabbitMQ does it
                    self.session.work.at_commit.append(partial(self._return, *returned))
            elif self._refused(state):
                return
            else:
                verb = DISCARD
        if self._acks is not None and number > self._confirmed_before:
            self._acks.add(number - self._confirmed_before, verb)

    def _return(self, route: bytes, properties: bytes, body: bytes, children: list[Content]) -> None:
        exchange, key = read_route(route)
        session, engine = self.session, self.engine
        session.channel.write(BasicReturn(312, "NO_ROUTE", exchange, key))
        framing = engine.variant.framing
        engine.write(framing.message(session.channel.number, BASIC, properties, body, engine.max_payload, children))

    def _refused(self, state: DeliveryState | None) -> bool:
        """Close the channel if nobody may publish to that exchange; return whether that is so."""
        error = state.error if isinstance(state, Rejected) else None
        if error is None or error.condition not in ("amqp:not-found", "amqp:unauthorized-access"):
            return False
        self.session.refuse_method(error, BasicPublish(), (error.info or {}).get("reply-code", 0))
        return True

    def drop(self) -> None:
        """Forget publishes unseen by the owner; confirm the others, if that is still allowed."""
        self.incoming.clear()
        self._returnable.clear()
        if self._acks is not None:
            self._acks.flush()
            self._acks.forget(self._number)

    def detach(self, *, closed: bool = True, error: Error | None = None) -> None:
        if self.attached:
            self.session.end(error)


def _nothing(count: int) -> None:
    """Ignore the count: a server does not limit its unconfirmed publishes."""
