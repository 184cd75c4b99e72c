"""Random lives of a producer and a consumer whose connections break, and what they have found, each as a test.

AMQP10_WALKS=10000 lives as many; the default takes a few seconds.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ...kit.broker.line import SETTINGS, Setting
from ...kit.broker.resumed_lives import Life
from ...kit.counts import RESUMES

pytestmark = pytest.mark.capability("link resume")

OCTETS_APART = 5
STEPS = st.lists(st.tuples(st.integers(0, 99), st.integers(0, 11), st.integers(0, 1500)), min_size=10, max_size=60)


@pytest.mark.slow
@settings(
    max_examples=RESUMES,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    deadline=None,
)
@given(chosen=st.integers(0, SETTINGS - 1), steps=STEPS)
def test_lives(chosen: int, steps: list[tuple[int, int, int]]) -> None:
    """Wherever connections break, and whatever waits: at least once never loses a message, and exactly once, by
    `receiver_settle_mode="second"`, neither loses nor doubles one, unless what was kept has expired."""
    life = Life(Setting.numbered(chosen))
    for step in steps:
        life.step(*step)
    life.check()


@pytest.mark.slow
@pytest.mark.parametrize("first", range(OCTETS_APART))
@pytest.mark.parametrize("who", ["producer", "consumer"])
@pytest.mark.parametrize("way", ["there", "back"])
@pytest.mark.parametrize("mode", ["first", "second"])
def test_every_octet(who: str, way: str, mode: str, first: int) -> None:
    """A connection that breaks after any octet of a small and a large message, or of what is said of them."""
    far = 1 << 30
    cut, beyond = first, 0
    while beyond < 2:  # twice, for it is heard at once and later by turns
        life = Life(Setting(mode, frame_size=512, window=100, streams=False, many=False))  # type: ignore[arg-type]
        producer, consumer = life.producer, life.consumer
        end = producer if who == "producer" else consumer
        for each in life.ends:
            while each.carry(far, far):
                pass
        for size in (5, 900):
            producer.produce(size)
        if end is consumer:
            while producer.carry(far, far):
                pass
        there, back = (cut, far) if way == "there" else (far, cut)
        end.carry(there, back)
        assert end.line is not None
        under_way = end.line.there if way == "there" else end.line.back
        beyond = 0 if under_way else beyond + 1
        if end is consumer:
            consumer.settle(0, False)
            consumer.settle(0, False)
        end.cut(0 if way == "there" else far, 0, cut % 2 == 0)
        life.check()
        cut += OCTETS_APART
