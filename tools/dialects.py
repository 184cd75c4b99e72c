"""Write docs/reference/dialects.md: what each dialect can do, from what their packages declare.

`--check` writes nothing and fails if the page is not what they declare.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from amqp10.engine import CAPABILITIES, Dialect, dialects

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reference" / "dialects.md"

INTRODUCTION = """\
# Dialects and what they can do

Every AMQP has the same `Connection`, `Session`, `Sender`, `Receiver` and `Message`; how to choose one is on
[its own page](../howto/dialects.md). Sending and receiving, settled or not, with credit, TLS and heartbeats, all of
them do. Beyond that they differ, and asking one for what it does not have raises `Unsupported` before a byte is
written. The page is written from what the dialects declare, by `python tools/dialects.py`.
"""


def render(found: list[Dialect]) -> str:
    """The page."""
    lines = [INTRODUCTION, "| `Connection(dialect=...)` | protocol header | `Connection.native` |", "|---|---|---|"]
    for each in found:
        headers = " or ".join(f"`{header.hex(' ')}`" for header in each.headers)
        native = f"`{each.native.replace(':', '.')}`" if each.native is not None else "none"
        lines.append(f'| `"{each.name}"` | {headers} | {native} |')
    lines += ["", "| capability | what it is | " + " | ".join(each.name for each in found) + " |"]
    lines.append("|---|---|" + ":-:|" * len(found))
    for word, meaning in CAPABILITIES.items():
        has = " | ".join("yes" if word in each.capabilities else "-" for each in found)
        lines.append(f"| `{word}` | {meaning} | {has} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing, fail if the page is out of date")
    arguments = parser.parse_args()
    page = render(dialects())
    if arguments.check:
        if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != page:
            print(f"{PAGE.relative_to(ROOT)} is out of date: run `python tools/dialects.py`", file=sys.stderr)
            return 1
        return 0
    PAGE.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
