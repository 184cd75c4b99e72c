"""Telemetry of jobs: the option `setup`, and the spans of a batch with links to its makers."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import anyio
import pytest

pytest.importorskip("pyspark")

import pyarrow as pa
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from amqp10.otel import instrument, uninstrument
from amqp10.spark import Options
from amqp10.spark._writer import send

from ..kit.inside.spark import QueuePartition, Segment, connection, read_partition, struct

pytestmark = pytest.mark.capability("OpenTelemetry")

SCHEMA = struct([("body", "binary")])


class Seen:
    """A module that the option names, and what was exported.

    Attributes:
        options: the option.
        calls: how often its function was called.
        each_delivery: as for `instrument`.
    """

    def __init__(self, name: str, each_delivery: bool) -> None:
        self.options = {"setup": f"{name}:begin"}
        self.calls = 0
        self._exporter = InMemorySpanExporter()
        self.each_delivery = each_delivery
        module: Any = ModuleType(name)
        module.begin = self._begin
        sys.modules[name] = module

    def _begin(self) -> None:
        self.calls += 1
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        instrument(tracer_provider=provider, meter_provider=MeterProvider(), each_delivery=self.each_delivery)

    def spans(self, name: str) -> list[Any]:
        return [span for span in self._exporter.get_finished_spans() if span.name == name]


@pytest.fixture(params=[False, True])
def seen(request: pytest.FixtureRequest) -> Iterator[Seen]:
    name = f"telemetry_of_{request.param}_{id(request)}"
    yield Seen(name, request.param)
    uninstrument()
    del sys.modules[name]


def test_a_batch(broker_url: str, seen: Seen) -> None:
    """Rows that are written carry a context each; the batch that brings them is linked to all their makers."""
    options = Options.parse({"url": broker_url, "address": "traced", **seen.options})
    rows = pa.RecordBatch.from_pylist([{"body": b"%d" % number} for number in range(3)])
    assert send(options, iter([rows]), "run").rows == 3
    made = {span.context.span_id for span in seen.spans("send traced")}
    assert len(made) == 3
    partition = QueuePartition(Segment("", 0, 0), 3, "run")
    read = [row["body"] for batch in read_partition(options, SCHEMA, partition) for row in batch.to_pylist()]
    assert read == [b"0", b"1", b"2"]
    receives = seen.spans("receive traced")
    assert {link.context.span_id for span in receives for link in span.links} == made
    assert sum(span.attributes["messaging.batch.message_count"] for span in receives) == 3
    assert len(seen.spans("accept traced")) == (3 if seen.each_delivery else 0)
    assert seen.calls == 1  # in a process


def test_setup_of_nothing(broker_url: str) -> None:
    """What cannot be a function, and what is none, is said with the option's name."""
    for name in ("shop", "shop:", "a b:c", ":begin"):
        with pytest.raises(ValueError, match="'setup': must be MODULE:FUNCTION"):
            Options.parse({"url": broker_url, "setup": name})
    for name in ("there_is_none:begin", "json:begin"):
        with pytest.raises(ValueError, match=f"option 'setup': '{name}' is not on "):
            connection(Options.parse({"url": broker_url, "setup": name}))


def test_without_it_nothing_is_imported(broker_url: str, tmp_path: Path) -> None:
    """A process that has no `setup` loads nothing of OpenTelemetry."""
    program = (
        "import sys, amqp10.spark._connection.connect as c; from amqp10.spark._options import Options\n"
        f"c.connection(Options.parse({{'url': {broker_url!r}, 'address': 'x'}}))\n"
        "sys.exit(any(name.startswith('opentelemetry') for name in sys.modules))"
    )

    async def run() -> int:
        return (await anyio.run_process([sys.executable, "-c", program], check=False, cwd=tmp_path)).returncode

    assert anyio.run(run) == 0
