"""Copy the examples into the pages that show them, so that a reader on GitHub sees the code, too.

A page names a file in a comment, and the block after it is the copy:

    <!-- examples/hello.py -->
    ```python
    ...
    ```

`<!-- examples/spark/flights.py:stream -->` copies the lines between the comments `[start:stream]` and `[end:stream]`.
A new page has an empty block. `--check` writes nothing, and fails if a copy is not what its file says.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COPY = re.compile(r"^<!-- ((?:examples|docs)/[\w/.-]+?)(?::(\w+))? -->\n```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def source(path: str, section: str | None) -> str:
    """Return a file without the marks of its sections, or one section.

    Raises:
        ValueError: there is no such section.
    """
    text = (ROOT / path).read_text(encoding="utf-8")
    if section is None:
        return re.sub(r"^# \[(?:start|end):\w+\]\n", "", text, flags=re.MULTILINE)
    found = re.search(rf"^# \[start:{section}\]\n(.*?)^# \[end:{section}\]$", text, re.MULTILINE | re.DOTALL)
    if found is None:
        raise ValueError(f"{path} has no section {section!r}")
    return found[1]


def with_copies(page: str) -> str:
    """Return a page with each of its copies written anew."""

    def copied(match: re.Match[str]) -> str:
        path, section, language, _ = match.groups()
        comment = match[0].partition("\n")[0]
        return f"{comment}\n```{language}\n{source(path, section).strip()}\n```"

    return COPY.sub(copied, page)


def main() -> int:
    """Write the copies, or compare them with the examples."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing, fail if a copy is old")
    arguments = parser.parse_args()
    old = []
    for path in sorted((ROOT / "docs").rglob("*.md")):
        text = path.read_text(encoding="utf-8")
        if (new := with_copies(text)) != text:
            old.append(path)
            if not arguments.check:
                path.write_text(new, encoding="utf-8")
    for path in old:
        told = "has old copies of examples: run tools/examples.py" if arguments.check else "is written"
        print(path.relative_to(ROOT), told, file=sys.stderr if arguments.check else sys.stdout)
    return int(arguments.check and bool(old))


if __name__ == "__main__":
    sys.exit(main())
