"""What a program is told that passes an argument which a call does not have, but another library's call has."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import anyio
import pytest

from amqp10 import Connection, Message, Reconnect, Retries, Source, Target, Worker, bridge, sync
from amqp10.amqp091 import Native
from amqp10.azure import EventHub, ServiceBus
from amqp10.broker import Broker, TokenRules
from amqp10.broker.azure import EMULATOR_RULE, AzureConfig, EventHubConfig, connection_string
from amqp10.rabbitmq import Management
from amqp10.testing import BackgroundBroker

from .kit.inside.package import ELSEWHERE, MEANT
from .kit.public_calls import public_calls

CONNECTION = Connection("amqp://localhost")
BUS = ServiceBus("Endpoint=sb://h;SharedAccessKeyName=n;SharedAccessKey=a2V5")

MANAGEMENT = Management.__new__(Management)
NATIVE = Native.__new__(Native)
LIMITED = "`with anyio.fail_after(5):` or `async with asyncio.timeout(5):` limits any call"

UNKNOWN: list[tuple[Callable[..., Any], str, str]] = [
    (Connection, "heartbeat", "Connection() has no argument 'heartbeat': use idle_timeout"),
    (Connection, "virtual_host", "Connection() has no argument 'virtual_host': use hostname"),
    (Connection, "password", "Connection() has no argument 'password': write it in the URL: amqps://USER:PASSWORD@"),
    (Connection, "reconnnect", "Connection() has no argument 'reconnnect': did you mean reconnect?"),
    (Connection.over, "heartbeat", "over() has no argument 'heartbeat': use idle_timeout"),
    (CONNECTION.receiver, "prefetch", "receiver() has no argument 'prefetch': use credit"),
    (CONNECTION.receiver, "auto_ack", "receiver() has no argument 'auto_ack': settle_mode=\"settled\" has the sender"),
    (CONNECTION.receiver, "filters", "receiver() has no argument 'filters': give a Source, "),
    (CONNECTION.receiver, "callback", "receiver() has no argument 'callback': `async for delivery in receiver` takes "),
    (CONNECTION.receiver, "xyz", "receiver() has no argument 'xyz': there are address, credit, stream, "),
    (CONNECTION.sender, "routing_key", "sender() has no argument 'routing_key': the address has it: exchange_addr"),
    (BUS.receiver, "queue_name", "receiver() has no argument 'queue_name': use entity"),
    (BUS.receiver("q").receive_batch, "max_wait_time", "receive_batch() has no argument 'max_wait_time': use max_wait"),
    (ServiceBus, "conn_str", "ServiceBus() has no argument 'conn_str': use where"),
    (EventHub, "heartbeat", "EventHub() has no argument 'heartbeat': use idle_timeout"),
    (Worker, "prefetch_count", "Worker() has no argument 'prefetch_count': use prefetch"),
    (Worker, "on_message", "Worker() has no argument 'on_message': use handler"),
    (Broker, "user", "Broker() has no argument 'user': did you mean users?"),
    (Broker, "memory_limit", "Broker() has no argument 'memory_limit': limits=BrokerLimits(memory=...) has it"),
    (Broker(port=0).connect, "heartbeat", "connect() has no argument 'heartbeat': use idle_timeout"),
    (
        bridge,
        "from_dialect",
        "bridge() has no argument 'from_dialect': give a Connection(URL, dialect=...) in place of",
    ),
    (CONNECTION.receiver, "qos", "receiver() has no argument 'qos': use credit"),
    (Worker, "qos", "Worker() has no argument 'qos': use prefetch"),
    (Retries, "delay", "Retries() has no argument 'delay': use initial_delay"),
    (Reconnect, "max_retries", "Reconnect() has no argument 'max_retries': use attempts"),
    (
        MANAGEMENT.declare_queue,
        "dead_letter",
        "declare_queue() has no argument 'dead_letter': use dead_le",
    ),
    (MANAGEMENT.declare_queue, "ttl", "declare_queue() has no argument 'ttl': use message_ttl"),
    (
        NATIVE.declare_queue,
        "ttl",
        "declare_queue() has no argument 'ttl': arguments={\"x-message-ttl\": ",
    ),
    (NATIVE.declare_queue, "dead_letter", "declare_queue() has no argument 'dead_letter': arguments={"),
    (Source, "selector", "Source() has no argument 'selector': filters=[Selector("),
    (Source, "filters_", "Source() has no argument 'filters_': did you mean filters?"),
    (Target, "adress", "Target() has no argument 'adress': did you mean address?"),
    (Message, "id", "a message has no field 'id': use message_id"),
    (Message, "content", "a message has no field 'content': use body"),
    (Message, "xyz", "a message has no field 'xyz': there are body, absolute_expiry_time, application_properties, "),
]


@pytest.mark.parametrize(("call", "name", "text"), UNKNOWN)
def test_unknown(call: Callable[..., Any], name: str, text: str) -> None:
    """The error for an argument that a call does not have says what to write in its place."""
    with pytest.raises(TypeError) as raised:
        result = call(**{name: "x"})
        assert inspect.iscoroutine(result)
        result.send(None)
    assert str(raised.value).startswith(text)


@pytest.mark.parametrize(
    ("call", "arguments", "text"),
    [
        (Connection, ("h", 5672), "Connection() takes only url without a name: write it in the URL: amqps://"),
        (
            CONNECTION.receiver,
            ("q", 10),
            "receiver() takes only address without a name: name the others: credit, ",
        ),
        (Retries, tuple(range(20)), "Retries() takes no argument without a name: name the others: attempts, "),
    ],
)
def test_too_many(call: Callable[..., Any], arguments: tuple[Any, ...], text: str) -> None:
    """The error for more arguments without a name than a call takes says which are to be named."""
    with pytest.raises(TypeError) as raised:
        call(*arguments)
    assert str(raised.value).startswith(text)


EACH_MESSAGE: list[tuple[str, str, dict[str, Any], str]] = [
    ("receiver", "receive", {"timeout": 5}, f"receive() has no argument 'timeout': {LIMITED}"),
    ("requester", "request", {"timeout": 5}, f"request() has no argument 'timeout': {LIMITED}"),
    ("sender", "send", {"subject": "s"}, "send() has no argument 'subject': make a Message of it, which has such"),
    ("sender", "submit", {"settledd": True}, "submit() has no argument 'settledd': did you mean settled?"),
]


@pytest.mark.anyio
@pytest.mark.in_memory
@pytest.mark.parametrize(("link", "method", "arguments", "text"), EACH_MESSAGE)
async def test_calls_of_each_message(link: str, method: str, arguments: dict[str, Any], text: str) -> None:
    """Python's own error for a call that nothing wraps has a note when it leaves the connection's block."""
    with pytest.raises(TypeError, match="unexpected keyword argument") as raised:
        async with Broker() as broker, broker.connect() as connection, getattr(connection, link)("q") as opened:
            await getattr(opened, method)(*(["x"] if link != "receiver" else []), **arguments)
    assert raised.value.__notes__[0].startswith(text)
    assert text in "".join(traceback.format_exception(raised.value))


AT_AZURE: list[tuple[str, dict[str, Any], str]] = [
    (
        "send",
        {"timeout": 5},
        f"send() has no argument 'timeout': {LIMITED}",
    ),
    ("complete", {"transactions": 5}, "complete() has no argument 'transactions': did you mean transaction?"),
    ("publish", {"partition_key": "k"}, "send() has no argument 'partition_key': use key"),
    (
        "read",
        {"timeout": 5},
        f"receive() has no argument 'timeout': {LIMITED}",
    ),
]


@pytest.mark.anyio
@pytest.mark.in_memory
@pytest.mark.parametrize(("what", "arguments", "text"), AT_AZURE)
async def test_calls_of_each_message_at_azure(what: str, arguments: dict[str, Any], text: str) -> None:
    """So has that of a sender, a receiver and a delivery of Service Bus and Event Hubs, of its own method only."""
    config = AzureConfig(["orders"], event_hubs=[EventHubConfig("telemetry", 2, [])])
    async with Broker(azure=config, tokens=TokenRules([EMULATOR_RULE]), port=5672) as broker:
        where = connection_string(broker.url)
        with pytest.raises(TypeError, match="unexpected keyword argument") as raised:
            if what in ("send", "complete"):
                async with ServiceBus(where) as bus, bus.sender("orders") as sender, bus.receiver("orders") as receiver:
                    await sender.send(b"x", **arguments if what == "send" else {})
                    await (await receiver.receive()).complete(**arguments)
            else:
                async with EventHub(where, "telemetry") as hub, hub.sender() as events, hub.reader("0") as reader:
                    await events.send(b"x", **arguments if what == "publish" else {})
                    await reader.receive(**arguments)
    assert raised.value.__notes__ == [text]


async def _with(sender: Any, receiver: Any) -> None:
    with sender:
        pass


async def _async_with(sender: Any, receiver: Any) -> None:
    await sender.send("x")
    async with await receiver.receive():
        pass


async def _for(sender: Any, receiver: Any) -> None:
    for _ in receiver:
        pass


async def _without_await(sender: Any, receiver: Any) -> None:
    coroutine = receiver.receive()
    try:
        coroutine.accept()
    finally:
        coroutine.close()


@pytest.mark.anyio
@pytest.mark.in_memory
@pytest.mark.parametrize(
    ("program", "note"),
    [
        (_with, "`async with` opens it; amqp10.sync has what `with` opens"),
        (_async_with, "`with` takes it, because leaving its block waits for nothing"),
        (_for, "`async for` iterates over it; amqp10.sync has what `for` iterates over"),
        (_without_await, "receive() is a coroutine function: `await` it"),
    ],
)
async def test_a_missing_word(program: Callable[[Any, Any], Awaitable[None]], note: str) -> None:
    """The error of a statement that lacks `async` or `await`, or has one too many, has a note."""
    with pytest.raises((TypeError, AttributeError)) as raised:
        async with Broker() as broker, broker.connect() as connection:
            async with connection.sender("q") as sender, connection.receiver("q") as receiver:
                await program(sender, receiver)
    assert raised.value.__notes__ == [note]


@pytest.mark.anyio
@pytest.mark.in_memory
async def test_errors_in_groups() -> None:
    """An error of a task has its note in the group that its task group raises."""
    with pytest.raises(ExceptionGroup) as raised:
        async with Broker() as broker, broker.connect() as connection, connection.sender("q") as sender:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(partial(sender.send, "x", subject="s"))  # type: ignore[call-arg]
    assert raised.value.exceptions[0].__notes__[0].startswith("send() has no argument 'subject': make a Message of it")


@pytest.mark.anyio
@pytest.mark.in_memory
async def test_errors_of_others() -> None:
    """An error of the program's own functions gets no note."""
    with pytest.raises(TypeError, match="unexpected keyword argument") as raised:
        async with Broker() as broker, broker.connect():
            partial(test_threads, timeout=5)()  # type: ignore[call-arg]
    assert not hasattr(raised.value, "__notes__")


def test_threads() -> None:
    """The error has its note in a program without an event loop, too."""
    with BackgroundBroker() as broker, pytest.raises(TypeError) as raised, sync.Connection(broker.url) as connection:
        with connection.sender("q") as sender:
            sender.send("x", subject="s")  # type: ignore[call-arg]
    assert raised.value.__notes__ == ["send() has no argument 'subject': make a Message of it, which has such fields"]


def test_advised_arguments_exist() -> None:
    """Each argument that an error advises is one of a public call."""
    known = {name for call in public_calls() for name in [each.name for each in call.parameters] + list(call.hints)}
    known |= set(Message.replace.__annotations__) | set(dir(Message))
    advised = {name for names in MEANT.values() for name in names} | {name for name, _, _ in ELSEWHERE if name}
    assert advised <= known
