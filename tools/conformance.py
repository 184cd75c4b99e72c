"""Write docs/reference/conformance.md: which clause of the specification is proved by which test.

The tests say it themselves, by `@pytest.mark.spec(section, clause)`; this reads the marks out of their source, without
running anything. `--check` writes nothing and fails if the page is not what the tests say.
"""

from __future__ import annotations

import argparse
import ast
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


def render(found: list[Clause]) -> str:
    """The page."""
    sections = {clause.section for clause in found}
    lines = [INTRODUCTION, f"{len(found)} clauses in {len(sections)} sections.", ""]
    part = None
    for clause in sorted(found):
        if clause.section[0] != part:
            part = clause.section[0]
            lines += [f"## Part {part}: {PARTS[str(part)]}", "", "| § | Clause | Test |", "| --- | --- | --- |"]
        path, _, test = clause.test.partition("::")
        where = f"`{path.removeprefix('tests/')}`" + (f" `{test}`" if test else "")
        text = clause.clause.replace("|", "\\|")
        lines.append(f"| {clause.number} | {text} | {where} |")
    page = "\n".join(lines) + "\n"
    return page.replace("\n## ", "\n\n## ").replace("\n\n\n", "\n\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing, fail if the page is out of date")
    arguments = parser.parse_args()
    page = render(list(clauses(ROOT / "tests")))
    if arguments.check:
        if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != page:
            print(f"{PAGE.relative_to(ROOT)} is out of date: run `python tools/conformance.py`", file=sys.stderr)
            return 1
        return 0
    PAGE.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
