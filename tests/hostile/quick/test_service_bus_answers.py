"""A service that answers with nonsense: each answer is an error that says so, or a value that means nothing."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import anyio
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from amqp10 import AmqpError, Connection, Described, Message, Timestamp, ULong
from amqp10.azure import ServiceBusReceiver, ServiceBusSender, ServiceBusSession, SubscriptionRules
from amqp10.azure.internals import EntityManagement

pytestmark = pytest.mark.capability("Service Bus client")

SOON = datetime(2030, 1, 1, tzinfo=UTC)
PAYLOAD = Message("x", message_annotations={"x-opt-sequence-number": "many", "x-opt-message-state": 99}).encode()
SCALARS = st.one_of(
    st.none(),
    st.integers(-5, 1 << 40),
    st.text(max_size=3),
    st.sampled_from([PAYLOAD, b"", b"\x00", UUID(int=1), SOON, Timestamp(1 << 62)]),
)
ENTRIES = st.dictionaries(
    st.sampled_from(["message", "lock-token", "rule-description"]),
    SCALARS
    | st.builds(
        Described,
        st.sampled_from([ULong(0x13_7000_0006 + n) for n in range(5)]),
        st.lists(
            SCALARS | st.builds(Described, st.just(ULong(0x13_7000_0009)), st.lists(SCALARS, max_size=10)), max_size=5
        ),
    ),
)
ANSWERS = st.dictionaries(
    st.sampled_from(
        ["messages", "sequence-numbers", "rules", "expirations", "expiration", "session-state", "sessions-ids"]
    ),
    SCALARS | st.lists(SCALARS | ENTRIES, max_size=3),
)


class Nonsense(EntityManagement):
    """Answers whatever it is asked with the same."""

    def __init__(self, connection: Connection, answer: Mapping[str, Any]) -> None:
        super().__init__(connection, "q", 1.0, restores=False)
        self._answer = answer

    async def ask(self, operation: str, body: object, **how: object) -> Any:
        return self._answer


def calls(answer: Mapping[str, Any]) -> list[Callable[[], Awaitable[Any]]]:
    connection = Connection("amqp://localhost")
    node = Nonsense(connection, answer)
    receiver = ServiceBusReceiver(connection.receiver("q", credit=0), node, "peek-lock", 0, time.time)
    taking = ServiceBusReceiver(connection.receiver("q", credit=0), node, "receive-and-delete", 0, time.time)
    session = ServiceBusSession(connection.receiver("q", credit=0), node, "peek-lock", 0, time.time)
    sender = ServiceBusSender(connection.sender("q"), node)

    async def renew() -> object:
        deferred = await receiver.receive_deferred(1)
        return [await each.renew_lock() for each in deferred]

    return [
        receiver.peek,
        lambda: taking.receive_deferred(1),
        renew,
        session.state,
        lambda: sender.schedule("x", SOON),
        SubscriptionRules(node).list,
    ]


@given(ANSWERS)
@example({"messages": [{"message": b"\x00", "lock-token": UUID(int=1)}]})
@example({"messages": [{"message": 1 << 40, "lock-token": UUID(int=1)}]})
@example({"session-state": 1 << 40})
@example({"sequence-numbers": ["x"]})
@example({"rules": [{"rule-description": Described(ULong(0x13_7000_0004), [None])}]})
def test_nonsense(answer: dict[str, Any]) -> None:
    async def all_of_them() -> None:
        for call in calls(answer):
            try:
                found = await call()
            except AmqpError:
                continue
            for each in found if isinstance(found, list) else ():
                assert "object at" not in repr(each)

    anyio.run(all_of_them)
