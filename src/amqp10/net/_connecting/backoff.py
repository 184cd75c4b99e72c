"""The delay before another try: a pure function of the number of failures and a random number."""

from __future__ import annotations


def backoff(failures: int, initial: float, longest: float, multiplier: float, jitter: float, chance: float) -> float:
    """Return the seconds to wait after `failures`: `initial`, then `multiplier` times more each time.

    A part of the delay is random, so that many clients that lost the same server do not return at the same moment.

    Args:
        failures: the number of failures, at least 1.
        longest: the longest delay, in seconds.
        jitter: the random part of the delay, 0 to 1; 0 waits exactly, 1 for any part of the delay.
        chance: a random number in [0, 1).
    """
    try:
        whole = min(longest, initial * multiplier ** (failures - 1))
    except OverflowError:
        whole = longest
    return whole * (1 - jitter * chance)
