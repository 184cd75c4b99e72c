"""Random lives of a producer and a consumer whose connections break, and what they have found, each as a test.

AMQP10_WALKS=10000 lives as many; the default takes a few seconds.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ._lives import SETTINGS, Life, Setting

STEPS = st.lists(st.tuples(st.integers(0, 99), st.integers(0, 11), st.integers(0, 1500)), min_size=10, max_size=60)


@settings(
    max_examples=int(os.environ.get("AMQP10_WALKS", "500")),
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
