"""The independent peers are there where they must be."""

from __future__ import annotations

import os
from importlib.util import find_spec

import pytest

pytestmark = pytest.mark.interop


@pytest.mark.skipif(os.environ.get("CI", "").lower() not in ("true", "1"), reason="not in CI")
@pytest.mark.parametrize("package", ["proton", "pika", "aio_pika", "pamqp", "proxy"])
def test_ci_has(package: str) -> None:
    """Elsewhere its tests may be skipped, in CI that would prove nothing."""
    assert find_spec(package) is not None
