"""Streaming from logs, as Spark's driver does it: the reader is asked without a Spark."""

from __future__ import annotations

import logging

import anyio
import pytest

pytest.importorskip("pyspark")

from pyspark.sql.streaming.datasource import ReadAllAvailable

from amqp10 import Connection, Message
from amqp10.spark import _log_stream
from amqp10.spark._connect import run
from amqp10.spark._log_stream import LogStreamReader, planned
from amqp10.spark._options import Options
from amqp10.spark._ranges import DataLoss
from amqp10.spark._schema import usual_schema

NAME = "remade"


async def make(url: str, messages: int) -> None:
    """A stream with so many messages, in place of the one that there was."""
    async with Connection(url, dialect="0-9-1") as connection:
        await connection.native.delete_queue(NAME)
        await connection.native.declare_queue(NAME, durable=True, arguments={"x-queue-type": "stream"})
    async with Connection(url) as connection, connection.sender(NAME) as sender:
        await sender.send_many(Message(b"%d" % number) for number in range(messages))


def reader(url: str, **options: str) -> LogStreamReader:
    given = {"url": url, "address": NAME, "mode": "stream", "startingOffsets": "earliest"}
    return LogStreamReader(Options.parse({**given, **options}), usual_schema())


@pytest.mark.parametrize("available_now", [False, True])
def test_a_stream_that_was_made_anew(
    broker_url: str, available_now: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It ends before the checkpoint's offset: the query fails, or begins anew; nothing is passed over in silence."""
    monkeypatch.setattr(_log_stream, "PAUSE", 0)
    anyio.run(make, broker_url, 10, backend="trio")
    first = reader(broker_url)
    end = first.latestOffset(first.initialOffset(), ReadAllAvailable())
    assert end == {NAME: {"from": 0, "to": 10}}
    for left in (0, 4):
        anyio.run(make, broker_url, left, backend="trio")
        strict, lax = reader(broker_url), reader(broker_url, failOnDataLoss="false")
        if available_now:
            strict.prepareForTriggerAvailableNow()
            lax.prepareForTriggerAvailableNow()
        with pytest.raises(DataLoss, match=f"'{NAME}' ends at offset {left}, before 10"):
            strict.latestOffset(end, ReadAllAvailable())
        with caplog.at_level(logging.WARNING, "amqp10.spark"):
            begun = lax.latestOffset(end, ReadAllAvailable())
        assert begun == {NAME: {"from": 0, "to": left}}
        assert f"ends at offset {left}, before 10" in caplog.text
        assert lax.latestOffset(begun, ReadAllAvailable()) == begun


def test_a_batch_that_is_to_begin_behind_the_end(broker_url: str) -> None:
    """Likewise: where somebody was, the stream does not reach any more."""
    anyio.run(make, broker_url, 3, backend="trio")
    given = {"url": broker_url, "address": NAME, "startingOffsets": f'{{"{NAME}": 7}}'}
    strict, lax = Options.parse(given), Options.parse({**given, "failOnDataLoss": "false"})
    with pytest.raises(DataLoss, match="ends at offset 3, before 7"):
        run(strict, planned, strict)
    assert run(lax, planned, lax) == {NAME: {"from": 0, "to": 3}}
