"""Transactions of clients: kept until they are committed, then one branch, and what servers say while it is done."""

from __future__ import annotations

from typing import Any

import pytest

from amqp10 import Error, Message, Source
from amqp10.dialects.v0_10.wire.commands import (
    DtxCommit,
    DtxEnd,
    DtxRollback,
    DtxStart,
    ExecutionException,
    ExecutionResult,
    ExecutionSync,
    MessageReject,
    MessageTransfer,
    XaResult,
)
from amqp10.dialects.v0_10.wire.controls import SessionCompleted
from amqp10.engine import LinkTerms
from amqp10.messaging import (
    AmqpValue,
    Coordinator,
    Declare,
    Declared,
    Discharge,
    Rejected,
    Returned,
    TransactionalState,
    Undone,
)

from ....kit.dialects.v0_10.engines import a_client, sender_on
from ....kit.dialects.v0_10.raw_peer import Raw


def a_transaction(raw: Raw, *, settled: bool = False) -> Any:
    """A transaction with one message in it, being committed; the delivery of its discharge, and the server's ids."""
    sender = sender_on(raw)
    coordinator = sender.session.attach_sender(LinkTerms("c", Source(), Coordinator()))
    raw.listen()
    raw.say(SessionCompleted(((0, 1),)))
    declare = coordinator.send(Message(AmqpValue(Declare())).encode())
    raw.listen()
    raw.say(SessionCompleted(((0, 2),)))
    raw.engine.events()
    assert isinstance(declare.remote_state, Declared)
    number = declare.remote_state.txn_id
    sender.send(Message("part of it").encode(), settled=settled, state=TransactionalState(number))
    raw.listen()
    raw.say(SessionCompleted(((0, 3),)))
    discharge = coordinator.send(Message(AmqpValue(Discharge(number, False))).encode())
    said = raw.listen()
    assert [type(each) for each in said[-4:]] == [DtxStart, MessageTransfer, DtxEnd, ExecutionSync]
    assert said[-3].accept_mode == 0
    return discharge


@pytest.mark.parametrize("settled", [False, True])
def test_rejected_after_the_end_of_the_branch(settled: bool) -> None:
    """A message is rejected when the end of its branch has long been answered: the branch is rolled back all the same.

    Nothing says that servers do commands in order: what is decisive is the completion of the transfer. One that is sent
    settled is transferred explicitly, too: its transaction is not committed without it.
    """
    raw = a_client()
    raw.open_as_server()
    discharge = a_transaction(raw, settled=settled)
    start = 3 if settled else 4  # nobody waits for the presumptive outcome of what is sent settled
    raw.do(ExecutionResult(start + 2, XaResult(0)))
    assert not raw.say(SessionCompleted(((0, start), (start + 2, start + 2))))
    raw.do(MessageReject(((start + 1, start + 1),), 1, "unroutable"))
    said = raw.say(SessionCompleted(((0, start + 3),)))
    assert isinstance(said[-1], DtxRollback)
    raw.do(ExecutionResult(start + 4, XaResult(0)))
    raw.say(SessionCompleted(((0, start + 4),)))
    assert isinstance(discharge.remote_state, Undone)
    assert discharge.remote_state.error is not None
    assert discharge.remote_state.error.info == {"reply-code": 1}
    assert isinstance(discharge.remote_state.cause, Returned)
    assert discharge.remote_state.cause.error == Error("amqp:no-route", "unroutable", {"reply-code": 1})


def test_committed() -> None:
    """All was taken, and the branch is committed in one phase."""
    raw = a_client()
    raw.open_as_server()
    a_transaction(raw)
    raw.do(ExecutionResult(6, XaResult(0)))
    said = raw.say(SessionCompleted(((0, 7),)))
    assert isinstance(said[-1], DtxCommit)
    assert said[-1].one_phase


@pytest.mark.parametrize("asked", [False, True])
def test_lost(asked: bool) -> None:
    """A session that ends before the server was asked to commit: it did not. Afterwards nobody knows."""
    raw = a_client()
    raw.open_as_server()
    discharge = a_transaction(raw)
    if asked:
        raw.do(ExecutionResult(6, XaResult(0)))
        assert isinstance(raw.say(SessionCompleted(((0, 7),)))[-1], DtxCommit)
    raw.do(ExecutionException(403, 5, description="no access"))
    if asked:
        assert discharge.remote_state is None
    else:
        assert isinstance(discharge.remote_state, Rejected)
        assert discharge.remote_state.error is not None
        assert "no access" in (discharge.remote_state.error.description or "")
