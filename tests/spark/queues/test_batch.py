"""Batch reads and writes on Spark, against the embedded broker."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import anyio
import pytest

pytest.importorskip("pyspark")

from pyspark.errors import PySparkException

import amqp10
from amqp10.spark import AmqpDataSource

from ...kit.inside.spark import struct

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900), pytest.mark.xdist_group("spark")]


def sent(url: str, address: str, *messages: object) -> None:
    anyio.run(amqp10.send, url, address, *messages, backend="trio")


def received(url: str, address: str, count: int) -> list[amqp10.Message]:
    async def receive() -> list[amqp10.Message]:
        with anyio.fail_after(60):
            return await amqp10.receive(url, address, count=count)

    return anyio.run(receive, backend="trio")


def read(spark: SparkSession, url: str, address: str, schema: str | None = None, **options: Any) -> DataFrame:
    reader = spark.read.format("amqp").options(url=url, **options)
    return (reader.schema(schema) if schema else reader).load(address)


def test_browse_leaves_the_queue_as_it_is(spark: SparkSession, broker_url: str) -> None:
    """Two evaluations see the same, and then a receiver gets it all; nothing was registered."""
    sent(broker_url, "browsed", *(amqp10.Message(b"%d" % n, subject=f"s{n % 3}") for n in range(3000)))
    frame = read(spark, broker_url, "browsed")
    assert frame.count() == 3000
    first = frame.where("subject = 's1'").orderBy("body").first()
    assert first is not None
    assert (first.body, first.address, first.priority, first.durable) == (b"1", "browsed", 4, False)
    assert len(received(broker_url, "browsed", 3000)) == 3000


def test_a_schema_of_ones_own(spark: SparkSession, broker_url: str) -> None:
    """Only its columns, in its order and types."""
    sent(broker_url, "chosen", amqp10.Message("text", group_sequence=2, application_properties={"n": 1}))
    frame = read(
        spark, broker_url, "chosen", "group_sequence INT, application_properties MAP<STRING,STRING>, body STRING"
    )
    assert [row.asDict() for row in frame.collect()] == [
        {"group_sequence": 2, "application_properties": {"n": "1"}, "body": "text"}
    ]


def test_variants(spark: SparkSession, broker_url: str) -> None:
    """A number in a property is one for Spark, and for the receiver of the row that Spark writes."""
    made = amqp10.AmqpValue({"id": 7, "tags": ["a"]})
    sent(broker_url, "typed", amqp10.Message(made, application_properties={"n": 5, "s": "5"}))
    frame = read(spark, broker_url, "typed", "body VARIANT, application_properties VARIANT")
    extracted = frame.selectExpr(
        "variant_get(body, '$.id', 'int') + 1 id", "schema_of_variant(application_properties) kind"
    )
    assert [row.asDict() for row in extracted.collect()] == [{"id": 8, "kind": "OBJECT<n: BIGINT, s: STRING>"}]
    frame.write.format("amqp").options(url=broker_url, address="typed again").mode("append").save()
    (message,) = received(broker_url, "typed again", 1)
    assert message.body == {"id": 7, "tags": ["a"]}
    assert message.application_properties == {"n": 5, "s": "5"}


def test_limits_and_selectors(spark: SparkSession, broker_url: str) -> None:
    """`maxMessages` ends a read early, and so does a LIMIT; a selector is applied by the broker."""
    sent(broker_url, "limited", *(amqp10.Message(b"x", subject=str(n % 2)) for n in range(100)))
    assert read(spark, broker_url, "limited", maxMessages=7).count() == 7
    assert len(read(spark, broker_url, "limited").limit(3).collect()) == 3
    assert read(spark, broker_url, "limited", selector="amqp.subject = '1'").count() == 50
    other = '{"mine": {"descriptor": "apache.org:selector-filter:string", "value": "amqp.subject = \'0\'"}}'
    assert read(spark, broker_url, "limited", **{"amqp.filters": other}).count() == 50


def test_filters_are_pushed_down(spark: SparkSession, broker_url: str) -> None:
    """What the broker lets pass is what Spark keeps; a message that would fail the read is not even sent."""
    sent(broker_url, "pushed", *(amqp10.Message(b"x", subject=f"s{n}", priority=n) for n in range(10)))
    sent(broker_url, "pushed", amqp10.Message(b"\xff", subject="broken"))
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        frame = read(spark, broker_url, "pushed", "subject STRING, priority INT, body STRING", pushdown="true")
        wanted = frame.where("subject IN ('s1', 's4', 's9') AND priority >= 4 AND startswith(subject, 's')")
        assert sorted(row.subject for row in wanted.collect()) == ["s4", "s9"]
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_an_empty_queue(spark: SparkSession, broker_url: str) -> None:
    """No rows, and no waiting for any."""
    assert read(spark, broker_url, "empty").collect() == []


def test_write_and_what_a_receiver_gets(spark: SparkSession, broker_url: str) -> None:
    """Columns become fields, bytes data and text a value; ids are made, and all are durable."""
    frame = spark.sql(
        "SELECT concat('body ', id) body, concat('s', id) subject, map('n', string(id)) application_properties, "
        "1500000L ttl, 7 priority FROM range(500)"
    )
    frame.write.format("amqp").options(url=broker_url, address="written").mode("append").save()
    messages = received(broker_url, "written", 500)
    assert sorted(message.body for message in messages) == sorted(f"body {n}" for n in range(500))
    one = next(message for message in messages if message.body == "body 7")
    assert (one.subject, one.application_properties) == ("s7", {"n": "7"})
    assert one.ttl is not None
    assert timedelta(seconds=1300) < one.ttl <= timedelta(seconds=1500)
    assert (one.durable, one.priority) == (True, 7)
    ids = {message.message_id for message in messages}
    assert len(ids) == 500
    assert all(re.fullmatch(r"[0-9a-f]{32}/\d+/\d+", str(each)) for each in ids)


def test_each_row_to_its_address(spark: SparkSession, broker_url: str) -> None:
    """Without the option `address` the column `to` says where."""
    frame = spark.sql("SELECT string(id) body, concat('to', id % 2) to FROM range(10)")
    frame.write.format("amqp").option("url", broker_url).mode("append").save()
    assert sorted(m.body for m in received(broker_url, "to1", 5)) == ["1", "3", "5", "7", "9"]
    assert sorted(m.body for m in received(broker_url, "to0", 5)) == ["0", "2", "4", "6", "8"]


def test_a_task_as_a_transaction(spark: SparkSession, broker_url: str) -> None:
    """With `transaction=task` rows are there when the task is done; one that fails leaves none."""
    options = {"url": broker_url, "address": "atomic", "transaction": "task"}
    spark.sql("SELECT string(id) body FROM range(100)").write.format("amqp").options(**options).mode("append").save()
    assert len(received(broker_url, "atomic", 100)) == 100
    failing = spark.sql("SELECT IF(id = 90, raise_error('stop'), string(id)) body FROM range(0, 100, 1, 1)")
    with pytest.raises(PySparkException, match="stop"):
        failing.write.format("amqp").options(**options).mode("append").save()
    assert read(spark, broker_url, "atomic").count() == 0


def test_a_message_that_cannot_be_decoded(spark: SparkSession, broker_url: str) -> None:
    """The read fails and names it; a column `_decode_error` keeps it, among the others."""
    good = amqp10.Message(b"good")
    sent(broker_url, "broken", good, amqp10.Message(b"\xff"), good)
    with pytest.raises(PySparkException, match=r"a message of 'broken' \(delivery-tag .* cannot be decoded: .*UTF-8"):
        read(spark, broker_url, "broken", "body STRING").count()
    table = read(spark, broker_url, "broken", "body STRING, _decode_error STRING").collect()
    assert [row.body for row in table if row._decode_error is None] == ["good", "good"]
    assert [row._decode_error for row in table if row._decode_error] == [
        "the body is not UTF-8; a column `body` of binary takes it"
    ]


@pytest.mark.parametrize(
    ("columns", "options", "words"),
    [
        ("body binary", {}, "option 'address' is missing"),
        ("key string", {"address": "x"}, "there is no column 'key'"),
        ("body binary", {"address": "x", "ack": "wal"}, "'walLocation' is missing"),
        ("body binary", {"address": "x", "ack": "wal", "walLocation": "/proc/wal"}, "'/proc/wal' cannot be written"),
        ("body binary, body string", {"address": "x"}, "there are two columns 'body'"),
    ],
)
def test_mistakes_that_the_driver_finds(columns: str, options: dict[str, str], words: str) -> None:
    """Before anything is connected, in the process that plans."""
    source = AmqpDataSource({"url": "amqp://guest:my-secret@127.0.0.1:1", **options})
    with pytest.raises(ValueError, match=r"^amqp: ") as caught:
        source.reader(struct((name, kind) for name, kind in map(str.split, columns.split(", ")))).partitions()
    assert words in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"adress": "x"}, "there is no option 'adress'; did you mean 'address'?"),
        ({"address": "x", "password": "wrong-secret", "username": "guest"}, "the server refused the credentials"),
        ({"address": "x", "url": "amqp://guest:my-secret@127.0.0.1:1", "connectTimeout": "0.1"}, "ConnectionLost"),
        ({"address": "x", "selector": "a ="}, "amqp:invalid-field"),
        ({"address": "x", "amqp.filters": '{"x-mine": 1}'}, "does not apply the filters asked for: x-mine"),
        ({"address": "x", "schema": "body INT"}, "column 'body' cannot be int, but binary or string"),
        ({"address": "x", "tls.ca": "/none.pem"}, "there is no readable file '/none.pem'"),
    ],
)
def test_mistakes_of_a_read(spark: SparkSession, broker_url: str, options: dict[str, str], words: str) -> None:
    """One clear error on the driver, and no secret in it."""
    schema = options.pop("schema", None) if (options := dict(options)) else None
    reader = spark.read.format("amqp").options(**{"url": broker_url, **options})
    with pytest.raises(PySparkException) as caught:
        (reader.schema(schema) if schema else reader).load().count()
    assert words in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("query", "options", "mode", "words"),
    [
        ("SELECT '' body", {"address": "x"}, "overwrite", "mode must be 'append'"),
        ("SELECT '' text", {"address": "x"}, "append", "there is no column 'text'"),
        ("SELECT '' body, string(null) to", {}, "append", "row 0 of the task: it has no address"),
        (
            "SELECT '' body, 300 priority, 'm' message_id",
            {"address": "x"},
            "append",
            "row 0 of the task, message-id 'm': ",
        ),
    ],
)
def test_mistakes_of_a_write(
    spark: SparkSession, broker_url: str, query: str, options: dict[str, str], mode: str, words: str
) -> None:
    """One clear error, before anything is sent."""
    writer = spark.sql(query).write.format("amqp").option("url", broker_url).options(**options)
    with pytest.raises(PySparkException) as caught:
        writer.mode(mode).save()
    assert words in str(caught.value)


def test_no_secret_in_the_plan(spark: SparkSession, broker_url: str) -> None:
    """Neither in the plan that is explained, nor in its options."""
    frame = read(spark, broker_url, "planned", password="my-secret", username="guest")
    plan = frame._jdf.queryExecution().toString()
    assert "my-secret" not in plan
    assert "guest:guest" not in plan
