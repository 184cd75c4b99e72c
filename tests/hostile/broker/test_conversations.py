"""A thousand whole hostile conversations: honest clients are served all the while, and the broker starts again."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest

from ...kit.counts import CONVERSATIONS
from ...kit.hostile.conversations import converse

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.capability("hostile peers")]

EACH = min(1000, CONVERSATIONS // 2)
"""Of one broker, which is then started again on its store."""
MAX_GROWTH = 200_000_000
"""Bytes of resident memory that a run may add: all queues full, and what Python keeps."""


@pytest.fixture(autouse=True)
def _bounds() -> None:
    """In place of the folder's bounds, which are for one act: memory may grow to what the broker's limits allow."""


def resident() -> int:
    """Bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("part", range(max(1, CONVERSATIONS // (2 * EACH))))
async def test_conversations(tmp_path: Path, anyio_backend: str, part: int) -> None:
    """See the module; the broker restarts on its store, also on what a crash would have left of it."""
    gc.collect()
    before = resident()
    await converse(tmp_path, f"{anyio_backend} {part}", EACH)
    gc.collect()
    assert resident() - before < MAX_GROWTH
