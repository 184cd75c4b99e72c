"""Spark reads from a server that is hostile: one clear error or the rows, nothing is taken, and no secret is told."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("pyspark")

from anyio.from_thread import start_blocking_portal
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ...kit.hostile.between import TOTAL, Between, between
from ...kit.hostile.servers import PASSWORD, USER

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900), pytest.mark.xdist_group("spark")]

CONVERSATIONS = 4


@pytest.fixture
def there() -> Iterator[tuple[Any, Between, int]]:
    with start_blocking_portal("trio") as portal, portal.wrap_async_context_manager(between()) as (made, port):
        yield portal, made, port


def test_batch_reads(spark: SparkSession, there: tuple[Any, Between, int]) -> None:
    """Each looks at the queue, whose messages stay."""
    portal, made, port = there
    told: list[str] = []
    options = {"idleTimeout": "2", "connectTimeout": "2", "receiveTimeout": "2"}
    for _ in range(CONVERSATIONS):
        reader = spark.read.format("amqp").options(url=f"amqp://{USER}:{PASSWORD}@127.0.0.1:{port}", **options)
        try:
            reader.load("a").collect()
        except PySparkException as error:
            told.append(str(error))
    assert told
    for text in told:
        assert PASSWORD not in text
        assert "own task failed" not in text
        assert "ExceptionGroup" not in text
        assert "amqp10.errors." in text
    assert portal.call(made.left) == TOTAL
    assert not any(PASSWORD in line for stream in made.streams for line in stream.lines)
