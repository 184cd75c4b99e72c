"""Whoever has a dialect of their own holds it to the same contract, in a few lines."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from amqp10.engine import dialect_names, register_dialect

THEIRS = """
from dataclasses import replace

import pytest

from amqp10.dialects.fast import DIALECT
from amqp10.engine import register_dialect
from amqp10.testing.suite import DialectContract

MINE = replace(DIALECT, name="mine", capabilities=DIALECT.capabilities - {"browse"} | BOAST)
register_dialect("mine", "test_theirs:MINE")


@pytest.fixture(params=["trio"])
def anyio_backend(request):
    return request.param


@pytest.mark.anyio
class TestMine(DialectContract):
    dialect = "mine"
"""


@pytest.mark.slow
@pytest.mark.parametrize(("boast", "summary"), [("set()", "4 passed"), ("{'rejected'}", "1 failed, 3 passed")])
def test_their_tests(tmp_path: Path, boast: str, summary: str) -> None:
    """What they list is tested to work, what they do not to raise; who lists too much fails."""
    tmp_path.joinpath("test_theirs.py").write_text(THEIRS.replace("BOAST", boast))
    chosen = "test_in_order or test_rejected or test_drain or test_names_itself"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", chosen],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert summary in done.stdout, done.stdout


def test_register() -> None:
    """A name that is taken, or a place that is none, is refused."""
    for name, where in (("1.0", "a:B"), ("new", "a.B")):
        with pytest.raises(ValueError, match="registered already"):
            register_dialect(name, where)
    assert "new" not in dialect_names()
