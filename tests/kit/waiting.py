"""Waiting for what has no event."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio


async def until(condition: Callable[[], Any]) -> None:
    """Let the others go on until that is so."""
    with anyio.fail_after(60):
        while not condition():  # noqa: ASYNC110 - of what is waited for there is no event
            await anyio.sleep(0.001)
