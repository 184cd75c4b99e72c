"""A ready-made job: from a queue or log into files, a table or another queue."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyspark
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from ._java import prepare
from ._options import Options

FILES = ("parquet", "json", "csv", "orc", "text", "delta")
SINKS = (*FILES, "iceberg", "amqp", "console", "noop")

# Columns that fit into a line of text.
_FLAT = "body STRING, message_id STRING, subject STRING, content_type STRING, creation_time TIMESTAMP"
_COLUMNS = {
    "csv": _FLAT,
    "json": f"{_FLAT}, application_properties MAP<STRING,STRING>",
    "text": "body STRING",
    "console": _FLAT,
}

_AS_IT_IS = {"csv": {"ignoreLeadingWhiteSpace": "false", "ignoreTrailingWhiteSpace": "false"}}
"""Options of a writer unless `target` has them: Spark would trim the values of CSV files."""

WHOLE = {"bodyFormat": "amqp"}
"""Options for whole encoded messages, with all their sections."""

PACKAGES = {
    "delta": "io.delta:delta-spark_{spark}_2.13:VERSION",
    "iceberg": "org.apache.iceberg:iceberg-spark-runtime-{spark}_2.13:VERSION",
}
"""Packages of sinks that are not part of Spark."""

_CONF = {
    "delta": {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    },
    "iceberg": {"spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"},
}
POLL = 0.2
"""Seconds between two checks of the query."""
QUIET = 30.0
"""Seconds without a batch after which `follow` says what Spark is busy with."""


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """Describes the job.

    Attributes:
        source: options of the reader, by their names.
        sink: one of SINKS.
        place: the folder or table of the sink.
        target: options of the writer.
        checkpoint: the folder of Spark's checkpoint; the write-ahead segments too, unless `source` says where.
        trigger: "now" to read what is available now and stop, or an interval as Spark spells it: "10 seconds".
        columns: the schema to read, as DDL; None for one that suits the sink.
        master: where to run, unless `spark-submit` says.
        conf: settings of Spark.
        stop_file: path of a file that, once it exists, stops the job before its next batch; "" for no such file.
    """

    source: Mapping[str, str]
    sink: str
    place: str = ""
    target: Mapping[str, str] = field(default_factory=dict)
    checkpoint: str
    trigger: str = "now"
    columns: str | None = None
    master: str = "local[*]"
    conf: Mapping[str, str] = field(default_factory=dict)
    stop_file: str = ""

    def check(self) -> None:
        """Check the options, before Spark is started.

        Raises:
            ValueError: an option is unknown, missing or wrong.
        """
        Options.parse(self._source_options()).require_address()
        if self.sink == "amqp":
            Options.parse(self._target_options())

    @property
    def _whole(self) -> bool:
        """Whether messages go to another queue unchanged: neither columns nor a body format were chosen."""
        chosen = {name.lower() for name in (*self.source, *self.target)}
        return self.sink == "amqp" and self.columns is None and "bodyformat" not in chosen

    def _schema(self) -> str | None:
        if self.columns is None and self.sink == "amqp":
            formats = {value for name, value in self._source_options().items() if name.lower() == "bodyformat"}
            return "body BINARY" if formats == {"amqp"} else None
        return self.columns or _COLUMNS.get(self.sink)

    def _target_options(self) -> dict[str, str]:
        return {**self.target, **(WHOLE if self._whole else {})}

    def _source_options(self) -> dict[str, str]:
        named = {name.lower() for name in self.source}
        options = {**self.source, **(WHOLE if self._whole else {})}
        if self.stop_file:
            options["stopFile"] = self.stop_file
        if "wallocation" not in named and self.source.get("mode", "queue") == "queue":
            options["walLocation"] = f"{self.checkpoint}/wal"
        return options

    def settings(self) -> dict[str, str]:
        """Return the settings of Spark: those that the sink's package needs, overridden by `conf`.

        Spark's own logging is off: a job that fails says why in one line.
        """
        usual = {"spark.ui.showConsoleProgress": "false", "spark.log.level": "FATAL"}
        return {**usual, **_CONF.get(self.sink, {}), **self.conf}

    def session(self) -> SparkSession:
        """Return the running Spark session, or start one.

        Raises:
            JavaMissing: no Java was found to start Spark with.
        """
        prepare()
        submitted = "PYSPARK_GATEWAY_PORT" in os.environ
        if submitted:
            SparkContext._ensure_initialized()  # connects to the JVM of spark-submit, which has the settings
        conf = SparkConf().setAppName("amqp10 pipeline")
        for name, value in self.settings().items():
            if name in self.conf or not conf.contains(name):
                conf.set(name, value)
        if not conf.contains("spark.master"):
            conf.setMaster(self.master)
        if not submitted:
            _start_java(conf)
        return SparkSession.builder.config(conf=conf).getOrCreate()

    def start(self, spark: SparkSession) -> StreamingQuery:
        """Start the query."""
        reader = spark.readStream.format("amqp").options(**self._source_options())
        columns = self._schema()
        frame = (reader.schema(columns) if columns else reader).load()
        writer: Any = frame.writeStream.option("checkpointLocation", self.checkpoint)
        writer = writer.options(**_AS_IT_IS.get(self.sink, {})).options(**self._target_options())
        writer = (
            writer.trigger(availableNow=True) if self.trigger == "now" else writer.trigger(processingTime=self.trigger)
        )
        writer = writer.format(self.sink)
        if self.sink == "iceberg":
            return writer.toTable(self.place)
        return writer.start(self.place) if self.place else writer.start()


def _start_java(conf: SparkConf) -> None:
    """Start Spark's JVM in a process group of its own, where signals to this job do not reach it.

    A signal would end the query in the middle of a batch, while this process waits for the end of the batch. The JVM
    ends with this process, which holds its standard input.
    """
    if SparkContext._gateway is None:
        SparkContext._ensure_initialized(gateway=launch_gateway(conf, {"start_new_session": True}), conf=conf)


def follow(
    query: StreamingQuery,
    on_progress: Callable[[Mapping[str, Any]], None],
    stopping: Callable[[], bool],
    busy: Callable[[str], None] = lambda message: None,
) -> None:
    """Report the progress of each batch until the query ends; once `stopping()` is true, stop it between batches.

    Args:
        busy: gets Spark's own message when it has worked for 30 s without the end of a batch.

    Raises:
        pyspark.errors.StreamingQueryException: the query failed.
    """
    last = -1
    quiet_since = time.monotonic()
    while True:
        active = query.isActive  # read first, so that the progress read below includes the last batch
        for progress in query.recentProgress:
            if progress["batchId"] > last and progress["numInputRows"]:
                last = progress["batchId"]
                on_progress(progress)
                quiet_since = time.monotonic()
        if not active:
            break
        message = query.status["message"]
        if message.startswith("Waiting for"):  # data or the next trigger: Spark has nothing to do
            quiet_since = time.monotonic()
        elif time.monotonic() - quiet_since > QUIET:
            busy(message)
            quiet_since = time.monotonic()
        # No batch runs between triggers, nor during a trigger without data, which the stop file ensures.
        if stopping() and not (query.status["isTriggerActive"] and query.status["isDataAvailable"]):
            query.stop()
            continue
        time.sleep(POLL)
    query.awaitTermination()


def cause(error: Exception, sink: str) -> str:
    """Return in one line what went wrong: the last line of a Python traceback in Spark's error, else Java's message.

    Args:
        sink: the sink of the job; if Spark lacks a package for it, the line names the package.
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    ours = [line for line in lines if line.startswith(("ValueError: amqp:", "amqp10."))]
    if ours:
        return ours[-1].removeprefix("ValueError: amqp: ")
    java = next((line for line in lines if line.startswith(": ")), None)  # the second line of py4j's message
    text = java.removeprefix(": ") if java else lines[0] if lines else type(error).__name__
    if sink in PACKAGES and any(word in str(error) for word in ("DATA_SOURCE_NOT_FOUND", "ClassNotFoundException")):
        package = PACKAGES[sink].format(spark=".".join(pyspark.__version__.split(".")[:2]))
        return f"Spark has no package for {sink}: --conf spark.jars.packages={package} gets it ({text})"
    return text
