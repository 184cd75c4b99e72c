"""The tests of hostile input that the quick tier has."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _bounds() -> None:
    """In place of the folder's bounds: to measure memory would cost more than many of these tests do."""
