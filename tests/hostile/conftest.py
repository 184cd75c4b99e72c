"""What a hostile peer may cost: bounds for the memory and the time of every test here."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Iterator

import pytest

MAX_BYTES = 24_000_000
MAX_SECONDS = 60.0
"""Of the processor, on a machine that others use, too; it takes one or two."""
MAX_WAITED = 240.0
"""Seconds on the clock: more than it takes on a slow machine, less than what waits for a peer for ever."""


@pytest.fixture(autouse=True)
def _bounds(request: pytest.FixtureRequest) -> Iterator[None]:
    """Whatever the peer did, it did not cost more than this.

    Memory is the same on both backends, and measuring it more than half of what a test costs: it is not, on asyncio.
    """
    on_asyncio = "anyio_backend" in request.fixturenames and request.getfixturevalue("anyio_backend_name") == "asyncio"
    if not on_asyncio:
        tracemalloc.start()
    began, worked = time.monotonic(), time.process_time()
    yield
    seconds, waited = time.process_time() - worked, time.monotonic() - began
    _, peak = tracemalloc.get_traced_memory()  # (0, 0) where it is not measured
    tracemalloc.stop()
    assert peak < MAX_BYTES
    assert seconds < MAX_SECONDS
    assert waited < MAX_WAITED
