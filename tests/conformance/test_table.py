"""The conformance table of the docs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_up_to_date() -> None:
    """docs/reference/conformance.md is what the marks of the tests say."""
    tool = ROOT / "tools" / "conformance.py"
    done = subprocess.run([sys.executable, str(tool), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
