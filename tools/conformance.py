"""Write docs/reference/conformance.md: which test proves which clause of the specification, which known fault.

The tests say it themselves: clauses by `@pytest.mark.spec(section, clause)`, faults by a name that begins with the
fault's number (`test_07_...`) or a docstring that names it ("Pitfall 7"). This reads their source, without running
anything. `--check` writes nothing and fails if the page is not what the tests say.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reference" / "conformance.md"

PARTS = {
    "1": "Types",
    "2": "Transport",
    "3": "Messaging",
    "4": "Transactions",
    "5": "Security",
}

INTRODUCTION = """\
# Conformance

What AMQP 1.0 (OASIS, parts 1 to 5) demands, clause by clause, with the test that proves it. The page is written from
the tests by `python tools/conformance.py`; every test in it runs in `make test`.
"""

KNOWN_FAULTS = """\
What the issue trackers of AMQP clients and brokers report again and again, and the tests that it does not happen here.
Numbers that are missing belong to what this release does not do.
"""

FAULTS = {
    1: "Transfers and deliveries are counted by one counter",
    2: "Serial numbers are compared as plain numbers, and break at the wrap",
    3: "Nobody refreshes the session window when no link flow is due",
    4: "One unsettled message stalls the others of its session",
    5: "Credit is not counted from the delivery-count",
    6: "A link that is attached again gets no credit",
    7: "Drain does not return, or leaves the link dead",
    8: "Prefetched messages stay locked after the receiver is closed",
    9: "A timeout while receiving loses a message",
    10: "Settling on a closed link hangs",
    11: "A released message is taken for a sent one",
    12: "Closing hangs",
    13: "Cancelling leaks credit, handles or ids",
    14: "Cancelling is swallowed, or hangs",
    15: "Idle timeouts are not halved, or mixed up between the sides",
    16: "Heartbeats depend on calls of the user",
    17: "An idle link that the peer detaches takes the connection with it",
    18: "A connection dies in silence",
    19: "Nothing reconnects",
    20: "Reconnecting hangs or floods",
    21: "Reconnecting uses credentials that have expired",
    22: "Bulk sending and settling go frame by frame",
    23: "Memory grows with links that are gone",
    24: "Large and aborted messages are truncated, or need whole-message memory",
    25: "A null terminus is not understood as a refusal",
    26: "Types of numbers, keys and symbols are lost",
    27: "Addresses are spelled as one broker wants them",
    28: "SASL mechanisms are not chosen from what is offered",
    29: "WebSocket, redirect and transactions are missing",
    30: "A fork shares the socket",
    31: "Secrets reach a log",
}
_FAULT = re.compile(r"\bpitfalls? (\d+)", re.IGNORECASE)
_NUMBERED = re.compile(r"test_(\d\d)_")


@dataclass(frozen=True, order=True, slots=True)
class Clause:
    """A clause of the specification and the test that proves it, as one row of the page."""

    section: tuple[int, ...]
    clause: str
    test: str

    @property
    def number(self) -> str:
        return ".".join(map(str, self.section))


def clauses(folder: Path) -> Iterator[Clause]:
    """The marks of all tests in the folder; those of a class or a module count for it as a whole."""
    for path in sorted(folder.rglob("test_*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        name = path.relative_to(ROOT).as_posix()
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                for decorator in node.decorator_list:
                    if (found := _read(decorator, f"{name}::{node.name}")) is not None:
                        yield found
            elif isinstance(node, ast.Assign) and any(
                isinstance(target, ast.Name) and target.id == "pytestmark" for target in node.targets
            ):
                for mark in ast.walk(node.value):
                    if (found := _read(mark, name)) is not None:
                        yield found


def _read(mark: ast.AST, test: str) -> Clause | None:
    """The clause that a mark names, if it is one of ours."""
    if not (isinstance(mark, ast.Call) and ast.unparse(mark.func) in ("pytest.mark.spec", "spec")):
        return None
    section, clause = (ast.literal_eval(argument) for argument in mark.args)
    return Clause(tuple(int(part) for part in section.split(".")), clause, test)


def faults(folder: Path) -> Iterator[tuple[int, str]]:
    """The known faults, by number, that tests in the folder say to test for."""
    for path in sorted(folder.rglob("test_*.py")):
        name = path.relative_to(ROOT).as_posix()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                numbers = _FAULT.findall(ast.get_docstring(node) or "")
                if "pitfalls" in path.parts:
                    numbers += _NUMBERED.findall(node.name)
                for number in sorted(map(int, numbers)):
                    yield number, f"{name}::{node.name}"


def where(test: str) -> str:
    """A test, as the page names it."""
    path, _, name = test.partition("::")
    return f"`{path.removeprefix('tests/')}`" + (f" `{name}`" if name else "")


def render(found: list[Clause], known: list[tuple[int, str]]) -> str:
    """The page."""
    sections = {clause.section for clause in found}
    lines = [INTRODUCTION, f"{len(found)} clauses in {len(sections)} sections.", ""]
    part = None
    for clause in sorted(found):
        if clause.section[0] != part:
            part = clause.section[0]
            lines += [f"## Part {part}: {PARTS[str(part)]}", "", "| § | Clause | Test |", "| --- | --- | --- |"]
        text = clause.clause.replace("|", "\\|")
        lines.append(f"| {clause.number} | {text} | {where(clause.test)} |")
    lines += ["## Known faults", "", KNOWN_FAULTS, "| # | Fault | Tests |", "| --- | --- | --- |"]
    for number, title in FAULTS.items():
        tests = [where(test) for each, test in sorted(known) if each == number]
        if tests:
            lines.append(f"| {number} | {title} | {'<br>'.join(tests)} |")
    page = "\n".join(lines) + "\n"
    return page.replace("\n## ", "\n\n## ").replace("\n\n\n", "\n\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing, fail if the page is out of date")
    arguments = parser.parse_args()
    page = render(list(clauses(ROOT / "tests")), list(faults(ROOT / "tests")))
    if arguments.check:
        if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != page:
            print(f"{PAGE.relative_to(ROOT)} is out of date: run `python tools/conformance.py`", file=sys.stderr)
            return 1
        return 0
    PAGE.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
