"""The Python that stands in the pages, block by block, as a reader who copies it would run it.

A block may read what it binds, what the blocks above it on its page import or define, and what `amqp10` exports. The
names that are left are those that a page speaks of without making them, such as `connection`: whoever runs the block
supplies them. Each statement of a block has to be run, but for the bodies of `except`.
"""

from __future__ import annotations

import ast
import builtins
import linecache
import re
import runpy
import textwrap
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import amqp10
import amqp10.errors

ROOT = Path(__file__).parent.parent.parent
PAGES = sorted((ROOT / "docs").rglob("*.md"))
COPY: re.Pattern[str] = runpy.run_path(str(ROOT / "tools" / "examples.py"))["COPY"]
FENCE = re.compile(r"^( *)```python[^\n]*\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
IMPORT = ast.Import | ast.ImportFrom
DEFINITION = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
RAN = "__ran__"
ERRORS = [name for name in amqp10.__all__ if name in vars(amqp10.errors)]


@dataclass
class Block:
    """One block of a page, and the statements above it that import or define."""

    page: str
    line: int
    code: str
    above: list[ast.stmt]

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def tree(self) -> ast.Module:
        return ast.parse(self.code)

    def imports(self, *packages: str) -> bool:
        """Whether it imports from one of these, or from below them."""
        found = re.findall(r"^(?:from|import) ([\w.]+)", self.code, re.MULTILINE)
        return any(f"{each}.".startswith(f"{package}.") for each in found for package in packages)

    @property
    def backend(self) -> str:
        """The backend that it is written for; asyncio if it runs on either."""
        return "trio" if self.imports("trio") else "asyncio"

    def needs(self) -> set[str]:
        """Return the names that whoever runs it has to supply."""
        known = {*dir(builtins), *amqp10.__all__}
        return read_first(self.tree) - known - set().union(*map(names_of, self.above))

    def binds(self) -> set[str]:
        """Return the names that its outermost statements import, define or assign."""
        names = set()
        for statement in self.tree.body:
            if isinstance(statement, IMPORT | DEFINITION):
                names |= names_of(statement)
            elif isinstance(statement, ast.Assign):
                names |= {target.id for target in statement.targets if isinstance(target, ast.Name)}
        return names

    async def run(self, supplied: Mapping[str, Any], when_reached: Callable[[], None] = lambda: None) -> None:
        """Run it, tell when each statement was reached, and raise what it does not announce.

        An error is announced by a comment, as in `# Unsupported: there is no such outcome`.
        """
        names = {name: getattr(amqp10, name) for name in amqp10.__all__} | {"__name__": str(self)}
        exec(compile(ast.Module(self.above, []), str(self), "exec"), names)
        self.unreached = {each.lineno for each in statements(self.tree)}

        def ran(line: int) -> None:
            self.unreached.discard(line)
            if not self.unreached:
                when_reached()

        names |= {**supplied, RAN: ran}
        linecache.cache[str(self)] = (len(self.code), None, self.code.splitlines(keepends=True), str(self))
        program = compile(Marked().visit(self.tree), str(self), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        announced = re.search(rf"  # ({'|'.join(ERRORS)}): ", self.code)
        with pytest.raises(names[announced[1]]) if announced else nullcontext():
            if (waiting := eval(program, names)) is not None:
                await waiting
        self.names = names

    def missed(self) -> list[str]:
        """Return the lines that were not reached."""
        lines = self.code.splitlines()
        return [lines[number - 1].strip() for number in sorted(self.unreached)]


class Marked(ast.NodeTransformer):
    """Has each statement say that it is reached."""

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        for name in ("body", "orelse", "finalbody"):
            if isinstance(inner := getattr(node, name, None), list):
                setattr(node, name, [each for statement in inner for each in (said(statement), statement)])
        return ast.fix_missing_locations(node)


def said(statement: ast.stmt) -> ast.stmt:
    """Return the call that goes before a statement."""
    (call,) = ast.parse(f"{RAN}({statement.lineno})").body
    return ast.copy_location(call, statement)


def statements(tree: ast.AST) -> Iterator[ast.stmt]:
    """Yield the statements that a run has to reach: all but `...` and the bodies of `except`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.stmt) and ast.unparse(node) != "...":
            yield node
        if not isinstance(node, ast.ExceptHandler):
            yield from statements(node)


def names_of(statement: ast.stmt) -> set[str]:
    """Return what an import or a definition binds."""
    if isinstance(statement, IMPORT):
        return {each.asname or each.name.partition(".")[0] for each in statement.names}
    assert isinstance(statement, DEFINITION)
    return {statement.name}


def read_first(tree: ast.AST) -> set[str]:
    """Return the names that are read before anything binds them."""
    bound: set[str] = set()
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name | ast.arg)]
    for node in ast.walk(tree):
        if isinstance(node, IMPORT | DEFINITION):
            bound |= names_of(node)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            bound.add(node.name)
    first = set()
    for each in sorted(names, key=lambda name: (name.lineno, name.col_offset)):
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load):
            first |= {each.id} - bound
        else:
            bound.add(each.arg if isinstance(each, ast.arg) else each.id)
    return first


def blocks() -> Iterator[Block]:
    """Yield the blocks of all pages that are no copies of examples."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        copies = [match.span() for match in COPY.finditer(text)]
        above: list[ast.stmt] = []
        for match in FENCE.finditer(text):
            code = textwrap.dedent(match[2])
            copied = any(start <= match.start() < end for start, end in copies)
            if not copied:
                line = text.count("\n", 0, match.start()) + 2
                yield Block(str(page.relative_to(ROOT / "docs")), line, code, list(above))
            kinds = (
                IMPORT if copied or "@pytest." in code else IMPORT | DEFINITION
            )  # the functions need what is beside them
            above += [each for each in ast.parse(code).body if isinstance(each, kinds)]
