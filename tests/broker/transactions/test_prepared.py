"""Prepared branches: kept for their user, whoever ends, until their second phase."""

from __future__ import annotations

import pytest

from amqp10.broker._transactions import prepared
from amqp10.broker._transactions.local import LocalTransaction
from amqp10.broker._transactions.prepared import PreparedBranches

from ...kit.broker.controller import Controller, controller
from ...kit.broker.wire import Wire, queue_of

BRANCH = (1, b"global", b"branch")


def posted(wire: Wire, control: Controller) -> LocalTransaction:
    """A transaction with one message for q in it, as the broker has it."""
    txn_id = control.declare()
    control.post(wire.send_to("q", name=f"to q {txn_id.hex()}"), "x", txn_id)
    return wire.peer.transactions[txn_id]


@pytest.mark.parametrize("commit", [True, False])
def test_second_phase(wire: Wire, commit: bool) -> None:
    """It ends as it is to, once, and is no transaction of the connection any more."""
    branches = PreparedBranches()
    control = controller(wire)
    transaction = posted(wire, control)
    assert branches.prepare("u", BRANCH, transaction)
    assert wire.peer.transactions == {}
    control.link.detach()
    wire.turn()
    assert branches.of("u") == (BRANCH,)
    assert branches.of(None) == ()
    assert branches.complete(None, BRANCH, commit=commit) is None
    assert branches.complete("u", BRANCH, commit=commit) is True
    assert branches.complete("u", BRANCH, commit=commit) is None
    assert queue_of(wire.vhost, "q").depth == commit


@pytest.mark.parametrize("why", ["failed", "twice", "too many"])
def test_cannot_be_prepared(wire: Wire, monkeypatch: pytest.MonkeyPatch, why: str) -> None:
    """It is rolled back: a message of it was refused, the name is taken, or there are too many."""
    monkeypatch.setattr(prepared, "MAX_BRANCHES", 1)
    branches = PreparedBranches()
    control = controller(wire)
    if why != "failed":
        assert branches.prepare("u", BRANCH, posted(wire, control))
    transaction = posted(wire, control)
    if why == "failed":
        wire.vhost.delete(queue_of(wire.vhost, "q"))
    name = BRANCH if why == "twice" else (1, b"another", b"")
    assert not branches.prepare("u", name, transaction)
    assert branches.of("u") == (() if why == "failed" else (BRANCH,))
    if why != "failed":
        assert queue_of(wire.vhost, "q").reserved == 1
