"""Shared by all tests: both backends for every async test, and the record of the specification's clauses."""

from __future__ import annotations

import pytest


@pytest.fixture(params=["trio", "asyncio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Every test that is a coroutine runs on trio and on asyncio."""
    backend: str = request.param
    return backend
