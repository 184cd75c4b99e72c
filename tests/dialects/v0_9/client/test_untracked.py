"""Publishes that nobody holds are no objects, confirms of them are read by the run, and nobody can tell."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from amqp10.dialects.v0_9.wire.methods import BasicAck, BasicNack, BasicReturn
from amqp10.dialects.v0_9.wire.properties import BasicProperties
from amqp10.dialects.v0_9.wire.variant import V0_9_1
from amqp10.engine import Engine, LinkEnded, OutcomesReceived, SenderLink, UntrackedAccepted
from amqp10.messaging import ACCEPTED, Accepted, Message

from ....kit.dialects.v0_9.client_engine import CAN, opened, publishing
from ....kit.dialects.v0_9.method_peer import channel_of
from ....kit.steps import Steps

BODIES = (b"one", b"two", b"", bytes(300), b"x" * 5000)
PAYLOADS = (*(Message(body).encode() for body in BODIES), Message(b"one", subject="s").encode())

Step = tuple[str, int, int]
"""What happens, and two numbers that say more of it."""

WINDOW = 12
"""Publishes that may be without a confirm, where a full window is to come about."""

steps = st.one_of(
    st.tuples(st.just("full"), st.integers(0, 5), st.integers(0, 1)),
    st.tuples(st.just("post"), st.integers(0, 5), st.integers(0, 1)),
    st.tuples(st.just("post"), st.just(0), st.just(0)),
    st.tuples(st.sampled_from(("send", "settled", "forget")), st.integers(0, 5), st.just(0)),
    st.tuples(st.sampled_from(("ack", "nack")), st.integers(0, 40), st.integers(0, 1)),
    st.tuples(st.sampled_from(("acks", "swapped")), st.integers(0, 40), st.integers(1, 5)),
    st.tuples(st.just("return"), st.integers(0, 4), st.just(0)),
    st.tuples(st.sampled_from(("look", "suspend")), st.just(0), st.just(0)),
)


FULL = ("full", 0, 0)


class Publisher:
    """A sender and what it was told; with `plain` all that is posted is sent, and each confirm read by itself."""

    def __init__(self, plain: bool, window: int | None = None) -> None:
        self.engine: Engine = opened(**CAN)
        self.link: SenderLink
        self.link, _ = publishing(self.engine, 0)
        self.plain = plain
        self.told: Counter[tuple[object, type]] = Counter()
        self.ended = 0
        self.sent: list[Any] = []
        if window is not None:
            self.link.credit = window
        if plain:
            channel_of(self.link).has_runs = False

    def do(self, step: Step) -> object:
        kind, first, second = step
        if kind in ("post", "send", "settled"):
            if self.link.credit > 0 and self.link.attached:
                self.publish(kind, PAYLOADS[first], f"waiter {second}")
        elif kind == "full":
            while self.link.credit > 0 and self.link.attached:
                self.publish("post", PAYLOADS[first], f"waiter {second}")
        elif kind == "forget":
            for delivery in self.sent[first : first + 1]:
                self.link.forget(delivery)
        elif kind == "look":
            return [(each.tag, each.payload, each.waiter, each.on_wire) for each in self.link.unsettled.values()]
        elif kind == "suspend":
            return [each.tag for each in self.link.suspended()]
        else:
            self.engine.receive_data(self.heard(kind, first, second))
        return self.found()

    def found(self) -> object:
        """Return what can be seen from outside."""
        for event in self.engine.events():
            if isinstance(event, OutcomesReceived):
                self.told += Counter((each.waiter, type(each.remote_state)) for each in event.deliveries)
            elif isinstance(event, UntrackedAccepted):
                self.told[event.waiter, Accepted] += event.count
            self.ended += isinstance(event, LinkEnded)
        return self.engine.data_to_send(), self.link.credit, self.ended, self.told.copy()

    def publish(self, kind: str, payload: bytes, waiter: Any) -> None:
        if kind == "post" and self.plain:
            SenderLink.send_untracked(self.link, payload, waiter)
        elif kind == "post":
            self.link.send_untracked(payload, waiter)
        else:
            self.sent.append(self.link.send(payload, settled=kind == "settled"))

    @staticmethod
    def heard(kind: str, first: int, second: int) -> bytes:
        framing, methods = V0_9_1.framing, V0_9_1.methods
        if kind in ("acks", "swapped"):
            numbers = [*range(first, first + second)]
            if kind == "swapped":
                numbers[:2] = numbers[1::-1]
            return b"".join(framing.frame(1, 1, methods.encode(BasicAck(number, False))) for number in numbers)
        if kind == "return":
            returned = framing.frame(1, 1, methods.encode(BasicReturn(312, "NO_ROUTE", "", "q")))
            return returned + framing.message(1, 60, BasicProperties().encode(V0_9_1.tables), BODIES[first], 4096)
        confirm = BasicAck if kind == "ack" else BasicNack
        return framing.frame(1, 1, methods.encode(confirm(first, bool(second))))


@example([("post", 0, 0), ("post", 1, 0), ("send", 1, 0), ("post", 1, 0), ("ack", 2, 1), ("look", 0, 0)])
@example([("post", 0, 0), ("post", 1, 0), ("return", 1, 0), ("acks", 1, 2)])
@example([("post", 0, 0), ("post", 0, 0), ("ack", 2, 0), ("ack", 1, 0), ("post", 0, 0), ("acks", 3, 1)])
@example([("post", 0, 0), ("post", 0, 1), ("post", 0, 0), ("ack", 0, 1), ("acks", 4, 1)])
@example([("post", 0, 0), ("return", 0, 0), ("post", 0, 0), ("acks", 1, 1), ("ack", 1, 0)])
@example([FULL, ("swapped", 1, 2), FULL, ("acks", 3, 5), FULL, ("acks", 8, 5), FULL, ("look", 0, 0)])
@example([FULL, ("ack", 5, 0), FULL, ("acks", 1, 5), ("ack", 7, 1), FULL, ("acks", 8, 4), FULL, ("ack", 0, 1)])
@example([FULL, ("nack", 3, 0), FULL, ("acks", 1, 5), FULL, ("nack", 9, 1), FULL, ("acks", 10, 5)])
@example([FULL, ("return", 0, 0), ("acks", 1, 5), FULL, ("acks", 6, 5), FULL, ("acks", 11, 5), FULL])
@example([("post", 0, 0), ("send", 1, 0), FULL, ("forget", 0, 0), ("acks", 1, 5), FULL, ("acks", 6, 5), FULL])
@example([FULL, ("acks", 2, 5), FULL, ("acks", 7, 5), ("send", 0, 0), ("send", 0, 0), ("ack", 1, 0), ("acks", 12, 5)])
@given(st.lists(steps, max_size=20))
def test_nobody_can_tell(done: list[Step]) -> None:
    """Whatever is published and said of it: the same octets, the same credit, and the same outcomes for each waiter."""
    ours, plain = Publisher(False, WINDOW), Publisher(True, WINDOW)
    for step in done:
        assert ours.do(step) == plain.do(step), step
    assert ours.do(("look", 0, 0)) == plain.do(("look", 0, 0))


@pytest.mark.parametrize("change", range(21))
def test_each_octet_of_a_confirm(change: int) -> None:
    """A run of confirms in which an octet is another: what there is of it counts, up to there."""
    octets = b"".join(Publisher.heard("ack", number, 0) for number in range(1, 6))
    for value in (0, 1, octets[42 + change] ^ 2, 255):
        changed = octets[: 42 + change] + bytes((value,)) + octets[43 + change :]
        found = []
        for publisher in (Publisher(False), Publisher(True)):
            for _ in range(6):
                publisher.do(("post", 0, 0))
            publisher.engine.receive_data(changed)
            found.append((publisher.do(("ack", 0, 0)), publisher.engine.opened))
        assert found[0] == found[1]


def test_no_objects() -> None:
    """A posted and confirmed delivery was never an object; reading it creates the object that it would have been."""
    publisher = Publisher(False)
    made: list[Any] = []

    class Noted(publisher.link.delivery_type):  # type: ignore[name-defined,misc]
        __slots__ = ()

        def __init__(self, *arguments: Any) -> None:
            made.append(self)
            super().__init__(*arguments)

    publisher.link.delivery_type = Noted
    waiter: Any = "waiter 0"
    for _ in range(10):
        assert publisher.link.send_untracked(PAYLOADS[0], waiter) is None
    publisher.do(("ack", 4, 1))
    publisher.do(("acks", 5, 2))
    assert publisher.told == {("waiter 0", Accepted): 6}
    assert not made
    assert [each.delivery_id for each in publisher.link.unsettled.values()] == [7, 8, 9, 10]
    publisher.do(("ack", 10, 1))
    assert publisher.told == {("waiter 0", Accepted): 10}
    assert [each.remote_state for each in made] == [ACCEPTED] * 4


def test_one_that_was_stuck() -> None:
    """Its confirm costs no more for being read with one of a publish long after it, and so when both come again."""
    publisher = Publisher(False)
    for first in range(1, 8000, 1000):
        for _ in range(1000):
            publisher.do(("post", 0, 0))
        publisher.do(("acks", max(first, 2), 1000 - (first == 1)))
    publisher.do(("post", 0, 0))
    octets = publisher.heard("ack", 1, 0) + publisher.heard("ack", 8001, 0)
    for _ in range(3):
        tracemalloc.start()
        try:
            publisher.engine.receive_data(octets)
            assert tracemalloc.get_traced_memory()[1] < 50_000
        finally:
            tracemalloc.stop()
        publisher.found()
    assert publisher.told == {("waiter 0", Accepted): 8001}
    assert not publisher.link.unsettled


def steps_a_message(
    window: int, disturbed: tuple[Step, ...] = (), always: str = "acks", *, sends: int = 0, plain: bool = False
) -> float:
    """Return the cost of each message with a full window and two confirms in each read, without what happens once."""
    publisher = Publisher(plain, window)
    publisher.do(FULL)
    first = max((first for kind, first, _ in disturbed if kind in ("ack", "nack")), default=0) + 1
    heard = [publisher.heard(always, number, 2) for number in range(first, first + 2 * window, 2)]
    counted = Steps()
    with counted:
        for step in disturbed:
            publisher.do(step)
        for octets in heard:
            publisher.engine.receive_data(octets)
            publisher.found()
            for _ in range(sends):
                publisher.do(("send", 0, 0))
            publisher.do(FULL)
    assert publisher.link.credit == 0
    assert publisher.link.attached
    return counted.count / (2 * len(heard))


DISTURBED: dict[str, tuple[Step, ...]] = {
    "order": (("ack", 2, 0), ("ack", 1, 0)),
    "hole": (("ack", 2, 0),),
    "nack": (("nack", 3, 0),),
    "return": (("return", 0, 0),),
    "send": (("ack", 1, 0), ("send", 0, 0)),
}


@pytest.mark.parametrize("window", [60, 300])
@pytest.mark.parametrize("what", DISTURBED)
def test_disturbed_once(what: str, window: int) -> None:
    """One confirm out of order, nack, return or `send` while the window is full, and all goes on as quickly."""
    assert steps_a_message(window, DISTURBED[what]) < 1.5 * steps_a_message(window)


@pytest.mark.slow
@pytest.mark.parametrize("window", [60, 300])
@pytest.mark.parametrize(("always", "sends"), [("swapped", 0), ("acks", 1), ("swapped", 1)])
def test_disturbed_always(always: str, sends: int, window: int) -> None:
    """Confirms out of order and `send` in between, again and again: hardly more than with objects from the first."""
    objects = steps_a_message(window, always=always, sends=sends, plain=True)
    assert steps_a_message(window, always=always, sends=sends) < 1.5 * objects
