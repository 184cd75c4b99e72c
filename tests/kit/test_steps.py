"""The counter of steps counts, on every Python, from its first use in a process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

COUNT = """
from kit.steps import steps
print(steps(lambda: [each + 1 for each in range(100)]), steps(lambda: sum(range(100))))
"""


def test_first_use() -> None:
    tests = Path(__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", COUNT], cwd=tests, capture_output=True, text=True, check=True)
    loop, built_in = map(int, done.stdout.split())
    assert loop > 300
    assert 2 < built_in < 30
