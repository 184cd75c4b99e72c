"""The soak in small: connections that break ten times, every message accounted for. `make soak` is the large one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from amqp10.engine import dialect_names

SOAK = Path(__file__).parents[1] / "tools" / "soak.py"


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["trio", "asyncio"])
@pytest.mark.parametrize("mode", ["at-least-once", "exactly-once"])
@pytest.mark.parametrize("store", [True, False], ids=["store", "memory"])
def test_soak(mode: str, backend: str, store: bool) -> None:
    """Nothing is lost; and nothing comes twice where both ends settle second."""
    command = [sys.executable, str(SOAK), "--messages", "5000", "--cuts", "10", "--mode", mode, "--backend", backend]
    command += [] if store else ["--no-store"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith(f"{mode}: sent 5,000, received 5,000, duplicates ")
    assert ", lost 0\n" in done.stdout
    assert "10 breaks" in done.stdout
    if mode == "exactly-once":
        assert "duplicates 0," in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("dialect", [name for name in dialect_names() if name != "1.0"])
def test_soak_in_older_dialects(dialect: str) -> None:
    """Nothing is lost in them either."""
    command = [sys.executable, str(SOAK), "--messages", "3000", "--cuts", "10", "--dialect", dialect]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("at-least-once: sent 3,000, received 3,000, duplicates ")
    assert ", lost 0\n" in done.stdout
