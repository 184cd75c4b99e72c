"""The declarations of methods are those of the table."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[4]


def test_up_to_date() -> None:
    """The module is what `make tables` writes."""
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "tables.py", "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
