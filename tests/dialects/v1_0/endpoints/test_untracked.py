"""Deliveries that nobody holds are no objects while nothing is said of them but "accepted", and nobody can tell."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from amqp10.dialects.v1_0.endpoints.untracked import UntrackedRun
from amqp10.dialects.v1_0.wire.frames import encode_disposition
from amqp10.dialects.v1_0.wire.performatives import Detach, End
from amqp10.engine import (
    ConnectionTerms,
    LinkTerms,
    RunAccepted,
    UnsettledCount,
    dialect,
)
from amqp10.errors import LocalProtocolError
from amqp10.messaging import ACCEPTED, RELEASED, Accepted, Rejected, Source, Target

from ....kit.dialects.v1_0.owner import FIRST, Owner, flow, said
from ....kit.steps import steps

STATES = [ACCEPTED, ACCEPTED, ACCEPTED, Accepted(), RELEASED, Rejected(), None]


STEPS = st.one_of(
    st.tuples(
        st.just("send"),
        st.integers(0, 1),
        st.sampled_from("ab"),
        st.sampled_from([1, 1, 1, 20, 700, 3000]),
        st.booleans(),
    ),
    st.tuples(st.just("send"), st.just(0), st.just("a"), st.just(1), st.just(False)),
    st.tuples(st.just("run"), st.integers(0, 1), st.integers(2, 6)),
    st.tuples(st.just("hold"), st.integers(0, 1), st.none() | st.integers(0, 8)),
    st.tuples(st.just("told"), st.integers(0, 12), st.integers(1, 8), st.booleans(), st.sampled_from(STATES)),
    st.tuples(st.just("told"), st.integers(0, 12), st.integers(1, 8), st.just(True), st.just(ACCEPTED)),
    st.tuples(st.just("look")),
    st.tuples(st.just("count")),
    st.tuples(st.just("detach"), st.integers(0, 1), st.booleans()),
    st.tuples(
        st.just("hear"),
        st.sampled_from([said(Detach(0, True)), said(End()), said(flow(1, 2, 30)), said(flow(0, 50, 50))]),
    ),
)


@example([("hold", 0, 2), *[("send", 0, "a", 1, False)] * 4, ("told", 1, 2, True, RELEASED), ("look",)], (50, 50))
@example([("send", 0, "a", 1, False), ("run", 0, 5)], (5, 50))
@example([("run", 0, 3), ("send", 0, "a", 1, False), ("told", 0, 2, True, RELEASED), ("run", 0, 5), ("look",)], (5, 50))
@example([*[("send", 0, each, 1, False) for each in "aabb"], ("told", 0, 1, True, ACCEPTED), ("look",)], (50, 50))
@example([*[("send", 0, "a", 1, False)] * 4, ("detach", 0, True), ("told", 0, 2, True, ACCEPTED), ("look",)], (50, 50))
@example([("run", 0, 5), ("run", 1, 3), ("count",), ("hold", 0, 9), ("run", 0, 2), ("count",)], (50, 50))
@example([("run", 0, 5), ("run", 1, 3), ("told", 1, 2, True, RELEASED), ("told", 0, 8, True, ACCEPTED)], (50, 50))
@example([("run", 0, 5), ("send", 0, "a", 1, False), ("told", 0, 2, True, ACCEPTED), ("look",)], (50, 50))
@example(
    [*[("send", link, "a", 1, False) for link in (0, 1, 0)], ("detach", 1, True), ("told", 0, 3, True, Accepted())],
    (50, 50),
)
@example(
    [
        *[("send", link, "a", 1, False) for link in (1, 0, 1, 0)],
        ("hold", 0, None),
        ("detach", 1, True),
        ("told", 0, 5, True, ACCEPTED),
        ("look",),
    ],
    (50, 50),
)
@example(
    [
        ("hold", 1, None),
        *[("send", 0, "a", 1, False)] * 3,
        ("detach", 1, True),
        ("told", 0, 4, True, ACCEPTED),
        ("look",),
    ],
    (50, 50),
)
@given(st.lists(STEPS, max_size=40), st.sampled_from([(5, 50), (50, 5), (50, 50), (50, 50, 800)]))
def test_makes_no_difference(steps: list[tuple[Any, ...]], terms: tuple[int, ...]) -> None:
    """Whatever is sent and said, posts and runs come to what sends come to: frames, outcomes, and what is unsettled."""
    posting, sending = Owner(True, *terms), Owner(False, *terms)
    for owner in (posting, sending):
        for name, *arguments in steps:
            getattr(owner, name)(*arguments)
        owner.client.receive_eof()
        owner.hear(b"")
        owner.look()
    assert posting.all_seen() == sending.all_seen()


def test_accepted_ranges_make_no_objects() -> None:
    """Accepted in pieces, by ranges over both links, or out of order: nothing is made, and nothing is left."""
    owner = Owner(True, 100, 100)
    for _ in range(3):
        for link, waiter in ((0, "a"), (1, "b"), (1, "c")):
            for _ in range(5):
                owner.send(link, waiter, 10, False)
    for first, count in ((20, 1), (21, 14), (0, 2), (2, 18), (35, 10)):
        owner.told(first, count, True, ACCEPTED)
    state: Any = owner.links[0].session
    assert owner.accepted == {"a": 15, "b": 15, "c": 15}
    assert owner.objects == 0
    assert not state.untracked.runs
    assert not state.outgoing
    assert not any(link.unsettled for link in owner.links)
    owner.send(0, "a", 10, False)
    owner.told(45, 1, True, ACCEPTED)
    assert owner.accepted["a"] == 16


def test_accepted_runs_make_no_objects() -> None:
    """Accepted in pieces, the waiters of a run are told in order."""
    owner = Owner(True, 100, 100)
    owner.run(0, 6)
    owner.client.receive_data(encode_disposition(3, True, FIRST, FIRST + 1, True, ACCEPTED))
    owner.client.receive_data(encode_disposition(3, True, FIRST + 2, FIRST + 5, True, ACCEPTED))
    told = [event.waiters for event in owner.client.events() if isinstance(event, RunAccepted)]
    assert told == [["run 0", "run 1"], ["run 2", "run 3", "run 4", "run 5"]]
    session: Any = owner.links[0].session
    assert not session.outgoing
    assert not owner.links[0].unsettled


def test_counting_costs_the_same() -> None:
    """Of one link, with four times as many runs of another."""

    def cost(runs: int) -> int:
        owner = Owner(True, 1000, 1000)
        owner.send(0, "a", 10, False)
        for number in range(runs):
            owner.send(1, number, 10, False)
        link = owner.links[0]
        assert link.count_unsettled() == UnsettledCount(1, FIRST, FIRST)
        return steps(link.count_unsettled)

    assert cost(400) < 1.1 * cost(100)


@pytest.mark.parametrize("state", [RELEASED, Rejected()])
def test_others_become_objects(state: Any) -> None:
    """One that is not accepted becomes a delivery with all that is to be known of it; those around it are accepted."""
    owner = Owner(True, 100, 100)
    for _ in range(10):
        owner.send(0, "a", 10, False)
    owner.told(0, 3, True, ACCEPTED)
    owner.told(3, 1, True, state)
    owner.told(4, 6, True, ACCEPTED)
    number = FIRST + 3 & 0xFFFF_FFFF
    tag = (3).to_bytes(4, "big")
    assert owner.seen == [(number, tag, bytes((10,)) * 10, "a", True, True, None, state, True)]
    assert owner.accepted == {"a": 9}


def test_runs_of_others_are_left_alone() -> None:
    """Outcomes of deliveries that somebody holds create no objects for messages untracked on another link."""
    owner = Owner(True, 100, 100)
    owner.send(0, "a", 10, False)
    owner.hold(1)
    owner.send(0, "a", 10, False)
    owner.told(1, 1, True, RELEASED)
    state: Any = owner.links[0].session
    assert [len(run.payloads) for run in state.untracked.runs.values()] == [1, 1]
    owner.told(0, 3, True, ACCEPTED)
    assert owner.accepted == {"a": 2}


def test_a_range_over_both_kinds() -> None:
    """Accepted, it makes no objects of what was untracked, be it before, between or behind those that are objects."""
    owner = Owner(True, 100, 100)
    session: Any = owner.links[0].session
    for waiter in "ab":
        owner.send(0, waiter, 20, False)
        owner.hold(1)
    owner.send(0, "a", 20, False)
    owner.send(0, "a", 20, False)
    owner.told(0, 5, True, ACCEPTED)
    assert owner.accepted == {"a": 2, "b": 1, "its holder": 2}
    assert not session.outgoing
    assert [len(run.payloads) for run in session.untracked.runs.values()] == [1]


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[UntrackedRun]:
    """The runs that were looked at for what a range has of them, each time."""
    looked: list[UntrackedRun] = []
    overlaps = UntrackedRun.overlaps

    def counted(run: UntrackedRun, first: int, count: int) -> bool:
        looked.append(run)
        return overlaps(run, first, count)

    monkeypatch.setattr(UntrackedRun, "overlaps", counted)
    return looked


def test_a_range_over_many_turns(looks: list[UntrackedRun]) -> None:
    """No run is looked for, however many turns of the two kinds there are in a range; with a gap in it, few times."""
    owner = Owner(True, 1000, 1000)
    for _ in range(200):
        owner.send(0, "a", 20, False)
        owner.hold(1)
    owner.told(0, 200, True, ACCEPTED)
    assert not looks
    owner.told(251, 1, True, ACCEPTED)
    owner.told(200, 200, True, ACCEPTED)
    assert owner.accepted == {"a": 200, "its holder": 200}
    assert len(looks) <= 3 * 100


@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize("state", [ACCEPTED, RELEASED])
def test_objects_beside_many_runs(looks: list[UntrackedRun], state: Any, count: int) -> None:
    """Outcomes of objects alone look at one run at most each time, in any order."""
    owner = Owner(True, 1000, 1000)
    session: Any = owner.links[0].session
    for number in range(100):
        owner.send(0, "ab"[number % 2], 20, False)
    for _ in range(100):
        owner.hold(1)
    for first in range(200 - count, 99, -count):
        owner.told(first, count, True, state)
    assert len(looks) <= 100 // count
    assert not session.outgoing
    assert len(session.untracked.runs) == 100
    owner.told(0, 100, True, ACCEPTED)
    assert owner.accepted["a"] == owner.accepted["b"] == 50


def test_a_range_that_begins_within_a_run() -> None:
    """Deliveries before the range stay without an outcome, those in it have one, and none behind is left out."""
    owner = Owner(True, 100, 100)
    for _ in range(4):
        owner.send(0, "a", 20, False)
    owner.hold(1)
    owner.send(0, "a", 20, False)
    owner.told(2, 4, True, ACCEPTED)
    assert owner.accepted == {"a": 3, "its holder": 1}
    owner.told(0, 2, True, ACCEPTED)
    assert owner.accepted == {"a": 5, "its holder": 1}


def test_post_needs_a_link_that_is_attached() -> None:
    """Before the peer has attached the link, posting is refused as sending is."""
    client = dialect("1.0").client(ConnectionTerms("client"), None, True)
    client.start()
    client.open()
    link = client.begin().attach_sender(LinkTerms("early", Source(), Target("q")))
    waiter: Any = None
    for send in (link.send, lambda payload: link.send_untracked(payload, waiter)):
        with pytest.raises(LocalProtocolError, match="not attached"):
            send(b"\0\x53\x75\xa0\1x")
