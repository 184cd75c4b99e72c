"""Print the notes of a release: what CHANGELOG.md says of one version.

    python tools/release_notes.py [VERSION]

Without a version it is that of the package.
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


def main() -> None:
    """Print the notes of the version that is named, or of the package's own."""
    own = runpy.run_path(str(ROOT / "src" / "amqp10" / "_version.py"))["__version__"]
    version = sys.argv[1] if len(sys.argv) > 1 else own
    try:
        print(notes((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), version), end="")
    except ValueError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
