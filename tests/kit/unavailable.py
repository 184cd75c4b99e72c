"""What a test needs and cannot be had here: in CI that is a failure, for it would prove nothing."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def unavailable(reason: str) -> NoReturn:
    """Skip the test; fail it in CI."""
    if os.environ.get("CI", "").lower() in ("true", "1"):
        pytest.fail(f"CI must have it: {reason}")
    pytest.skip(reason)
