"""Branches that sessions leave behind at a server that does not roll them back, and what became of their commits."""

from __future__ import annotations

from typing import Any

import pytest

from amqp10 import Message, Source
from amqp10.dialects.v0_10.client.orphaned_branches import NOT_COMMITTED
from amqp10.dialects.v0_10.wire.commands import (
    DtxCommit,
    DtxEnd,
    DtxRollback,
    DtxSelect,
    DtxSetTimeout,
    DtxStart,
    ExecutionException,
    ExecutionResult,
    XaResult,
    Xid,
)
from amqp10.dialects.v0_10.wire.controls import SessionAttach, SessionCompleted, SessionDetach, SessionDetached
from amqp10.engine import ConnectionEnded, ConnectionOpened, LinkTerms, SessionBegun, SessionUnmapped
from amqp10.messaging import ACCEPTED, AmqpValue, Coordinator, Declare, Discharge, TransactionalState

from ....kit.dialects.v0_10.engines import a_client, sender_on
from ....kit.dialects.v0_10.raw_peer import Raw

QPID = {"product": "Apache Qpid Broker-J Core"}


class Branch:
    """A transaction on a connection to a broker of Qpid, with one message in it.

    Args:
        far: how far it gets: "working", its `dtx.end` has no answer; or "committing", its `dtx.commit` has none.

    Attributes:
        witness, xid: what its session started.
        discharge: the delivery that asked for its commit.
    """

    def __init__(self, far: str, size: int = 1) -> None:
        self.raw = raw = a_client()
        raw.open_as_server(**QPID)
        sender = sender_on(raw)
        self.session = sender.session
        coordinator = sender.session.attach_sender(LinkTerms("c", Source(), Coordinator()))
        assert isinstance(raw.listen()[0], DtxSelect)
        (start, end) = raw.say(SessionCompleted(((0, 1),)))
        assert isinstance(start, DtxStart)
        assert isinstance(end, DtxEnd)
        self.witness: Xid = start.xid
        raw.do(ExecutionResult(3, XaResult(0)))
        raw.say(SessionCompleted(((0, 3),)))
        declare = coordinator.send(Message(AmqpValue(Declare())).encode())
        raw.listen()
        raw.say(SessionCompleted(((0, 4),)))
        number = declare.remote_state.txn_id
        sender.send(Message(b"x" * size).encode(), state=TransactionalState(number))
        self.discharge: Any = coordinator.send(Message(AmqpValue(Discharge(number, False))).encode())
        self.said = raw.listen()
        (begin,) = [each for each in self.said if isinstance(each, DtxStart)]
        self.xid: Xid = begin.xid
        if far == "committing":
            end_of_it = 5 + [type(each) for each in self.said].index(DtxEnd)
            raw.do(ExecutionResult(end_of_it, XaResult(0)))
            (commit,) = [each for each in raw.say(SessionCompleted(((0, 20),))) if isinstance(each, DtxCommit)]
            assert commit.xid == self.xid
        raw.engine.events()


def come_back(raw: Raw, **properties: Any) -> Raw:
    """The connection is lost; the next one, as far as it goes before its owner is told of it."""
    raw.engine.receive_eof()
    raw.engine.events()
    after = a_client()
    after.engine.inherit(raw.engine)
    after.open_as_server(**(properties or QPID))
    return after


def told(raw: Raw) -> list[type]:
    return [type(event) for event in raw.engine.events()]


def rolled_back(raw: Raw, number: int, status: int = 0, channel: int = 1) -> list[Any]:
    """The answer to the rollback with that id."""
    said = raw.do(ExecutionResult(number, XaResult(status)), channel=channel)
    return said + raw.say(SessionCompleted(((0, number),)), channel)


def unknown(raw: Raw, number: int, channel: int = 1, code: int = 404) -> None:
    """The other one; the session ends with that, and what is left to do is done on the next channel."""
    raw.do(ExecutionException(code, number, description="unknown xid"), channel=channel)


@pytest.mark.parametrize(("size", "seconds"), [(1, 60), (1_000_000, 70)])
def test_a_branch_has_an_end(size: int, seconds: int) -> None:
    """A server that would keep it for ever is told how long to, by what it takes to send it."""
    branch = Branch("working", size)
    (timeout,) = [each for each in branch.said if isinstance(each, DtxSetTimeout)]
    assert (timeout.xid, timeout.timeout) == (branch.xid, seconds)


@pytest.mark.parametrize("far", ["working", "committing"])
@pytest.mark.parametrize("status", [0, 2])
def test_rolled_back_before_anybody_knows(far: str, status: int) -> None:
    """The next connection rolls the branch back, or finds that it timed out, before its owner hears that it is open."""
    branch = Branch(far)
    raw = come_back(branch.raw)
    assert not branch.raw.engine.orphaned_branches.waiting  # type: ignore[attr-defined]  # it is the next connection's
    assert raw.attached()[-2:] == [DtxSelect(), DtxRollback(branch.xid)]
    assert rolled_back(raw, 1, status)[-1] == DtxRollback(branch.witness)
    assert ConnectionOpened not in told(raw)
    assert branch.discharge.remote_state == NOT_COMMITTED
    assert isinstance(rolled_back(raw, 2)[-1], SessionDetach)
    assert told(raw) == [ConnectionOpened]  # and of no session


@pytest.mark.parametrize("same", [True, False])
def test_committed_without_an_answer(same: bool) -> None:
    """A branch that is gone was committed, if the server still knows what was begun before; else nobody knows."""
    branch = Branch("committing")
    raw = come_back(branch.raw)
    raw.attached()
    unknown(raw, 1)
    assert raw.attached(channel=2)[-2:] == [DtxSelect(), DtxRollback(branch.witness)]
    assert branch.discharge.remote_state is None
    if same:
        rolled_back(raw, 1, channel=2)
    else:
        unknown(raw, 1, 2)
    assert branch.discharge.remote_state == (ACCEPTED if same else None)
    assert told(raw)[-1] is ConnectionOpened


def test_never_arrived() -> None:
    """A branch that the server does not know, and was not asked to commit, is as good as rolled back."""
    branch = Branch("working")
    raw = come_back(branch.raw)
    raw.attached()
    unknown(raw, 1)
    assert branch.discharge.remote_state == NOT_COMMITTED


def test_refused_for_another_reason() -> None:
    """A server that does not say what became of a commit leaves it in doubt, whatever it knows besides."""
    branch = Branch("committing")
    raw = come_back(branch.raw)
    raw.attached()
    unknown(raw, 1, code=541)
    raw.attached(channel=2)
    rolled_back(raw, 1, channel=2)
    assert branch.discharge.remote_state is None
    assert told(raw)[-1] is ConnectionOpened


def test_lost_again() -> None:
    """The next connection does the work that one connection did not do, and repeats none of it."""
    branch = Branch("committing")
    raw = come_back(branch.raw)
    raw = come_back(raw)
    raw.attached()
    rolled_back(raw, 1)
    raw = come_back(raw)
    assert raw.attached()[-1] == DtxRollback(branch.witness)
    rolled_back(raw, 1)
    assert told(raw)[-1] is ConnectionOpened
    raw = come_back(raw)
    assert told(raw)[-1] is ConnectionOpened


def test_no_session_to_be_had() -> None:
    """A server that refuses the session is not asked for ever: the connection is open without it."""
    branch = Branch("committing")
    raw = come_back(branch.raw)
    (attach,) = [each for each in raw.heard if isinstance(each, SessionAttach)]
    raw.say(SessionDetached(attach.name, 1))
    assert told(raw)[-1] is ConnectionOpened
    assert branch.discharge.remote_state is None


def test_a_session_alone() -> None:
    """A session that ends while its connection lives is seen to by another one, on a channel of its own."""
    branch = Branch("working")
    raw = branch.raw
    said = raw.do(ExecutionException(403, 7, description="no"))
    assert isinstance(said[-1], SessionAttach)
    assert told(raw)[-1] is SessionUnmapped
    assert raw.attached(channel=2)[-1] == DtxRollback(branch.xid)
    assert rolled_back(raw, 1, channel=2)[-1] == DtxRollback(branch.witness)
    assert isinstance(rolled_back(raw, 2, channel=2)[-1], SessionDetach)
    assert not {SessionBegun, SessionUnmapped, ConnectionEnded} & set(told(raw))


@pytest.mark.parametrize("far", ["working", "committing"])
@pytest.mark.parametrize("whole", [True, False])
def test_leaving(far: str, whole: bool) -> None:
    """The end of the session or connection leaves no branch that is not being committed, and no witness."""
    branch = Branch(far)
    if whole:
        branch.raw.engine.close()
    else:
        branch.session.end()
    undone = [each.xid for each in branch.raw.listen() if isinstance(each, DtxRollback)]
    assert undone == ([branch.xid] if far == "working" else []) + [branch.witness]


def test_another_server() -> None:
    """A server that rolls back by itself is asked for no witness, given no timeout, and nothing is left there."""
    raw = a_client()
    raw.open_as_server()
    sender = sender_on(raw)
    sender.session.attach_sender(LinkTerms("c", Source(), Coordinator()))
    assert [type(each) for each in raw.listen()] == [DtxSelect]
    assert not [each for each in raw.say(SessionCompleted(((0, 1),))) if isinstance(each, DtxStart)]
    assert told(come_back(raw))[-1] is ConnectionOpened
