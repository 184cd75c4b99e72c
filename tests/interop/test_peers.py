"""The independent peers are there where they must be."""

from __future__ import annotations

import os
from importlib.util import find_spec

import pytest

pytestmark = pytest.mark.interop


def test_ci_has_proton() -> None:
    """Elsewhere its tests may be skipped, in CI that would prove nothing."""
    if os.environ.get("CI", "").lower() in ("true", "1"):
        assert find_spec("proton") is not None
    else:
        assert find_spec("proton") is not None or find_spec("amqp10") is not None
