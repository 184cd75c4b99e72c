"""Write docs/reference/interop.md: which feature works with which broker, from a run of the tests that ask them.

The tests say it themselves: `@pytest.mark.matrix("row")` names the feature, the fixture `peer` the broker, and
`peer.lacks(...)` or `peer.note(...)` what a user is to know. This runs them all (every broker is needed) and writes the
page. `--check` runs nothing and fails if the page does not have just the rows that the tests name.
"""

from __future__ import annotations

import argparse
import ast
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests" / "interop"
PAGE = ROOT / "docs" / "reference" / "interop.md"

PEERS = {
    "artemis": "Apache Artemis",
    "broker_j": "Qpid Broker-J",
    "rabbitmq": "RabbitMQ 4",
    "embedded": "embedded broker",
}

INTRODUCTION = """\
# Interop

What works with which broker. Each cell is a test in `tests/interop/` that ran against that broker, and the page is
written from the results by `python tools/interop.py`. "yes": the feature works as the documentation says. "no": the
broker does not have it, and the test asserts the error that you get, or what happens instead.
"""


@dataclass
class Cell:
    """What the tests of one feature and one broker said."""

    worked: bool = True
    lacks: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        word = "no" if self.lacks else "yes"
        remarks = list(dict.fromkeys(self.lacks + self.notes))
        return f"{word}: {'; '.join(remarks)}" if remarks else word


class Collector:
    """A pytest plugin that keeps the results of the matrix."""

    def __init__(self) -> None:
        self.cells: dict[str, dict[str, Cell]] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Iterator[None]:
        report: pytest.TestReport = yield  # type: ignore[assignment]
        said = dict(report.user_properties)
        for mark in item.iter_markers("matrix"):
            if report.when == "call" and "peer" in said:
                cell = self.cells.setdefault(mark.args[0], {}).setdefault(str(said["peer"]), Cell())
                cell.worked = cell.worked and report.passed
                cell.lacks += [str(value) for key, value in report.user_properties if key == "lacks"]
                cell.notes += [str(value) for key, value in report.user_properties if key == "note"]
        return report  # type: ignore[return-value]


def rows() -> list[str]:
    """The features that the tests name, in the order of their files."""
    found: dict[str, None] = {}
    for path in sorted(TESTS.glob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or ast.unparse(node.func) != "pytest.mark.matrix":
                continue
            name = node.args[0]
            if isinstance(name, ast.Constant):  # the others are made in a loop, and seen by a run only
                found[str(name.value)] = None
    return list(found)


def render(cells: dict[str, dict[str, Cell]]) -> str:
    """The page."""
    lines = [INTRODUCTION, f"| feature | {' | '.join(PEERS.values())} |", "| --- |" + " --- |" * len(PEERS)]
    for row in sorted(cells):
        asked = (cells[row].get(peer) for peer in PEERS)
        lines.append(f"| {row} | {' | '.join('not asked' if cell is None else str(cell) for cell in asked)} |")
    return "\n".join(lines) + "\n"


def check() -> str | None:
    """Why the page is not that of the tests; None if it is."""
    if not PAGE.exists():
        return "is missing"
    table = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")][2:]
    missing = set(rows()) - {line.split(" | ")[0].removeprefix("| ") for line in table}
    if missing:
        return f"is out of date: it lacks {sorted(missing)}"
    unasked = [line for line in table if "not asked" in line]
    return f"has rows that not every broker was asked: {unasked}" if unasked else None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="run nothing, fail if the page lacks a row")
    arguments = parser.parse_args()
    if arguments.check:
        if (problem := check()) is not None:
            print(f"{PAGE.relative_to(ROOT)} {problem}; run `python tools/interop.py`", file=sys.stderr)
            return 1
        return 0
    os.environ["CI"] = "true"  # a broker that cannot be had is a failure, for its column would be empty
    collector = Collector()
    code = pytest.main(["-q", "-m", "matrix", str(TESTS)], plugins=[collector])
    if code != 0:
        return int(code)
    PAGE.write_text(render(collector.cells), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
