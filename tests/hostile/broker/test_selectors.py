"""Selectors and rules that are made to cost time or depth: they select what they say, at a cost that is bounded."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import anyio
import pytest

from amqp10 import Selector, Source
from amqp10.broker import Broker
from amqp10.messaging import Message

from ...kit.inside.broker import SQL, Candidate, QueuedMessage, parse

ROW = " = TRUE" * 39
NESTED = "(" * 39 + f"urgent{ROW}" + f"){ROW}" * 39
"""A condition of 11 KiB, whose comparisons nest as deep as its parentheses allow."""


@pytest.mark.anyio
@pytest.mark.in_memory
async def test_a_selector_of_nested_comparisons() -> None:
    """It selects: computing it once raised RecursionError for each message, which the log then had with its stack."""
    async with Broker() as broker, broker.connect() as connection:
        async with connection.sender("q") as sender:
            for urgent in (False, True, False):
                await sender.send(Message(b"", application_properties={"urgent": urgent}))
        with anyio.fail_after(60):
            async with connection.receiver(Source("q", filters=[Selector(NESTED)])) as receiver:
                selected = await receiver.receive()
                assert selected.message.application_properties["urgent"] is True
                selected.accept()
            async with connection.receiver("q") as receiver:
                for _ in range(2):
                    (await receiver.receive()).accept()


@pytest.mark.parametrize("condition", ["a < 1", "a = 1", "a IN (1)", "a + 1 > 2", "NOT a <> 1", "a LIKE 'b'"])
@pytest.mark.parametrize("strict", [False, True])
def test_values_are_computed_once(condition: str, strict: bool) -> None:
    """Comparisons that compute an operand twice would take time by the power of their depth: 2^19 in 134 octets."""
    computed = []

    def field(_: Candidate) -> Any:
        computed.append(1)
        return 1

    grammar = replace(SQL, strict=strict, find=lambda _: field)
    parse(condition, grammar)(Candidate(QueuedMessage(Message(b"").encode())))
    assert computed == [1]
