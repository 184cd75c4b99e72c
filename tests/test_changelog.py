"""Each fragment of changelog.d has a name and a form that a release can gather."""

from __future__ import annotations

import re
import runpy
import tomllib
from pathlib import Path

import pytest

import amqp10

ROOT = Path(__file__).parent.parent
CONFIGURED = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["towncrier"]
FOLDER = ROOT / CONFIGURED["directory"]
KINDS = [kind["directory"] for kind in CONFIGURED["type"]]
NAME = re.compile(rf"\d+-[a-z0-9][a-z0-9.-]*\.({'|'.join(KINDS)})\.md")
END_OF_SENTENCE = re.compile(r"[.!?]\)?\s+(?=[A-Z`])")


def faults_of(name: str, text: str) -> list[str]:
    """Return what is wrong with a fragment, in words for whoever wrote it."""
    faults = []
    if not NAME.fullmatch(name):
        faults.append(f"its name must be <issue>-<topic>.<{'|'.join(KINDS)}>.md, in small letters")
    sentence = text.strip()
    if not sentence.endswith("."):
        faults.append("it must end with a period")
    if "\n\n" in sentence or sentence.startswith(("-", "*", "#")):
        faults.append("it must be one plain paragraph: the list is made by the release")
    if END_OF_SENTENCE.search(sentence):
        faults.append("it must be one sentence")
    return faults


def test_fragments() -> None:
    """Every file in the folder but the template and its README is a fragment that can be gathered."""
    found = {
        path.name: faults_of(path.name, path.read_text())
        for path in sorted(FOLDER.iterdir())
        if path.name not in ("README.md", *CONFIGURED["ignore"])
    }
    assert {name: faults for name, faults in found.items() if faults} == {}


@pytest.mark.parametrize(
    ("name", "text", "faults"),
    [
        ("19-names.changed.md", "`Broker(users={})` lets nobody in, instead of everybody (see 2.4.5).\n", 0),
        ("19-names.fixed.md", "AMQP 1.0: a link is refused,\nas §2.6 says.\n", 0),
        ("names.fixed.md", "No issue is named.", 1),
        ("19-names.repaired.md", "No kind is called so.", 1),
        ("19-names.fixed.md", "It is mended", 1),
        ("19-names.fixed.md", "One sentence. Another one.", 1),
        ("19-names.added.md", "- an item of a list.", 1),
        ("19-names.added.md", "One paragraph,\n\nand another.", 1),
    ],
)
def test_what_is_a_fragment(name: str, text: str, faults: int) -> None:
    """A wrong name, two sentences, a list and a missing period are each found."""
    assert len(faults_of(name, text)) == faults


def test_the_changelog_has_this_version() -> None:
    """The version of the package has an entry, below the line where a release writes the next one."""
    text = (ROOT / "CHANGELOG.md").read_text()
    version = amqp10.__version__
    assert text.index(CONFIGURED["start_string"]) < text.index(f"\n## {version} ")


def test_tag_of_a_release() -> None:
    """A tag of another version is refused, and one while fragments wait."""
    check = runpy.run_path(str(ROOT / "tools" / "release_notes.py"))["check_tag"]
    check("v1.1", "1.1", [])
    with pytest.raises(ValueError, match=r"the tag is v1\.0, and the version of the package 1\.1"):
        check("v1.0", "1.1", [])
    with pytest.raises(ValueError, match=r"2 fragments wait in changelog\.d/, such as a\.fixed\.md"):
        check("v1.1", "1.1", ["a.fixed.md", "b.added.md"])


def test_release_notes() -> None:
    """The notes of a release are the section of its version; a version without one is an error."""
    notes = runpy.run_path(str(ROOT / "tools" / "release_notes.py"))["notes"]
    text = "# Changelog\n\n## 1.10 (today)\n\n### Added\n\n- More.\n\n## 1.1 (before)\n\n- First.\n"
    assert notes(text, "1.10") == "### Added\n\n- More.\n"
    assert notes(text, "1.1") == "- First.\n"
    for version in ("1.0", "1", "1.1 (before"):
        with pytest.raises(ValueError, match="says nothing of version"):
            notes(text, version)
    assert notes((ROOT / "CHANGELOG.md").read_text(), amqp10.__version__)
