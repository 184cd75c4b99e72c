"""What the scripts of the conformance tests say."""

from __future__ import annotations

from collections.abc import Callable

from amqp10.messaging import Error, Source, Target
from amqp10.testing import Attach, EngineScript

Play = Callable[..., EngineScript]


def condition_is(condition: str) -> Callable[[Error], bool]:
    """Judges an error by its condition."""
    return lambda error: error is not None and error.condition == condition


def attach(name: str, handle: int, *, receives: bool) -> Attach:
    """An attach of the script's."""
    return Attach(
        name=name,
        handle=handle,
        role=receives,
        source=Source("queue"),
        target=Target("queue"),
        initial_delivery_count=None if receives else 0,
    )
