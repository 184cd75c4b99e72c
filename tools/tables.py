"""Write the declarations of methods, commands, controls and structs from the tables of the dialects, a row for each.

`--check` writes nothing and fails if a module is not what its table says.

A row has these words, in this order:

- its name, and its numbers: of the class and within it, or one number in AMQP/Fast; a struct may have none
- `*` if content follows it, and what only 0-10 has: `struct`, `result=STRUCT`, and the widths `size=N` and `pack=N`
- its fields as `name:type`, with `!` if the field is required and `=default` where that is not zero or nothing
- its docstring after `--`

A line that begins with blanks continues the row before it. One that begins with `#` is copied as a comment. The type
`name` of 0-9-1 is a short string that other programs write in whatever encoding.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
TABLES = ROOT / "tools" / "tables"
DIALECTS = ROOT / "src" / "amqp10" / "dialects"


class Field(NamedTuple):
    """A field of a row. `default` is None if the row does not have one."""

    name: str
    type: str
    required: bool
    default: str | None


class Row(NamedTuple):
    """A row of a table. `comment` is the line above it, "" for most rows."""

    comment: str
    name: str
    numbers: tuple[int, ...]
    flags: dict[str, str]
    fields: list[Field]
    text: str

    @property
    def title(self) -> str:
        """The name of its class."""
        name = self.name.partition(".")[2] if "struct" in self.flags else self.name
        return name.title().replace(".", "").replace("-", "")


def read_rows(table: str) -> list[Row]:
    """Return the rows of a table."""
    rows = []
    comment = ""
    for line in table.strip().replace("\n  ", " ").splitlines():
        if line.startswith("#"):
            comment = line
            continue
        words, _, text = line.partition(" -- ")
        name, *rest = words.split()
        numbers = tuple(int(word) for word in rest if word.isdecimal())
        flags, fields = {}, []
        for word in rest[len(numbers) :]:
            field, colon, type_and_default = word.partition(":")
            if colon:
                kind, equals, default = type_and_default.partition("=")
                fields.append(Field(field, kind.rstrip("!"), kind.endswith("!"), default if equals else None))
            else:
                flag, _, value = word.partition("=")
                flags[flag] = value
        rows.append(Row(comment, name, numbers, flags, fields, " ".join(text.split())))
        comment = ""
    return rows


def literal(python: str, value: str) -> str:
    """Return how Python writes a default of the type `python`."""
    quotes = {"str": '"{}"', "bytes": 'b"{}"', "Ranges": "({})"}
    return quotes.get(python, "{}").format(value)


def declare(opening: str, row: Row, fields: Iterable[str]) -> str:
    """Return a class: its comment, its opening, its docstring and its fields."""
    text = [f'    """{row.text}"""'] if row.text else []
    body = [f"    {field}" for field in fields]
    between = [""] if text and body else []
    comment = [row.comment, "", ""] if row.comment else []
    return "\n".join([*comment, opening, *(text + between + body or ["    pass"])])


def imports(module: str, names: Iterable[str]) -> str:
    """Return the import of `names`: first classes, then functions."""
    return f"from {module} import {', '.join(sorted(set(names)))}"


# For each type of 0-9-1: what declares it, and what Python has for it.
TYPES_0_9_1 = {
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


def write_0_9_1(rows: list[Row]) -> str:
    """Return the module of the methods of 0-9-1."""
    classes = []
    for row in rows:
        carries = ", carries=True" if "*" in row.flags else ""
        fields = []
        for field in row.fields:
            function, python = TYPES_0_9_1[field.type]
            default = "" if field.default is None else literal(python, field.default)
            fields.append(f"{field.name}: {python} = {function}({default})")
        opening = f'class {row.title}(Method, name="{row.name}", code={row.numbers}{carries}):'
        classes.append(declare(opening, row, fields))
    body = "\n\n\n".join(classes)
    functions = {TYPES_0_9_1[field.type][0] for row in rows for field in row.fields}
    return f'''\
"""The methods of 0-9-1 with RabbitMQ's extensions, one declaration each, in the order of their classes and numbers.

Written by `make tables` from `tools/tables/0-9-1.txt`: a change is made there. What only 0-9 final and its drafts have
is in `rare_methods`.
"""

from __future__ import annotations

from typing import Any

{imports(".fields", functions)}
from .method_table import Method, declared

{body}


METHODS: tuple[type[Method], ...] = declared(vars())
"""All of the above."""
'''


# For each type of 0-10 what Python has for it; structs have their classes.
TYPES_0_10 = {
    **dict.fromkeys(("uint8", "uint16", "uint32", "uint64", "sequence-no", "datetime"), "int"),
    **dict.fromkeys(("str8", "str16"), "str"),
    **dict.fromkeys(("vbin8", "vbin16", "vbin32"), "bytes"),
    **dict.fromkeys(("sequence-set", "byte-ranges"), "Ranges"),
    "bit": "bool",
    "uuid": "UUID",
    "map": "dict[str, Any]",
    "array": "list[Any]",
    "struct32": "Any",
}
CONTROLS_0_10 = ("connection.", "session.")
"""The classes that have controls instead of commands."""


def write_0_10(about: str, rows: list[Row]) -> str:
    """Return a module of 0-10 with the declarations of `rows`."""
    types = TYPES_0_10 | {row.name: row.title for row in rows if "struct" in row.flags}
    classes = []
    bases = set()
    for row in rows:
        facts = [f'name="{row.name}"']
        facts += [f"code=0x{row.numbers[0]:02X}{row.numbers[1]:02X}"] if row.numbers else []
        if "struct" in row.flags:
            base = "Struct"
            facts += [f"{fact}_width={row.flags[fact]}" for fact in ("size", "pack") if fact in row.flags]
        else:
            base = "Control" if row.name.startswith(CONTROLS_0_10) else "Command"
            facts += [f'result="{row.flags["result"]}"'] if "result" in row.flags else []
            facts += ["content=True"] if "*" in row.flags else []
        bases.add(base)
        opening = f"class {row.title}({base}, {', '.join(facts)}):"
        classes.append(declare(opening, row, [field_0_10(field, types[field.type]) for field in row.fields]))
    body = "\n\n\n".join(classes)
    ranges = {"Ranges"} if "Ranges" in body else set()
    uuid = "\nfrom uuid import UUID" if "UUID" in body else ""
    return f'''\
"""{about}

Written by `make tables` from `tools/tables/0-10.txt`: a change is made there. The commands of files and streams are in
`rare_commands`.
"""

from __future__ import annotations

from typing import Any{uuid}

{imports(".struct", bases | ranges)}, field

{body}
'''


def field_0_10(field: Field, python: str) -> str:
    """Return the declaration of a field of the type `python`."""
    absent = "" if field.required or field.default is not None or python == "bool" else " | None"
    required = ", required=True" if field.required else ""
    default = "" if field.default is None else f", default={literal(python, field.default)}"
    return f'{field.name}: {python}{absent} = field("{field.type}"{required}{default})'


# For each type of AMQP/Fast: its alias in `struct`, and its default.
TYPES_FAST = {
    "octet": ("Octet", "0"),
    "short": ("Short", "0"),
    "long": ("Long", "0"),
    "bit": ("Bit", "False"),
    "shortstr": ("ShortStr", '""'),
    "longstr": ("LongStr", 'b""'),
    "table": ("Table", "field(default_factory=dict)"),
}


def write_fast(rows: list[Row]) -> str:
    """Return the module of the commands of AMQP/Fast."""
    classes = []
    for row in rows:
        carries = ", carries=True" if "*" in row.flags else ""
        base = f"Command, code={row.numbers[0]}{carries}" if row.numbers else "Record"
        fields = []
        for field in row.fields:
            alias, default = TYPES_FAST[field.type]
            fields.append(f"{field.name}: {alias} = {default if field.default is None else field.default}")
        classes.append(declare(f"class {row.title}({base}):", row, fields))
    body = "\n\n\n".join(classes)
    aliases = {TYPES_FAST[field.type][0] for row in rows for field in row.fields}
    return f'''\
"""The 28 commands, and the head of a message: one declaration each, in the order of their numbers.

Written by `make tables` from `tools/tables/fast.txt`: a change is made there. Where the specification's grammar and its
prose disagree, the prose is followed: handle-browse has a confirm-tag, and out-of-band is a string in channel-open and
a bit in handle-send and handle-notify.
"""

from __future__ import annotations

from dataclasses import field

from .command_table import Command, declared
{imports(".struct", aliases | {"Record"})}

{body}


COMMANDS: dict[int, type[Command]] = declared(vars())
"""All of the above, by code."""
'''


def write_controls(rows: list[Row]) -> str:
    """Return the module of the controls of 0-10."""
    about = "The controls of connections and sessions, in the order of the specification (0-10 §9.1, §9.2)."
    return write_0_10(about, [row for row in rows if row.name.startswith(CONTROLS_0_10)])


def write_commands(rows: list[Row]) -> str:
    """Return the module of the commands of 0-10."""
    about = "The commands and their structs, in the order of the specification (0-10 §10.1 to §10.6)."
    return write_0_10(about, [row for row in rows if not row.name.startswith(CONTROLS_0_10)])


Writer = Callable[[list[Row]], str]
MODULES: dict[str, tuple[str, Writer]] = {
    "v0_9/wire/methods.py": ("0-9-1.txt", write_0_9_1),
    "v0_10/wire/controls.py": ("0-10.txt", write_controls),
    "v0_10/wire/commands.py": ("0-10.txt", write_commands),
    "fast/wire/commands.py": ("fast.txt", write_fast),
}
"""For each module its table, and what writes it."""


def main() -> int:
    """Write the modules, or check that each is as written."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a module is not up to date")
    check = parser.parse_args().check
    stale = 0
    for name, (table, write) in MODULES.items():
        module = DIALECTS / name
        wanted = write(read_rows((TABLES / table).read_text()))
        if not check:
            module.write_text(wanted)
        elif module.read_text() != wanted:
            stale += 1
            print(f"{module.relative_to(ROOT)} is not what tools/tables/{table} says: run `make tables`")
    return min(stale, 1)


if __name__ == "__main__":
    sys.exit(main())
