"""A message takes no more steps of the interpreter than recorded: slowdowns show without a clock."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.capability("speed")

BUDGET = Path(__file__).parents[1] / "benchmarks" / "budget.py"
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
RECORDED = json.loads(BUDGET.with_suffix(".json").read_text())


@pytest.mark.skipif(VERSION not in RECORDED, reason=f"the budget has no record for Python {VERSION}")
@pytest.mark.slow
def test_costs_what_is_recorded() -> None:
    """Each way to send and to receive, and the embedded broker, on both backends, within the margin."""
    done = subprocess.run([sys.executable, str(BUDGET), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    for workload in RECORDED[VERSION]:
        assert f"| {workload} |" in done.stdout


@pytest.mark.slow
@pytest.mark.skipif(VERSION not in RECORDED, reason=f"the budget has no record for Python {VERSION}")
@pytest.mark.parametrize("workload", ["receive", "broker_drain_stored"])
def test_notices(workload: str, tmp_path: Path) -> None:
    """Against a record that says a tenth less, the check fails, and names what is dearer."""
    copied = tmp_path / BUDGET.name
    copied.write_text(BUDGET.read_text())
    for name in ("budget_broker.py", "counting.py", "real.py"):
        (tmp_path / name).write_text(BUDGET.with_name(name).read_text())
    less = {name: {step: each * 0.9 for step, each in one.items()} for name, one in RECORDED[VERSION].items()}
    copied.with_suffix(".json").write_text(json.dumps({VERSION: less}))
    command = [sys.executable, str(copied), "--check", "--only", workload]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"{workload} trio: instructions" in done.stderr
