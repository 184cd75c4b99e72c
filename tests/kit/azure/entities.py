"""What tests do with entities of Service Bus."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from amqp10.azure import ReceivedMessage, ServiceBus, ServiceBusDelivery

from ..token_rig import wall

HOUR = timedelta(hours=1)


def untyped(value: object) -> Any:
    """Return a value that a type checker lets pass everywhere."""
    return value


def now() -> datetime:
    return datetime.fromtimestamp(wall(), UTC)


async def put(bus: ServiceBus, entity: str, *messages: object) -> None:
    async with bus.sender(entity) as sender:
        assert await sender.send_many(messages) == len(messages)


async def take(bus: ServiceBus, entity: str) -> ServiceBusDelivery:
    async with bus.receiver(entity) as receiver:
        return await receiver.receive()


async def left(bus: ServiceBus, entity: str, **how: Any) -> list[ReceivedMessage]:
    async with bus.receiver(entity, **how) as receiver:
        return await receiver.peek()
