"""How long to wait before trying again: a pure function of the number of failures and a throw of the dice."""

from __future__ import annotations


def backoff(failures: int, initial: float, longest: float, multiplier: float, jitter: float, chance: float) -> float:
    """Return the seconds to wait after a number of failures: `initial`, then `multiplier` times more each time.

    Many clients that lost the same server must not come back at the same moment, so that part of the time which
    `jitter` names is left to chance.

    Args:
        failures: 1 or more.
        longest: the most to wait, seconds.
        jitter: 0 to 1; 0 waits exactly, 1 anything from nothing to the whole.
        chance: from [0, 1).
    """
    try:
        whole = min(longest, initial * multiplier ** (failures - 1))
    except OverflowError:
        whole = longest
    return whole * (1 - jitter * chance)
