"""Hostile servers that Spark reads from."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _bounds() -> None:
    """In place of the folder's bounds: they are for what this process does."""
