"""Requests that make no sense: the management node answers each with a status, and goes on."""

from __future__ import annotations

import math
import random
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import anyio
import pytest

from amqp10.broker import Broker
from amqp10.broker.azure import AzureConfig, QueueConfig, TopicConfig
from amqp10.messaging import AmqpValue, Message, Target

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory, pytest.mark.capability("Service Bus emulator")]

NODES = ("plain", "steps", "events", "events/Subscriptions/all")
OPERATIONS = (
    *("renew-lock", "peek-message", "schedule-message", "cancel-scheduled-message", "receive-by-sequence-number"),
    *("update-disposition", "renew-session-lock", "get-session-state", "set-session-state", "get-message-sessions"),
    *("add-rule", "remove-rule", "enumerate-rules", "unknown"),
)
NAMES = (
    *("lock-tokens", "from-sequence-number", "message-count", "session-id", "messages", "sequence-numbers", "skip"),
    *("receiver-settle-mode", "disposition-status", "session-state", "last-updated-time", "top", "rule-name"),
    *(
        "rule-description",
        "deadletter-reason",
        "properties-to-modify",
        "sql-filter",
        "expression",
        "correlation-filter",
    ),
    *("true-filter", "properties", "label", "sql-rule-action", "message"),
)
VALUES = (
    *(None, True, -1, 0, 1, 2**63 - 1, 1e308, math.nan, "a", "", "x" * 2000, b"\x00S", UUID(int=1)),
    *(datetime(1, 1, 1, tzinfo=UTC), "a = 1", "a >", "SET a = 1", "REMOVE", "suspended", "completed"),
    Message(b"x").encode(),
)
AT_ONCE = 40
"""Requests that are sent before their answers are looked at."""


def some(source: random.Random, depth: int = 0) -> Any:
    """A value of any kind."""
    kind = source.randrange(4) if depth < 3 else 3
    if kind == 0:
        return [some(source, depth + 1) for _ in range(source.randrange(3))]
    if kind == 1:
        return {name: some(source, depth + 1) for name in source.sample(NAMES, source.randrange(4))}
    return source.choice(VALUES)


@pytest.mark.parametrize("node", NODES)
async def test_random_requests(node: str) -> None:
    """Whatever is asked is answered, with a status that is no success unless something was done."""
    source = random.Random(node)
    config = AzureConfig(["plain", QueueConfig("steps", requires_session=True)], [TopicConfig("events", ["all"])])
    seen: dict[int, int] = {}
    async with Broker(azure=config) as broker, broker.connect() as connection:
        address = f"{node}/$management"
        with anyio.fail_after(60):
            async with (
                connection.receiver(address, target=Target("here")) as answers,
                connection.sender(address) as sender,
            ):
                for _ in range(760 // AT_ONCE):  # 3,040 of all nodes
                    for number in range(AT_ONCE):
                        body = {name: some(source) for name in source.sample(NAMES, source.randrange(8))}
                        said = {"operation": f"com.microsoft:{source.choice(OPERATIONS)}"}
                        await sender.send(
                            Message(AmqpValue(body), message_id=number, reply_to="here", application_properties=said)
                        )
                    for number in range(AT_ONCE):
                        answer = (await answers.receive()).message
                        assert answer.correlation_id == number
                        status = answer.application_properties["statusCode"]
                        seen[status] = seen.get(status, 0) + 1
    assert set(seen) <= {200, 204, 400, 403, 404, 409, 410, 501}
    assert {400, 501} <= set(seen)


@pytest.mark.parametrize(
    "condition", ["p(" * 500, "EXISTS(" * 140, "SET x = " + "p(" * 500], ids=["p", "exists", "set"]
)
async def test_rules_that_are_nested_deeply(condition: str) -> None:
    """A condition or an action that nests functions is refused as one that nests conditions is."""
    sql, action = ("1 = 1", condition) if condition.startswith("SET") else (condition, None)
    description = {"sql-filter": {"expression": sql}, "sql-rule-action": action and {"expression": action}}
    async with (
        Broker(azure=AzureConfig([], [TopicConfig("events", ["all"])])) as broker,
        broker.connect() as connection,
    ):
        address = "events/Subscriptions/all/$management"
        async with (
            connection.receiver(address, target=Target("here")) as answers,
            connection.sender(address) as sender,
        ):
            body = {"rule-name": "deep", "rule-description": description}
            said = {"operation": "com.microsoft:add-rule"}
            await sender.send(Message(AmqpValue(body), message_id=1, reply_to="here", application_properties=said))
            answer = (await answers.receive()).message.application_properties
    assert answer["statusCode"] == 400
    assert "nested more than 40 deep" in str(answer["statusDescription"])
