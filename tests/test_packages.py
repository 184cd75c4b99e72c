"""What a release consists of: it is built twice alike, and works where nothing else is installed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from email import message_from_bytes
from email.message import Message
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import amqp10
from amqp10.testing import BackgroundBroker

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("packages")]  # which are built once

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def build(source: Path, target: str, folder: Path, **variables: str) -> Path:
    """Build one package as `python -m build` does, but in this environment, so that nothing is downloaded."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", str(folder)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GITHUB_")} | variables
    done = subprocess.run(command, cwd=source, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (built,) = folder.iterdir()
    return built


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT, "sdist", tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that is built from the sdist."""
    folder = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    return build(folder / f"amqp10-{amqp10.__version__}", "wheel", tmp_path_factory.mktemp("wheel"))


def test_reproducible(sdist: Path, wheel: Path, tmp_path: Path) -> None:
    """A second build, from the working tree, has the same octets."""
    assert build(ROOT, "sdist", tmp_path / "sdist").read_bytes() == sdist.read_bytes()
    assert build(ROOT, "wheel", tmp_path / "wheel").read_bytes() == wheel.read_bytes()


def test_contents(sdist: Path, wheel: Path) -> None:
    """The wheel has the three packages, the license and the types; the sdist has what tests and the site need."""
    info = f"amqp10-{amqp10.__version__}.dist-info"
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {"amqp10/py.typed", "pytest_amqp10.py", f"{info}/licenses/LICENSE"} <= names
    assert {name.partition("/")[0] for name in names} == {"amqp10", "pyspark_amqp10", "pytest_amqp10.py", info}
    assert not [name for name in names if name.endswith((".pxd", ".pyx", ".c", ".so"))]
    with tarfile.open(sdist) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    needed = {"LICENSE", "README.md", "Makefile", "mkdocs.yml", "tests/conftest.py", "docs/index.md", ".ci/run"}
    assert needed <= inside
    assert ".github/workflows/ci.yml" in inside
    assert not [name for name in inside if name.startswith((".venv", "site/", "dist/")) or "__pycache__" in name]


def metadata(wheel: Path) -> Message:
    return message_from_bytes(zipfile.ZipFile(wheel).read(f"amqp10-{amqp10.__version__}.dist-info/METADATA"))


def test_metadata(wheel: Path) -> None:
    """It names its version, its license, its Pythons and its dependencies."""
    found = metadata(wheel)
    assert (found["Name"], found["Version"]) == ("amqp10", amqp10.__version__)
    assert (found["License-Expression"], found["License-File"]) == ("Apache-2.0", "LICENSE")
    assert found["Requires-Python"] == ">=3.11"
    assert found["Description-Content-Type"] == "text/markdown"
    assert found["Summary"]
    assert found["Keywords"]
    assert set(found.get_all("Classifier", [])) == set(PROJECT["classifiers"])
    assert set(found.get_all("Provides-Extra", [])) == set(PROJECT["optional-dependencies"])


def test_addresses(wheel: Path, tmp_path: Path) -> None:
    """Where GitHub says which repository it is, the package names it, and each link of the README leads there."""
    readme = (ROOT / "README.md").read_text()
    here = metadata(wheel)
    assert here.get_all("Project-URL") is None
    assert here.get_payload() == readme
    variables = {"GITHUB_SERVER_URL": "https://github.example", "GITHUB_REPOSITORY": "someone/amqp10"}
    at, tag = "https://github.example/someone/amqp10", f"v{amqp10.__version__}"
    found = metadata(build(ROOT, "wheel", tmp_path, **variables))
    assert found.get_all("Project-URL") == [
        f"Source, {at}",
        f"Documentation, {at}/blob/{tag}/docs/index.md",
        f"Changelog, {at}/blob/{tag}/CHANGELOG.md",
        f"Issues, {at}/issues",
    ]
    text = str(found.get_payload())
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert len(links) == len(re.findall(r"\]\(([^)]+)\)", readme)) > 20
    assert all(link.startswith("https://") for link in links)
    assert f"![CPU of each client for a message, real and small messages]({at}/raw/{tag}/docs/images/" in text
    for path in re.findall(rf"\]\({at}/(?:raw|blob)/{tag}/([^)#]+)", text):
        assert (ROOT / path).is_file()


def test_bill_of_materials(wheel: Path) -> None:
    """The wheel says what it is made of (PEP 770): itself, and what it needs, which is not bundled."""
    text = zipfile.ZipFile(wheel).read(f"amqp10-{amqp10.__version__}.dist-info/sboms/amqp10.cdx.json")
    bill = json.loads(text)
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    own = bill["metadata"]["component"]
    assert (own["purl"], own["version"]) == (f"pkg:pypi/amqp10@{amqp10.__version__}", amqp10.__version__)
    assert {each["name"] for each in bill["components"]} == {Requirement(each).name for each in PROJECT["dependencies"]}
    known = {own["bom-ref"], *(each["bom-ref"] for each in bill["components"])}
    assert all({each["ref"], *each["dependsOn"]} <= known for each in bill["dependencies"])


def required(line: str, found: dict[str, Distribution]) -> None:
    """Gather a package and whatever it needs, without extras, as this environment has them."""
    requirement = Requirement(line)
    wanted = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
    if wanted and requirement.name not in found:
        found[requirement.name] = distribution(requirement.name)
        for each in found[requirement.name].requires or []:
            required(each, found)


def test_installed_where_nothing_else_is(wheel: Path, tmp_path: Path) -> None:
    """In an environment with the dependencies that the wheel names, and nothing else, the README's program runs."""
    venv.create(tmp_path / "env", with_pip=False, symlinks=True)
    python = tmp_path / "env" / "bin" / "python"
    (site,) = (tmp_path / "env" / "lib").glob("python*/site-packages")
    needed: dict[str, Distribution] = {}
    for line in PROJECT["dependencies"]:
        required(line, needed)
    for each in needed.values():
        for top in {file.parts[0] for file in each.files or []} - {"..", "__pycache__"}:
            (site / top).symlink_to(Path(str(each.locate_file(top))))
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python)]
    for command in (["install", "--quiet", "--no-compile", "--no-index", "--no-deps", str(wheel)], ["check"]):
        done = subprocess.run([*pip, *command], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    code = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert code is not None
    with BackgroundBroker() as broker:
        (tmp_path / "readme.py").write_text(code[1].replace("amqp://localhost:5672", broker.url))
        program = [str(python), "-I", "-W", "error", str(tmp_path / "readme.py")]
        ended = subprocess.run(program, capture_output=True, text=True, timeout=280, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "hello greeting\n", "")


def test_workflow_is_the_script() -> None:
    """The workflow runs `.ci/run`, and each night `make nightly`, on each Python that the package names."""
    workflows = ROOT / ".github" / "workflows"
    text = (workflows / "ci.yml").read_text()  # its first steps: what the machine needs
    assert re.findall(r"- run: (.*)", text)[-1] == "$COMMAND"
    assert "COMMAND: ${{ inputs.command || '.ci/run' }}\n" in text
    assert "command: make nightly\n" in (workflows / "nightly.yml").read_text()
    pythons = re.findall(r"\d+\.\d+", re.search(r"python: \[(.*)\]", text)[1])  # type: ignore[index]
    assert [f"Programming Language :: Python :: {each}" for each in pythons] == [
        each for each in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", each)
    ]
