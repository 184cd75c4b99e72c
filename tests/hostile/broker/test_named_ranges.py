"""What a peer says of ids costs what it settles, not what is unsettled: counted in steps of the interpreter."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from amqp10.dialects.v0_10.command_ids import ReceivedCommands, SentCommands
from amqp10.dialects.v1_0.wire.frames import AMQP_HEADER, encode_disposition, encode_frame
from amqp10.dialects.v1_0.wire.performatives import Attach, Begin, Flow, Open, Transfer
from amqp10.engine import ConnectionTerms, Engine, LinkTerms, OutcomeCounter, dialect
from amqp10.messaging import ACCEPTED, Data, Message, Source, Target

from ...kit.steps import steps

FEW, MANY = 64, 640
"""What is unsettled. The steps for a frame may grow by those of a bisection."""
FRAMES = 24
HALF = 0x8000_0000

Frames = Iterator[Callable[[], Any]]


def assert_costs_what_it_settles(say: Callable[[int], Frames]) -> None:
    """Compare what frames cost where little and where much is unsettled; the first may look at all of it."""
    costs = {}
    for unsettled in (FEW, MANY):
        frames = say(unsettled)
        next(frames)()
        costs[unsettled] = [steps(frame) for frame in frames]
        assert len(costs[unsettled]) == FRAMES
    for few, many in zip(costs[FEW], costs[MANY], strict=True):
        assert many <= few + 400


def said(*frames: Any) -> bytes:
    return b"".join(encode_frame(0, frame) for frame in frames)


def client() -> tuple[Engine, Any]:
    """A client whose session the peer has begun."""
    engine = dialect("1.0").client(ConnectionTerms("client", max_frame_size=1 << 20), None, True)
    engine.start()
    engine.open()
    session: Any = engine.begin()
    engine.receive_data(AMQP_HEADER + said(Open("server"), Begin(0, 0, HALF - 1, 5)))
    return engine, session


def senders(engine: Engine, session: Any, count: int) -> list[Any]:
    """Links of the session that may send."""
    links = [session.attach_sender(LinkTerms(str(handle), Source(), Target("q"))) for handle in range(count)]
    for handle in range(count):
        attach = Attach(str(handle), handle, True, source=Source(), target=Target("q"))
        flow = Flow(0, HALF - 1, 0, 5, handle=handle, delivery_count=0, link_credit=100_000)
        engine.receive_data(said(attach, flow))
    return links


def hear(engine: Engine, first: int, last: int, settled: bool = True, *, by_sender: bool = False) -> None:
    engine.receive_data(encode_disposition(0, not by_sender, first, last, settled, ACCEPTED))
    engine.events()


class Counter(OutcomeCounter):
    """Of posted messages: who waits for them."""

    def set(self) -> None:
        raise AssertionError

    def outcome_received(self, delivery: Any) -> None:
        raise AssertionError

    def accepted_more(self, count: int) -> None:
        raise AssertionError


RANGES = {
    "never sent": lambda unsettled: (5000, 5000 + HALF - 1),
    "as many as are unsettled": lambda unsettled: (5000, 5000 + unsettled - 1),
    "settled long ago": lambda unsettled: (0xFFFF_0000, 0xFFFF_FFFF),
    "one": lambda unsettled: (5000, 5000),
}
named = pytest.mark.parametrize("named", RANGES.values(), ids=RANGES)
Named = Callable[[int], tuple[int, int]]


@named
def test_ids_of_objects(named: Named) -> None:
    def say(unsettled: int) -> Frames:
        engine, session = client()
        (link,) = senders(engine, session, 1)
        for _ in range(unsettled):
            link.send(b"")
        for _ in range(FRAMES + 1):
            yield lambda: hear(engine, *named(unsettled))
        assert len(link.unsettled) == unsettled

    assert_costs_what_it_settles(say)


def test_one_is_settled_before_each() -> None:
    """What has left the table, the newest here, is noticed without a look at all that is left."""

    def say(unsettled: int) -> Frames:
        engine, session = client()
        (link,) = senders(engine, session, 1)
        for _ in range(unsettled):
            link.send(b"")
        for newest in range(unsettled - 1, unsettled - FRAMES - 2, -1):
            hear(engine, newest, newest)
            yield lambda: hear(engine, unsettled, unsettled + HALF - 1)
        assert len(link.unsettled) == unsettled - FRAMES - 1

    assert_costs_what_it_settles(say)


@named
@pytest.mark.parametrize("settled", [True, False])
def test_ids_beside_many_runs(named: Named, settled: bool) -> None:
    """Two links that post by turns make a run of each message."""

    def say(unsettled: int) -> Frames:
        engine, session = client()
        links = senders(engine, session, 2)
        waiter = Counter()
        for number in range(unsettled):
            assert links[number % 2].send_untracked(b"", waiter) is None
        assert len(session.untracked.runs) == unsettled
        for _ in range(FRAMES + 1):
            yield lambda: hear(engine, *named(unsettled), settled)
        assert len(session.untracked.runs) == unsettled

    assert_costs_what_it_settles(say)


@named
def test_ids_of_a_sender(named: Named) -> None:
    """Of what was received whole, and of what many links have received in part."""

    def say(unsettled: int) -> Frames:
        engine, session = client()
        payload = Message(Data(b"")).encode()
        for handle in range(unsettled):
            link = session.attach_receiver(LinkTerms(str(handle), Source("q"), Target()))
            attach = Attach(str(handle), handle, False, source=Source("q"), target=Target(), initial_delivery_count=0)
            engine.receive_data(said(attach))
            link.flow(10)
            whole = Transfer(handle, 2 * handle, b"w", 0)
            part = Transfer(handle, 2 * handle + 1, b"p", 0, more=True)
            engine.receive_data(encode_frame(0, whole, payload) + encode_frame(0, part, payload))
        assert len(session.incoming) == len(session.parts) == unsettled
        for _ in range(FRAMES + 1):
            yield lambda: hear(engine, *named(unsettled), by_sender=True)

    assert_costs_what_it_settles(say)


def test_completions_in_0_10() -> None:
    def say(unsettled: int) -> Frames:
        commands = SentCommands()
        for _ in range(unsettled):
            commands.add(b"", None)
        for number in range(FRAMES + 1):
            assert [sent.number for sent in commands.take(((1 + number, 1 + number),))] == [1 + number]
            yield lambda: commands.take(((5000, 5000 + unsettled - 2),))

    assert_costs_what_it_settles(say)


def test_confirmations_in_0_10() -> None:
    """Of commands that are completed with gaps between them."""

    def say(unsettled: int) -> Frames:
        commands = ReceivedCommands()
        for _ in range(2 * unsettled):
            number = commands.take()
            assert number is not None
            if number % 2:
                commands.complete(number)
        for number in range(FRAMES + 1):
            yield lambda: commands.known(((5000, 5000 + HALF - 2), (3 + 2 * number, 3 + 2 * number)))  # noqa: B023
        assert commands.done.parts == unsettled - FRAMES - 1
        assert steps(lambda: commands.is_done(5000)) < 100

    assert_costs_what_it_settles(say)
