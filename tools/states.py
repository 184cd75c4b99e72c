"""Write docs/reference/states.md: the state machines of the client and of every dialect, from their tables.

`--check` writes nothing and fails if the page is not what the tables say.
"""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

import amqp10.client._core
import amqp10.dialects
from amqp10._machine import HAPPENED, RECEIVED, SENT, Machine

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reference" / "states.md"

TITLES = {
    "v1_0": "AMQP 1.0",
    "v0_9": "AMQP 0-9-1",
    "v0_10": "AMQP 0-10",
    "fast": "AMQP/Fast 0.7",
    "_core": "The client",
}

INTRODUCTION = """\
# States

These tables show the states of connections, sessions and links in each dialect. A frame that this side sends or
receives leads from one state to the next. A frame that is not in the row of the present state is illegal. If this side
tries to send it, `LocalProtocolError` is raised. If the peer sends it, the peer has broken the protocol.

Client and server use the same tables. For the calls that wait, the client has states of its own, in
`client/_core/states.py`. They are the same in all dialects, and the last table shows them.

`python tools/states.py` writes this page from the tables in `amqp10.dialects` and `amqp10.client`.
"""


def machines() -> dict[str, list[type[Machine[Any]]]]:
    """Return the machines of each dialect and of the client, by the package below `amqp10.dialects` or `client`."""
    found: dict[str, list[type[Machine[Any]]]] = {}
    drawn: set[tuple[str, int]] = set()
    for module in (
        *walk_packages(amqp10.dialects.__path__, "amqp10.dialects."),
        *walk_packages(amqp10.client._core.__path__, "amqp10.client._core."),
    ):
        for kind in vars(import_module(module.name)).values():
            if (
                isinstance(kind, type)
                and issubclass(kind, Machine)
                and kind.__module__ == module.name
                and "transitions" in vars(kind)
                and (kind.noun, id(kind.transitions)) not in drawn  # client and server share a table
            ):
                drawn.add((kind.noun, id(kind.transitions)))
                found.setdefault(module.name.split(".")[2], []).append(kind)
    return found


def render(kind: type[Machine[Any]]) -> list[str]:
    """Return one machine's part of the page."""
    table = kind.transitions
    ways = [way for way in (SENT, RECEIVED, HAPPENED) if any(step.way == way for _, step in table)]
    heads = {SENT: "we send", RECEIVED: "we receive", HAPPENED: "other event"}
    lines = [f"### {kind.noun.capitalize()}", "", f"| state | meaning | {' | '.join(heads[way] for way in ways)} |"]
    lines.append("|---" * (2 + len(ways)) + "|")
    for state in type(next(iter(table))[0]):
        steps: dict[str, list[str]] = {way: [] for way in ways}
        for (before, step), after in table.items():
            if before is state:
                steps[step.way].append(f"{step.what} → `{after.name}`")
        lines.append(f"| `{state.name}` | {state.value} | {' | '.join('<br>'.join(each) for each in steps.values())} |")
    return [*lines, ""]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing, fail if the page is out of date")
    arguments = parser.parse_args()
    lines = [INTRODUCTION]
    found = machines()
    for dialect, title in TITLES.items():
        lines += [f"## {title}", ""] if dialect in found else []
        lines += [line for kind in found.get(dialect, ()) for line in render(kind)]
    page = "\n".join(lines).rstrip() + "\n"
    if arguments.check:
        if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != page:
            print(f"{PAGE.relative_to(ROOT)} is out of date: run `python tools/states.py`", file=sys.stderr)
            return 1
        return 0
    PAGE.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
