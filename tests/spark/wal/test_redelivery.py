"""What is delivered again is known by its message-id and its body."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

import pyarrow as pa

from amqp10 import Message
from amqp10.spark._wal.query_folder import delete_committed, known_rows
from amqp10.spark._wal.redelivery import with_body_encoding
from amqp10.spark._wal.segments import Segment

from ...kit.spark.segment_files import SCHEMA, batch, files, make


def test_a_draft_drops_what_is_known(tmp_path: Path) -> None:
    """Rows without an id are never known."""
    segment = Segment(str(tmp_path), 2, 0)
    segment.folder.mkdir()
    make(Segment(str(tmp_path), 1, 0), "a", None, "", "c")
    with segment.write(SCHEMA) as draft:
        draft.append(batch("a", None, "b"))
        draft.append(batch("c", "a"))
        assert draft.drop(known_rows(str(tmp_path))) == 3
        assert draft.drop(known_rows(str(tmp_path))) == 0
        assert draft.publish()
    # Batch by batch: together they may be more than an array can have.
    assert [each.to_pydict()["message_id"] for each in segment.read(["message_id"])] == [[None, "b"], []]
    assert files(segment) == ["part-0.arrow"]


@pytest.mark.parametrize("committed", [False, True], ids=["in a segment", "in its ids"])
@pytest.mark.parametrize(
    ("kind", "body", "other"),
    [
        (pa.binary(), b"\xff", b"other"),
        (pa.string(), "one", "other"),
        (pa.struct({"value": pa.binary(), "metadata": pa.binary()}), {"value": b"a", "metadata": b"b"}, None),
    ],
    ids=["binary", "string", "variant"],
)
def test_an_id_that_is_used_again(tmp_path: Path, kind: pa.DataType, body: Any, other: Any, committed: bool) -> None:
    """A message with another body is another message; without bodies the id has to do."""
    wal = str(tmp_path)
    schema = pa.schema([("body", kind), ("message_id", pa.string())])

    def write(segment: Segment, *bodies: Any, columns: pa.Schema = schema) -> int:
        segment.folder.mkdir(parents=True)
        with segment.write(columns) as draft:
            rows = pa.RecordBatch.from_pydict({"body": list(bodies), "message_id": ["a"] * len(bodies)}, schema)
            draft.append(rows.select(columns.names))
            dropped = draft.drop(known_rows(wal))
            assert draft.publish()
        return dropped

    assert write(Segment(wal, 1, 0), body) == 0
    if committed:
        delete_committed(wal, 1, 10)
    dropped = write(Segment(wal, 2, 0), other, body, other)
    assert dropped == 1
    assert [row["body"] for rows in Segment(wal, 2, 0).read(["body"]) for row in rows.to_pylist()] == [other, other]
    assert write(Segment(wal, 3, 0), other, columns=pa.schema([("message_id", pa.string())])) == 1


@pytest.mark.parametrize("committed", [False, True], ids=["in a segment", "in its ids"])
def test_whole_messages_that_come_again(tmp_path: Path, committed: bool) -> None:
    """A broker has written in the header and the annotations, and a footer: the bare message is the same."""
    wal = str(tmp_path)
    schema = with_body_encoding(SCHEMA, "amqp")

    def write(batch: int, *messages: Message) -> int:
        segment = Segment(wal, batch, 0)
        segment.folder.mkdir()
        with segment.write(schema) as draft:
            bodies = [message.encode() for message in messages]
            draft.append(pa.RecordBatch.from_arrays([bodies, ["a"] * len(bodies)], schema=schema))
            dropped = draft.drop(known_rows(wal))
            assert draft.publish()
        return dropped

    assert write(1, Message(b"x", message_id="a")) == 0
    if committed:
        delete_committed(wal, 1, 10)
    again = Message(b"x", message_id="a", delivery_count=1, message_annotations={"x-acquired": 1}, footer={"f": 1})
    assert write(2, again, Message(b"y", message_id="a")) == 1
    assert [each.schema.metadata for each in Segment(wal, 2, 0).read(["body"])] == [None]


def test_bodies_that_are_read_in_another_way_by_then(tmp_path: Path) -> None:
    """They cannot be compared, so that the id has to do; text and data can be."""
    wal = str(tmp_path)
    for number, kind, dropped in ((1, "binary", 0), (2, "amqp", 1), (3, "json", 1), (4, "string", 0)):
        schema = with_body_encoding(SCHEMA, kind)
        segment = Segment(wal, number, 0)
        segment.folder.mkdir()
        with segment.write(schema) as draft:
            body = Message(kind, message_id="a").encode()
            draft.append(pa.RecordBatch.from_arrays([[body], ["a"]], schema=schema))
            assert draft.drop(known_rows(wal)) == dropped
            assert draft.publish()
