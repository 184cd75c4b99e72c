"""Write docs/reference/interop.md: which feature works with which broker, from a run of the tests that ask them.

The tests say it themselves: `@pytest.mark.matrix("row")` names the feature, the fixture `peer` the broker, and
`peer.lacks(...)` or `peer.note(...)` what a user is to know. This runs them all (every broker is needed) and writes the
page; with files given only theirs, and all other rows stay as they are. `--check` runs nothing and fails if the page
does not have just the rows that the tests name.
"""

from __future__ import annotations

import argparse
import ast
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests" / "interop"
PAGE = ROOT / "docs" / "reference" / "interop.md"

PEERS = {
    "artemis": "Apache Artemis",
    "broker_j": "Qpid Broker-J",
    "rabbitmq": "RabbitMQ 4.0",
    "rabbitmq_43": "RabbitMQ 4.3",
    "embedded": "embedded broker",
}

OLDER = {
    "rabbitmq 0-9-1": "RabbitMQ 4, 0-9-1",
    "broker_j 0-9-1": "Broker-J, 0-9-1",
    "broker_j 0-9": "Broker-J, 0-9",
    "broker_j 0-10": "Broker-J, 0-10",
    "embedded 0-9-1": "embedded, 0-9-1",
    "embedded 0-9": "embedded, 0-9",
    "embedded 0-9-draft": "embedded, draft",
    "embedded 0-10": "embedded, 0-10",
    "embedded fast": "embedded, Fast",
}
UNSUPPORTED = "no: `Unsupported`"
OF_OLDER = """\

## The older dialects

The same of each broker in each older dialect that it speaks. "no" alone: the dialect does not have it, wherever it is
spoken, and the client raises `Unsupported`. What only one dialect has is on its own page:
[0-9-1](../older/amqp-0-9-1.md), [0-10](../older/amqp-0-10.md), [Fast](../older/amqp-fast.md).
"""

INTRODUCTION = """\
# Interop

This page shows what works with which broker. Each cell is a test in `tests/interop/` that ran against that broker. The
page is generated from the results by `python tools/interop.py`. "yes": the feature works as the documentation says.
"no": the broker does not have it, and the test asserts the error that you get, or what happens instead.
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


def written() -> dict[str, dict[str, str]]:
    """The cells of the page as it is."""
    titles = {title: peer for peer, title in (*PEERS.items(), *OLDER.items())}
    found: dict[str, dict[str, str]] = {}
    peers: list[str] = []
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        row, *cells = line.removeprefix("| ").removesuffix(" |").split(" | ")
        if row == "feature":
            peers = [titles[title] for title in cells]
        elif line.startswith("| ") and not row.startswith("---"):
            found[row] = dict(zip(peers, cells, strict=True))
    return found


def render(cells: Mapping[str, Mapping[str, Cell | str]]) -> str:
    """The page."""
    older = {row for row, found in cells.items() if found.keys() & OLDER.keys()}
    lines = [INTRODUCTION, *table(PEERS, {row: cells[row] for row in cells.keys() - older})]
    lines += [OF_OLDER, *table(OLDER, {row: cells[row] for row in older})]
    return "\n".join(lines) + "\n"


def table(peers: dict[str, str], cells: Mapping[str, Mapping[str, Cell | str]]) -> Iterator[str]:
    """A table with these columns."""
    yield f"| feature | {' | '.join(peers.values())} |"
    yield "| --- |" + " --- |" * len(peers)
    for row in sorted(cells):
        asked = (cells[row].get(peer) for peer in peers)
        texts = ("not asked" if cell is None else str(cell) for cell in asked)
        yield f"| {row} | {' | '.join('no' if peers is OLDER and text == UNSUPPORTED else text for text in texts)} |"


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
    parser.add_argument("files", nargs="*", type=Path, help="run these only")
    arguments = parser.parse_args()
    if arguments.check:
        if (problem := check()) is not None:
            print(f"{PAGE.relative_to(ROOT)} {problem}; run `python tools/interop.py`", file=sys.stderr)
            return 1
        return 0
    os.environ["CI"] = "true"  # a broker that cannot be had is a failure, for its column would be empty
    collector = Collector()
    code = pytest.main(["-q", "-m", "matrix", *map(str, arguments.files or [TESTS])], plugins=[collector])
    if code != 0:
        return int(code)
    cells: dict[str, Mapping[str, Cell | str]] = dict(written()) if arguments.files else {}
    for row, found in collector.cells.items():
        cells[row] = {**cells.get(row, {}), **found}
    PAGE.write_text(render(cells), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
