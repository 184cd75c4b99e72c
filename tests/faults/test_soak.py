"""The soak in small: connections that break ten times, every message accounted for. `make soak` is the large one."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from amqp10.engine import dialect_names

SOAK = Path(__file__).parents[2] / "tools" / "soak.py"


@pytest.fixture
def soak(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Runs the program in this process; what it says, when it has ended well."""

    def run(*options: str) -> str:
        monkeypatch.setattr(sys, "argv", [str(SOAK), *options])
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(str(SOAK), run_name="__main__")
        said = capsys.readouterr()
        assert not ended.value.code, said.out + said.err
        return said.out

    return run


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
def test_soak(soak: Callable[..., str], mode: str, backend: str, store: bool) -> None:
    """Nothing is lost; and nothing comes twice where both ends settle second."""
    options = ["--messages", "1500", "--cuts", "10", "--mode", mode, "--backend", backend]
    said = soak(*options, *([] if store else ["--no-store"]))
    assert said.startswith(f"{mode}: sent 1,500, received 1,500, duplicates ")
    assert ", lost 0\n" in said
    assert "10 breaks" in said
    if mode == "exactly-once":
        assert "duplicates 0," in said


@pytest.mark.slow
@pytest.mark.parametrize("dialect", [name for name in dialect_names() if name != "1.0"])
def test_soak_in_older_dialects(soak: Callable[..., str], dialect: str) -> None:
    """Nothing is lost in them either."""
    said = soak("--messages", "1000", "--cuts", "10", "--dialect", dialect)
    assert said.startswith("at-least-once: sent 1,000, received 1,000, duplicates ")
    assert ", lost 0\n" in said
