"""Write docs/reference/conformance.md: which test proves which clause of which specification, which known fault.

The tests say it themselves:

- clauses by `@pytest.mark.spec("2.4.5", "the clause in words")`. A section of another specification than AMQP 1.0 has
  its key of `SPECIFICATIONS` in front: `spec("0-9-1 4.2.7", ...)`, `spec("0-10 session.detached", ...)`;
- clauses that are not kept, on purpose, by `@pytest.mark.deviation("0-9-1 queue.delete", "what is done", "why")` on the
  test that holds us to what is done instead;
- known faults by a name that begins with the fault's number (`test_07_...`) or a docstring that names it ("Pitfall 7").

This reads their source, without running anything. `--check` writes nothing and fails if the page is not what the
tests say.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reference" / "conformance.md"

SPECIFICATIONS = {
    "1.0": "AMQP 1.0",
    "anonymous-terminus": "AMQP 1.0: anonymous terminus for message routing",
    "websocket": "AMQP 1.0: WebSocket binding, and the WebSocket protocol",
    "0-10": "AMQP 0-10",
    "0-9-1": "AMQP 0-9-1",
    "0-9": "AMQP 0-9",
    "0-9-draft": "AMQP 0-9, draft",
    "fast": "AMQP/Fast 0.7",
}
PARTS = {
    "1": "Types",
    "2": "Transport",
    "3": "Messaging",
    "4": "Transactions",
    "5": "Security",
}

INTRODUCTION = """\
# Conformance

This page lists the clauses of each specification, and the test that proves each one. It also lists where we
deviate on purpose, and why. `python tools/conformance.py` writes the page from the tests. Every test on it runs in
`make test`.
"""

KNOWN_FAULTS = """\
The issue trackers of AMQP clients and brokers report these faults again and again. The tests prove that this package
does not have them. Missing numbers belong to features that this package does not have.
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


class Place(NamedTuple):
    """A section of a specification: "0-9-1 4.2.7", or "2.4.5" alone for AMQP 1.0."""

    specification: str
    section: str

    @classmethod
    def read(cls, text: str) -> Place:
        specification, _, section = text.rpartition(" ")
        return cls(specification or "1.0", section)

    @property
    def order(self) -> tuple[int, list[tuple[int, str]]]:
        """What places are sorted by: the specifications as above, numbers by their value and in front of names."""
        parts = [(int(part), "") if part.isdecimal() else (sys.maxsize, part) for part in self.section.split(".")]
        return list(SPECIFICATIONS).index(self.specification), parts


class Mark(NamedTuple):
    """A clause and the test that proves it, or a deviation and the test that holds us to it: a row of the page."""

    kind: str
    place: Place
    texts: tuple[str, ...]
    test: str

    @property
    def row(self) -> str:
        cells = [self.place.section, *(text.replace("|", "\\|") for text in self.texts), where(self.test)]
        return f"| {' | '.join(cells)} |"


def marks(folder: Path) -> Iterator[Mark]:
    """The marks of all tests in the folder; those of a class or a module count for it as a whole."""
    for path in sorted(folder.rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        if "mark.spec" not in text and "mark.deviation" not in text:
            continue  # most have none, and to parse them all takes seconds
        tree = ast.parse(text)
        name = path.relative_to(ROOT).as_posix()
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                for decorator in node.decorator_list:
                    yield from _read(decorator, f"{name}::{node.name}")
            elif isinstance(node, ast.Assign) and any(
                isinstance(target, ast.Name) and target.id == "pytestmark" for target in node.targets
            ):
                yield from _read(node.value, name)


def _read(expression: ast.AST, test: str) -> Iterator[Mark]:
    """The marks of ours in an expression: a decorator, those of its `pytest.param`s, or a list of marks.

    Marks that are computed, for each row of a table of the test, are left out: the page would repeat the table.
    """
    for node in ast.walk(expression):
        kind = ast.unparse(node.func).removeprefix("pytest.mark.") if isinstance(node, ast.Call) else ""
        if (
            isinstance(node, ast.Call)
            and kind in ("spec", "deviation")
            and all(isinstance(argument, ast.Constant) for argument in node.args)
        ):
            section, *texts = (ast.literal_eval(argument) for argument in node.args)
            place = Place.read(section)
            if place.specification not in SPECIFICATIONS:
                raise ValueError(f"{test}: specification {place.specification!r} is not one of {[*SPECIFICATIONS]}")
            if len(texts) != {"spec": 1, "deviation": 2}[kind]:
                raise ValueError(f"{test}: {ast.unparse(node)}: spec(section, clause) or deviation(section, what, why)")
            yield Mark(kind, place, tuple(texts), test)


def faults(folder: Path) -> Iterator[tuple[int, str]]:
    """The known faults, by number, that tests in the folder say to test for."""
    for path in sorted(folder.rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        name = path.relative_to(ROOT).as_posix()
        for node in ast.walk(ast.parse(text)) if _FAULT.search(text) or _NUMBERED.search(text) else ():
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


def _counted(number: int, what: str) -> str:
    """Return how many there are of something, in words."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def render(found: list[Mark], known: list[tuple[int, str]]) -> str:
    """The page."""
    found = sorted({*found}, key=lambda mark: (mark.place.order, mark.texts, mark.test))
    lines = [INTRODUCTION]
    for specification, title in SPECIFICATIONS.items():
        clauses = [mark for mark in found if mark.kind == "spec" and mark.place.specification == specification]
        deviations = [mark for mark in found if mark.kind == "deviation" and mark.place.specification == specification]
        if clauses or deviations:
            lines += [f"## {title}", ""]
        if clauses:
            sections = len({mark.place for mark in clauses})
            lines += [f"{_counted(len(clauses), 'clause')} in {_counted(sections, 'section')}.", ""]
        part = None
        for mark in clauses:
            number = mark.place.section.partition(".")[0] if specification == "1.0" else ""
            if number != part:
                part = number
                lines += ["", f"### Part {part}: {PARTS[part]}", ""] if part else []
                lines += ["| § | Clause | Test |", "| --- | --- | --- |"]
            lines.append(mark.row)
        if deviations:
            lines += ["", "### Deliberate deviations", ""]
            lines += ["| § | What is done instead | Why | Test |", "| --- | --- | --- | --- |"]
            lines += [mark.row for mark in deviations]
    lines += ["## Known faults", "", KNOWN_FAULTS, "| # | Fault | Tests |", "| --- | --- | --- |"]
    for number, title in FAULTS.items():
        tests = [where(test) for each, test in sorted(known) if each == number]
        if tests:
            lines.append(f"| {number} | {title} | {'<br>'.join(tests)} |")
    page = "\n".join(lines) + "\n"
    return re.sub("\n{3,}", "\n\n", page.replace("\n## ", "\n\n## "))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing, fail if the page is out of date")
    arguments = parser.parse_args()
    page = render(list(marks(ROOT / "tests")), list(faults(ROOT / "tests")))
    if arguments.check:
        if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != page:
            print(f"{PAGE.relative_to(ROOT)} is out of date: run `python tools/conformance.py`", file=sys.stderr)
            return 1
        return 0
    PAGE.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
