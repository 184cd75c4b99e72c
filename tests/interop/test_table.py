"""The interop table of the docs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_complete() -> None:
    """docs/reference/interop.md has a row for each feature that the tests name, and every broker was asked."""
    tool = ROOT / "tools" / "interop.py"
    done = subprocess.run([sys.executable, str(tool), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
