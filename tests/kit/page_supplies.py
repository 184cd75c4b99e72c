"""What the blocks of pages speak of without making it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack
from typing import Any

from amqp10 import Connection, DialectName, EventPosition, Message, Requester
from amqp10.amqp010 import Xid
from amqp10.azure import EventHub, ServiceBus
from amqp10.broker import Broker
from amqp10.broker.azure import AzureConfig, EventHubConfig, QueueConfig, TopicConfig, connection_string
from amqp10.rabbitmq import Management, management

from .page_blocks import Block
from .token_rig import wall

AZURE = AzureConfig(
    ["orders", "billing", QueueConfig("kitchen", requires_session=True)],
    [TopicConfig("events", ["all"])],
    event_hubs=[EventHubConfig("telemetry", 2, ["dashboard"])],
    clock=wall,
)


class Supplies:
    """What pages speak of without making it; each method is one of these names."""

    def __init__(self, block: Block, broker: Broker, stack: AsyncExitStack) -> None:
        self._dialect: DialectName = "0-10" if block.page == "older/amqp-0-10.md" else "1.0"
        self._broker = broker
        self._enter = stack.enter_async_context

    async def broker(self) -> Broker:
        return self._broker

    amqp_broker = broker

    async def url(self) -> str:
        return self._broker.url

    URL = url

    async def connection(self) -> Connection:
        return await self._enter(Connection(self._broker.url, dialect=self._dialect))

    async def sender(self) -> Any:
        return await self._enter((await self.connection()).sender("copies"))

    async def receiver(self) -> Any:
        return await self._enter((await self.connection()).receiver("videos", stream=True))

    async def requester(self) -> Requester:
        return await self._enter((await self.connection()).requester("service"))

    async def responder(self) -> Any:
        return await self._enter((await self.connection()).responder("questions"))

    async def rabbit(self) -> Management:
        return await self._enter(management(await self.connection()))

    async def source(self) -> str:
        return "orders"

    async def reply(self) -> Message:
        return Message("no such order", subject="error")

    async def handle(self) -> Callable[[Any], Coroutine[Any, Any, None]]:
        return ignore

    async def work(self) -> Callable[[Message], Awaitable[object]]:
        return answer

    async def fresh_token(self) -> Callable[[], Awaitable[str]]:
        return token

    async def xid(self) -> Xid:
        return Xid(1, b"order 7", b"this queue")

    async def key(self) -> str:
        return "the key"

    async def config(self) -> AzureConfig:
        return AZURE

    async def connection_string(self) -> str:
        return connection_string(self._broker.url)

    async def bus(self) -> ServiceBus:
        return await self._enter(ServiceBus(await self.connection_string(), clock=wall))

    async def hub(self) -> EventHub:
        return await self._enter(EventHub(await self.connection_string(), "telemetry", clock=wall))

    async def where(self) -> dict[str, EventPosition]:
        return {"0": EventPosition.first(), "1": EventPosition.first()}


async def ignore(message: object) -> None:
    """Handle a message."""


async def answer(message: Message) -> object:
    """Work for a requester; fail for one of its requests."""
    if message.body == "bad":
        raise ValueError("no such order")
    return message.body


async def token() -> str:
    return "a token"
