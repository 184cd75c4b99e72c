"""What one user may have of the broker, and that other users are served all the while."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from amqp10 import Connection
from amqp10.broker import Broker, BrokerLimits
from amqp10.errors import (
    AmqpError,
    ConnectionClosed,
    LinkDetached,
    MessageRejected,
)
from amqp10.rabbitmq import management

from ...kit.broker.victims import NAMES, REFUSED, TOO_MANY, WAYS, condition_of, fill_and_free, victim
from ...kit.inside.broker import Lifetime, LinkKey, ResumableLink, ResumableLinks
from ...kit.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.capability("hostile peers")]


USERS = {"bad": "b", "good": "g"}


def as_user(broker: Broker, user: str) -> str:
    return broker.url.replace("://", f"://{user}:{USERS[user]}@")


def rounds(broker: Broker, name: str = "1.0") -> AbstractAsyncContextManager[Callable[[], Awaitable[None]]]:
    """A victim who is the user "good"."""
    return victim(broker, name, as_user(broker, "good"))


class TestUsers:
    """What one user has, by whatever connections, keeps no other user from anything."""

    @pytest.mark.parametrize("name", NAMES)
    async def test_connections(self, name: str) -> None:
        """One user has nine tenths of all by default; who goes leaves room."""
        async with Broker(users=USERS, max_connections=4, limits=BrokerLimits(connections_by_user=2)) as broker:
            async with Connection(as_user(broker, "bad"), dialect=name), rounds(broker, name) as serve:
                async with Connection(as_user(broker, "bad"), dialect=name):
                    with pytest.raises(ConnectionClosed, match="of user 'bad': the limit is 2") as refused:
                        async with Connection(as_user(broker, "bad"), dialect=name):
                            pass
                    assert refused.value.condition == TOO_MANY[name]
                    await serve()
                await until(lambda: broker.connections == 2)
                async with Connection(as_user(broker, "bad"), dialect=name):
                    await serve()

    async def test_share_of_connections(self) -> None:
        """Without a number, a tenth of all is left to others."""
        async with Broker(users=USERS, max_connections=10) as broker, AsyncExitStack() as stack:
            for _ in range(9):
                await stack.enter_async_context(Connection(as_user(broker, "bad")))
            with pytest.raises(ConnectionClosed, match="of user 'bad': the limit is 9"):
                async with Connection(as_user(broker, "bad")):
                    pass
            async with rounds(broker) as serve:
                await serve()

    @pytest.mark.parametrize("name", NAMES)
    async def test_nodes(self, name: str) -> None:
        """Those of all connections of a user count, and are counted as long as they are there."""
        limits = BrokerLimits(nodes=8)
        async with Broker(users=USERS, limits=limits) as broker, AsyncExitStack() as stack:
            for number in range(2):
                connection = await stack.enter_async_context(Connection(as_user(broker, "bad"), dialect=name))
                for each in "ab":
                    sender = await stack.enter_async_context(connection.sender(f"{number}{each}"))
                    await sender.send("kept")
            async with Connection(as_user(broker, "bad"), dialect=name) as connection:
                with pytest.raises(AmqpError, match="of user 'bad': the limit is 4") as refused:
                    async with connection.receiver("more"):
                        pass
                assert condition_of(refused.value) == REFUSED[name]
            async with rounds(broker, name) as serve:
                await serve()

    async def test_arguments(self) -> None:
        """Half of all are one user's, on whatever connections; what is gone, and what is refused, does not count."""
        large = {"x-note": "x" * 200}
        async with Broker(users=USERS, limits=BrokerLimits(all_arguments=1000), queues=["q"]) as broker:
            for _ in range(2):
                async with (
                    Connection(as_user(broker, "bad")) as connection,
                    management(connection) as manager,
                    Connection(as_user(broker, "good")) as other,
                    management(other) as others,
                ):
                    await manager.declare_queue("r", arguments=large)
                    await manager.declare_exchange("e", arguments=large)
                    for _ in range(2):
                        with pytest.raises(AmqpError, match="of user 'bad': the limit is 500"):
                            await manager.bind("amq.headers", queue="q", key="k", arguments=large)
                    await others.bind("amq.headers", queue="q", key="k", arguments=large)
                    await manager.delete_exchange("e")
                    await manager.bind("amq.headers", queue="r", key="k", arguments=large)
                    await manager.delete_queue("r")
                    await others.unbind("amq.headers", queue="q", key="k", arguments=large)

    async def test_nodes_that_nobody_uses(self) -> None:
        """A user's queues on demand that are not used make room for more of this user's."""
        async with Broker(users=USERS, limits=BrokerLimits(nodes_by_user=3)) as broker:
            for number in range(10):
                async with (
                    Connection(as_user(broker, "bad")) as connection,
                    connection.receiver(f"q{number}"),
                ):
                    assert len(broker.queues) <= 3

    async def test_exchanges_and_bindings(self) -> None:
        """What is deleted, unbound or ended with its exchange or queue counts no more."""
        limits = BrokerLimits(exchanges_by_user=2, bindings_by_user=3)
        async with (
            Broker(users=USERS, limits=limits, queues=["q", "r"]) as broker,
            Connection(as_user(broker, "bad")) as connection,
            management(connection) as bad,
            Connection(as_user(broker, "good")) as other,
            management(other) as good,
        ):
            for name in ("e", "f"):
                await bad.declare_exchange(name)
            with pytest.raises(AmqpError, match="exchanges of user 'bad': the limit is 2"):
                await bad.declare_exchange("g")
            for key in "abc":
                await bad.bind("e", queue="q", key=key)
            with pytest.raises(AmqpError, match="bindings of user 'bad': the limit is 3"):
                await bad.bind("amq.direct", queue="r", key="d")
            await bad.bind("e", queue="q", key="a")  # it is there
            await good.declare_exchange("good")
            await good.bind("good", queue="r", key="k")
            await bad.delete_exchange("e")
            await bad.declare_exchange("g")
            for key in "ab":
                await bad.bind("g", queue="q", key=key)
            await bad.bind("f", queue="r", key="c")
            with pytest.raises(AmqpError, match="bindings of user 'bad': the limit is 3"):
                await bad.bind("f", queue="r", key="d")
            await bad.delete_queue("q")
            await bad.bind("f", queue="r", key="d")
            await bad.unbind("f", queue="r", key="d")
            await bad.bind("f", queue="r", key="e")

    @pytest.mark.parametrize("name", NAMES)
    async def test_memory(self, name: str, caplog: pytest.LogCaptureFixture) -> None:
        """Who fills queues that nobody reads is stopped, and told why; others send on, until it is read."""
        limits = BrokerLimits(memory=1_000_000)
        async with Broker(users=USERS, limits=limits, queues=["q"], credit=10) as broker, rounds(broker, name) as serve:
            async with (
                Connection(as_user(broker, "bad"), dialect=name) as connection,
                connection.sender("q") as sender,
                Connection(as_user(broker, "good")) as other,
                anyio.create_task_group() as tasks,
            ):
                sent = 0

                async def send() -> None:
                    nonlocal sent
                    for _ in range(30):
                        await sender.send(bytes(50_000))
                        sent += 1

                tasks.start_soon(send)
                await until(lambda: "senders of user 'bad' are stopped" in caplog.text)
                await anyio.wait_all_tasks_blocked()
                assert sent < 30
                assert broker.blocked is None
                assert sum(queue.bytes for queue in broker.queues) <= 625_000
                for _ in range(5):
                    await serve()
                async with other.receiver("q", credit=1) as receiver:
                    with anyio.fail_after(60):
                        for _ in range(30):
                            (await receiver.receive()).accept()
            assert sent == 30
            await until(lambda: "senders of user 'bad' go on" in caplog.text)

    async def test_memory_beyond_credit(self) -> None:
        """What still comes by credit given before is refused beyond a quarter more; others' messages are taken."""
        limits = BrokerLimits(memory_by_user=100_000)
        async with Broker(users=USERS, limits=limits, queues=["q"], credit=100) as broker, rounds(broker) as serve:
            async with Connection(as_user(broker, "bad")) as connection, connection.sender("q") as sender:
                refused = []

                async def send() -> None:
                    try:
                        await sender.send(bytes(20_000))
                    except MessageRejected as error:
                        refused.append(str(error))

                async with anyio.create_task_group() as tasks:
                    for _ in range(60):  # all sent before the first answer, which takes the credit back
                        tasks.start_soon(send)
                    await until(lambda: bool(refused))
                    await serve()
                    tasks.cancel_scope.cancel()
            assert all("messages of user 'bad' take 100000 octets" in each for each in refused)
            assert broker.queue("q").bytes <= 125_000 + 600_000  # what one read brought

    @pytest.mark.parametrize("way", [*WAYS, "reject"])
    async def test_all_that_is_freed_counts(self, way: str, caplog: pytest.LogCaptureFixture) -> None:
        """However a user's messages go, the user may send again."""
        caplog.set_level(logging.WARNING)
        broker = Broker(users=USERS, limits=BrokerLimits(memory_by_user=50_000), queues=["q"], topics=["topic.t"])
        async with broker, Connection(as_user(broker, "bad")) as connection:
            await fill_and_free(connection, way, caplog)
            async with connection.sender("q") as sender:
                await sender.send("again")
            assert broker.queue("q").depth == 1

    async def test_what_a_stream_drops_counts(self, caplog: pytest.LogCaptureFixture) -> None:
        """A user's messages that a stream drops for newer ones of others leave room."""
        caplog.set_level(logging.WARNING)
        stream = {"x-queue-type": "stream", "x-max-length-bytes": 1000}
        async with Broker(users=USERS, limits=BrokerLimits(memory_by_user=50_000), queues={"q": stream}) as broker:
            async with Connection(as_user(broker, "bad")) as bad, bad.sender("q") as sender:
                await sender.send(bytes(60_000))
                await until(lambda: "are stopped" in caplog.text)
                async with Connection(as_user(broker, "good")) as good, good.sender("q") as another:
                    await another.send("the last one stays")
                await until(lambda: "go on" in caplog.text)
                await sender.send("again")
            assert broker.queue("q").depth == 2

    async def test_virtual_hosts(self) -> None:
        """Each has limits of its own, from the first octets of a connection on."""
        limits = BrokerLimits(nodes_by_user=1)
        async with Broker(users=USERS, limits=limits, virtual_hosts=["/", "other"]) as broker:
            for host in ("/", "other"):
                async with Connection(as_user(broker, "bad"), hostname=f"vhost:{host}") as connection:
                    async with connection.receiver("a"):
                        with pytest.raises(LinkDetached, match="the limit is 1"):
                            async with connection.receiver("b"):
                                pass


def test_kept_links_of_one_user() -> None:
    """The one that has waited longest ends where there are too many, and no other user's."""
    session: Any = object()
    ended: list[str] = []
    links = ResumableLinks(lambda: 0.0, lambda links, deadline: None, 3)

    def suspend(user: str, name: str) -> None:
        link = ResumableLink(LinkKey((user, "c"), name, "out"), None, Lifetime("never"))
        links.begin(link, None)
        links.suspend(link, [], lambda deliveries: ended.append(name), session, None)

    suspend("victim", "v")
    for number in range(5):
        suspend("stranger", str(number))
    assert ended == ["0", "1"]
    key = LinkKey(("stranger", "c"), "2", "out")
    before, link = links.claim(key), ResumableLink(key, None, Lifetime("never"))
    links.begin(link, before)
    assert ended == ["0", "1", "2"]
    links.suspend(link, [], lambda deliveries: ended.append("again"), session, None)
    suspend("stranger", "5")
    assert ended == ["0", "1", "2", "3"]
