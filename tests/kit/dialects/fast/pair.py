"""A client and a server of AMQP/Fast back to back."""

from __future__ import annotations

from amqp10.engine import (
    ConnectionTerms,
)
from amqp10.testing import EnginePair


def opened(chunk: int | None = None, **terms: ConnectionTerms) -> EnginePair:
    pair = EnginePair(dialect="fast", chunk=chunk, **terms)  # type: ignore[arg-type]
    pair.open()
    return pair
