"""The client's side of transactions, that says anything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from amqp10.engine import (
    IncomingDelivery,
    LinkEnded,
    LinkTerms,
    OutgoingDelivery,
    ReceiverLink,
    SenderLink,
)
from amqp10.errors import LinkDetached
from amqp10.messaging import (
    ACCEPTED,
    TXN_ID,
    AmqpValue,
    Coordinator,
    Declare,
    Declared,
    Discharge,
    Message,
    Outcome,
    Source,
    TransactionalState,
)

from .wire import Wire

UNKNOWN = "amqp:transaction:unknown-id"
ROLLBACK = "amqp:transaction:rollback"
ALL = ("amqp:accepted:list", "amqp:rejected:list")


@dataclass
class Controller:
    """The client's side of transactions, on a wire."""

    wire: Wire
    link: SenderLink

    def say(self, body: object, **options: Any) -> OutgoingDelivery:
        delivery = self.link.send(Message(AmqpValue(body)).encode(), **options)
        self.wire.turn()
        return delivery

    def declare(self) -> bytes:
        state = self.say(Declare()).remote_state
        assert isinstance(state, Declared)
        return state.txn_id

    def discharge(self, txn_id: bytes, *, fail: bool = False) -> Any:
        return self.say(Discharge(txn_id, fail)).remote_state

    def post(self, sender: SenderLink, body: object, txn_id: bytes, *, settled: bool = False) -> OutgoingDelivery:
        delivery = sender.send(Message(body).encode(), settled=settled, state=TransactionalState(txn_id))
        self.wire.turn()
        return delivery

    def retire(
        self, delivery: IncomingDelivery, txn_id: bytes, outcome: Outcome = ACCEPTED, *, settled: bool = True
    ) -> None:
        delivery.link.settle(delivery, TransactionalState(txn_id, outcome), settled=settled)
        self.wire.turn()

    def acquire(self, link: ReceiverLink, credit: int, txn_id: bytes | None) -> None:
        link.flow(credit, properties={TXN_ID: txn_id})
        self.wire.turn()


def controller(wire: Wire, name: str = "control", outcomes: tuple[str, ...] = ALL, **terms: Any) -> Controller:
    link = wire.session.attach_sender(LinkTerms(name, source=Source(outcomes=outcomes), target=Coordinator(), **terms))
    wire.turn()
    return Controller(wire, link)


def ended(wire: Wire, link: object) -> LinkDetached | None:
    """Why that link ended, if it did."""
    for event in wire.events:
        if isinstance(event, LinkEnded) and event.link is link:
            assert isinstance(event.error, LinkDetached)
            return event.error
    return None


def stock(wire: Wire, *messages: object, name: str = "stock") -> SenderLink:
    """A sender to q that has sent these."""
    link = wire.send_to("q", name=name)
    for body in messages:
        link.send(Message(body).encode())
    wire.turn()
    return link
