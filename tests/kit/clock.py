"""A clock that stands still until the test moves it."""

from __future__ import annotations


class Clock:
    """A clock that the test sets: seconds, from a beginning of the test's choice.

    Attributes:
        jumped: seconds by which the time of day has jumped ahead of this clock.
    """

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now
        self.jumped = 0.0

    def __call__(self) -> float:
        return self.now
