"""Lines for operators on the logger `amqp10.broker`: text for people, and the same in fields of the record."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

from ..net import visible

DeadLetterObserver = Callable[[str, bytes, str, str | None], None]
"""Is told of each dead letter: the queue, the encoded message, the reason, and the condition or None."""

dead_letter_observers: Final[list[DeadLetterObserver]] = []
"""What telemetry has here for the brokers of the process."""

_log = logging.getLogger("amqp10.broker")


def notice(event: str, level: int, text: str, **fields: Any) -> None:
    """Log what happened.

    Args:
        event: its name, the record's field `amqp_event`.
        text: for people; control characters in it are escaped, for parts of it are a peer's words.
        fields: further fields of the record, without their prefix `amqp_`.
    """
    if _log.isEnabledFor(level):
        extra = {"amqp_event": event, **{f"amqp_{name}": value for name, value in fields.items()}}
        _log.log(level, "%s", visible(text), extra=extra)
