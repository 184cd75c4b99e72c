"""The site builds without a warning, and what it says of names is true."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

import amqp10
import amqp10.broker
import amqp10.rabbitmq
import amqp10.testing
from amqp10 import (
    Bridge,
    Connection,
    Delivery,
    Management,
    Message,
    Receiver,
    Request,
    Requester,
    Responder,
    Sender,
    SentDelivery,
    Session,
)
from amqp10.broker import Broker, Quarantine
from amqp10.rabbitmq import Management as RabbitManagement
from amqp10.testing import EnginePair, ScriptedPeer

ROOT = Path(__file__).parent.parent


@pytest.mark.slow
def test_site_builds_without_warnings(tmp_path: Path) -> None:
    """`mkdocs build --strict`: every link, snippet and reference is there."""
    ended = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=170,
        env={"PATH": "", "NO_MKDOCS_2_WARNING": "true", "DISABLE_MKDOCS_2_WARNING": "true"},
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert (tmp_path / "site" / "index.html").is_file()


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```python[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
HOLDERS = (
    Bridge,
    Connection,
    Session,
    Sender,
    Receiver,
    Delivery,
    SentDelivery,
    Requester,
    Responder,
    Request,
    Management,
    RabbitManagement,
    Broker,
    Quarantine,
    Message,
    ScriptedPeer,
    EnginePair,
)


def code_of(path: Path) -> list[ast.Module]:
    """The Python of a page, but for what it takes from an example; `await` may stand at the outermost level."""
    blocks = [block.replace("--8<--", "#") for block in BLOCK.findall(path.read_text())]
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | ast.PyCF_ONLY_AST
    return [compile(textwrap.dedent(block), path.name, "exec", flags) for block in blocks]


def meant(name: str) -> list[Callable[..., Any]]:
    """What a call of that name in a page may mean: a public object, or a method of what users hold."""
    found = [vars(package)[name] for package in (amqp10, amqp10.broker, amqp10.rabbitmq) if name in vars(package)]
    found += [getattr(amqp10.testing, name)] if name in amqp10.testing.__all__ else []
    return found + [getattr(holder, name) for holder in HOLDERS if hasattr(holder, name)]


def takes(function: Callable[..., Any], keyword: str) -> bool:
    """Whether a function, or what a class is made from, has that parameter; `**fields` by the names it unpacks."""
    parameters = inspect.signature(function).parameters
    if keyword in parameters:
        return True
    made_by = function.__init__ if inspect.isclass(function) else function
    rest = [name for name, parameter in parameters.items() if parameter.kind is parameter.VAR_KEYWORD]
    hints = get_type_hints(made_by) if rest else {}
    return any(hints[name] is Any or keyword in get_args(hints[name])[0].__annotations__ for name in rest)


THREATS = ROOT / "docs" / "concepts" / "threat-model.md"
THREAT_TEST = re.compile(r"`([\w/]+\.py)::([\w:]+)`")


def names_of_tests(body: list[ast.stmt]) -> set[str]:
    """Return the names of the tests of a module or class; those in a class begin with its name, as pytest has them."""
    names = {node.name for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    for node in body:
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}::{name}" for name in names_of_tests(node.body)}
    return {name for name in names if name.rpartition("::")[2].startswith("test_")}


def test_threats_have_tests() -> None:
    """Each line of the threat model's tables names tests, and each of them is there."""
    lines = [line for line in THREATS.read_text().splitlines() if line.startswith("| ") and "| threat |" not in line]
    assert len(lines) > 50
    for line in lines:
        named = THREAT_TEST.findall(line.split(" | ")[2])
        assert named, line
        for path, name in named:
            assert name in names_of_tests(ast.parse((ROOT / "tests" / path).read_text()).body), f"{path}::{name}"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_code_in_the_pages_fits_the_package(path: Path) -> None:
    """Each block parses; what it imports of the package is there; what it calls takes the arguments it names."""
    for module in code_of(path):
        for node in ast.walk(module):
            if isinstance(node, ast.ImportFrom) and node.module is not None and node.module.startswith("amqp10"):
                package = importlib.import_module(node.module)
                for name in node.names:
                    assert hasattr(package, name.name), f"{node.module}.{name.name}"
            elif isinstance(node, ast.Call):
                called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                functions = meant(called)
                for keyword in node.keywords:
                    if functions and keyword.arg is not None:
                        assert any(takes(one, keyword.arg) for one in functions), f"{called}({keyword.arg}=)"
