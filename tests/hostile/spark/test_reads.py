"""Partition readers, run here without Spark's JVM, on a hostile server: one clear error or the rows, and no secret.

What was accepted is in the rows, or in a segment that another attempt reads: a reader that fails has accepted nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from anyio.from_thread import start_blocking_portal

from amqp10.spark import Options

from ...kit.counts import CONVERSATIONS
from ...kit.hostile.between import TOTAL, Between, between
from ...kit.hostile.servers import PASSWORD, USER, check_error
from ...kit.inside.spark import BrowseReader, LogBatchReader, TakingReader, default_schema

COUNT = max(8, CONVERSATIONS // 100)
"""Reads of each kind."""
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900), pytest.mark.capability("hostile peers")]

SCHEMA = default_schema()
Reads = Callable[[Options], Any]


@pytest.fixture
def there() -> Iterator[tuple[Any, Between, int]]:
    with start_blocking_portal("trio") as portal, portal.wrap_async_context_manager(between()) as (made, port):
        yield portal, made, port


def rows_of(reader: Any) -> list[dict[str, Any]]:
    """All rows, as Spark's tasks read them."""
    return [row for partition in reader.partitions() for batch in reader.read(partition) for row in batch.to_pylist()]


@pytest.mark.parametrize("ack", ["none", "accept", "wal", "log"])
def test_reads(there: tuple[Any, Between, int], tmp_path: Path, ack: str) -> None:
    portal, made, port = there
    told: Counter[bool] = Counter()
    for number in range(COUNT):
        made.streams.clear()
        made.seed = f"{ack} {number}"
        portal.call(made.fill)
        options = Options.parse(
            {
                "url": f"amqp://{USER}:{PASSWORD}@127.0.0.1:{port}",
                "address": "a" if ack != "log" else "log",
                "idleTimeout": "2",
                "connectTimeout": "2",
                "receiveTimeout": "2",
                "numPartitions": "1",
                **({"walLocation": str(tmp_path)} if ack == "wal" else {}),
                **({"ack": ack} if ack in ("accept", "wal") else {}),
            }
        )
        reader: Any = {"none": BrowseReader, "log": LogBatchReader}.get(ack)
        reader = TakingReader(options, SCHEMA, f"run{number}") if reader is None else reader(options, SCHEMA)
        error: Exception | None = None
        try:
            rows_of(reader)
        except Exception as raised:
            error = raised
        told[error is not None] += 1
        where = f"read {ack} {number}"
        if not isinstance(error, ValueError):  # which says what is wrong with the node, in words of Spark's options
            check_error(error, where)
        lines = [line for stream in made.streams for line in stream.lines]
        assert PASSWORD not in f"{error!r} {lines}", where
        accepted = [line for line in lines if line.startswith("> ") and "Accepted()" in line]
        if ack in ("none", "log"):
            assert not accepted, where
        if ack == "none":
            assert portal.call(made.left) == TOTAL, where
        if error is not None and accepted:
            assert ack == "wal", where
            assert rows_of(reader), where  # the segment is there, and needs no server
    assert min(told.values()) > 0
