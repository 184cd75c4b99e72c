"""Rules of a subscription of Service Bus, as its users hold them, against the emulator."""

from __future__ import annotations

import pytest

from amqp10 import (
    Message,
)
from amqp10.azure import (
    CorrelationRuleFilter,
    EntityNotFound,
    FalseRuleFilter,
    Rule,
    RuleExists,
    ServiceBusError,
    SqlRuleFilter,
    TrueRuleFilter,
)

from ...kit.azure.emulated import emulated
from ...kit.azure.entities import put

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory, pytest.mark.capability("Service Bus client")]


async def test_rules() -> None:
    async with emulated() as (bus, _):
        rules = bus.rules("events", "all")
        [usual] = await rules.list()
        assert (usual.name, usual.filter, usual.action) == ("$Default", TrueRuleFilter(), "")
        assert usual.created_at is not None
        wanted = [
            Rule("red", SqlRuleFilter("color = 'red'"), "SET seen = TRUE"),
            Rule("big", CorrelationRuleFilter(label="big", properties={"n": 1})),
            Rule("none", FalseRuleFilter()),
            Rule("all", TrueRuleFilter()),
        ]
        await rules.remove("$Default")
        for rule in wanted:
            await rules.add(rule)
        assert sorted(await rules.list(), key=lambda rule: rule.name) == sorted(wanted, key=lambda rule: rule.name)
        with pytest.raises(RuleExists):
            await rules.add(wanted[0])
        await rules.remove("all")
        with pytest.raises(EntityNotFound):
            await rules.remove("all")
        with pytest.raises(ServiceBusError, match="argument-error"):
            await rules.add(Rule("broken", SqlRuleFilter("color =")))
        red = {"color": "red"}
        await put(
            bus,
            "events",
            Message("red", application_properties=red),
            Message("big", subject="big", application_properties={"n": 1}),
            Message("neither"),
        )
        async with bus.receiver("events", subscription="all") as receiver:
            batch = await receiver.receive_batch(9, max_wait=0)
            assert [each.message.body for each in batch] == ["red", "big"]
            assert batch[0].message.application_properties == {**red, "seen": True}
