"""python-qpid-proton subscribing at the embedded broker: durably, beside us, and by JMS's words for sharing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from amqp10.broker import Broker

proton = pytest.importorskip("proton", reason="python-qpid-proton is not installed")
from proton import reactor, utils  # noqa: E402

from .test_proton_client import on_thread  # noqa: E402

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.interop,
    # The broker's side is the same on both backends.
    pytest.mark.parametrize("anyio_backend", ["trio"]),
]
SECONDS = 20


@contextmanager
def connected(url: str, container: str) -> Iterator[Any]:
    """A blocking connection of proton's, of that container."""
    made = reactor.Container()
    made.container_id = container
    connection = utils.BlockingConnection(url, timeout=SECONDS, container=made)
    try:
        yield connection
    finally:
        connection.close()


class Shared(reactor.ReceiverOption):  # type: ignore[misc]
    """The source capabilities of JMS."""

    def __init__(self, *words: str) -> None:
        self.words = words

    def apply(self, receiver: Any) -> None:
        capabilities = receiver.source.capabilities
        capabilities.put_array(False, proton.Data.SYMBOL)
        capabilities.enter()
        for word in ("topic", *self.words):
            capabilities.put_symbol(word)
        capabilities.exit()


def take(receiver: Any, count: int) -> list[Any]:
    """That many bodies, accepted."""
    bodies = []
    for _ in range(count):
        bodies.append(receiver.receive(timeout=SECONDS).body)
        receiver.accept()
    return bodies


async def test_durable() -> None:
    """What comes while proton is away waits for its next link of that name, by its container's."""

    def client(url: str) -> list[Any]:
        options = [reactor.DurableSubscription()]
        with connected(url, "c") as connection:
            receiver = connection.create_receiver("topic.t", name="s", credit=10, options=options)
            receiver.link.detach()
            connection.create_sender("topic.t").send(proton.Message(body="while away"))
        with connected(url, "c") as connection:
            receiver = connection.create_receiver("topic.t", name="s", credit=10, options=options)
            seen = take(receiver, 1)
            source = receiver.link.remote_source
            seen += [source.durability, source.expiry_policy]
            receiver.close()
        return seen

    async with Broker() as broker:
        nothing, never = proton.Terminus.NONDURABLE, proton.Terminus.EXPIRE_NEVER
        assert await on_thread(lambda: client(broker.url)) == ["while away", nothing, never]
        assert broker.topic("topic.t").subscriptions == ()


async def test_the_same_subscription() -> None:
    """We go on with what proton began, and end it."""

    def client(url: str) -> None:
        with connected(url, "c") as connection:
            receiver = connection.create_receiver(
                "topic.t", name="s", credit=10, options=[reactor.DurableSubscription()]
            )
            receiver.link.detach()
            for number in range(3):
                connection.create_sender("topic.t", name=f"sender-{number}").send(proton.Message(body=number))

    async with Broker() as broker:
        await on_thread(lambda: client(broker.url))
        async with broker.connect(container_id="c") as connection:
            async with connection.subscription("topic.t", "s") as receiver:
                assert [(await receiver.receive()).message.body for _ in range(3)] == [0, 1, 2]
            await connection.unsubscribe("s")
        assert broker.topic("topic.t").subscriptions == ()


@pytest.mark.parametrize("words", [("shared",), ("shared", "global")])
async def test_shared(words: tuple[str, ...]) -> None:
    """Proton and we share a subscription, in one container or across two."""
    container = "c" if len(words) == 1 else "another"

    def client(url: str) -> list[Any]:
        with connected(url, container) as connection:
            name = "s|2" if len(words) == 1 else "s|global2"
            options = [reactor.DurableSubscription(), Shared(*words)]
            receiver = connection.create_receiver("topic.t", name=name, credit=2, options=options)
            sender = connection.create_sender("topic.t")
            for number in range(4):
                sender.send(proton.Message(body=number))
            seen = take(receiver, 2)
            receiver.link.detach()
            return seen

    async with Broker() as broker, broker.connect(container_id="c") as connection:
        sharing: dict[str, Any] = {"shared": True, "global_": len(words) == 2}
        async with connection.subscription("topic.t", "s", credit=2, **sharing) as receiver:
            theirs = await on_thread(lambda: client(broker.url))
            ours = [(await receiver.receive()).message.body for _ in range(2)]
            assert sorted(theirs + ours) == [0, 1, 2, 3]
            assert len(broker.topic("topic.t").subscriptions) == 1
        await connection.unsubscribe("s", **sharing)


async def test_browsing() -> None:
    """Proton's Copy leaves the messages where they are."""

    def client(url: str) -> list[Any]:
        with connected(url, "c") as connection:
            sender = connection.create_sender("q")
            for number in range(3):
                sender.send(proton.Message(body=number))
            receiver = connection.create_receiver("q", credit=10, options=[reactor.Copy()])
            return take(receiver, 3)

    async with Broker() as broker:
        assert await on_thread(lambda: client(broker.url)) == [0, 1, 2]
        assert (broker.queue("q").depth, broker.queue("q").copied) == (3, 3)
