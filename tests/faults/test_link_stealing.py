"""Two programs by mistake under one container-id, with links of one name: they steal them from each other (§2.6.1).

It cannot go well, but what `send` has returned for is there, and what a receiver has accepted was its own.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import anyio
import pytest

from amqp10 import AmqpError, Connection, LinkDetached, Message, Reconnect, Source, StaleDelivery, Target
from amqp10.broker import Broker
from amqp10.testing import FaultProxy

from ..kit.counts import SEEDS
from ..kit.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory]

QUICK = Reconnect(initial_delay=0.001, max_delay=0.02, first_attempts=100)


def thief(url: str) -> Connection:
    return Connection(url, container_id="same", reconnect=QUICK, close_timeout=0.5)


def link(connection: Connection, direction: str) -> Any:
    if direction == "sender":
        return connection.sender(Target("q", timeout=60), name="link")
    return connection.receiver(Source("q", timeout=60), name="link")


async def test_the_word_on_another_message() -> None:
    """A sender that comes back after another took its link does not take the outcome of that one's for its own."""
    async with Broker() as broker, FaultProxy(broker.url) as one, FaultProxy(broker.url) as other:
        async with (
            thief(one.url) as first,
            first.sender("q", name="link", receiver_settle_mode="second") as robbed,
            anyio.create_task_group() as tasks,
        ):
            one.stall("up")
            delivery = await robbed.submit("mine")
            one.refusing = True
            one.cut()
            async with thief(other.url) as second:
                sender = second.sender("q", name="link", receiver_settle_mode="second")
                await sender.__aenter__()
                other.stall("down")  # so that it does not hear the outcome, which the broker keeps
                await sender.submit("another's")
                await until(lambda: broker.queue("q").depth == 1)
                one.resume()
                one.refusing = False
                await delivery.outcome()
                assert broker.queue("q").depth == 2
                tasks.cancel_scope.cancel()


@pytest.mark.parametrize("direction", ["sender", "receiver"])
async def test_an_older_connection(direction: str) -> None:
    """With `reconnect` a link is attached on the newest connection only: an attach on an older one came late."""
    async with Broker() as broker, thief(broker.url) as older, thief(broker.url) as newer:
        async with link(newer, direction) as held:
            with pytest.raises(LinkDetached, match="a newer connection"):
                await link(older, direction).__aenter__()
            assert held.open
            await held.detach()
            async with link(older, direction) as other:  # it is free
                assert other.open


@pytest.mark.parametrize("direction", ["sender", "receiver"])
async def test_an_older_connection_that_does_not_say_so(direction: str) -> None:
    """Whoever else attaches a link has it, as the specification demands."""
    async with Broker() as broker, Connection(broker.url, container_id="same") as older, thief(broker.url) as newer:
        async with link(newer, direction) as held, link(older, direction):
            await until(lambda: held._core.over)
            assert held._core.cause.condition == "amqp:link:stolen"


@pytest.mark.slow
@pytest.mark.timeout(900)  # it comes to an end when everybody has had luck often enough
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("mode", ["first", "second"])
async def test_link_stealing(seed: int, mode: Any) -> None:
    """Whoever is robbed attaches again; connections break meanwhile."""
    chance = random.Random(seed)
    sure: set[str] = set()
    done: Counter[Any] = Counter()
    over = False

    async def send(name: str, proxy: FaultProxy) -> None:
        async with thief(proxy.url) as connection:
            for number in range(60):
                body = f"{name}{number}"
                while body not in sure:
                    try:
                        async with connection.sender("q", name="out", receiver_settle_mode=mode) as sender:
                            await sender.send(Message(body, durable=True))
                            sure.add(body)
                    except (AmqpError, TimeoutError):
                        await anyio.sleep(chance.random() / 100)

    async def receive(proxy: FaultProxy) -> None:
        async with thief(proxy.url) as connection:
            while not over:
                try:
                    async with connection.receiver("q", name="in", receiver_settle_mode=mode) as receiver:
                        while not over:
                            with anyio.move_on_after(0.01):
                                delivery = await receiver.receive()
                                delivery.accept()
                                done[delivery.message.body] += 1
                except (AmqpError, StaleDelivery):
                    await anyio.sleep(chance.random() / 20)

    async with Broker() as broker, FaultProxy(broker.url) as one, FaultProxy(broker.url) as other:
        with anyio.fail_after(280):
            async with anyio.create_task_group() as receiving:
                for proxy in (one, other):
                    receiving.start_soon(receive, proxy)
                async with anyio.create_task_group() as sending:
                    for name, proxy in (("a", one), ("b", other)):
                        sending.start_soon(send, name, proxy)
                    for _ in range(15):
                        await anyio.sleep(chance.random() / 20)
                        chance.choice((one, other)).cut(reset=chance.random() < 0.5)
                while broker.queue("q").depth:  # noqa: ASYNC110 - of what is waited for there is no event
                    await anyio.sleep(0.01)
                over = True
        assert sure <= done.keys()
