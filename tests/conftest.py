"""Shared by all tests: both backends for every async test, and the record of the specification's clauses."""

from __future__ import annotations

import pytest
from hypothesis import settings

# A loaded machine is no failure: what must be quick is measured by the benchmarks.
settings.register_profile("amqp10", deadline=None)
settings.load_profile("amqp10")


@pytest.fixture(params=["trio", "asyncio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Every test that is a coroutine runs on trio and on asyncio."""
    backend: str = request.param
    return backend
