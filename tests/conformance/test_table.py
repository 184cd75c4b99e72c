"""The conformance table of the docs."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_up_to_date() -> None:
    """docs/reference/conformance.md is what the marks of the tests say."""
    tool = ROOT / "tools" / "conformance.py"
    done = subprocess.run([sys.executable, str(tool), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The tool's module, for tests that lie in a folder of their own."""
    path = ROOT / "tools" / "conformance.py"
    found = importlib.util.spec_from_file_location("conformance_tool", path)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    monkeypatch.setitem(sys.modules, "conformance_tool", module)
    found.loader.exec_module(module)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    return module


def page(tool: Any, tmp_path: Path, text: str) -> list[str]:
    """The page of one test file, without its introduction."""
    tests = tmp_path / "tests"
    tests.mkdir()
    (tests / "test_it.py").write_text(text)
    written: str = tool.render(list(tool.marks(tests)), [])
    return written.split("## ", 1)[1].partition("\n\n## Known faults")[0].splitlines()


def test_each_specification_has_its_part(tool: Any, tmp_path: Path) -> None:
    """A specification has a part of its own, in the order of its sections; deviations have a table of theirs."""
    text = """
@pytest.mark.spec("2.10", "ten")
@pytest.mark.spec("2.9", "nine")
@pytest.mark.spec("0-9-1 4.2.7", "two intervals")
@pytest.mark.deviation("0-9-1 queue.delete", "confirmed", "as | does")
def test_a(): ...
"""
    assert page(tool, tmp_path, text) == [
        "AMQP 1.0",
        "",
        "2 clauses in 2 sections.",
        "",
        "### Part 2: Transport",
        "",
        "| § | Clause | Test |",
        "| --- | --- | --- |",
        "| 2.9 | nine | `test_it.py` `test_a` |",
        "| 2.10 | ten | `test_it.py` `test_a` |",
        "",
        "## AMQP 0-9-1",
        "",
        "1 clause in 1 section.",
        "",
        "| § | Clause | Test |",
        "| --- | --- | --- |",
        "| 4.2.7 | two intervals | `test_it.py` `test_a` |",
        "",
        "### Deliberate deviations",
        "",
        "| § | What is done instead | Why | Test |",
        "| --- | --- | --- | --- |",
        "| queue.delete | confirmed | as \\| does | `test_it.py` `test_a` |",
    ]


@pytest.mark.parametrize("mark", ['spec("0-8 1", "clause")', 'spec("1.2")', 'deviation("2.4.1", "what")'])
def test_marks_that_say_too_little(tool: Any, tmp_path: Path, mark: str) -> None:
    """A mark of an unknown specification, or with a text too few, is refused, with the test that has it."""
    with pytest.raises(ValueError, match=r"test_it\.py::test_a"):
        page(tool, tmp_path, f"@pytest.mark.{mark}\ndef test_a(): ...\n")
