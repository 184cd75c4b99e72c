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

from .kit.counts import COMPILED_MESSAGES
from .kit.unavailable import unavailable

ROOT = Path(__file__).parents[1]
OF_CLIENTS = (
    *("test_cancel*", "test_copies", "test_fairness", "*/test_cancelling*", "*/test_delivery*", "recovery/test_losses"),
    *("receiving/test_credit", "receiving/test_receiver", "receiving/test_settled", "receiving/test_streaming"),
    *("sending/test_credit", "sending/test_[ps]*"),
)
OF_CODEC = ("types/test_decode.py", "types/test_fast.py", "types/test_known_keys.py", "fuzz/test_fuzz_messages.py")
OF_1_0 = ("endpoints", "resumption", "wire", "test_[aelu]*.py")  # the others have states, windows and a login alone
TESTS = (
    *(f"dialects/v1_0/{each}" for each in OF_1_0),
    *("engine", "messaging", "hostile/quick/test_v1_0_mutants.py", *OF_CODEC),
    *(f"client/{each}.py" for each in OF_CLIENTS),
)
"""Those of what is compiled, and of what holds it."""
OF_MEMORY = (*OF_CODEC, "messaging/test_fast.py", "messaging/test_section_index.py", "fuzz/test_fuzz_frames.py")
SANITIZERS = "-O1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.xdist_group("compiled"),
    pytest.mark.capability("compiled part"),
]

if any(importlib.util.find_spec(each) is None for each in ("Cython", "hatchling", "setuptools", "pip")):
    pytest.skip("the compiled part is built with Cython, hatchling, setuptools and pip", allow_module_level=True)


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


def run(installed: Path, *arguments: str, **more: str) -> str:
    """What Python says, with the package from there; of tests, the quick ones: what is compiled knows no event loop."""
    env = os.environ | {"PYTHONPATH": str(installed), "AMQP10_TIER": "quick"} | more
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


def paths_of(patterns: tuple[str, ...]) -> list[str]:
    """Return the files and folders of tests that match; each pattern does match some."""
    found = {each: sorted((ROOT / "tests").glob(each)) for each in patterns}
    assert [each for each, paths in found.items() if not paths] == []
    return [str(path) for paths in found.values() for path in paths]


def test_passes_the_same_tests(compiled: Path) -> None:
    """The tests of deliveries and messages, and of all that hands them on, with compiled ones."""
    paths = paths_of(TESTS)
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
    started = begin(plain, "--count", COMPILED_MESSAGES), begin(compiled, "--count", COMPILED_MESSAGES, **env)
    expected, found = map(end, started)
    assert len(expected) == len(found) == COMPILED_MESSAGES
    for number, (one, other) in enumerate(zip(expected, found, strict=True)):
        if one != other:
            wanted = "--begin", number, "--count", 1, "--show"
            assert end(begin(compiled, *wanted, **env)) == end(begin(plain, *wanted)), f"message {number}"
            pytest.fail(f"message {number} differs only after those before it")


def test_comes_to_the_same(compiled: Path) -> None:
    """Messages made and mutated by chance, most of them malformed: the same octets, values and errors, nothing kept."""
    check_same(compiled)


FAULT = """
#include <stdlib.h>
int main(int count, char **given) {
    char *few = calloc(2, 1);
    int found = few[count - 1];
    free(few);
    return found;
}
"""


def sanitizers_fail(folder: Path) -> str:
    """Why the C compiler here has no sanitizers; nothing where a program runs under them, and a fault of it is seen."""
    source, program = folder / "fault.c", folder / "fault"
    source.write_text(FAULT)
    try:
        subprocess.run(["cc", *SANITIZERS.split(), str(source), "-o", str(program)], check=True, capture_output=True)
        ends = [subprocess.run([program, *"x" * past], check=False, capture_output=True).returncode for past in (0, 4)]
    except (OSError, subprocess.CalledProcessError) as error:
        return f"cc has no sanitizers: {getattr(error, 'stderr', error)!r}"
    return "" if ends[0] == 0 and ends[1] != 0 else f"the sanitizers of cc see no fault: {ends}"


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """The package with its compiled part under sanitizers, and the environment to run it in."""
    folder = tmp_path_factory.mktemp("watched")
    if why := sanitizers_fail(folder):
        unavailable(why)
    build(folder, CFLAGS=SANITIZERS, LDFLAGS="-fsanitize=address,undefined")
    for each in (folder / "installed").rglob("*.so"):
        assert b"__asan_report_load" in each.read_bytes(), each
    command = ["cc", "-print-file-name=libasan.so"]
    library = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    # The interpreter itself keeps what it has until it ends; its own allocator would hide what is freed. What is freed
    # is kept for a while, to see who uses it still: less of it, so that memory comes to a rest before it is measured.
    asan = "detect_leaks=0:quarantine_size_mb=16:malloc_context_size=2"
    return folder / "installed", {"LD_PRELOAD": library, "ASAN_OPTIONS": asan, "PYTHONMALLOC": "malloc"}


nightly = pytest.mark.skipif(
    COMPILED_MESSAGES < 10_000 or sys.platform != "linux",
    reason="`make sanitize` and `make nightly` do it, on Linux: the compiler takes minutes",
)


@nightly
def test_same_under_sanitizers(watched: tuple[Path, dict[str, str]]) -> None:
    """Both come to the same, with each access to memory and each undefined operation of compiled code looked at."""
    installed, env = watched
    check_same(installed, **env)


@nightly
def test_codec_under_sanitizers(watched: tuple[Path, dict[str, str]]) -> None:
    """The tests of values and messages pass under sanitizers; so do those of frames with any octets."""
    installed, env = watched
    paths = paths_of(OF_MEMORY)
    told = run(installed, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "timeout=0", *paths, **env)
    passed = int(told.rsplit("\n", 2)[-2].split(" passed")[0].split()[-1])
    assert passed > 200, told


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
