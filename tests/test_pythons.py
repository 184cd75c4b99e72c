"""What works on the oldest Python that we run on, and not on each later one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from symtable import Function, SymbolTable, symtable

import pytest

ROOT = Path(__file__).parent.parent

CLASHES = """
def outer(value):
    def call(them):
        {kept}
        return lambda: value
    return call
"""


def clashes(table: SymbolTable) -> Iterator[str]:
    """Yield each variable of a comprehension whose function has another of this name from a function around it."""
    for child in table.get_children():
        if isinstance(table, Function) and child.get_name() in ("dictcomp", "listcomp", "setcomp"):
            own = {each.get_name() for each in child.get_symbols() if each.is_local()}
            for name in sorted(own & {*table.get_frees()}):
                yield f"line {child.get_lineno()}: {name}"
        yield from clashes(child)


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="there a comprehension has no table of its own")
@pytest.mark.parametrize(
    ("kept", "found"),
    [
        ("kept = [value for value in them]", ["line 4: value"]),
        ("kept = {key: value for key, value in them}", ["line 4: value"]),
        ("kept = [each for each in them]", []),
        ("kept = [value for each in them]", []),
    ],
)
def test_clashes(kept: str, found: list[str]) -> None:
    """What the test below looks for: CPython's issue 121377, in all of its releases from 3.12."""
    assert [*clashes(symtable(CLASHES.format(kept=kept), "<test>", "exec"))] == found


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="there a comprehension has no table of its own")
def test_names_of_comprehensions() -> None:
    """No module has such a comprehension: from Python 3.12 on, the inner function raises NameError."""
    paths = sorted((ROOT / "src").rglob("*.py"))
    found = {str(path): [*clashes(symtable(path.read_text(), path.name, "exec"))] for path in paths}
    assert len(found) > 100
    assert {path: lines for path, lines in found.items() if lines} == {}
