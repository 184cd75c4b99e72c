"""What the broker writes to the logger `amqp10.broker`: events for operators, and faults of its own code.

The text is for people; fields of the record repeat it for programs. An error of one link or timer is logged, and does
not disturb the others.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from typing import Any, Final

from ..net import visible

DeadLetterObserver = Callable[[str, str, bytes, str], None]
"""Called for each dead letter with the system ("amqp", "servicebus"), the queue, the encoded message, and the condition
or, without one, the reason.
"""

dead_letter_observers: Final[list[DeadLetterObserver]] = []
"""Observers of telemetry, called by all brokers of the process."""

_log = logging.getLogger("amqp10.broker")
_traced: set[object] = set()  # places in the code whose traceback was logged


def notice(event: str, level: int, text: str, **fields: Any) -> None:
    """Log an event.

    Args:
        event: its name, the record's field `amqp_event`.
        text: for people; control characters are escaped, because parts of it come from peers.
        fields: further fields of the record, without their prefix `amqp_`.
    """
    if _log.isEnabledFor(level):
        extra = {"amqp_event": event, **{f"amqp_{name}": value for name, value in fields.items()}}
        _log.log(level, "%s", visible(text), extra=extra)


def report(what: str, error: Exception) -> None:
    """Log a fault as an error, with its traceback the first time only, so that a peer cannot fill the log."""
    frames = traceback.extract_tb(error.__traceback__)
    place = (type(error), frames[-1].filename, frames[-1].lineno) if frames else type(error)
    new = place not in _traced
    _traced.add(place)
    _log.error("%s: %r", what, f"{type(error).__name__}: {error}"[:1000], exc_info=error if new else None)


def attempt(what: str, act: Callable[..., object], *arguments: object) -> None:
    """Call `act`, and log what it raises."""
    try:
        act(*arguments)
    except Exception as error:
        report(f"{what} failed", error)
