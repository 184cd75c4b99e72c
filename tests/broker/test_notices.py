"""What an operator asks about is one line each on the logger `amqp10.broker`, with fields."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from amqp10 import AuthenticationFailed, Connection, LinkDetached, MessageRejected, Plain
from amqp10.broker import Broker
from amqp10.testing import FaultProxy

from ..kit.waiting import until

pytestmark = pytest.mark.anyio


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> Any:
    """The fields of all records of one event."""
    caplog.set_level("INFO", "amqp10.broker")

    def of(event: str) -> list[dict[str, Any]]:
        return [vars(each) for each in caplog.records if vars(each).get("amqp_event") == event]

    return of


async def test_login_refused(told: Any) -> None:
    """With the address it came from, and without the password."""
    async with Broker(users={"ann": "right"}) as broker:
        with pytest.raises(AuthenticationFailed):
            async with Connection(broker.url, sasl=Plain("ann", "hunter2")):
                pass
    (record,) = told("login_refused")
    assert record["amqp_peer"].startswith("127.0.0.1")
    assert record["levelno"] == logging.WARNING
    assert "hunter2" not in f"{record}"


async def test_connection_lost_and_messages_returned(told: Any) -> None:
    """A peer that goes without a word is told of, and so are the messages that come back from it."""
    async with Broker(queues=["q"]) as broker, FaultProxy(broker.url) as proxy:
        async with Connection(broker.url) as connection, connection.sender("q") as sender:
            await sender.send_many(["a", "b"])
        with pytest.raises(Exception):  # noqa: B017, PT011
            async with Connection(proxy.url) as connection, connection.receiver("q") as receiver:
                await receiver.receive()
                await until(lambda: receiver.unsettled == 2)
                proxy.cut()
                await receiver.receive()
                await receiver.receive()
        await until(lambda: broker.queue("q").unsettled == 0)
    (record,) = told("connection_lost")
    assert record["amqp_error"] == "ConnectionLost"
    (record,) = told("messages_returned")
    assert (record["amqp_queue"], record["amqp_count"]) == ("q", 2)


async def test_dead_letter(told: Any) -> None:
    """With the queue, the reason and the consumer's error; a line break in its words makes no line."""
    async with Broker() as broker, Connection(broker.url) as connection:
        async with connection.sender("q") as sender, connection.receiver("q") as receiver:
            await sender.send("x")
            (await receiver.receive()).reject("shop:odd", "no such\narticle")
            await until(lambda: told("message_dead_lettered"))
    (record,) = told("message_dead_lettered")
    assert record["message"].startswith("message 0 of 'q' is a dead letter: rejected, shop:odd: ")
    assert (record["amqp_queue"], record["amqp_reason"], record["amqp_condition"]) == ("q", "rejected", "shop:odd")
    assert "\n" not in record["message"]


async def test_full(told: Any) -> None:
    """Once when a queue is full, and once when it has room again, however many wait."""
    async with Broker(max_queue_messages=2) as broker, Connection(broker.url) as connection:
        async with connection.sender("q") as sender:
            for number in range(2):
                await sender.send(number)
            await until(lambda: told("queue_full"))
            async with connection.receiver("q") as receiver:
                for _ in range(2):
                    (await receiver.receive()).accept()
                await until(lambda: told("queue_has_room"))
    assert [record["amqp_queue"] for record in told("queue_full")] == ["q"]
    assert len(told("queue_has_room")) == 1


async def test_full_and_refusing(told: Any) -> None:
    """One that was declared to refuse tells it once, not for each message that it refuses."""
    arguments = {"x-max-length": 1, "x-overflow": "reject-publish"}
    async with Broker(queues={"q": arguments}) as broker, Connection(broker.url) as connection:
        async with connection.sender("q") as sender:
            await sender.send(1)
            for number in range(5):
                with pytest.raises(MessageRejected):
                    await sender.send(number)
            assert len(told("queue_full")) == 1
            async with connection.receiver("q") as receiver:
                (await receiver.receive()).accept()
                await until(lambda: told("queue_has_room"))
            await sender.send(2)
            with pytest.raises(MessageRejected):
                await sender.send(3)
    assert len(told("queue_full")) == 2


async def test_link_refused(told: Any) -> None:
    """With its address and condition."""
    async with Broker(auto_create=False) as broker, Connection(broker.url) as connection:
        with pytest.raises(LinkDetached):
            async with connection.sender("nowhere"):
                pass
    (record,) = told("link_refused")
    assert (record["amqp_address"], record["amqp_condition"]) == ("nowhere", "amqp:not-found")
