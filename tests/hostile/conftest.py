"""What a hostile peer may cost: bounds for the memory and the time of every test here."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Iterator

import pytest

MOST_BYTES = 24_000_000
MOST_SECONDS = 8.0
"""Of the processor: what others do on the machine is none of the peer's cost."""
MOST_WAITED = 30.0
"""Seconds on the clock: more than it takes on a slow machine, less than what waits for a peer for ever."""


@pytest.fixture(autouse=True)
def _bounds() -> Iterator[None]:
    """Whatever the peer did, it did not cost more than this."""
    tracemalloc.start()
    began, worked = time.monotonic(), time.process_time()
    yield
    seconds, waited = time.process_time() - worked, time.monotonic() - began
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < MOST_BYTES
    assert seconds < MOST_SECONDS
    assert waited < MOST_WAITED
