"""The soak in small: connections that break ten times, every message accounted for. `make soak` is the large one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from amqp10.engine import dialect_names

SOAK = Path(__file__).parents[2] / "tools" / "soak.py"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "backend", "store"),  # each pair of these: what a store keeps does not depend on the event loop
    [
        ("at-least-once", "trio", True),
        ("at-least-once", "asyncio", False),
        ("exactly-once", "trio", False),
        ("exactly-once", "asyncio", True),
    ],
)
def test_soak(mode: str, backend: str, store: bool) -> None:
    """Nothing is lost; and nothing comes twice where both ends settle second."""
    command = [sys.executable, str(SOAK), "--messages", "1500", "--cuts", "10", "--mode", mode, "--backend", backend]
    command += [] if store else ["--no-store"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith(f"{mode}: sent 1,500, received 1,500, duplicates ")
    assert ", lost 0\n" in done.stdout
    assert "10 breaks" in done.stdout
    if mode == "exactly-once":
        assert "duplicates 0," in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("dialect", [name for name in dialect_names() if name != "1.0"])
def test_soak_in_older_dialects(dialect: str) -> None:
    """Nothing is lost in them either."""
    command = [sys.executable, str(SOAK), "--messages", "1000", "--cuts", "10", "--dialect", dialect]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("at-least-once: sent 1,000, received 1,000, duplicates ")
    assert ", lost 0\n" in done.stdout
