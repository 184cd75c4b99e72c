"""A queue of Service Bus by itself."""

from __future__ import annotations

from dataclasses import replace

import pytest

from amqp10.broker.azure import QueueConfig

from ...kit.azure.queue_bench import Bench


@pytest.fixture
def bench(request: pytest.FixtureRequest) -> Bench:
    """A queue "orders" with locks of 30 s; `indirect` parameters are further settings."""
    return Bench(replace(QueueConfig("orders", lock_duration=30.0), **getattr(request, "param", {})))
