"""Encoded messages decoded into Arrow columns, held against the message objects that they are."""

from __future__ import annotations

import json
from base64 import b64decode
from datetime import UTC, datetime, timedelta
from struct import Struct
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

pytest.importorskip("pyspark")

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import BinaryType, StructField, StructType

from amqp10 import AmqpSequence, AmqpValue, Data, DecodeError, Message, Symbol, Timestamp, UInt, ULong
from amqp10.spark import Options
from amqp10.spark._rows.decode import Columns, append_deliveries
from amqp10.spark._rows.encode import Rows
from amqp10.spark._rows.schema import arrow_schema, check_read, check_written, default_schema, struct
from amqp10.spark._rows.variant import variant_from_json, variant_to_amqp

MOMENT = datetime(2024, 2, 29, 12, 30, 15, 250_000, UTC)
FULL: dict[str, Any] = {
    "durable": True,
    "priority": 9,
    "ttl": timedelta(seconds=2),
    "delivery_count": 3,
    "first_acquirer": True,
    "message_id": "m1",
    "user_id": b"me",
    "to": "there",
    "subject": "s",
    "reply_to": "here",
    "correlation_id": 7,
    "content_type": "text/plain",
    "content_encoding": "gzip",
    "absolute_expiry_time": MOMENT,
    "creation_time": MOMENT,
    "group_id": "g",
    "group_sequence": 2**32 - 1,
    "reply_to_group_id": "rg",
    "application_properties": {"n": 1, "s": "x", "b": b"\x00", "none": None, "yes": True, "f": 1.5},
    "message_annotations": {"x-opt-a": [1, {"k": "v"}]},
}


def columns_of(ddl: str) -> StructType:
    """`body BINARY, subject STRING` as a schema, without a Spark that could read it; "" for the usual one."""
    return struct((name, kind.lower()) for name, kind in map(str.split, ddl.split(", "))) if ddl else default_schema()


def schema(ddl: str) -> pa.Schema:
    return arrow_schema(columns_of(ddl))


def rows(messages: list[Message], ddl: str = "", **settings: Any) -> list[dict[str, Any]]:
    columns = Columns(schema(ddl), **settings)
    for message in messages:
        columns.add(message.encode())
    assert columns.rows == len(messages)
    batch = columns.take()
    assert columns.rows == 0
    batch.validate(full=True)
    return batch.to_pylist()  # type: ignore[no-any-return]


def test_every_field() -> None:
    """Each is in its column, in the column's type; what is no string in a map is text."""
    (row,) = rows([Message(b"body", **FULL)], constants={"address": "orders"})
    assert row == {
        "body": b"body",
        "address": "orders",
        "partition": None,
        "offset": None,
        **{name: FULL[name] for name in FULL if name not in ("correlation_id", "ttl")},
        "correlation_id": "AMQP_ULONG:7",
        "ttl": 2000,
        "application_properties": [
            ("n", "1"),
            ("s", "x"),
            ("b", "AA=="),
            ("none", None),
            ("yes", "true"),
            ("f", "1.5"),
        ],
        "message_annotations": [("x-opt-a", '[1, {"k": "v"}]')],
    }


def test_rows_that_say_nothing_are_filled_up() -> None:
    """Before, between and after those that do: header fields with their defaults, all else with null."""
    full = Message(b"b", **FULL)
    bare = Message(b"a")
    table = rows([bare, full, bare, bare, full, bare])
    assert [row["body"] for row in table] == [b"a", b"b", b"a", b"a", b"b", b"a"]
    assert [row["priority"] for row in table] == [4, 9, 4, 4, 9, 4]
    assert [row["durable"] for row in table] == [False, True, False, False, True, False]
    assert [row["delivery_count"] for row in table] == [0, 3, 0, 0, 3, 0]
    assert [row["subject"] for row in table] == [None, "s", None, None, "s", None]
    assert [bool(row["application_properties"]) for row in table] == [False, True, False, False, True, False]


@pytest.mark.parametrize(
    ("message", "binary", "text", "as_json"),
    [
        (Message(b"data"), b"data", "data", "data"),
        (Message(Data(b"one", b"two")), b"onetwo", "onetwo", "onetwo"),
        (Message("text"), b"text", "text", '"text"'),
        (Message(AmqpValue(b"v")), b"v", "v", '"dg=="'),
        (Message({"a": [1, 2.5, True, None]}), b'{"a": [1, 2.5, true, null]}', '{"a": [1, 2.5, true, null]}', None),
        (Message(UInt(5)), b"5", "5", "5"),
        (Message(MOMENT), b'"2024-02-29T12:30:15.250000+00:00"', '"2024-02-29T12:30:15.250000+00:00"', None),
        (Message(AmqpSequence([1, "a"], [2])), b'[1, "a", 2]', '[1, "a", 2]', None),
        (Message(UUID(int=1)), b'"00000000-0000-0000-0000-000000000001"', None, None),
        (Message(None), None, None, "null"),
    ],
)
def test_bodies(message: Message, binary: bytes | None, text: str | None, as_json: str | None) -> None:
    """Data as it is, text as UTF-8, other values as JSON; a column of strings has the same as text."""
    assert rows([message], "body BINARY") == [{"body": binary}]
    if text is not None:
        assert rows([message], "body STRING") == [{"body": text}]
    if as_json is not None:
        assert rows([message], "body STRING", body_format="json") == [{"body": as_json}]
    assert rows([message], "body BINARY", body_format="amqp") == [{"body": message.encode()}]


def test_a_moment_that_no_calendar_has() -> None:
    """It is near the end of Python's, where PySpark can collect it whatever its time zone."""
    messages = [Message(b"", creation_time=Timestamp(sign * 2**62)) for sign in (1, -1)]
    assert [row["creation_time"].isoformat() for row in rows(messages, "creation_time TIMESTAMP")] == [
        "9999-12-30T00:00:00+00:00",
        "0001-01-03T00:00:00+00:00",
    ]


@pytest.mark.parametrize(
    ("field", "fits", "too_much"),
    [
        ("priority TINYINT", {"priority": 127}, {"priority": 200}),
        ("ttl INT", {"ttl": timedelta(milliseconds=2**31 - 1)}, {"ttl": timedelta(milliseconds=3_000_000_000)}),
        ("delivery_count INT", {"delivery_count": 2**31 - 1}, {"delivery_count": 2**31}),
    ],
)
def test_a_number_that_a_column_has_no_room_for(field: str, fits: dict[str, Any], too_much: dict[str, Any]) -> None:
    """It is an error of its message, which is kept where that is wanted; the column and the value are named."""
    name = field.split()[0]
    assert rows([Message(b"x", **fits)], field)[0][name] > 0
    with pytest.raises(DecodeError, match=f"its {name} is [0-9]+, but the column takes numbers up to [0-9]+"):
        rows([Message(b"x", **too_much)], field)
    kept, other = rows([Message(b"x", **too_much), Message(b"y")], f"body BINARY, {field}, _decode_error STRING")
    assert kept["body"] == Message(b"x", **too_much).encode()
    assert f"its {name} is" in kept["_decode_error"]
    assert other["_decode_error"] is None
    assert rows([Message(b"x", **too_much)], f"{name} BIGINT" if name != "priority" else "priority INT")


def test_a_malformed_message_leaves_no_trace() -> None:
    """It raises, and the rows before and after it are whole."""
    columns = Columns(schema("body BINARY, subject STRING"))
    good = Message(b"x", subject="s").encode()
    columns.add(good)
    with pytest.raises(DecodeError):
        columns.add(good[:-1])
    with pytest.raises(DecodeError):
        columns.add(b"no message")
    columns.add(good)
    assert columns.take().to_pylist() == [{"body": b"x", "subject": "s"}] * 2


def test_a_malformed_message_is_kept_where_its_error_is_wanted() -> None:
    """The body is the payload as it came, and the column says why."""
    first, second = rows_of(
        b"\x00\x53\x99\x40", Message(b"x").encode(), ddl="body BINARY, _decode_error STRING, priority INT"
    )
    assert first["body"] == b"\x00\x53\x99\x40"
    assert "does not begin a message section" in first["_decode_error"]
    assert second == {"body": b"x", "_decode_error": None, "priority": 4}


def rows_of(*payloads: bytes, ddl: str) -> list[dict[str, Any]]:
    columns = Columns(schema(ddl))
    for payload in payloads:
        columns.add(payload)
    return columns.take().to_pylist()  # type: ignore[no-any-return]


def test_a_body_that_is_no_text() -> None:
    """A column of strings cannot have it, one of bytes can; kept by its error, nothing of the message is lost."""
    message = Message(b"\xff", message_id="m", priority=200, application_properties={"a": "1"})
    with pytest.raises(DecodeError, match="not UTF-8"):
        rows([message], "body STRING")
    assert rows([message], "body BINARY")[0] == {"body": b"\xff"}
    wanted = "body STRING, message_id STRING, application_properties map<string,string>, _decode_error STRING"
    [row] = rows([message], wanted)
    assert b64decode(row["body"]) == message.encode()
    assert (row["message_id"], row["application_properties"]) == ("m", [("a", "1")])
    assert "not UTF-8" in row["_decode_error"]


def test_what_is_whole_of_a_malformed_message() -> None:
    """Each section counts by itself: one that is malformed takes no other with it."""
    message = Message(b"x", message_id="m", priority=200, message_annotations={"x-a": "1"})
    wanted = "priority TINYINT, message_id STRING, message_annotations map<string,string>, _decode_error STRING"
    [row] = rows([message], wanted)
    assert (row["priority"], row["message_id"], row["message_annotations"]) == (4, "m", [("x-a", "1")])
    assert "its priority is 200" in row["_decode_error"]
    broken = message.encode().replace(b"\xa3\x03x-a", b"\xa3\x03\xff-a")
    [row] = rows_of(broken, ddl=wanted.replace("TINYINT", "INT"))
    assert (row["priority"], row["message_id"], row["message_annotations"]) == (200, "m", None)


def test_offsets_of_a_log() -> None:
    """Only messages of the range are appended, but the offset of every one is known."""
    columns = Columns(schema("offset BIGINT, body BINARY"), offset_key="x-stream-offset")
    payloads = [Message(b"%d" % n, message_annotations={"x-stream-offset": n}).encode() for n in range(10)]
    assert [columns.add(payload, 3, 6) for payload in payloads] == list(range(10))
    assert columns.take().to_pylist() == [{"offset": n, "body": b"%d" % n} for n in (3, 4, 5)]


def test_a_malformed_message_of_a_log_has_its_offset() -> None:
    """It stands in front of what cannot be read: so one that is not in the range is none of its business."""
    bad = Message(b"", message_annotations={"x-stream-offset": 4}).encode() + b"\x00\x53\x99\x40"
    columns = Columns(schema("offset BIGINT, _decode_error STRING"), offset_key="x-stream-offset")
    assert [columns.add(bad, 3, 4), columns.add(bad, 5, 9), columns.rows] == [4, 4, 0]
    assert columns.add(bad, 4, 5) == 4
    assert columns.take().column("offset").to_pylist() == [4]
    strict = Columns(schema("offset BIGINT"), offset_key="x-stream-offset")
    assert strict.add(bad, 5, 9) == 4
    with pytest.raises(DecodeError, match="does not begin a message section"):
        strict.add(bad, 4, 5)


@pytest.mark.parametrize(
    "broken",
    [b"no message", *(Message(b"", message_annotations={"x-stream-offset": each}).encode() for each in ("4", None))],
    ids=["no message", "a string", "nothing"],
)
def test_a_message_of_a_log_whose_offset_is_malformed(broken: bytes) -> None:
    """It is kept without one, and those after it keep theirs."""
    columns = Columns(schema("offset BIGINT, _decode_error STRING"), offset_key="x-stream-offset")
    columns.add(Message(b"a", message_annotations={"x-stream-offset": 3}).encode())
    assert columns.add(broken) == -1
    columns.add(Message(b"c", message_annotations={"x-stream-offset": 5}).encode())
    table = columns.take().to_pylist()
    assert [row["offset"] for row in table] == [3, None, 5]
    assert [row["_decode_error"] is None for row in table] == [True, False, True]


@pytest.mark.parametrize(
    "value", ["plain", "AMQP_looks_like_one", "ID:AMQP_ULONG:1", 0, 2**64 - 1, UUID(int=5), b"\x00\xff", ""]
)
def test_message_ids_come_back_as_they_were(value: Any) -> None:
    """Read into a column of strings and written from it, an id is of the same type and value."""
    batch = pa.RecordBatch.from_pylist(
        rows([Message(b"", message_id=value)], "body BINARY, message_id STRING"),
        schema("body BINARY, message_id STRING"),
    )
    (message,) = Rows(Options.parse({"url": "amqp://h", "address": "a"}), "p").messages(batch)
    assert message.message_id == value
    assert type(message.message_id) is type(value)


WRITTEN = [name for name in FULL if name not in ("delivery_count", "first_acquirer")]


@pytest.mark.parametrize("body", ["text", 7, 2**40, ULong(2**64 - 1), 100.0, True, [1, {"a": None}], {"k": [1.5, "x"]}])
def test_variants_keep_types(body: Any) -> None:
    """Values of bodies and maps come back from a VARIANT as they went in, numbers as numbers; data is JSON there."""
    kind = schema("body VARIANT, application_properties VARIANT")
    columns = Columns(kind)
    given = {"n": 5, "s": "5", "yes": True, "f": 0.5, "none": None}
    columns.add(Message(AmqpValue(body), application_properties=given).encode())
    columns.add(Message(json.dumps(body).encode()).encode())
    columns.add(Message(AmqpValue(None)).encode())
    batch = columns.take()
    batch.validate(full=True)
    first, second, third = Rows(Options.parse({"url": "amqp://h", "address": "a"}), "p").messages(batch)
    assert first.body == second.body == AmqpValue(body)
    assert type(first.body.value) is type(body)
    assert first.application_properties == given
    assert not second.application_properties
    assert third.body is None


def test_a_body_that_is_no_json_is_no_variant() -> None:
    """It fails, or is kept."""
    with pytest.raises(DecodeError, match="cannot be a VARIANT"):
        rows([Message(b"{")], "body VARIANT")
    message = Message(b"{", subject="s")
    (row,) = rows([message], "body VARIANT, _decode_error STRING")
    assert b64decode(variant_to_amqp(row["body"])) == message.encode()
    assert "cannot be a VARIANT" in row["_decode_error"]


def test_a_message_of_another_format() -> None:
    """It is not AMQP's own, whatever it looks like: it fails, or is kept, with what can be told of it."""
    payload = Message(b"x", message_id="id").encode()
    delivery: Any = SimpleNamespace(payload=payload, message_format=7, tag=b"t")
    with pytest.raises(DecodeError, match=r"message-format 7 is not .*`_decode_error`"):
        append_deliveries(Columns(schema("body BINARY")), [delivery], "q")
    columns = Columns(schema("body BINARY, message_id STRING, _decode_error STRING"))
    append_deliveries(columns, [delivery], "q")
    (row,) = columns.take().to_pylist()
    assert (row["body"], row["message_id"]) == (payload, "id")
    assert "message-format 7" in row["_decode_error"]


@given(st.lists(st.fixed_dictionaries({}, optional={name: st.just(FULL[name]) for name in WRITTEN}), max_size=8))
def test_what_was_read_can_be_written(messages: list[dict[str, Any]]) -> None:
    """Whatever fields are there, a row that was read makes the message it came from, but for types within maps."""
    texts = {"application_properties": {"a": "1"}, "message_annotations": {Symbol("x-a"): "2"}}
    made = [
        Message(b"%d" % n, **{**each, **{name: texts[name] for name in texts if name in each}})
        for n, each in enumerate(messages)
    ]
    batch = pa.RecordBatch.from_pylist(rows(made), schema(""))
    options = Options.parse({"url": "amqp://h", "address": "a", "messageIds": "none", "durable": "false"})
    assert list(Rows(options, "p").messages(batch)) == made


def test_rows_without_an_id_get_one_that_does_not_change() -> None:
    """The same task makes the same ids; with `duplicateIdProperty` brokers see it."""
    options = Options.parse({"url": "amqp://h", "address": "a", "duplicateIdProperty": "_AMQ_DUPL_ID"})
    batch = pa.RecordBatch.from_pydict(
        {"body": [b"a", b"b"], "message_id": [None, "mine"]}, schema("body BINARY, message_id STRING")
    )
    for _ in range(2):
        first, second = Rows(options, "query/0/1").messages(batch)
        assert first.message_id == first.application_properties["_AMQ_DUPL_ID"] == "query/0/1/0"
        assert second.message_id == second.application_properties["_AMQ_DUPL_ID"] == "mine"
        assert first.durable


@pytest.mark.parametrize(
    ("extra", "row", "words"),
    [
        ({"messageIds": "column"}, {"body": b"", "message_id": None}, "row 0 of the task: its message_id is null"),
        ({"bodyFormat": "json"}, {"body": b"{", "message_id": "a"}, "its body is not JSON"),
        pytest.param({"bodyFormat": "json"}, {"body": b"[" * 100_000}, "JSON: nested too deeply", id="nested"),
        ({"bodyFormat": "amqp"}, {"body": b"\x00", "message_id": "a"}, "row 0 of the task, message-id 'a': "),
        (
            {},
            {"body": b"", "message_id": "AMQP_ULONG:x"},
            "row 0 of the task, message-id 'AMQP_ULONG:x': invalid literal",
        ),
    ],
)
def test_a_row_that_is_no_message_is_named(extra: dict[str, str], row: dict[str, Any], words: str) -> None:
    """Which row it is, and what is wrong with it."""
    options = Options.parse({"url": "amqp://h", "address": "a", **extra})
    batch = pa.RecordBatch.from_pylist([row], schema("body BINARY, message_id STRING"))
    with pytest.raises(ValueError, match="amqp: ") as caught:
        list(Rows(options, "p").messages(batch))
    assert words in str(caught.value)


def test_a_moment_beyond_the_calendar_is_named() -> None:
    """Also where it is found before there are rows."""
    moments = pa.array([0, 320_000_000_000_000_000], pa.timestamp("us", "UTC"))
    batch = pa.RecordBatch.from_arrays(
        [pa.array([b"", b""]), moments], schema=schema("body BINARY, creation_time TIMESTAMP")
    )
    with pytest.raises(ValueError, match="amqp: row 1 of the task: its creation_time: "):
        list(Rows(Options.parse({"url": "amqp://h", "address": "a"}), "p").messages(batch))


def test_properties_that_are_no_map_are_named() -> None:
    """A VARIANT can be anything."""
    batch = pa.RecordBatch.from_pylist(
        [{"body": b"", "application_properties": variant_from_json("[1]")}],
        schema("body BINARY, application_properties VARIANT"),
    )
    with pytest.raises(ValueError, match="amqp: row 0 of the task: "):
        list(Rows(Options.parse({"url": "amqp://h", "address": "a"}), "p").messages(batch))


def test_a_variant_that_is_nested_deeply_is_named() -> None:
    """Spark parses deeper JSON than Python can walk through."""
    body = b"\0"
    for _ in range(1000):  # an array of one element, with sizes of four octets (Spark's common/variant/README.md)
        body = b"\x1f" + Struct("<III").pack(1, 0, len(body)) + body
    batch = pa.RecordBatch.from_pylist([{"body": {"value": body, "metadata": b"\x01\0\0"}}], schema("body VARIANT"))
    with pytest.raises(ValueError, match="amqp: row 0 of the task: its body: the VARIANT is nested too deeply"):
        list(Rows(Options.parse({"url": "amqp://h", "address": "a"}), "p").messages(batch))


def test_schemas() -> None:
    """The usual one is readable, and a column that there is not, or of another type, is named."""
    options = Options.parse({"url": "amqp://h"})
    check_read(default_schema(), options)
    check_read(default_schema("json"), options)
    with pytest.raises(ValueError, match="'body' cannot be NOT NULL"):
        check_read(StructType([StructField("body", BinaryType(), nullable=False)]), options)
    with pytest.raises(ValueError, match="there is no column 'key'; there are body, "):
        check_read(columns_of("body BINARY, key STRING"), options)
    with pytest.raises(ValueError, match="'priority' cannot be string, but int or bigint"):
        check_read(columns_of("priority STRING"), options)
    with pytest.raises(ValueError, match="there are two columns 'body'"):
        check_read(columns_of("body STRING, body BINARY"), options)
    with pytest.raises(ValueError, match="'body' must be binary with bodyFormat=amqp"):
        check_read(columns_of("body STRING"), Options.parse({"url": "amqp://h", "bodyFormat": "amqp"}))
    with pytest.raises(ValueError, match="need a column 'body'"):
        check_written(columns_of("subject STRING"), options)
    with pytest.raises(ValueError, match="there is no address to write to"):
        check_written(columns_of("body STRING"), options)
