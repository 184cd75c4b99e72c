"""The pause between attempts, as a pure function."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from amqp10.net import backoff


def test_it_grows_to_a_bound() -> None:
    """Without jitter the pauses are those of the settings, and stay at the longest."""
    pauses = [backoff(failures, 0.1, 3.0, 2.0, 0.0, 0.5) for failures in range(1, 8)]
    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 3.0, 3.0]


def test_a_part_is_left_to_chance() -> None:
    """Jitter takes up to its share away, never more."""
    assert backoff(1, 1.0, 9.0, 2.0, 0.5, 0.0) == 1.0
    assert backoff(1, 1.0, 9.0, 2.0, 0.5, 0.5) == 0.75
    assert backoff(1, 1.0, 9.0, 2.0, 1.0, 0.999) < 0.002


@given(
    failures=st.integers(1, 10**9),
    initial=st.floats(0.001, 10),
    multiplier=st.floats(1, 100),
    jitter=st.floats(0, 1),
    chance=st.floats(0, 1, exclude_max=True),
)
def test_it_stays_in_bounds(failures: int, initial: float, multiplier: float, jitter: float, chance: float) -> None:
    """However long it goes on, nothing overflows, and no pause is longer than the longest."""
    pause = backoff(failures, initial, 60.0, multiplier, jitter, chance)
    assert min(initial, 60.0) * (1 - jitter) * 0.999 <= pause <= 60.0
