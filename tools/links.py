"""List the links that lead out of the project, with where each of them stands; `--ask` asks each server for its page.

    python tools/links.py [--ask]

No test asks: a server of others may be away. Before a release look at the list, or ask where there is a network. With
`--ask` it prints only what did not answer, and then it exits with 1.
"""

from __future__ import annotations

import re
import sys
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"\]\((https?://[^)\s]+)\)|^\[\w+\]: (https?://\S+)$", re.MULTILINE)


def links() -> dict[str, list[str]]:
    """Return the files that have each link."""
    found: dict[str, list[str]] = {}
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]:
        for inline, reference in LINK.findall(path.read_text(encoding="utf-8")):
            found.setdefault((inline or reference).partition("#")[0], []).append(str(path.relative_to(ROOT)))
    return found


def fault(link: str) -> str:
    """Return what is wrong with a link, or nothing."""
    try:
        with urllib.request.urlopen(urllib.request.Request(link, headers={"User-Agent": "links"}), timeout=30):
            return ""
    except (OSError, ValueError) as error:
        return f": {error}"


def main() -> int:
    """Print the links, or those that do not answer."""
    ask = "--ask" in sys.argv[1:]
    bad = 0
    for link, files in sorted(links().items()):
        said = fault(link) if ask else ""
        bad += bool(said)
        if said or not ask:
            print(f"{link}{said} ({', '.join(dict.fromkeys(files))})")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
