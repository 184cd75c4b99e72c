"""Check the prose of the source by three simple measures.

A function's docstring begins with a verb. No comment, docstring or raised error has a turn of phrase that took readers
two readings. No file of the repository has a placeholder for text that is still to come.
Each fault is printed with its place, and the exit code is 1.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "amqp10"
TEXTS = (".py", ".pyi", ".pyx", ".pxd", ".md", ".toml", ".yml", ".yaml", ".java", ".sh")
"""The endings of the files that people write."""

NO_VERBS = frozenset(
    """
    a an after all also and another any as at because been before being both but by each else every everybody
    everyone few first for from had has have here his how if in is it its last least less many more most much
    neither never next no nobody none nor not nothing of on one only or other others otherwise same several since
    so some somebody something such than that the their then there these they this those three to two under until
    was were what whatever when where wherever whether which whichever while who whoever whom whose why with
    without
    """.split()  # noqa: SIM905
)

TURNS = {
    "is none": r"\b(?:is|are) none\b",
    "there is none": r"\bthere (?:is|are|was|were) none\b",
    "nobody ... any more": r"\b(?:[Nn]othing|[Nn]obody)\b[^.]{0,60}\bany more\b",
    "as often": r"\bas often\b",
    "so many": r"\bso (?:many|much)\b(?! (?:as|that))",
    "of which": r"\bof (?:which|whom)\b",
    "who waits": r"(?:^|[.:;,] )[Ww]ho [a-z]+s\b",
    "be it": r"\bbe it\b",
}
PATTERNS = {name: re.compile(pattern, re.MULTILINE) for name, pattern in TURNS.items()}

ERROR_TURNS = {
    **PATTERNS,
    "at most": re.compile(r"\bat (?:least|most)(?=$|[,;:.]| not\b)"),
}
"""Those of an error: "must be at least 1, not 0" names a rule, "is 1 at least" only a state."""


PLACEHOLDER = re.compile(r"\((?:still )?to be (?:written|done|described)\)|\b(?:TODO|FIXME|TBD|XXX)\b")


def texts(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each docstring and comment."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def raised(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each string in a `raise` statement; a value in it is an `X`."""
    for statement in ast.walk(ast.parse(source)):
        if isinstance(statement, ast.Raise):
            joined = [each for each in ast.walk(statement) if isinstance(each, ast.JoinedStr)]
            within = {id(part) for each in joined for part in ast.walk(each) if part is not each}
            for each in ast.walk(statement):
                if isinstance(each, ast.JoinedStr) and id(each) not in within:
                    yield each.lineno, "".join(p.value if isinstance(p, ast.Constant) else "X" for p in each.values)
                elif isinstance(each, ast.Constant) and isinstance(each.value, str) and id(each) not in within:
                    yield each.lineno, each.value


def is_property(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether it is a property: its docstring names what it has."""
    return any(
        ast.unparse(each).rpartition(".")[2] in ("property", "cached_property") for each in function.decorator_list
    )


def faults(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the description of each fault."""
    for node in ast.walk(ast.parse(source)):
        if (
            isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            and not is_property(node)
            and (text := ast.get_docstring(node))
        ):
            word = re.split(r"\W", text, maxsplit=1)[0]
            if not word.istitle() or word.lower() in NO_VERBS:
                yield node.lineno, f"the docstring of {node.name} begins with {word!r}, not with a verb"
    for found_in, patterns in ((texts(source), PATTERNS), (raised(source), ERROR_TURNS)):
        for line, text in found_in:
            for name, pattern in patterns.items():
                for found in pattern.finditer(text):
                    place = line + text.count("\n", 0, found.start())
                    yield place, f"say it otherwise than by {name!r}: {found.group()!r}"


def placeholders(text: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the description of each placeholder in a file of any kind."""
    for found in PLACEHOLDER.finditer(text):
        yield text.count("\n", 0, found.start()) + 1, f"write what belongs here, not {found.group()!r}"


def main() -> int:
    """Print all faults of the package, and all placeholders of the repository; return 1 if there are any."""
    found = [(path, *each) for path in SOURCE.rglob("*.py") for each in faults(path.read_text())]
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for path in (ROOT / name for name in listed.split("\0") if name.endswith(TEXTS)):
        if path.is_file() and path.name not in ("prose.py", "test_prose.py"):
            found += [(path, *each) for each in placeholders(path.read_text())]
    for path, line, fault in sorted(found):
        print(f"{path.relative_to(ROOT)}:{line}: {fault}")
    print(f"prose: {len(found)} faults")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
