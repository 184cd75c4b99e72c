"""The blocks of the page on Spark run, with the folders and the broker of a test."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import pytest

pytest.importorskip("pyspark")

import amqp10

from ..kit.page_blocks import Block, blocks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900), pytest.mark.xdist_group("spark")]

BLOCKS = [block for block in blocks() if block.page == "spark/index.md"]


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_block(block: Block, spark: SparkSession, broker_url: str, tmp_path: Path) -> None:
    """A read is planned, a stream takes what waits, and a write arrives."""
    anyio.run(amqp10.send, broker_url, "orders", "order 1")
    code = block.code.replace('"amqp://localhost"', repr(broker_url))
    for folder in ("/shared/", "/lake/"):
        code = code.replace(f'"{folder}', f'"{tmp_path}{folder}')
    supplied = {"spark": spark, "url": broker_url, "frame": spark.sql("SELECT 'result 1' AS body")}
    anyio.run(replace(block, code=code).run, {name: supplied[name] for name in block.needs()})
    for query in spark.streams.active:
        query.processAllAvailable()
        query.stop()
    if "frame" in block.needs():
        (result,) = anyio.run(amqp10.receive, broker_url, "results")
        assert result.body == "result 1"
