"""Write the declarations of the methods of 0-9-1 from the table that says the same in a line each.

`--check` writes nothing and fails if the module is not what the table says.

A line of the table has the method's name, its class and number, `*` if content follows it, and its fields as
`name:type`, with `=default` where that is not zero or nothing. `name` is a type, too: a short string that other
programs write in whatever encoding. A line that begins with blanks continues the one before it, and one that begins
with `#` is copied as a comment.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "tools" / "tables" / "0-9-1.txt"
MODULE = ROOT / "src" / "amqp10" / "dialects" / "v0_9" / "wire" / "methods.py"

# For each type in the table: what declares it, and what Python has for it.
TYPES = {
    "octet": ("octet", "int"),
    "short": ("short", "int"),
    "long": ("long", "int"),
    "longlong": ("longlong", "int"),
    "shortstr": ("shortstr", "str"),
    "name": ("raw_shortstr", "str"),
    "longstr": ("longstr", "bytes"),
    "bit": ("bit", "bool"),
    "table": ("table", "dict[str, Any] | None"),
}

HEAD = '''\
"""The methods of 0-9-1 with RabbitMQ's extensions, one declaration each, in the order of their classes and numbers.

Written by `make tables` from `tools/tables/0-9-1.txt`: a change is made there. What only 0-9 final and its drafts have
is in `rare_methods`.
"""

from __future__ import annotations

from typing import Any

from .fields import {declarations}
from .method_table import Method, declared
'''

TAIL = '''
METHODS: tuple[type[Method], ...] = declared(vars())
"""All of the above."""
'''


def module(table: str) -> str:
    """Return the module that declares the methods of the table."""
    blocks = []
    used = set()
    for line in table.strip().replace("\n  ", " ").splitlines():
        if line.startswith("#"):
            blocks.append(line)
            continue
        name, number, index, *rest = line.split()
        title = name.title().replace(".", "").replace("-", "")
        carries = ", carries=True" if "*" in rest else ""
        lines = [f'class {title}(Method, name="{name}", code=({number}, {index}){carries}):']
        for each in rest:
            field, colon, said = each.partition(":")
            if colon:
                kind, _, default = said.partition("=")
                declaration, python = TYPES[kind]
                used.add(declaration)
                quoted = {"str": f'"{default}"', "bytes": f'b"{default}"'}.get(python, default) if default else ""
                lines.append(f"    {field}: {python} = {declaration}({quoted})")
        blocks.append("\n".join(lines if len(lines) > 1 else [*lines, "    pass"]))
    return "\n".join((HEAD.format(declarations=", ".join(sorted(used))), "\n\n\n".join(blocks) + "\n", TAIL))


def main() -> int:
    """Write the module, or see whether it is as written."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the module is not up to date")
    wanted = module(TABLE.read_text())
    if not parser.parse_args().check:
        MODULE.write_text(wanted)
    elif MODULE.read_text() != wanted:
        print(f"{MODULE.relative_to(ROOT)} is not what {TABLE.relative_to(ROOT)} says: run `make tables`")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
