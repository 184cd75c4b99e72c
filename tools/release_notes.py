"""Print the notes of a release: what CHANGELOG.md says of one version.

    python tools/release_notes.py [VERSION | --tag vVERSION]

Without a version it is that of the package. With a tag, it must be that of the package, and no fragment may wait in
changelog.d/: they belong to the release.
"""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def notes(changelog: str, version: str) -> str:
    """Return the section of a version, without its heading.

    Raises:
        ValueError: the changelog has no such section, or it is empty.
    """
    found = re.search(rf"^## {re.escape(version)} [^\n]*\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    if found is None or not found[1].strip():
        raise ValueError(f"CHANGELOG.md says nothing of version {version}")
    return found[1].strip() + "\n"


def check_tag(tag: str, own: str, fragments: list[str]) -> None:
    """Check that a tag may become a release.

    Raises:
        ValueError: the package has another version, or fragments wait.
    """
    if tag != f"v{own}":
        raise ValueError(f"the tag is {tag}, and the version of the package {own}: set src/amqp10/_version.py first")
    if fragments:
        raise ValueError(
            f"{len(fragments)} fragments wait in changelog.d/, such as {fragments[0]}: run towncrier build"
        )


def main() -> None:
    """Print the notes of the version that is named, or of the package's own."""
    own = runpy.run_path(str(ROOT / "src" / "amqp10" / "_version.py"))["__version__"]
    asked = sys.argv[1:]
    version = asked[0] if asked and asked[0] != "--tag" else own
    try:
        if asked[:1] == ["--tag"]:
            check_tag(asked[1], own, sorted(path.name for path in (ROOT / "changelog.d").glob("*.*.md")))
        print(notes((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), version), end="")
    except ValueError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
