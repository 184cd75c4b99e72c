"""The columns of a DataFrame of messages, named as in the specification, and the types that each can have."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
    VariantType,
)

from .._options import Options

MAP: Final = "map<string,string>"
VARIANT: Final = "variant"


@dataclass(frozen=True, slots=True)
class Column:
    """One column.

    Attributes:
        name: as the specification names the field, in snake case.
        types: the Spark types it can have, the usual one first.
        written: whether it is written; a read-only column is accepted in rows that are written, and left out.
        meaning: what the docs say of it.
        usual: it is in the schema when the user gives none.
    """

    name: str
    types: tuple[str, ...]
    written: bool
    meaning: str
    usual: bool = True


_TEXT: Final = ("string",)
_NUMBER: Final = ("bigint", "int")

COLUMNS: Final = tuple(
    Column(*row)
    for row in (
        (
            "body",
            ("binary", "string", VARIANT),
            True,
            "the body, see `bodyFormat`; NULL for none; as `variant` a value with its type, or JSON data",
        ),
        ("address", _TEXT, False, "the address that it was read from"),
        ("partition", _TEXT, False, "of a log, the partition"),
        ("offset", ("bigint",), False, "of a log, the place in its partition"),
        ("message_id", _TEXT, True, "a message-id that is no string is written `AMQP_ULONG:1`, as in JMS"),
        ("correlation_id", _TEXT, True, "likewise"),
        ("content_type", _TEXT, True, "the MIME type of the body"),
        ("content_encoding", _TEXT, True, 'what was applied to the body: "gzip"'),
        ("subject", _TEXT, True, "a summary"),
        ("to", _TEXT, True, "where the message is for; when `address` is not set, where a row is sent to"),
        ("reply_to", _TEXT, True, "where replies go"),
        ("user_id", ("binary", "string"), True, "who produced it"),
        ("group_id", _TEXT, True, "the group it belongs to"),
        ("group_sequence", _NUMBER, True, "its place in the group"),
        ("reply_to_group_id", _TEXT, True, "the group for replies"),
        ("creation_time", ("timestamp",), True, "when it was made"),
        ("absolute_expiry_time", ("timestamp",), True, "when it expires"),
        ("durable", ("boolean",), True, "it must survive a restart of the broker"),
        ("priority", ("int", "bigint", "smallint", "tinyint"), True, "0 to 255, higher goes first"),
        ("ttl", _NUMBER, True, "how long it lives (ms)"),
        ("delivery_count", _NUMBER, False, "earlier attempts to deliver it that failed"),
        ("first_acquirer", ("boolean",), False, "nobody has had it before"),
        (
            "application_properties",
            (MAP, VARIANT),
            True,
            "values that are no strings are written as text, but for those of a `variant`, which keep their types",
        ),
        ("message_annotations", (MAP, VARIANT), True, "likewise"),
        (
            "_decode_error",
            _TEXT,
            False,
            "why the message could not be decoded; its body is the encoded message then, in base64 if no binary",
            False,
        ),
    )
)
BY_NAME: Final = {column.name: column for column in COLUMNS}

_TYPES: Final[dict[str, DataType]] = {
    each.simpleString(): each
    for each in (
        BinaryType(),
        StringType(),
        BooleanType(),
        ByteType(),
        ShortType(),
        IntegerType(),
        LongType(),
        TimestampType(),
        MapType(StringType(), StringType()),
        VariantType(),
    )
}


def struct(columns: Iterable[tuple[str, str]]) -> StructType:
    """Make a Spark schema of columns, each a name and a type as in `Column.types`."""
    return StructType([StructField(name, _TYPES[kind]) for name, kind in columns])


def default_schema(body_format: str = "binary") -> StructType:
    """Return the schema for a user who gives none: `body` is a string where `bodyFormat` makes it text."""
    body = "string" if body_format in ("string", "json") else "binary"
    return struct((each.name, body if each.name == "body" else each.types[0]) for each in COLUMNS if each.usual)


def check_read(schema: StructType, options: Options) -> None:
    """Check that messages can be read into these columns.

    Raises:
        ValueError: a column is unknown, has a type that it cannot have, or is NOT NULL.
    """
    _check(schema, COLUMNS, options)
    for each in schema:
        # Spark would fail on a message without that field, after the message was taken from the queue.
        if not each.nullable:
            raise ValueError(f"amqp: column {each.name!r} cannot be NOT NULL: a message may be without it")


def check_written(schema: StructType, options: Options) -> None:
    """Check that rows with these columns can be written. Read-only columns are accepted, and left out.

    Raises:
        ValueError: a column is unknown or has a type that it cannot have; or there is no body, or no address.
    """
    _check(schema, COLUMNS, options)
    if "body" not in schema.names:
        raise ValueError(f"amqp: rows to be written need a column 'body'; these have {', '.join(schema.names)}")
    if options.address is None and "to" not in schema.names:
        raise ValueError("amqp: there is no address to write to: set the option 'address' or have a column 'to'")


def _check(schema: StructType, columns: Iterable[Column], options: Options) -> None:
    known = {column.name: column for column in columns}
    twice = next((name for name in schema.names if schema.names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"amqp: there are two columns {twice!r}")
    for each in schema:
        column = known.get(each.name)
        if column is None:
            raise ValueError(f"amqp: there is no column {each.name!r}; there are {', '.join(known)}")
        if each.dataType.simpleString() not in column.types:
            raise ValueError(
                f"amqp: column {each.name!r} cannot be {each.dataType.simpleString()}, but {' or '.join(column.types)}"
            )
        if each.name == "body" and options.body_format == "amqp" and each.dataType.simpleString() != "binary":
            raise ValueError("amqp: column 'body' must be binary with bodyFormat=amqp: it has whole encoded messages")


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the exact Arrow schema that Spark requires for batches of these columns."""
    return to_arrow_schema(schema, timezone="UTC")


def with_column(schema: StructType, name: str) -> StructType:
    """Return the schema with this column, appended in its usual type if it is missing."""
    if name in schema.names:
        return schema
    return StructType([*schema.fields, *struct([(name, BY_NAME[name].types[0])]).fields])


def reference() -> str:
    """Return the table of all columns, in Markdown."""
    lines = ["| column | types | written | meaning |", "| --- | --- | --- | --- |"]
    for column in COLUMNS:
        types = ", ".join(f"`{each}`" for each in column.types)
        lines.append(f"| `{column.name}` | {types} | {'yes' if column.written else 'no'} | {column.meaning} |")
    return "\n".join(lines)
