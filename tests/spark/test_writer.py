"""A task's sending, without a Spark."""

from __future__ import annotations

import pickle

import anyio.to_thread
import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from amqp10 import LocalProtocolError, MessageReleased
from amqp10.broker import Broker
from amqp10.spark import Options
from amqp10.spark._writer import send

pytestmark = pytest.mark.anyio


async def test_a_row_that_is_too_large() -> None:
    """For the broker, which says so when the link begins: the row is named."""
    batch = pa.RecordBatch.from_pydict({"body": ["small", "x" * 2000], "message_id": ["a", "large"]})
    async with Broker(max_message_size=1000) as broker:
        options = Options.parse({"url": broker.url, "address": "orders"})
        with pytest.raises(
            LocalProtocolError, match=r"amqp: row 1 of the task, message-id 'large': .* max-message-size of 1000"
        ):
            await anyio.to_thread.run_sync(send, options, iter([batch]), "p")


async def test_a_row_that_no_queue_takes() -> None:
    """The error names the row and says what the outcome means at the broker, also where Spark has pickled it."""
    batch = pa.RecordBatch.from_pydict({"body": ["x"], "message_id": ["lost"]})
    async with Broker() as broker:
        options = Options.parse({"url": broker.url, "address": "/exchanges/amq.direct/nowhere"})
        with pytest.raises(MessageReleased) as caught:
            await anyio.to_thread.run_sync(send, options, iter([batch]), "p")
    for error in (caught.value, pickle.loads(pickle.dumps(caught.value))):
        assert "row 0 of the task, message-id 'lost'" in str(error)
        assert "it reached no queue" in str(error)
