"""Queue arguments: names, units, and which queue type has which."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from amqp10.rabbitmq import QueueArguments
from amqp10.rabbitmq._arguments import _NAMES, queue_arguments


def test_names_and_units() -> None:
    """Python's names become RabbitMQ's, times its milliseconds, or text for a stream's age."""
    assert queue_arguments("quorum", {"initial_group_size": 3, "expires": timedelta(minutes=1)}, {}) == {
        "x-queue-type": "quorum",
        "x-quorum-initial-group-size": 3,
        "x-expires": 60_000,
    }
    stream = {"initial_group_size": 3, "max_age": timedelta(hours=1), "filter_size": 32, "max_segment_size_bytes": 9}
    assert queue_arguments("stream", stream, {"x-other": True}) == {
        "x-queue-type": "stream",
        "x-initial-cluster-size": 3,
        "x-max-age": "3600s",
        "x-stream-filter-size-bytes": 32,
        "x-stream-max-segment-size-bytes": 9,
        "x-other": True,
    }


def test_rounding() -> None:
    """Times are rounded up: none becomes zero, which would mean at once."""
    short = timedelta(microseconds=1)
    assert queue_arguments("classic", {"message_ttl": short}, {})["x-message-ttl"] == 1
    assert queue_arguments("stream", {"max_age": short}, {})["x-max-age"] == "1s"


def test_negative() -> None:
    """A delivery-limit of -1 is none, as RabbitMQ 4 has it; no other argument is negative."""
    assert queue_arguments("quorum", {"delivery_limit": -1}, {})["x-delivery-limit"] == -1
    with pytest.raises(ValueError, match="max_length must be at least 0, not -1"):
        queue_arguments("quorum", {"max_length": -1}, {})


def test_each_has_a_name() -> None:
    """What can be said has RabbitMQ's name on one queue type at least."""
    assert _NAMES.keys() == QueueArguments.__annotations__.keys()


@pytest.mark.parametrize(
    ("queue_type", "name"),
    [("classic", "delivery_limit"), ("quorum", "max_priority"), ("stream", "message_ttl"), ("classic", "max_age")],
)
def test_not_of_this_type(queue_type: Any, name: str) -> None:
    """An argument that the queue type does not have is refused before anything is sent."""
    with pytest.raises(ValueError, match=f"a {queue_type} queue has no argument {name}"):
        queue_arguments(queue_type, {name: 1}, {})


def test_priorities_of_quorum_queues() -> None:
    """The error says which queues have the argument, and that a quorum queue needs none."""
    with pytest.raises(
        ValueError, match="queue_type classic has it; a quorum queue has priorities without it: 32 from"
    ):
        queue_arguments("quorum", {"max_priority": 3}, {})
    with pytest.raises(ValueError, match=r"a stream queue has no argument max_priority: queue_type classic has it$"):
        queue_arguments("stream", {"max_priority": 3}, {})


def test_unknown() -> None:
    """A misspelled argument is a TypeError, as of any function."""
    with pytest.raises(TypeError, match="max_lenght"):
        queue_arguments("classic", {"max_lenght": 1}, {})
