"""Which tests may import private modules of the package: those that mirror them, and the kit's inspecting face."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
FACE = TESTS / "kit" / "inside"
SOURCE = TESTS.parent / "src" / "amqp10"
FROM = re.compile(r"^ *from (amqp10[\w.]*) import (?:\(([^)]*)\)|(.*))", re.MULTILINE)
INSIDE = re.compile(r"^ *from [.\w]*\binside\.(\w+) import (?:\(([^)]*)\)|(.*))", re.MULTILINE)
PATH = re.compile(r"""(?:^ *import |setattr\(\s*f?"|import_module\(")(amqp10[\w.]*)""", re.MULTILINE)


def listed(names: str) -> list[str]:
    """Return what stands between the commas."""
    return [each for each in names.split(",") if each.strip()]


def imported(text: str) -> Iterator[str]:
    """Return each path into the package that a file imports, or replaces by its name."""
    for module, several, names in FROM.findall(text):
        yield from (f"{module}.{each.split()[0]}" for each in listed(several or names))
    yield from PATH.findall(text)


@cache
def module_of(path: str) -> str:
    """Return the module that a path leads into; what follows are attributes."""
    module, folder = "amqp10", SOURCE
    for part in path.split(".")[1:]:
        if not ((folder / part).is_dir() or any(folder.glob(f"{part}.py*"))):
            break
        module, folder = f"{module}.{part}", folder / part
    return module


def mirrors(file: Path, module: str) -> bool:
    """Return whether a file of tests is the one for a module, or for others of its folder."""
    subject = [part.removeprefix("_") for part in module.split(".")[1:]]
    *folder, name = file.relative_to(TESTS).with_suffix("").parts
    own = [*folder, name.removeprefix("test_")]
    return folder in (subject, subject[:-1]) or subject[: len(own)] == own


def reaching_in(file: Path, text: str) -> list[str]:
    """Return the private paths that a file of tests imports although it does not mirror their module."""
    private = [path for path in imported(text) if re.search(r"\._(?!_)", path)]
    return [f"{file.relative_to(TESTS)}: {path}" for path in private if not mirrors(file, module_of(path))]


def test_private_imports() -> None:
    """A test imports private modules only if it mirrors them; all others take them from `tests/kit/inside/`."""
    files = [file for file in TESTS.rglob("*.py") if file.parent != FACE and file.name != Path(__file__).name]
    assert len(files) > 700
    assert [each for file in files for each in reaching_in(file, file.read_text())] == []


def test_nothing_is_left_in_the_face() -> None:
    """What `tests/kit/inside/` has, some file of tests imports: the face stays small."""
    used = {
        (face, each.split()[0])
        for file in TESTS.rglob("*.py")
        for face, several, names in INSIDE.findall(file.read_text())
        for each in listed(several or names)
    }
    has = {
        (face.stem, each.split()[-1])  # by the name that it has there
        for face in FACE.glob("*.py")
        for _, several, names in FROM.findall(face.read_text())
        for each in listed(several or names)
    }
    assert has == used


@pytest.mark.parametrize(
    ("file", "line", "allowed"),
    [
        ("broker/queues/test_topic.py", "from amqp10.broker._queues.topic import Topic", True),
        ("broker/queues/test_declared.py", "from amqp10.broker._queues import topic", True),
        ("broker/filters/test_selector.py", "from amqp10.broker._filters.selector.parser import parse", True),
        ("broker/queues/test_topic.py", "from amqp10.broker._errors import Refused", False),
        ("broker/test_broker.py", "from amqp10.broker._queues.topic import Topic", False),
        ("net/test_pump.py", "import amqp10.net._pump", True),
        ("net/test_pump.py", "import amqp10.client._connecting.supervisor", False),
        ("net/test_pump.py", "    from amqp10.dialects.v0_9 import _any", False),
        ("net/connecting/test_auto.py", 'setattr("amqp10.net._connecting.probe.ask"', True),
        ("client/test_auto.py", 'setattr("amqp10.net._connecting.probe.ask"', False),
        ("kit/broker/line.py", "from amqp10.broker._virtual_host_core import VirtualHostCore", False),
        ("net/test_pump.py", "from amqp10.dialects.v0_9 import (\n    a as b,\n    _any,\n)", False),
        ("hostile/test_any.py", "from amqp10.broker.internals import memory_streams", True),
    ],
)
def test_rule(file: str, line: str, allowed: bool) -> None:
    """What the rule allows and what it does not."""
    assert bool(reaching_in(TESTS / file, line)) is not allowed
