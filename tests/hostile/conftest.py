"""What a hostile peer may cost: bounds for the memory and the time of every test here."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Iterator

import pytest

MOST_BYTES = 24_000_000
MOST_SECONDS = 8.0


@pytest.fixture(autouse=True)
def _bounds() -> Iterator[None]:
    """Whatever the peer did, it did not cost more than this."""
    tracemalloc.start()
    began = time.monotonic()
    yield
    seconds = time.monotonic() - began
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < MOST_BYTES
    assert seconds < MOST_SECONDS
