"""In CI nothing is skipped because it is not installed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .kit.tiers import PLACES, markers_of
from .kit.unavailable import unavailable

ROOT = Path(__file__).parent.parent
TESTS = {
    "test_module.py": "import pytest\npytest.importorskip('no_such', reason='not installed')\ndef test(): ...",
    "test_single.py": "import pytest\ndef test(): pytest.importorskip('no_such')",
    "test_other.py": "import pytest\ndef test(): pytest.skip('for a reason of its own')",
}


@pytest.mark.slow
@pytest.mark.parametrize(("in_ci", "summary"), [("true", "1 failed, 1 skipped, 1 error"), ("", "3 skipped")])
def test_what_is_not_installed(tmp_path: Path, in_ci: str, summary: str) -> None:
    """A file, or a test, that needs a package is left out elsewhere, and fails in CI; other reasons to skip stay."""
    run = run_with_our_conftest(tmp_path, TESTS, ["--continue-on-collection-errors", "."], in_ci)
    assert summary in run.stdout, run.stdout + run.stderr
    assert ("CI must have it" in run.stdout) == (run.returncode == 1) == bool(in_ci)


def run_with_our_conftest(
    folder: Path, files: dict[str, str], arguments: list[str], in_ci: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run pytest in that folder, whose tests are these files and have what all tests share."""
    tests = folder / "tests"
    shutil.copytree(ROOT / "tests" / "kit", tests / "kit", ignore=shutil.ignore_patterns("test_*"))
    shutil.copy(ROOT / "tests" / "conftest.py", tests)
    for name, text in files.items():
        (tests / name).parent.mkdir(exist_ok=True)
        (tests / name).write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--import-mode=importlib", *arguments]
    env = os.environ | {"CI": in_ci}
    return subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_files_in_any_order(tmp_path: Path) -> None:
    """A file finds the fixtures of its folder also where a file outside of that was named before it."""
    files = {
        "inner/conftest.py": "import pytest\n@pytest.fixture\ndef inner(): ...",
        "inner/test_first.py": "def test(inner): ...",
        "test_outer.py": "def test(): ...",
        "inner/test_last.py": "def test(inner): ...",
    }
    run = run_with_our_conftest(tmp_path, files, [f"tests/{name}" for name in files if "test_" in name])
    assert "3 passed" in run.stdout, run.stdout + run.stderr


@pytest.mark.slow
def test_a_report_that_no_encoding_has(tmp_path: Path) -> None:
    """A lone surrogate in a captured log ends no worker."""
    files = {"test_log.py": "import logging\ndef test():\n    logging.warning('\\ud800')\n    assert '\\ud800' == ''"}
    run = run_with_our_conftest(tmp_path, files, ["-n", "1", "tests/test_log.py"])
    assert "1 failed" in run.stdout, run.stdout + run.stderr
    assert "\\ud800" in run.stdout


@pytest.mark.parametrize(("in_ci", "outcome"), [("true", "failed"), ("1", "failed"), ("", "skipped")])
def test_what_cannot_be_had(in_ci: str, outcome: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker or a browser: its tests are left out elsewhere, and fail in CI."""
    monkeypatch.setenv("CI", in_ci)
    kinds = {"failed": pytest.fail.Exception, "skipped": pytest.skip.Exception}
    with pytest.raises(kinds[outcome], match="there is none"):
        unavailable("there is none")


def test_what_is_asked_for_is_not_skipped_in_ci() -> None:
    """No test is skipped on its own for something that Linux has, or that can be installed: CI would not see it."""
    own = re.compile(
        r"pytest\.skip\((?!.*allow_module_level)|^ +.*importorskip\(.*reason|skipif\(.*(which|exists|find_spec)\(", re.M
    )
    found = [path for path in sorted((ROOT / "tests").rglob("*.py")) if own.search(path.read_text())]
    assert [str(path.relative_to(ROOT / "tests")) for path in found] == [
        "interop/test_rabbitmq_43.py",  # what RabbitMQ at times does not do
        "kit/unavailable.py",  # and this fails in CI
        "test_ci.py",
    ]


def test_the_script_says_that_it_is_ci() -> None:
    """What CI runs asks for that itself."""
    script = (ROOT / ".ci" / "run").read_text()
    assert script.index("export CI=true") < script.index("make lint")


def test_places_of_the_tiers() -> None:
    """A folder or file that gives its tests a marker is there: one that was renamed would change its tier."""
    assert [each for places in PLACES.values() for each in places if not (ROOT / "tests" / each).exists()] == []


BY_KIND = ("conformance", "faults", "fuzz", "hostile", "interop", "kit", "pitfalls")


def test_folders_mirror_the_source() -> None:
    """A folder of tests has the name of a folder or file of the source, without its underscore, or is for one kind."""
    source = ROOT / "src" / "amqp10"
    names = (path.relative_to(source).with_suffix("").parts for path in source.rglob("*"))
    places = {"/".join(each.removeprefix("_") for each in parts) for parts in names}
    folders = {path.parent.relative_to(ROOT / "tests") for path in (ROOT / "tests").rglob("test_*.py")} - {Path()}
    own = [each.as_posix() for each in folders if each.parts[0] not in BY_KIND]
    assert len(own) > 40
    assert [each for each in sorted(own) if each not in places] == []
    assert [each for each in BY_KIND if not (ROOT / "tests" / each).is_dir()] == []


def test_what_files_share_is_in_the_kit() -> None:
    """No file imports from a conftest.py, or from another file of tests, but for those beside real brokers."""
    shared = re.compile(r"^ *from \.[\w.]*\b(conftest|test_\w+) import|^ *from \.[\w.]* import .*\btest_\w+", re.M)
    files = [path for path in sorted((ROOT / "tests").rglob("*.py")) if path.parent.name != "interop"]
    found = {str(path.relative_to(ROOT / "tests")) for path in files if shared.search(path.read_text())}
    assert found == {"client/test_websocket.py"}  # which runs other tests anew


def test_what_runs_more_often_is_nightly() -> None:
    """A file of tests that asks for a count of the nightly tier is in that tier, or a test of it is."""
    counts = re.compile(r"^from \.+kit\.counts import", re.M)
    texts = {path: path.read_text() for path in sorted((ROOT / "tests").rglob("test_*.py"))}
    asking = {path for path, text in texts.items() if counts.search(text)}
    assert len(asking) > 10
    assert [path for path in asking if "nightly" not in markers_of(path) and "mark.nightly" not in texts[path]] == []


@pytest.mark.xdist_group("spark")
def test_groups(request: pytest.FixtureRequest) -> None:
    """Several workers keep to the groups; else each of them would start each broker and a Spark of its own."""
    if getattr(request.config.option, "loadgroup", False):
        assert request.node.nodeid.endswith("@spark"), f"pytest {pytest.__version__} and pytest-xdist know no groups"
