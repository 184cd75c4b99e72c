"""Branches at a server, verb by verb: what is out of order ends the session, and what failed is not prepared."""

from __future__ import annotations

from typing import Any

import pytest

from amqp10 import Message
from amqp10.dialects.v0_10.wire.commands import (
    DtxCommit,
    DtxEnd,
    DtxGetTimeout,
    DtxPrepare,
    DtxRollback,
    DtxSelect,
    DtxSetTimeout,
    DtxStart,
    ExecutionException,
    ExecutionResult,
    GetTimeoutResult,
    MessageCancel,
    MessageSubscribe,
    MessageTransfer,
    XaResult,
    Xid,
)
from amqp10.dialects.v0_10.wire.controls import (
    SessionAttach,
    SessionCommandPoint,
    SessionCompleted,
    SessionDetached,
)
from amqp10.dialects.v0_10.wire.struct import Command, Control
from amqp10.engine import (
    BeginBranch,
    DeliveriesReceived,
    LimitBranch,
    LinkAttached,
    LinkTerms,
    PrepareBranch,
    RequestReceived,
    SessionBegun,
)
from amqp10.messaging import ACCEPTED, Coordinator, Declare, Declared, Discharge, Error, Rejected
from amqp10.types import as_composite

from ....kit.dialects.v0_10.engines import a_server

ONE, OTHER = Xid(1, b"global", b"one"), Xid(1, b"global", b"other")


class Owner:
    """Of a server engine: declares and discharges what it is asked to, and notes that.

    Attributes:
        controllers: the links that the server made to it.
        discharged: whether each was rolled back.
        asked: requests, but those to begin a branch.
        verdict: of what is to be committed.
    """

    def __init__(self) -> None:
        self.raw = a_server()
        self.raw.open_as_client()
        self.raw.engine.events()[0].session.begin()  # type: ignore[attr-defined]
        self.controllers: list[Any] = []
        self.discharged: list[bool] = []
        self.asked: list[Any] = []
        self.verdict: Any = ACCEPTED
        self.takes = True  # messages
        self._declared = 0

    def do(self, *commands: Command | Control, channel: int = 1) -> list[Any]:
        """Results of what a client commands, and the code of what ends its session."""
        said: list[Any] = []
        for command in commands:
            if isinstance(command, Control):
                said += self.raw.say(command, channel)
            else:
                said += self.raw.do(command, channel=channel)
            while events := self.raw.engine.events():
                for event in events:
                    self._handle(event)
                said += self.raw.listen()
        results = [each.value for each in said if isinstance(each, ExecutionResult)]
        codes = [each.error_code for each in said if isinstance(each, ExecutionException)]
        return [each.status if isinstance(each, XaResult) else each for each in results] + codes

    def _handle(self, event: Any) -> None:
        if isinstance(event, LinkAttached):
            link: Any = event.link
            self.controllers.append(link)
            link.attach(LinkTerms(link.name, link.remote.source, link.remote.target))
            if self.takes or isinstance(link.remote.target, Coordinator):
                link.flow(100)
        elif isinstance(event, SessionBegun):
            event.session.begin()
        elif isinstance(event, RequestReceived):
            if not isinstance(event.request.request, BeginBranch):
                self.asked.append(event.request.request)
            event.request.session.answer(event.request, True)
        elif isinstance(event, DeliveriesReceived):
            while event.link.incoming:
                delivery = event.link.incoming.popleft()
                asked = as_composite(Message.decode(delivery.payload).body)
                if isinstance(asked, Declare):
                    self._declared += 1
                    event.link.settle(delivery, Declared(b"%d" % self._declared))
                else:
                    assert isinstance(asked, Discharge)
                    self.discharged.append(bool(asked.fail))
                    event.link.settle(delivery, ACCEPTED if asked.fail else self.verdict)


@pytest.fixture
def owner() -> Owner:
    """One whose client has selected dtx, and begun a branch."""
    owner = Owner()
    assert owner.do(DtxSelect(), DtxStart(ONE)) == [0]
    return owner


@pytest.mark.parametrize(
    ("commands", "code"),
    [
        ([DtxEnd(ONE), DtxCommit(ONE)], 409),
        ([DtxCommit(ONE, one_phase=True)], 409),
        ([DtxPrepare(ONE)], 409),
        ([DtxEnd(OTHER)], 409),
        ([DtxEnd(ONE), DtxStart(ONE, resume=True)], 530),
        ([DtxEnd(ONE), DtxStart(OTHER, join=True)], 530),
        ([DtxEnd(ONE), DtxStart(ONE)], 530),
        ([DtxStart(OTHER)], 409),
        ([DtxEnd(ONE, fail=True, suspend=True)], 530),
        ([DtxSetTimeout(OTHER, 1)], 404),
        ([DtxGetTimeout(OTHER)], 404),
    ],
)
def test_out_of_order(owner: Owner, commands: list[Command], code: int) -> None:
    """Each ends the session with its code, and nothing is committed."""
    assert owner.do(*commands)[-1] == code
    assert False not in owner.discharged
    assert not owner.asked


def test_suspended_and_joined(owner: Owner) -> None:
    """A branch that was suspended is worked in again; one that was ended is joined."""
    assert owner.do(DtxEnd(ONE, suspend=True), DtxStart(ONE, resume=True), DtxEnd(ONE)) == [0, 0, 0]
    assert owner.do(DtxStart(ONE, join=True), DtxEnd(ONE), DtxCommit(ONE, one_phase=True)) == [0, 0, 0]
    assert owner.discharged == [False]


@pytest.mark.parametrize("last", [DtxPrepare(ONE), DtxCommit(ONE, one_phase=True)])
def test_what_failed(owner: Owner, last: Command) -> None:
    """A branch that can only be rolled back is, whatever is asked for; the answer says so."""
    assert owner.do(DtxEnd(ONE, fail=True), last) == [1, 1]
    assert owner.discharged == [True]
    assert not owner.asked


def test_rolled_back(owner: Owner) -> None:
    """A client that asks for a rollback gets it, with status 0."""
    assert owner.do(DtxEnd(ONE), DtxRollback(ONE)) == [0, 0]
    assert owner.discharged == [True]


def test_prepared(owner: Owner) -> None:
    """It is the owner's then."""
    assert owner.do(DtxEnd(ONE), DtxPrepare(ONE)) == [0, 0]
    assert owner.asked == [PrepareBranch(b"1", (1, b"global", b"one"))]
    assert owner.do(DtxGetTimeout(ONE)) == [404]


@pytest.mark.parametrize(("condition", "status"), [("amqp:transaction:timeout", 2), ("amqp:transaction:rollback", 1)])
def test_not_to_be_committed(owner: Owner, condition: str, status: int) -> None:
    """Why is said as far as there are words."""
    owner.verdict = Rejected(Error(condition))
    assert owner.do(DtxEnd(ONE), DtxCommit(ONE, one_phase=True)) == [0, status]


def test_timeout(owner: Owner) -> None:
    """The owner is told, and it can be asked for."""
    assert owner.do(DtxGetTimeout(ONE), DtxSetTimeout(ONE, 7), DtxGetTimeout(ONE)) == [
        GetTimeoutResult(0),
        GetTimeoutResult(7),
    ]
    assert owner.asked == [LimitBranch(b"1", 7)]


@pytest.mark.parametrize("asked", [DtxPrepare(ONE), DtxCommit(ONE, one_phase=True), DtxRollback(ONE)], ids=str)
def test_of_a_session_that_ends(owner: Owner, asked: Command) -> None:
    """Another session's command waits for what this one sent, and is answered when that will never be taken."""
    owner.takes = False
    owner.do(MessageTransfer("", 0, 0), DtxEnd(ONE))
    assert owner.do(SessionAttach(b"two"), SessionCommandPoint(0, 0), DtxSelect(), asked, channel=2) == []
    owner.raw.engine.sessions[1].end()  # type: ignore[attr-defined]
    assert owner.do(SessionDetached(b"name", 0)) == [0 if isinstance(asked, DtxRollback) else 1]
    assert owner.asked == []
    assert owner.do(DtxStart(OTHER), channel=2) == [0]


def test_of_a_session_with_a_subscription_that_is_not_answered(owner: Owner) -> None:
    """Another session ends the branch meanwhile: what follows the subscription waits for it all the same."""
    owner.do(DtxEnd(ONE))
    owner.do(SessionAttach(b"two"), SessionCommandPoint(0, 0), DtxSelect(), channel=2)
    owner.raw.do(MessageSubscribe("q", "d"))
    links: list[Any] = [event.link for event in owner.raw.engine.events() if isinstance(event, LinkAttached)]
    owner.raw.do(MessageCancel("d"))
    assert owner.do(DtxCommit(ONE, one_phase=True), channel=2) == [0]
    links[0].attach(LinkTerms("d", links[0].remote.source, links[0].remote.target))
    completed = [each.commands for each in owner.raw.listen() if isinstance(each, SessionCompleted)]
    assert completed == [((0, 4),)]


def test_only_its_own_move_with_a_session(owner: Owner) -> None:
    """When a session goes on on another connection, branches that other sessions of the one before have stay there."""
    another = Owner()
    another.do(DtxSelect(), DtxStart(OTHER))
    branches = another.raw.engine.branches  # type: ignore[attr-defined]
    before = {**owner.raw.engine.branches, **branches}  # type: ignore[attr-defined]
    branches.clear()
    another.controllers[0].moved(before)
    assert another.do(DtxEnd(OTHER), DtxCommit(OTHER, one_phase=True)) == [0, 0]
    assert another.do(DtxGetTimeout(ONE)) == [404]
    assert owner.do(DtxEnd(ONE), DtxCommit(ONE, one_phase=True)) == [0, 0]
