"""The counter behind send_many."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from amqp10 import Connection
from amqp10.client._sending.send_many import Pipeline
from amqp10.client.internals import SenderDelivery
from amqp10.messaging import ACCEPTED, RELEASED, Received

pytestmark = pytest.mark.capability("many in flight")


def pipeline_of(window: int) -> Pipeline:
    return Pipeline(Connection("amqp://localhost").sender("q")._core, window, settled=False)


def delivery(settled: bool = False) -> SenderDelivery:
    link: Any = None
    return SenderDelivery(link, b"tag", b"", settled)


def outcome(pipeline: Pipeline, one: SenderDelivery, state: Any) -> None:
    one.remote_state = state
    pipeline.outcome_received(one)


def test_counts_what_is_in_flight() -> None:
    """A delivery is in flight from `add` to its outcome."""
    pipeline = pipeline_of(2)
    first, second = delivery(), delivery()
    seen = []
    for one in (first, second):
        pipeline.add(one)
        seen.append(pipeline.in_flight)
    outcome(pipeline, first, ACCEPTED)
    assert seen == [1, 2]
    assert (pipeline.in_flight, pipeline.accepted) == (1, 1)


def test_counts_settled_ones_as_accepted() -> None:
    """A message that was sent settled is never in flight."""
    pipeline = pipeline_of(1)
    pipeline.add(delivery(settled=True))
    assert (pipeline.in_flight, pipeline.accepted) == (0, 1)


def test_a_state_that_is_no_outcome_changes_nothing() -> None:
    """`received` is progress, not an outcome (§3.4.1)."""
    pipeline = pipeline_of(1)
    one = delivery()
    pipeline.add(one)
    outcome(pipeline, one, Received(0, 10))
    assert pipeline.in_flight == 1


def test_keeps_the_first_failure() -> None:
    """The first outcome that is not accepted is the one raised; later ones only count."""
    pipeline = pipeline_of(3)
    ones = [delivery() for _ in range(3)]
    for one in ones:
        pipeline.add(one)
    outcome(pipeline, ones[0], ACCEPTED)
    outcome(pipeline, ones[1], RELEASED)
    outcome(pipeline, ones[2], ACCEPTED)
    assert pipeline.failed
    assert pipeline.failure is RELEASED
    assert pipeline.account() == "send_many: 3 messages sent, 2 accepted, 1 not accepted, 0 without an outcome"


def test_needs_room_for_one() -> None:
    """A window of zero could never send."""
    with pytest.raises(ValueError, match="at least 1"):
        pipeline_of(0)


@pytest.mark.anyio
async def test_wakes_its_waiter_at_half() -> None:
    """One wake-up for many outcomes, not one each."""
    pipeline = pipeline_of(10)
    ones = [delivery() for _ in range(10)]
    for one in ones:
        pipeline.add(one)
    seen = []

    async def wait() -> None:
        await pipeline.wait()
        seen.append(pipeline.in_flight)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        for one in ones[:4]:
            outcome(pipeline, one, ACCEPTED)
        await anyio.wait_all_tasks_blocked()
        assert seen == []
        outcome(pipeline, ones[4], ACCEPTED)
    assert seen == [5]
