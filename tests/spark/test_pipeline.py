"""What `amqp10 pipeline` makes of its options, before there is a Spark."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyspark")

from amqp10.spark._pipeline import Pipeline


def pipeline(sink: str = "parquet", **fields: Any) -> Pipeline:
    source = {"url": "amqp://localhost", "address": "orders", **fields.pop("source", {})}
    return Pipeline(source=source, sink=sink, checkpoint="/lake/checkpoint", **fields)


def test_where_segments_are() -> None:
    """In the checkpoint, unless the reader says where; a log needs none."""
    assert pipeline()._source_options()["walLocation"] == "/lake/checkpoint/wal"
    assert "walLocation" not in pipeline(source={"wallocation": "/wal"})._source_options()
    assert "walLocation" not in pipeline(source={"mode": "stream"})._source_options()
    assert pipeline(stop_file="/run/stop")._source_options()["stopFile"] == "/run/stop"


def test_what_a_sink_asks_for() -> None:
    """Delta and Iceberg have extensions of Spark; who sets them otherwise is listened to."""
    assert "spark.sql.extensions" not in pipeline().settings()
    assert pipeline("delta").settings()["spark.sql.extensions"] == "io.delta.sql.DeltaSparkSessionExtension"
    mine = {"spark.sql.extensions": "mine", "spark.log.level": "INFO"}
    assert pipeline("iceberg", conf=mine).settings() == {"spark.ui.showConsoleProgress": "false", **mine}


def test_a_checkpoint_where_no_segment_can_be() -> None:
    """The error says what the place of segments has to be."""
    with pytest.raises(ValueError, match=r"option 'walLocation': an absolute path .* 'hdfs://lake/wal'"):
        Pipeline(
            source={"url": "amqp://localhost", "address": "orders"}, sink="parquet", checkpoint="hdfs://lake"
        ).check()
