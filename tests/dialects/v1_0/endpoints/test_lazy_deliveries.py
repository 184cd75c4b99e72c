"""What waits to be taken is no objects until its owner asks for them, and nobody can tell."""

from __future__ import annotations

import gc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqp10.dialects.v1_0.wire.frames import AMQP_HEADER, TransferTemplate, encode_disposition, encode_frame
from amqp10.dialects.v1_0.wire.performatives import Attach, Begin, Close, Detach, End, Flow, Open, Transfer
from amqp10.engine import (
    ConnectionTerms,
    Engine,
    IncomingDelivery,
    LinkEnded,
    LinkTerms,
    ReceiverLink,
    SessionTerms,
    SettlementsReceived,
    dialect,
)
from amqp10.errors import LocalProtocolError
from amqp10.messaging import ACCEPTED, RELEASED, Modified, Source, Target

FIRST = 0xFFFF_FFF8  # of the delivery-ids: they soon pass the end of their numbers


class Other(IncomingDelivery):
    """The requests that an owner may make from now on."""

    __slots__ = ()


def said(*frames: Any) -> bytes:
    return b"".join(encode_frame(0 if isinstance(frame, Open) else 3, frame) for frame in frames)


def engine(lazy: bool, mode: str, window: int) -> tuple[Engine, list[ReceiverLink]]:
    """A client with two receivers, the first in this mode, and the peer's half of the attaching taken in."""
    client = dialect("1.0").client(ConnectionTerms("client"), None, True)
    client.start()
    client.open()
    session = client.begin(SessionTerms(incoming_window=window))
    modes: list[Any] = [mode, "first"]
    links = [
        session.attach_receiver(LinkTerms(str(n), Source("q"), Target(), receiver_settle_mode=each))
        for n, each in enumerate(modes)
    ]
    attaches = [
        Attach(str(n), n, False, rcv_settle_mode=int(each == "second"), initial_delivery_count=0)
        for n, each in enumerate(modes)
    ]
    for attach in attaches:
        attach.source, attach.target = Source("q"), Target()
    client.receive_data(AMQP_HEADER + said(Open("server"), Begin(0, 0, 100, 5), *attaches))
    for link in links:
        assert link.attached
        link.lazy = lazy
        link.flow(60)
    client.events()
    client.data_to_send()
    return client, links


class Owner:
    """Takes deliveries, and notes what is to be known of them."""

    def __init__(self, lazy: bool, mode: str = "first", window: int = 1000) -> None:
        self.client, self.links = engine(lazy, mode, window)
        self.taken: list[IncomingDelivery] = []
        self.seen: list[Any] = []
        self.sent = self.runs = 0

    def come(self, handle: int, count: int, size: int, settled: bool, message_format: int) -> None:
        """So many transfers, which look alike but for the last."""
        template = TransferTemplate(3, handle)
        frames = []
        for place in range(count):
            tag = self.sent.to_bytes(4, "big")
            much = size + (place == count - 1)
            head = template.head(FIRST + self.sent & 0xFFFF_FFFF, tag, settled, much, False, message_format)
            frames.append(head + b"p" * much)
            self.sent += 1
        self.hear(b"".join(frames))

    def again(self, handle: int, tag: int) -> None:
        """Transfers of which one has a tag that may be in use."""
        numbers = [FIRST + self.sent + n & 0xFFFF_FFFF for n in range(6)]
        tags = [*range(self.sent, self.sent + 5), tag]
        self.sent += 6
        self.hear(
            b"".join(
                TransferTemplate(3, handle).head(number, each.to_bytes(4, "big"), False, 1, False, 0) + b"p"
                for number, each in zip(numbers, tags, strict=True)
            )
        )

    def take(self, handle: int, count: int) -> None:
        link = self.links[handle]
        link.materialize(count - len(link.incoming))
        self.taken += [link.incoming.popleft() for _ in range(min(count, len(link.incoming)))]

    def accept(self, handle: int, count: int) -> None:
        """Accept what comes next, many at once where that can be."""
        link = self.links[handle]
        while count and (link.incoming or link.unmaterialized):
            run = link.next_run()[:count]
            if link.incoming or not run:
                run = (b"",)
                link.materialize(0 if link.incoming else 1)
                self.taken.append(link.incoming.popleft())
                self.settle(len(self.taken) - 1, 1, ACCEPTED)
                self.taken.pop()
            else:
                link.accept_run(len(run))
                self.runs += 1
            count -= len(run)

    def settle(self, place: int, count: int, state: Any) -> None:
        for delivery in self.taken[place : place + count]:
            try:
                delivery.link.settle(delivery, state)
            except LocalProtocolError as error:
                self.seen.append(str(error))

    def told(self, first: int, count: int, state: Any, settled: bool) -> None:
        first = FIRST + first & 0xFFFF_FFFF
        self.hear(encode_disposition(3, False, first, first + count - 1 & 0xFFFF_FFFF, settled, state))

    def hear(self, data: bytes) -> None:
        self.client.receive_data(data)
        for event in self.client.events():
            known = [facts(each) for each in event.deliveries] if isinstance(event, SettlementsReceived) else None
            self.seen.append((type(event), known, str(event.error) if isinstance(event, LinkEnded) else None))

    def other(self, handle: int) -> None:
        self.links[handle].delivery_type = Other

    def detach(self, handle: int) -> None:
        self.links[handle].detach()

    def write(self) -> None:
        self.seen.append(self.client.data_to_send())

    def look(self) -> None:
        for link in self.links:
            state: Any = link
            counts = (
                link.credit,
                link.attached,
                state.flow_state.delivery_count,
                link.unmaterialized + len(link.incoming),
            )
            self.seen.append((counts, state.session.window.next_incoming_id, state.session.window.incoming_window))

    def look_at_all(self) -> None:
        for link in self.links:
            self.seen.append([facts(delivery) for delivery in link.unsettled.values()])
            assert not link.unmaterialized
            self.seen.append([facts(delivery) for delivery in link.incoming])
        session: Any = self.links[0].session
        self.seen.append(sorted(session.incoming))
        self.seen.append([facts(delivery) for delivery in self.taken])


def facts(delivery: IncomingDelivery) -> tuple[Any, ...]:
    said = (delivery.local_settled, delivery.remote_settled, delivery.state, delivery.remote_state)
    came = (delivery.delivery_id, delivery.tag, delivery.payload, delivery.message_format, delivery.link.name)
    return (*came, *said, type(delivery))


HANDLES = st.integers(0, 1)
STEPS = st.one_of(
    st.tuples(st.just("come"), HANDLES, st.integers(1, 40), st.sampled_from([1, 300]), st.booleans(), st.just(0)),
    st.tuples(st.just("come"), HANDLES, st.integers(3, 12), st.just(1), st.just(False), st.sampled_from([0, 0, 9])),
    st.tuples(st.just("take"), HANDLES, st.integers(1, 20)),
    st.tuples(st.just("accept"), HANDLES, st.integers(1, 40)),
    st.tuples(st.just("settle"), st.integers(0, 9), st.integers(1, 9), st.sampled_from([ACCEPTED, ACCEPTED, RELEASED])),
    st.tuples(
        st.just("told"), st.integers(0, 30), st.integers(1, 30), st.sampled_from([None, ACCEPTED]), st.booleans()
    ),
    st.tuples(st.sampled_from(["write", "look", "look_at_all"])),
    st.tuples(st.sampled_from(["write", "look"])),
    st.tuples(
        st.just("hear"),
        st.sampled_from(
            [
                said(Flow(None, 99, 0, 9, handle=0, delivery_count=9, link_credit=3, echo=True)),
                said(Detach(0, True)),
                said(End()),
                encode_frame(0, Close()),
            ]
        ),
    ),
    st.tuples(st.sampled_from(["other", "detach"]), HANDLES),
    st.tuples(st.just("again"), HANDLES, st.integers(0, 60)),
)


@settings(deadline=None, max_examples=2 * settings().max_examples)
@given(st.lists(STEPS, max_size=25), st.sampled_from(["first", "first", "second"]), st.sampled_from([20, 1000]))
def test_makes_no_difference(steps: list[tuple[Any, ...]], mode: str, window: int) -> None:
    """Whatever comes, is taken, settled and said, by portions it comes to what it comes to all at once."""
    asking, given_all = Owner(True, mode, window), Owner(False, mode, window)
    for owner in (asking, given_all):
        for name, *arguments in steps:
            getattr(owner, name)(*arguments)
        owner.client.receive_eof()
        owner.hear(b"")
        assert not any(link.unmaterialized for link in owner.links)
        owner.look_at_all()
        owner.write()
    assert asking.seen == given_all.seen


def test_nothing_is_made_before_it_is_asked_for() -> None:
    """Forty in one read: so many objects as were asked for, and no more than the first few of what was not."""
    owner = Owner(True)
    gc.collect()
    owner.come(0, 40, 10, False, 0)
    link: Any = owner.links[0]

    def made() -> int:
        return sum(type(each) is IncomingDelivery and each.link is link for each in gc.get_objects())

    assert (link.unmaterialized, len(link.incoming)) == (40, 0)
    assert made() <= 4
    link.materialize(20)
    assert (link.unmaterialized, len(link.incoming)) == (20, 20)
    assert made() <= 20 + 1
    link.materialize(100)
    assert (link.unmaterialized, len(link.incoming), made()) == (0, 40, 40)
    assert [each.delivery_id for each in link.incoming] == [FIRST + n & 0xFFFF_FFFF for n in range(40)]


@pytest.mark.parametrize("tag", [5, 39])
def test_a_tag_of_one_that_waits_is_in_use(tag: int) -> None:
    """Which ends the link, as it would if the delivery were an object."""
    owner = Owner(True)
    owner.come(0, 40, 10, False, 0)
    owner.again(0, tag)
    assert not owner.links[0].attached
    assert len(owner.links[0].incoming) == 45


def test_a_delivery_in_parts_waits_in_its_place() -> None:
    """One that came between two runs is taken between them."""
    owner = Owner(True)
    owner.come(0, 10, 1, False, 0)
    number = FIRST + owner.sent & 0xFFFF_FFFF
    owner.hear(b"".join(encode_frame(3, Transfer(0, number, b"parts", more=more), b"half") for more in (True, False)))
    owner.sent += 1
    owner.come(0, 10, 1, False, 0)
    owner.take(0, 21)
    assert [each.payload for each in owner.taken].index(b"halfhalf") == 10
    assert len(owner.taken) == 21


@pytest.mark.parametrize("settled", [False, True])
def test_accepted_without_being_made(settled: bool) -> None:
    """Two runs of thirty, some of them taken: nothing of it is left in the tables, and one range says the outcome."""
    owner = Owner(True)
    for _ in range(2):
        owner.come(0, 30, 10, settled, 0)
    link: Any = owner.links[0]
    owner.client.data_to_send()
    owner.take(0, 10)
    owner.settle(0, 10, ACCEPTED)
    owner.accept(0, 50)
    assert owner.runs >= 2
    left: list[Any] = [link.unmaterialized, *link.incoming, *link.unsettled, *link.session.incoming]
    assert left == [0]
    told = encode_disposition(0, True, FIRST, FIRST + 59 & 0xFFFF_FFFF, True, ACCEPTED)
    assert owner.client.data_to_send() == (b"" if settled else told)


def test_a_run_that_cannot_be_accepted_as_one() -> None:
    """It is taken delivery by delivery: on a link that settles second, and in another message-format."""
    second = Owner(True, "second")
    second.come(0, 40, 10, False, 0)
    other = Owner(True)
    other.come(0, 40, 10, False, 9)
    for owner in (second, other):
        link: Any = owner.links[0]
        assert link.unmaterialized
        while link.unmaterialized:
            assert not link.next_run()
            link.materialize(1)


def test_the_link_ends_while_it_waits() -> None:
    """All of it is there to be taken, and nothing is left in the tables of the session, which goes on."""
    owner = Owner(True)
    owner.come(0, 10, 1, False, 0)
    owner.hear(said(Detach(0, True)))
    session: Any = owner.links[0].session
    assert (owner.links[0].unmaterialized, len(owner.links[0].incoming)) == (0, 10)
    assert not session.incoming
    assert session.begun


def test_settled_while_it_waits() -> None:
    """The sender settles all that waits: each delivery says so, and none is left in the tables."""
    owner = Owner(True)
    owner.come(0, 10, 1, False, 0)
    owner.told(0, 10, ACCEPTED, True)
    assert not owner.links[0].unsettled
    owner.take(0, 10)
    assert [(each.remote_settled, each.remote_state) for each in owner.taken] == [(True, ACCEPTED)] * 10
    session: Any = owner.links[0].session
    assert not session.incoming
    assert not session.lazy_receivers


@pytest.mark.parametrize("mode", ["first", "second"])
def test_outcomes_by_turns(mode: str) -> None:
    """Outcomes of neighbors go out in ranges, those of two links together if both settle."""
    owner = Owner(True, mode)
    owner.come(0, 4, 1, False, 0)
    owner.come(1, 4, 1, False, 0)
    owner.take(0, 4)
    owner.take(1, 4)
    owner.client.data_to_send()
    owner.settle(0, 3, ACCEPTED)
    owner.settle(3, 1, Modified(True))
    owner.settle(4, 4, ACCEPTED)
    settles = mode == "first"
    ranges = [(0, 2, settles, ACCEPTED), (3, 3, settles, Modified(True)), (4, 7, True, ACCEPTED)]
    wanted = [
        encode_disposition(0, True, FIRST + first & 0xFFFF_FFFF, FIRST + last & 0xFFFF_FFFF, settled, state)
        for first, last, settled, state in ranges
    ]
    assert owner.client.data_to_send() == b"".join(wanted)
    owner.come(0, 4, 1, False, 0)
    owner.come(1, 4, 1, False, 0)
    owner.take(0, 4)
    owner.take(1, 4)
    owner.settle(8, 8, ACCEPTED)
    ranges = [(8, 15, True, ACCEPTED)] if settles else [(8, 11, False, ACCEPTED), (12, 15, True, ACCEPTED)]
    wanted = [
        encode_disposition(0, True, FIRST + first & 0xFFFF_FFFF, FIRST + last & 0xFFFF_FFFF, settled, state)
        for first, last, settled, state in ranges
    ]
    assert owner.client.data_to_send() == b"".join(wanted)
