"""The check of the source's prose finds what it is for."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def prose() -> ModuleType:
    """`tools/prose.py`, which is no package."""
    path = Path(__file__).parent.parent / "tools" / "prose.py"
    spec = importlib.util.spec_from_file_location("prose", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ('def size():\n    """The size of it."""', [1]),
        ('def size():\n    """Return the size."""', []),
        ('@property\ndef size():\n    """The size."""', []),
        ('VALUE = 1\n"""A value.\n\nNone: there was none."""', [4]),
        ("value = 1  # of which nobody knows", [1]),
        ('text = "of which"', []),
        ("value is None", []),
        ('raise ValueError(f"size is {least} at least, not {size}")', [1]),
        ('raise ValueError(f"size must be at least 1, not {size}")', []),
    ],
)
def test_faults(prose: ModuleType, source: str, lines: list[int]) -> None:
    """Each fault is found at its line: docstrings of functions that begin with no verb, and odd turns of phrase."""
    assert [line for line, _ in prose.faults(source)] == lines


@pytest.mark.parametrize("text", ['"""(to be written)"""', "(still to be done)", "# TODO: say why", "FIXME later"])
def test_placeholders(prose: ModuleType, text: str) -> None:
    """A placeholder is found at its line, in a file of any kind."""
    assert [line for line, _ in prose.placeholders(f"first line\n{text}")] == [2]


def test_no_placeholder(prose: ModuleType) -> None:
    """Words that only resemble a placeholder are none."""
    assert not list(prose.placeholders("bytes that wait to be written; todo = []; XXXL"))
