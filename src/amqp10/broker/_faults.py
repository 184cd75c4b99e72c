"""Faults of the broker itself: what one link or one timer raises is logged, and everybody else goes on."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable

_log = logging.getLogger("amqp10.broker")
_traced: set[object] = set()  # places in the code whose traceback is in the log


def report(what: str, error: Exception) -> None:
    """Log a fault as an error, with its traceback the first time only, so that a peer cannot fill the log."""
    frames = traceback.extract_tb(error.__traceback__)
    place = (type(error), frames[-1].filename, frames[-1].lineno) if frames else type(error)
    new = place not in _traced
    _traced.add(place)
    _log.error("%s: %r", what, f"{type(error).__name__}: {error}"[:1000], exc_info=error if new else None)


def attempt(what: str, act: Callable[..., object], *arguments: object) -> None:
    """Call `act`, and report what it raises."""
    try:
        act(*arguments)
    except Exception as error:
        report(f"{what} failed", error)
