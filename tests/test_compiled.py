"""The compiled part: the same package passes the same tests with it, and is installed without it where it fails."""

from __future__ import annotations

import importlib
import importlib.util
import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[1]
OF_CLIENTS = ("cancel*[ns]", "copies", "delivery*", "fairness", "losses", "pipe*", "receiver*", "se[nt]*", "streamed")
OF_CODEC = ("types/test_decode.py", "types/test_fast.py", "types/test_known_keys.py", "fuzz/test_fuzz_messages.py")
TESTS = ("dialects/v1_0", "engine", "messaging", *OF_CODEC, *(f"client/test_{each}.py" for each in OF_CLIENTS))
"""Those of what is compiled, and of what holds it."""
MESSAGES = int(os.environ.get("AMQP10_MESSAGES", "2000"))
"""How many, made and mutated by chance, must come to the same by the plain code and by the compiled part."""
SANITIZERS = "-O1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.xdist_group("compiled"),
    pytest.mark.skipif(
        any(importlib.util.find_spec(each) is None for each in ("Cython", "hatchling", "setuptools", "pip")),
        reason="the compiled part is built with Cython, hatchling, setuptools and pip",
    ),
    pytest.mark.capability("compiled part"),
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
    env = os.environ | {"PYTHONPATH": str(installed), "AMQP10_TIER": "quick"}
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
        "amqp10/client/_receiving/delivery",
        "amqp10/client/_sending/delivery",
        "amqp10/engine/_deliveries",
        "amqp10/messaging/_fast",
        "amqp10/messaging/_message",
        "amqp10/types/_fast",
    ]
    assert not [each for ending in ("pxd", "pyx", "c") for each in compiled.rglob(f"*.{ending}")]


def test_passes_the_same_tests(compiled: Path) -> None:
    """The tests of deliveries and messages, and of all that hands them on, with compiled ones."""
    paths = [str(path) for each in TESTS for path in sorted((ROOT / "tests").glob(each))]
    told = run(compiled, "-m", "pytest", "-q", "-p", "no:cacheprovider", *paths)
    passed = int(told.rsplit("\n", 2)[-2].split(" passed")[0].split()[-1])
    assert passed > 1500, told


def begin(source: Path, *arguments: object, **env: str) -> subprocess.Popen[str]:
    """Start tests/kit/differential.py with the package from there."""
    command = [sys.executable, str(ROOT / "tests" / "kit" / "differential.py"), *map(str, arguments)]
    environment = os.environ | {"PYTHONPATH": str(source)} | env
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def end(started: subprocess.Popen[str]) -> list[str]:
    told, wrong = started.communicate()
    assert started.returncode == 0, wrong
    return told.splitlines()


def check_same(compiled: Path, **env: str) -> None:
    """Compare what messages come to by the plain code and by the compiled part."""
    plain = ROOT / "src"
    started = begin(plain, "--count", MESSAGES), begin(compiled, "--count", MESSAGES, **env)
    expected, found = map(end, started)
    assert len(expected) == len(found) == MESSAGES
    for number, (one, other) in enumerate(zip(expected, found, strict=True)):
        if one != other:
            wanted = "--begin", number, "--count", 1, "--show"
            assert end(begin(compiled, *wanted, **env)) == end(begin(plain, *wanted)), f"message {number}"
            pytest.fail(f"message {number} differs only after those before it")


def test_comes_to_the_same(compiled: Path) -> None:
    """Messages made and mutated by chance, most of them malformed: the same octets, values and errors, nothing kept."""
    check_same(compiled)


@pytest.mark.skipif(
    MESSAGES < 100_000 or sys.platform != "linux", reason="`make nightly` does it, on Linux: the compiler takes minutes"
)
def test_under_sanitizers(tmp_path: Path) -> None:
    """The same, with each access to memory and each undefined operation of the compiled code looked at."""
    build(tmp_path, CFLAGS=SANITIZERS, LDFLAGS="-fsanitize=address,undefined")
    command = ["cc", "-print-file-name=libasan.so"]
    library = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    # The interpreter itself keeps what it has until it ends; and its own allocator would hide what is freed.
    options = {"LD_PRELOAD": library, "ASAN_OPTIONS": "detect_leaks=0", "PYTHONMALLOC": "malloc"}
    check_same(tmp_path / "installed", **options)


def test_not_without_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Python without its global lock is given the plain sources: a compiled module would bring the lock back."""
    monkeypatch.setenv("AMQP10_COMPILE", "1")
    monkeypatch.syspath_prepend(str(ROOT))
    hook = importlib.import_module("hatch_build").WheelParts(str(ROOT), {}, None, None, str(tmp_path), "wheel")
    monkeypatch.setattr(sysconfig, "get_config_var", {"Py_GIL_DISABLED": 0}.get)
    assert hook.asked_for
    monkeypatch.setattr(sysconfig, "get_config_var", {"Py_GIL_DISABLED": 1}.get)
    assert not hook.asked_for


@pytest.mark.skipif(os.name != "posix", reason="takes the compiler away by CC")
def test_a_failed_build_is_a_plain_wheel(tmp_path: Path) -> None:
    """Where the compiler fails the wheel is that of all platforms, pip says why, and the package works."""
    wheel, told = build(tmp_path, CC="false")
    assert wheel.name.endswith("-py3-none-any.whl")
    assert "without its compiled part" in told
    assert "False" in run(tmp_path / "installed", "-c", "import amqp10; print(amqp10.COMPILED)")
