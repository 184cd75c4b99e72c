"""Messages that almost look alike cost no more than each by itself, however many they are: counted, without a clock.

Two things are counted: steps of the interpreter, and octets that are unpacked, which cost none of those.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from amqp10.dialects.v0_9.message.streams import OFFSET
from amqp10.dialects.v0_9.wire import bulk
from amqp10.dialects.v0_9.wire.bulk import MIN_RUN, ContentRun
from amqp10.dialects.v0_9.wire.methods import BasicDeliver
from amqp10.dialects.v0_9.wire.properties import BasicProperties
from amqp10.dialects.v0_9.wire.variant import V0_9_1
from amqp10.messaging import ACCEPTED

from ....kit.dialects.v0_9.client_engine import DIALECTS
from ....kit.dialects.v0_9.method_peer import channel_of
from ....kit.dialects.v0_9.runs import receiver
from ....kit.steps import steps

FEW, MANY = 150, 750
Mix = Callable[[int, int], Any]
"""What tells the properties of one message from those of others, of its number, from 0 on, and how many there are."""

MIXES: dict[str, Mix] = {
    "all alike": lambda number, count: 0,
    "an own one in each": lambda number, count: number,
    "two by turns": lambda number, count: number % 2,
    "two of each": lambda number, count: number // 2,
    "two of three": lambda number, count: number % 3 == 2,
    "seven of each": lambda number, count: number // 7,
    "eight of each": lambda number, count: number // 8,
    "all but each eighth": lambda number, count: number % 8 == 7,
    "all but each ninth": lambda number, count: number % 9 == 0,
    "a hundred of each": lambda number, count: number // 100,
    "one after a hundred": lambda number, count: number % 101 == 100,
    "all but the first": lambda number, count: number == 0,
    "all but the second": lambda number, count: number == 1,
    "all but the eighth": lambda number, count: number == MIN_RUN - 1,
    "all but the last": lambda number, count: number == count - 1,
}

QUICK = "all alike", "two by turns"
"""Those of `make check`."""


def octets_of(mix: Mix, count: int, place: bool) -> bytes:
    """Messages of one size; what differs is a message-id or the place in a stream."""
    out: list[bytes] = []
    framing = V0_9_1.framing
    for number in range(count):
        what = int(mix(number, count))
        said = BasicProperties(headers={OFFSET: what}) if place else BasicProperties(message_id=f"{what:08}")
        method = V0_9_1.methods.encode(BasicDeliver("r", number + 1, False, "", "q"))
        out += framing.frame(1, 1, method), framing.message(1, 60, said.encode(V0_9_1.tables), bytes(100), 4096)
    return b"".join(out)


class Costs:
    """Of receiving: steps of the interpreter, and octets unpacked."""

    def __init__(self) -> None:
        self.steps = self.unpacked = 0

    def iter_unpack(self, layout: str, data: memoryview) -> Iterator[tuple[Any, ...]]:
        self.unpacked += len(data)
        return struct.iter_unpack(layout, data)


def costs(monkeypatch: pytest.MonkeyPatch, octets: bytes, count: int, runs: bool) -> Costs:
    """Of all in one read, with as much credit."""
    engine, link = receiver(*DIALECTS[0], count, "mixed")
    link.lazy = True
    if not runs:
        channel_of(link).has_runs = False
    found = Costs()
    monkeypatch.setattr(bulk, "iter_unpack", found.iter_unpack)
    found.steps = steps(lambda: engine.receive_data(octets))
    assert link.unmaterialized == count
    return found


@pytest.mark.parametrize("place", [False, True], ids=["message-id", "place"])
@pytest.mark.parametrize(
    "mix",
    [pytest.param(mix, id=name, marks=[] if name in QUICK else pytest.mark.slow) for name, mix in MIXES.items()],
)
def test_no_worse_than_one_by_one(monkeypatch: pytest.MonkeyPatch, mix: Mix, place: bool) -> None:
    """Whichever differ: fewer steps than one by one, no octet unpacked more than a few times, the same with many."""
    each = []
    for count in (FEW, MANY):
        octets = octets_of(mix, count, place)
        found = costs(monkeypatch, octets, count, True)
        assert found.steps < costs(monkeypatch, octets, count, False).steps
        assert found.unpacked <= 4 * len(octets)
        each.append(found.steps / count)
    assert each[1] < 1.1 * each[0]


def test_credit_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages beyond the credit are handed out with each credit of one, without copying all the others."""
    lengths: list[int] = []
    begin = ContentRun.__init__

    def noted(run: ContentRun, kind: Any, settled: bool, numbers: Any, head: Any, columns: Any) -> None:
        lengths.append(len(numbers))
        begin(run, kind, settled, numbers, head, columns)

    monkeypatch.setattr(ContentRun, "__init__", noted)
    engine, link = receiver(*DIALECTS[0], FEW, "mixed")
    link.flow(1)
    link.lazy = True
    engine.receive_data(octets_of(MIXES["all alike"], FEW, False))
    taken = []
    for _ in range(FEW):
        link.materialize(1)
        taken.append(link.incoming.popleft())
        link.settle(taken[-1], ACCEPTED)
        link.flow(1)
    assert [each.delivery_id for each in taken] == [*range(1, FEW + 1)]
    assert 0 < sum(lengths) < 3 * FEW
