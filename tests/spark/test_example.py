"""The worked example runs as its page says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from ._pipes import depth

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300), pytest.mark.xdist_group("spark")]

ROOT = Path(__file__).parent.parent.parent


def test_flights(broker_url: str, tmp_path: Path) -> None:
    """The flights of some weeks: their delays in a queue, in files and in a plot; the first queue is empty."""
    command = [sys.executable, str(ROOT / "examples" / "spark" / "flights.py"), broker_url, str(tmp_path), "20000"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=280, check=False)
    assert ended.returncode == 0, ended.stderr
    first, *carriers = ended.stdout.strip().splitlines()
    assert first == "20000 flights published"
    assert len(carriers) == 3
    assert all(" minutes late" in line for line in carriers)
    assert depth(broker_url, "flights") == 0
    assert depth(broker_url, "delays") > 30
    assert (tmp_path / "delays.svg").read_text().count("<polyline") > 10
