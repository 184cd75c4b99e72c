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
            "the body, in the form of `bodyFormat`; NULL without a body; a `variant` keeps the types of values",
        ),
        ("address", _TEXT, False, "the address that the message was read from"),
        ("partition", _TEXT, False, "the partition of a log"),
        ("offset", ("bigint",), False, "the place in the partition of a log"),
        (
            "message_id",
            _TEXT,
            True,
            "the message-id; if it is not a string, with its type as in JMS: `AMQP_ULONG:1`",
        ),
        ("correlation_id", _TEXT, True, "the correlation-id, in the same form"),
        ("content_type", _TEXT, True, "the MIME type of the body"),
        ("content_encoding", _TEXT, True, 'the encoding of the body, such as "gzip"'),
        ("subject", _TEXT, True, "a summary"),
        ("to", _TEXT, True, "the address that the message is for; without the option `address`, a row is sent there"),
        ("reply_to", _TEXT, True, "the address for replies"),
        ("user_id", ("binary", "string"), True, "the user who produced the message"),
        ("group_id", _TEXT, True, "the group of the message"),
        ("group_sequence", _NUMBER, True, "the place of the message in its group"),
        ("reply_to_group_id", _TEXT, True, "the group for replies"),
        ("creation_time", ("timestamp",), True, "the time at which the message was made"),
        ("absolute_expiry_time", ("timestamp",), True, "the time at which the message expires"),
        ("durable", ("boolean",), True, "whether the message must survive a restart of the broker"),
        ("priority", ("int", "bigint", "smallint", "tinyint"), True, "0 to 255; a higher priority goes first"),
        ("ttl", _NUMBER, True, "the time to live, in milliseconds"),
        ("delivery_count", _NUMBER, False, "the number of earlier attempts to deliver the message that failed"),
        ("first_acquirer", ("boolean",), False, "whether nobody has acquired the message before"),
        (
            "application_properties",
            (MAP, VARIANT),
            True,
            "a map of strings has other values as text; in a `variant` all values keep their types",
        ),
        ("message_annotations", (MAP, VARIANT), True, "the same for message-annotations"),
        (
            "_decode_error",
            _TEXT,
            False,
            "why decoding the message failed; `body` then has the encoded message, in base64 unless it is `binary`",
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
