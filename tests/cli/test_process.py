"""What the command line does to its process, which is its own."""

from __future__ import annotations

import gc

import pytest

from amqp10.cli import main
from amqp10.cli._main import run

pytestmark = pytest.mark.capability("command line")


def test_searches_less_often_for_cycles(capsys: pytest.CaptureFixture[str]) -> None:
    """The program looks for cycles after 10,000 new objects; a command that is run within another program does not."""
    before = gc.get_threshold()
    try:
        assert run(["--version"]) == 0
        assert gc.get_threshold() == before
        with pytest.raises(SystemExit) as ended:
            main(["--version"])
        assert ended.value.code == 0
        assert gc.get_threshold()[:2] == (10_000, 5)  # Python 3.14 has no third
    finally:
        gc.set_threshold(*before)


def test_a_python_without_thresholds(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program also runs where the garbage collector has no such thresholds, as that of PyPy."""
    monkeypatch.delattr(gc, "set_threshold")
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
