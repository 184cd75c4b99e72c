"""Transactions of a client's engine of 0-9-1."""

from __future__ import annotations

from amqp10.engine import Engine, Link, LinkTerms, OutgoingDelivery, SenderLink
from amqp10.messaging import (
    AmqpValue,
    Coordinator,
    Declare,
    Declared,
    Discharge,
    Message,
    Rejected,
    Source,
)

from ...parents import session_of


def coordinating(engine: Engine, link: Link) -> SenderLink:
    """A link to the coordinator, in the session of another one."""
    return session_of(link).attach_sender(LinkTerms("c", Source(), Coordinator()))


def declare(coordinator: SenderLink) -> bytes:
    declared = coordinator.send(Message(AmqpValue(Declare())).encode()).remote_state
    assert isinstance(declared, Declared)
    return declared.txn_id


def discharge(coordinator: SenderLink, txn_id: bytes, *, fail: bool = False) -> OutgoingDelivery:
    return coordinator.send(Message(AmqpValue(Discharge(txn_id, fail))).encode())


def why_rolled_back(outcome: OutgoingDelivery) -> str:
    assert isinstance(outcome.remote_state, Rejected)
    assert outcome.remote_state.error is not None
    assert outcome.remote_state.error.condition == "amqp:transaction:rollback"
    return str(outcome.remote_state.error.description)
