"""Every block of Python in the pages passes `mypy --strict`, as a part of the program that a reader makes of it."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import get_type_hints

import pytest

import amqp10

from .kit.page_blocks import DEFINITION, IMPORT, ROOT, Block, blocks, names_of, read_first
from .kit.page_supplies import Supplies

SPOKEN_OF = {
    "frame": "pyspark.sql.DataFrame",
    "port": "int",
    "service_bus": "amqp10.testing.BackgroundServiceBus",
    "spark": "pyspark.sql.SparkSession",
    "tls": "amqp10.TLS",
}
"""The types of names that a page speaks of without making them, beside those of `Supplies`."""

EXCEPTIONS: dict[tuple[str, str], str] = {
    (
        "coming-from/azure-eventhub.md",
        "no-untyped-def",
    ): "its first program is one of the other library",
    ("coming-from/azure-eventhub.md", "arg-type"): "the same program: a mapping for arguments of several types",
}
"""What mypy says of a page all the same: the page, the code of the error, and why the page is right."""


def program(block: Block) -> str:
    """Return a module with a block, the imports and definitions above it, and what the page speaks of."""
    bound = {name for each in ast.walk(block.tree) if isinstance(each, IMPORT | DEFINITION) for name in names_of(each)}
    above = ast.Module([each for each in block.above if not names_of(each) & bound], [])
    for each in above.body:
        bound |= names_of(each)
    read = {each.id for tree in (above, block.tree) for each in ast.walk(tree) if isinstance(each, ast.Name)}
    exported = sorted(read & set(amqp10.__all__) - bound)
    unbound = (read_first(above) | read_first(block.tree)) - bound
    spoken_of = sorted(unbound & {*vars(Supplies), *SPOKEN_OF})
    declared = [declaration(each) for each in spoken_of if each not in exported]
    modules = sorted({each for line in declared for each in re.findall(r"\b((?:[a-z_]\w*\.)*[a-z_]\w*)\.[A-Z]", line)})
    code = block.code
    if any(isinstance(each, ast.AsyncWith | ast.AsyncFor | ast.Await) for each in outermost(block.tree)):
        code = "async def program() -> None:\n" + textwrap.indent(code, "    ")
    return "\n".join(
        [
            *(f"import {each}" for each in modules),
            *(f"from amqp10 import {each}" for each in exported),
            *map(ast.unparse, above.body),
            *declared,
            code,
        ]
    )


def declaration(name: str) -> str:
    """Return the declaration of a name that pages speak of without making it."""
    if name in SPOKEN_OF:
        return f"{name}: {SPOKEN_OF[name]}"
    hint = get_type_hints(getattr(Supplies, name))["return"]
    text = f"{hint.__module__}.{hint.__name__}" if isinstance(hint, type) else str(hint)
    return f"{name}: {text}".replace(": builtins.", ": ")


def outermost(tree: ast.AST) -> list[ast.AST]:
    """Return all nodes but those within functions."""
    found = []
    for node in ast.iter_child_nodes(tree):
        found.append(node)
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            found += outermost(node)
    return found


@pytest.mark.slow
def test_blocks(tmp_path: Path) -> None:
    """mypy finds nothing in them but the exceptions that are listed, each of which it still finds."""
    pages = {}
    for number, block in enumerate(blocks()):
        path = tmp_path / f"block_{number}.py"
        path.write_text(program(block), encoding="utf-8")
        pages[path.name] = block
    command = [sys.executable, "-m", "mypy", "--no-error-summary", "--hide-error-context", "--no-color-output"]
    run = subprocess.run([*command, tmp_path], cwd=ROOT, capture_output=True, text=True, check=False)
    found, wrong = set(), []
    for file, text, code in re.findall(r"([^/\n]+\.py):\d+: error: (.*)  \[([\w-]+)\]", run.stdout):
        found.add((pages[file].page, code))
        if (pages[file].page, code) not in EXCEPTIONS:
            wrong.append(f"{pages[file]}: {text} [{code}]")
    assert wrong == [], run.stdout + run.stderr
    assert found == set(EXCEPTIONS), run.stdout + run.stderr
