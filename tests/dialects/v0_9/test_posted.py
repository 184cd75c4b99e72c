"""Publishes that nobody holds are no objects, confirms of them are read by the run, and nobody can tell."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from amqp10.dialects.v0_9._methods import BasicAck, BasicNack, BasicReturn
from amqp10.dialects.v0_9._properties import BasicProperties
from amqp10.dialects.v0_9._variant import V0_9_1
from amqp10.engine import Engine, LinkEnded, OutcomesReceived, PostsAccepted, SenderLink
from amqp10.messaging import ACCEPTED, Accepted, Message

from .test_answers import CAN, opened, publishing

BODIES = (b"one", b"two", b"", bytes(300), b"x" * 5000)
PAYLOADS = (*(Message(body).encode() for body in BODIES), Message(b"one", subject="s").encode())

Step = tuple[str, int, int]
"""What happens, and two numbers that say more of it."""

steps = st.one_of(
    st.tuples(st.just("post"), st.integers(0, 5), st.integers(0, 1)),
    st.tuples(st.just("post"), st.just(0), st.just(0)),
    st.tuples(st.sampled_from(("send", "settled")), st.integers(0, 5), st.just(0)),
    st.tuples(st.sampled_from(("ack", "nack")), st.integers(0, 12), st.integers(0, 1)),
    st.tuples(st.just("acks"), st.integers(0, 12), st.integers(1, 5)),
    st.tuples(st.just("return"), st.integers(0, 4), st.just(0)),
    st.tuples(st.sampled_from(("look", "suspend")), st.just(0), st.just(0)),
)


class Publisher:
    """A sender and what it was told; with `plain` all that is posted is sent, and each confirm read by itself."""

    def __init__(self, plain: bool) -> None:
        self.engine: Engine = opened(**CAN)
        self.link: SenderLink
        self.link, _ = publishing(self.engine, 0)
        self.plain = plain
        self.told: Counter[tuple[object, type]] = Counter()
        self.ended = 0
        if plain:
            vars(self.link)["has_runs"] = False

    def do(self, step: Step) -> object:
        kind, first, second = step
        if kind in ("post", "send", "settled"):
            if self.link.credit > 0 and self.link.attached:
                self.publish(kind, PAYLOADS[first], f"waiter {second}")
        elif kind == "look":
            return [(each.tag, each.payload, each.waiter, each.on_wire) for each in self.link.unsettled.values()]
        elif kind == "suspend":
            return [each.tag for each in self.link.suspended()]
        else:
            self.engine.receive_data(self.heard(kind, first, second))
        for event in self.engine.events():
            if isinstance(event, OutcomesReceived):
                self.told += Counter((each.waiter, type(each.remote_state)) for each in event.deliveries)
            elif isinstance(event, PostsAccepted):
                self.told[event.waiter, Accepted] += event.count
            self.ended += isinstance(event, LinkEnded)
        return self.engine.data_to_send(), self.link.credit, self.ended, self.told

    def publish(self, kind: str, payload: bytes, waiter: str) -> None:
        if kind == "post" and self.plain:
            SenderLink.post(self.link, payload, waiter)
        elif kind == "post":
            self.link.post(payload, waiter)
        else:
            self.link.send(payload, settled=kind == "settled")

    @staticmethod
    def heard(kind: str, first: int, second: int) -> bytes:
        framing, methods = V0_9_1.framing, V0_9_1.methods
        if kind == "acks":
            numbers = range(first, first + second)
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
@given(st.lists(steps, max_size=20))
def test_nobody_can_tell(done: list[Step]) -> None:
    """Whatever is published and said of it: the same octets, the same credit, and the same outcomes for each waiter."""
    ours, plain = Publisher(False), Publisher(True)
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
    """What is posted and confirmed was none; who looks sees what it would have been."""
    publisher = Publisher(False)
    made: list[Any] = []

    class Noted(publisher.link.delivery_type):  # type: ignore[name-defined,misc]
        __slots__ = ()

        def __init__(self, *arguments: Any) -> None:
            made.append(self)
            super().__init__(*arguments)

    publisher.link.delivery_type = Noted
    for _ in range(10):
        assert publisher.link.post(PAYLOADS[0], "waiter 0") is None
    publisher.do(("ack", 4, 1))
    publisher.do(("acks", 5, 2))
    assert publisher.told == {("waiter 0", Accepted): 6}
    assert not made
    assert [each.delivery_id for each in publisher.link.unsettled.values()] == [7, 8, 9, 10]
    publisher.do(("ack", 10, 1))
    assert publisher.told == {("waiter 0", Accepted): 10}
    assert [each.remote_state for each in made] == [ACCEPTED] * 4
