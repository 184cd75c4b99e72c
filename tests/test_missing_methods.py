"""What a program is told that calls a method which a class does not have, but another library's class has."""

from __future__ import annotations

import copy
import re
import traceback
from typing import Any
from unittest.mock import create_autospec

import pytest

from amqp10 import Connection, Delivery, Message, Receiver, Sender, Worker, amqp010, amqp091, sync
from amqp10.azure import EventHub, ServiceBus
from amqp10.azure.service_bus import ServiceBusDelivery, ServiceBusReceiver, ServiceBusSender
from amqp10.broker import Broker
from amqp10.rabbitmq import Management
from amqp10.sync import azure as sync_azure
from amqp10.testing import BackgroundBroker

from .kit.inside.package import attributes

CLASSES = (
    *(Connection, Delivery, Message, Receiver, Sender, Worker, amqp010.Native, amqp091.Native, Management),
    *(EventHub, ServiceBus, ServiceBusDelivery, ServiceBusReceiver, ServiceBusSender),
)
CONNECTION = Connection("amqp://localhost", dialect="0-9-1")
WHERE = "Endpoint=sb://h;SharedAccessKeyName=n;SharedAccessKey=a2V5"
BUS = ServiceBus(WHERE)


@pytest.mark.parametrize(
    ("instance", "name", "text"),
    [
        (CONNECTION, "connect", "'Connection' object has no attribute 'connect': its block opens and closes it"),
        (CONNECTION, "close", "'Connection' object has no attribute 'close': its block opens and closes it"),
        (CONNECTION.native, "queue_declare", "'Native' object has no attribute 'queue_declare': use declare_queue()"),
        (BUS, "get_queue_sender", "'ServiceBus' object has no attribute 'get_queue_sender': use sender(queue)"),
        (EventHub(WHERE, "hub"), "receive", "'EventHub' object has no attribute 'receive': use reader(partition)"),
        (sync.Connection("amqp://localhost"), "channel", "'Connection' object has no attribute 'channel': use sender("),
        (CONNECTION, "xyz", "'Connection' object has no attribute 'xyz'"),
    ],
)
def test_missing(instance: Any, name: str, text: str) -> None:
    """Python's error says what to call in place of a method, and keeps the name and the object."""
    with pytest.raises(AttributeError) as raised:
        getattr(instance, name)
    assert str(raised.value).startswith(text)
    assert (raised.value.name, raised.value.obj) == (name, instance)
    assert not hasattr(instance, name)
    assert getattr(instance, name, None) is None
    assert name not in dir(instance)


@pytest.mark.parametrize(
    ("cls", "text"),
    [
        (ServiceBus, "type object 'ServiceBus' has no attribute 'from_connection_string': use ServiceBus(connection_s"),
        (EventHub, "type object 'EventHub' has no attribute 'from_connection_string': use EventHub(connection_string,"),
        (sync_azure.ServiceBus, "type object 'ServiceBus' has no attribute 'from_connection_string': use ServiceBus("),
        (sync_azure.EventHub, "type object 'EventHub' has no attribute 'from_connection_string': use EventHub(connect"),
    ],
)
def test_missing_constructor(cls: type, text: str) -> None:
    """A class says what to call in place of a constructor that another library's class has."""
    with pytest.raises(AttributeError) as raised:
        cls.from_connection_string(WHERE)  # type: ignore[attr-defined]
    assert str(raised.value).startswith(text)
    assert (raised.value.name, raised.value.obj) == ("from_connection_string", cls)
    with pytest.raises(AttributeError, match=rf"^type object '{cls.__name__}' has no attribute 'xyz'$"):
        cls.xyz  # type: ignore[attr-defined]  # noqa: B018


EACH_MESSAGE = [
    ("sender", "publish", "Sender has no publish: use send()"),
    ("receiver", "recv", "Receiver has no recv: use receive()"),
]


@pytest.mark.anyio
@pytest.mark.in_memory
@pytest.mark.parametrize(("link", "name", "text"), EACH_MESSAGE)
async def test_links(link: str, name: str, text: str) -> None:
    """The error of an object that is used for each message has a note when it leaves the connection's block."""
    with pytest.raises(AttributeError) as raised:
        async with Broker() as broker, broker.connect() as connection, getattr(connection, link)("q") as opened:
            getattr(opened, name)
    assert raised.value.__notes__ == [text]
    assert text in "".join(traceback.format_exception(raised.value))


@pytest.mark.anyio
@pytest.mark.in_memory
async def test_deliveries_and_workers() -> None:
    """So has that of a delivery and of a worker; what is said already is said once."""
    with pytest.raises(AttributeError) as raised:
        async with Broker() as broker, broker.connect() as connection, connection.sender("q") as sender:
            await sender.send("x")
            async with connection.receiver("q") as receiver:
                (await receiver.receive()).ack()  # type: ignore[attr-defined]
    assert "has no ack: use accept()" in raised.value.__notes__[0]
    with pytest.raises(AttributeError) as raised:
        async with Broker() as broker, broker.connect() as connection:
            await Worker(connection, "q", print).run()  # type: ignore[attr-defined]
    assert raised.value.__notes__[0].startswith("Worker has no run: its block, `async with Worker(...) as worker`,")
    with pytest.raises(AttributeError, match="its block opens") as raised:
        async with Broker() as broker, broker.connect() as connection:
            await connection.close()  # type: ignore[attr-defined]
    assert not hasattr(raised.value, "__notes__")


@pytest.mark.anyio
@pytest.mark.in_memory
async def test_errors_of_others() -> None:
    """An error of the program's own objects gets no note, whatever their class is called."""
    mine = type("Sender", (), {})()
    with pytest.raises(AttributeError) as raised:
        async with Broker() as broker, broker.connect():
            mine.publish()
    assert not hasattr(raised.value, "__notes__")


def test_threads() -> None:
    """The faces for threads have the notes, too."""
    with (
        BackgroundBroker() as broker,
        pytest.raises(AttributeError) as raised,
        sync.Connection(broker.url) as connection,
    ):
        with connection.sender("q") as sender:
            sender.publish("x")  # type: ignore[attr-defined]
    assert raised.value.__notes__ == ["Sender has no publish: use send()"]


def test_a_property_that_fails() -> None:
    """The error of a property is its own, without a hint."""

    class Failing(Connection[Any]):
        @property
        def close(self) -> None:
            raise AttributeError("mine")

    with pytest.raises(AttributeError, match=r"^mine$"):
        Failing("amqp://localhost").close  # noqa: B018


def test_copies_and_mocks() -> None:
    """Copies and mocks are as they were: a missing name is missing, also in an object without its attributes."""
    native = CONNECTION.native
    assert type(copy.copy(native)) is type(native)
    assert not hasattr(create_autospec(Connection, instance=True), "close")
    assert not hasattr(Connection.__new__(Connection), "_core")


def test_the_table() -> None:
    """Each name is missing in its class, and each method that is advised is there."""
    table = attributes._MEANT
    assert set(table) == {each.__name__ for each in CLASSES}
    for each in CLASSES:
        for name, advice in table[each.__name__].items():
            assert not hasattr(each, name), (each, name)
            for method in re.findall(r"(?<![\w.])([a-z_]+)\(", re.sub(r"\bits \w+\(\)", "", advice)):
                assert hasattr(each, method), (each, method)
