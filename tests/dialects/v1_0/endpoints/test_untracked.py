"""Deliveries that nobody holds are no objects while nothing is said of them but "accepted", and nobody can tell."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from amqp10.dialects.v1_0.endpoints.untracked import UntrackedRun
from amqp10.dialects.v1_0.wire.frames import AMQP_HEADER, encode_disposition, encode_frame
from amqp10.dialects.v1_0.wire.performatives import Attach, Begin, Detach, End, Flow, Open
from amqp10.engine import (
    ConnectionTerms,
    Engine,
    LinkTerms,
    OutcomesReceived,
    OutgoingDelivery,
    RunAccepted,
    SenderLink,
    Unsettled,
    UntrackedAccepted,
    dialect,
)
from amqp10.errors import LocalProtocolError
from amqp10.messaging import ACCEPTED, RELEASED, Accepted, Rejected, Source, Target

from ....kit.steps import steps

FIRST = 0xFFFF_FFF8  # of the delivery-ids, and of one link's tags: they soon pass the end of their numbers
STATES = [ACCEPTED, ACCEPTED, ACCEPTED, Accepted(), RELEASED, Rejected(), None]


def said(*frames: Any) -> bytes:
    return b"".join(encode_frame(0 if isinstance(frame, Open) else 3, frame) for frame in frames)


def flow(handle: int, credit: int, window: int) -> Flow:
    """The receiver's, who had seen nothing yet."""
    return Flow(0, window, 0, 5, handle=handle, delivery_count=0, link_credit=credit)


def engine(window: int, credit: int, largest: int | None = None) -> tuple[Engine, list[SenderLink]]:
    """A client with two senders, and the peer's half of the attaching taken in."""
    client = dialect("1.0").client(ConnectionTerms("client"), None, True)
    client.start()
    client.open()
    session: Any = client.begin()
    links = [session.attach_sender(LinkTerms(str(handle), Source(), Target("q"))) for handle in range(2)]
    attaches = [Attach(str(handle), handle, True, max_message_size=largest) for handle in range(2)]
    for attach in attaches:
        attach.source, attach.target = Source(), Target("q")
    flows = [flow(handle, credit, window) for handle in range(2)]
    client.receive_data(
        AMQP_HEADER + said(Open("server", max_frame_size=600), Begin(0, 0, window, 5), *attaches, *flows)
    )
    assert all(link.attached for link in links)
    session.next_delivery_id = FIRST
    links[1]._next_tag = FIRST
    client.events()
    client.data_to_send()
    return client, links


class Owner:
    """Sends what nobody holds, by `post` and `send_run` or by `send`, and notes what is to be known of it."""

    def __init__(self, posts: bool, *terms: Any) -> None:
        self.posts = posts
        self.client, self.links = engine(*terms)
        self.seen: list[Any] = []
        self.accepted: Counter[Any] = Counter()  # by waiter
        self.objects = 0

    def send(self, link: int, waiter: Any, size: int, settled: bool) -> None:
        payload = bytes((size & 255,)) * size
        ours = self.links[link]
        try:
            if self.posts:
                delivery = ours.send_untracked(payload, waiter, settled=settled)
                self.objects += delivery is not None
            else:
                ours.send(payload, settled=settled).waiter = None if settled else waiter
        except LocalProtocolError as error:
            self.seen.append(str(error))

    def run(self, link: int, count: int) -> None:
        """Send messages together, if there is room for all of them."""
        ours, waiters = self.links[link], [f"run {number}" for number in range(count)]
        if self.posts and ours.run_room(1) >= count:
            ours.send_run([b"run"] * count, waiters)
            return
        for waiter in waiters:
            try:
                ours.send(b"run").waiter = waiter
            except LocalProtocolError as error:
                self.seen.append(str(error))

    def hold(self, link: int, number: int | None = None) -> None:
        """Send what somebody holds; its tag is the sender's own choice, if that is a number: one that posts come to."""
        first = (0, FIRST)[link]
        tag = None if number is None else (first + number & 0xFFFF_FFFF).to_bytes(4, "big")
        try:
            self.links[link].send(b"held", tag=tag).waiter = "its holder"
        except LocalProtocolError as error:
            self.seen.append(str(error))

    def told(self, first: int, count: int, settled: bool, state: Any) -> None:
        first = FIRST + first & 0xFFFF_FFFF
        last = first + count - 1 & 0xFFFF_FFFF
        self.hear(encode_disposition(3, True, first, last, settled, state))

    def hear(self, data: bytes) -> None:
        self.client.receive_data(data)
        for event in self.client.events():
            if isinstance(event, UntrackedAccepted):
                self.accepted[event.waiter] += event.count
            elif isinstance(event, RunAccepted):
                self.accepted.update(event.waiters)
            elif isinstance(event, OutcomesReceived):
                for delivery in event.deliveries:
                    if delivery.remote_state == ACCEPTED and delivery.remote_settled:
                        self.accepted[delivery.waiter] += 1
                    else:
                        self.seen.append(facts(delivery))
            else:
                self.seen.append(type(event))

    def detach(self, link: int, errant: bool) -> None:
        """The sender leaves it, with what is out; for a fault of the peer's, who is to say nothing of it any more."""
        ours: Any = self.links[link]
        if errant:
            ours.fail("test:fault", "")
        else:
            ours.detach()

    def look(self) -> None:
        self.seen += [[facts(delivery) for delivery in link.unsettled.values()] for link in self.links]

    def count(self) -> None:
        self.seen += [link.count_unsettled() for link in self.links]

    def all_seen(self) -> list[Any]:
        links: list[Any] = self.links
        counts = [(link.credit, link.attached, link.flow_state.delivery_count) for link in links]
        window = links[0].session.window
        more = (window.next_outgoing_id, window.remote_incoming_window, links[0].session.next_delivery_id)
        return [self.seen, self.accepted, counts, more, self.client.data_to_send()]


def facts(delivery: OutgoingDelivery) -> tuple[Any, ...]:
    said = (delivery.local_settled, delivery.state, delivery.remote_state, delivery.remote_settled)
    return (delivery.delivery_id, delivery.tag, delivery.payload, delivery.waiter, delivery.on_wire, *said)


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
@example([*[("send", 0, each, 1, False) for each in "aabb"], ("told", 0, 1, True, ACCEPTED), ("look",)], (50, 50))
@example([*[("send", 0, "a", 1, False)] * 4, ("detach", 0, True), ("told", 0, 2, True, ACCEPTED), ("look",)], (50, 50))
@example([("run", 0, 5), ("run", 1, 3), ("count",), ("hold", 0, 9), ("run", 0, 2), ("count",)], (50, 50))
@example([("run", 0, 5), ("run", 1, 3), ("told", 1, 2, True, RELEASED), ("told", 0, 8, True, ACCEPTED)], (50, 50))
@example([("run", 0, 5), ("send", 0, "a", 1, False), ("told", 0, 2, True, ACCEPTED), ("look",)], (50, 50))
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
        assert link.count_unsettled() == Unsettled(1, FIRST, FIRST)
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
