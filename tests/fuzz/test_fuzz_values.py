"""A short run of the fuzz target for values, from seeds of every type."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from amqp10.types import Array, Decimal64, Described, Map, Symbol, UInt, ULong, encode

from ..kit.counts import FUZZED_VALUES

pytest.importorskip("atheris")

SEEDS: list[Any] = [
    [None, True, UInt(300), 1.5, "text", b"data", Symbol("symbol"), Decimal64("1.5")],
    {"map": [1, -1], Symbol("x"): {}},
    Map([(UInt(1), "a"), (ULong(1), "b"), ([], "c")]),
    Array("list", [[], [1]], [ULong(0x24)]),
    Described(ULong(0x25), [Described(ULong(0x1D), [Symbol("amqp:decode-error"), "why", {Symbol("k"): 1}])]),
    Described(ULong(0x28), ["queue", UInt(2), Symbol("never"), UInt(60), True]),
    Described(ULong(0x73), ["id", b"user", "to", "subject", None, None, Symbol("text/plain")]),
]


@pytest.mark.slow
def test_a_short_run(tmp_path: Path) -> None:
    """Inputs that are mutated from the seeds raise nothing but DecodeError."""
    for number, seed in enumerate(SEEDS):
        (tmp_path / str(number)).write_bytes(encode(seed))
    target = Path(__file__).with_name("fuzz_values.py")
    command = [
        sys.executable,
        str(target),
        str(tmp_path),
        f"-runs={FUZZED_VALUES}",
        "-seed=10",
        "-max_len=512",
        "-rss_limit_mb=2048",
    ]
    run = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert run.returncode == 0, run.stdout[-2000:] + run.stderr[-4000:]
    assert f"Done {FUZZED_VALUES}" in run.stderr
