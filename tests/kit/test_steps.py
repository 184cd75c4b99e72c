"""The counter of steps counts, on every Python, from its first use in a process."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path

from .steps import steps

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


class Costly:
    """Part of a circle, with a finalizer."""

    ended = 0

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        Costly.ended += sum([1 for _ in range(100)]) // 100


def test_garbage_is_not_counted() -> None:
    """Finalizers of what was left before do not run meanwhile, and do so later."""

    def act() -> list[list[int]]:
        return [[number] for number in range(2000)]  # more than after which garbage is looked for

    gc.collect()
    before, frequency = gc.isenabled(), gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    gc.enable()
    try:
        usual = steps(act)
        for _ in range(50):
            Costly()
        ended = Costly.ended
        assert (steps(act), Costly.ended) == (usual, ended)
        assert gc.isenabled()
        gc.collect()
        assert Costly.ended == 50
    finally:
        gc.set_threshold(*frequency)
        (gc.enable if before else gc.disable)()
