"""What is declared by `connection.native` is there again after a loss, on real brokers."""

from __future__ import annotations

import pytest

from ..kit.client.declaring import SENT, gone_with_its_last_consumer, the_same_queue_again

pytestmark = [pytest.mark.anyio, pytest.mark.interop]


@pytest.mark.parametrize(
    ("broker", "dialect"),
    [("rabbitmq", "0-9-1"), ("broker_j", "0-9-1"), ("broker_j", "0-9"), ("broker_j", "0-10"), ("embedded", "0-9-1")],
)
async def test_the_same_queue_again(request: pytest.FixtureRequest, broker: str, dialect: str) -> None:
    """An exclusive queue of the server's choice, its exchange and its binding are there again: its receiver goes on."""
    assert await the_same_queue_again(request.getfixturevalue(broker).url(), dialect) == SENT


async def test_gone_with_its_last_consumer(request: pytest.FixtureRequest) -> None:
    """What was deleted is forgotten on RabbitMQ, too; so is what goes with its last consumer."""
    there = await gone_with_its_last_consumer(request.getfixturevalue("rabbitmq").url(), "0-9-1")
    assert there == {"deleted": False, "left": False, "in use": True}
