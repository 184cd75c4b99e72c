"""The compiled part: the same package passes the same tests with it, and is installed without it where it fails."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[1]
OF_CLIENTS = ("cancel*[ns]", "copies", "delivery*", "fairness", "losses", "pipe*", "receiver*", "se[nt]*", "streamed")
TESTS = ("dialects/v1_0", "engine", "messaging", *(f"client/test_{each}.py" for each in OF_CLIENTS))
"""Those of what is compiled, and of what holds it."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.xdist_group("compiled"),
    pytest.mark.skipif(
        any(importlib.util.find_spec(each) is None for each in ("Cython", "hatchling", "setuptools", "pip")),
        reason="the compiled part is built with Cython, hatchling, setuptools and pip",
    ),
]


def build(folder: Path, **env: str) -> tuple[Path, str]:
    """A wheel of this tree, unpacked, and what pip said."""
    command = [sys.executable, "-m", "pip", "wheel", "-v", "--no-deps", "--no-build-isolation", "-w", str(folder), "."]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | {"AMQP10_COMPILE": "1"} | env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    (wheel,) = folder.glob("amqp10-*.whl")
    with ZipFile(wheel) as packed:
        packed.extractall(folder / "installed")
    return wheel, done.stdout


def run(installed: Path, *arguments: str) -> str:
    """What Python says, with the package from there; of tests, the quick ones: what is compiled knows no event loop."""
    env = os.environ | {"PYTHONPATH": str(installed), "AMQP10_PROFILE": "quick"}
    done = subprocess.run([sys.executable, *arguments], cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package with its compiled part."""
    folder = tmp_path_factory.mktemp("compiled")
    wheel, _ = build(folder, CFLAGS="-O0")  # it does the same, and takes a fraction of the time to make
    assert not wheel.name.endswith("-none-any.whl")
    return folder / "installed"


def test_is_compiled(compiled: Path) -> None:
    """The wheel is one for this platform, and what it says of itself is so; sources and nothing else lie beside."""
    told = run(compiled, "-c", "import amqp10; print(amqp10.COMPILED, amqp10.Delivery.__basicsize__, amqp10.__file__)")
    assert told.startswith("True ")
    assert str(compiled) in told
    made = sorted(str(each.relative_to(compiled)) for each in compiled.rglob("*") if each.suffix in (".so", ".pyd"))
    assert [each.partition(".")[0] for each in made] == [
        "amqp10/client/_delivery",
        "amqp10/engine/_delivery",
        "amqp10/messaging/_message",
    ]
    assert not [*compiled.rglob("*.pxd"), *compiled.rglob("*.c")]


def test_passes_the_same_tests(compiled: Path) -> None:
    """The tests of deliveries and messages, and of all that hands them on, with compiled ones."""
    paths = [str(path) for each in TESTS for path in sorted((ROOT / "tests").glob(each))]
    told = run(compiled, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not interop and not slow", *paths)
    passed = int(told.rsplit("\n", 2)[-2].split(" passed")[0].split()[-1])
    assert passed > 1500, told


@pytest.mark.skipif(os.name != "posix", reason="takes the compiler away by CC")
def test_a_failed_build_is_a_plain_wheel(tmp_path: Path) -> None:
    """Where the compiler fails the wheel is that of all platforms, pip says why, and the package works."""
    wheel, told = build(tmp_path, CC="false")
    assert wheel.name.endswith("-py3-none-any.whl")
    assert "without its compiled part" in told
    assert "False" in run(tmp_path / "installed", "-c", "import amqp10; print(amqp10.COMPILED)")
