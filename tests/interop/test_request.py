"""Requests and replies on the real brokers, with ourselves and with an independent client at the other end."""

from __future__ import annotations

import anyio
import pytest

from amqp10 import Connection, ManagementError, Message, Unsupported

from ._matrix import Peer, fresh_name
from .brokers import Server

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.interop,
    pytest.mark.timeout(600),
    pytest.mark.capability("requests and replies"),
]


@pytest.mark.matrix("request and reply by a dynamic node")
async def test_dynamic_reply(peer: Peer) -> None:
    """Fifty requests under way at once each get their own reply; one that was cancelled is not missed."""
    async with Connection(peer.url()) as connection:
        address = await peer.queue(connection)
        if peer.name == "rabbitmq" and not peer.newest:
            with pytest.raises(Unsupported, match=r"before version 4\.2: give reply_to="):
                async with connection.requester(address):
                    pass
            peer.lacks("`Unsupported` on 4.0 and 4.1; direct reply-to since 4.2")
            return
        async with connection.responder(address) as responder, connection.requester(address) as requester:

            async def serve() -> None:
                async for request in responder:
                    await request.reply(Message(("re", request.message.body)))

            async def ask(number: int) -> None:
                assert list((await requester.request(number)).body) == ["re", number]

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(serve)
                async with anyio.create_task_group() as asking:
                    for number in range(50):
                        asking.start_soon(ask, number)
                with anyio.move_on_after(0):
                    await requester.request("given up")
                assert list((await requester.request("last")).body) == ["re", "last"]
                assert requester.pending == 0
                tasks.cancel_scope.cancel()


@pytest.mark.parametrize(("broker", "dialect"), [("rabbitmq", "0-9-1"), ("broker_j", "0-9-1"), ("broker_j", "0-10")])
async def test_dynamic_reply_in_older_dialects(request: pytest.FixtureRequest, broker: str, dialect: str) -> None:
    """There every broker makes a queue for the replies, whatever it lacks in AMQP 1.0."""
    server: Server = request.getfixturevalue(broker)
    address = fresh_name()
    async with Connection(server.url(), dialect=dialect) as connection:
        await connection.native.declare_queue(address, durable=True)
        async with connection.responder(address) as responder, connection.requester(address) as requester:
            async with anyio.create_task_group() as tasks:

                async def serve() -> None:
                    await (await responder.receive()).reply("pong")

                tasks.start_soon(serve)
                assert (await requester.request("ping")).body == "pong"
        await connection.native.delete_queue(address)


@pytest.mark.matrix("request and reply by a queue of one's own")
async def test_named_reply(peer: Peer) -> None:
    """A reply address that is given is used instead of a dynamic node."""
    async with Connection(peer.url()) as connection:
        address, replies = await peer.queue(connection), await peer.queue(connection)
        async with (
            connection.responder(address) as responder,
            connection.requester(address, reply_to=replies) as requester,
            anyio.create_task_group() as tasks,
        ):

            async def serve() -> None:
                request = await responder.receive()
                assert request.message.reply_to == replies
                await request.reply("pong")

            tasks.start_soon(serve)
            assert (await requester.request("ping")).body == "pong"


async def test_management_of_broker_j(broker_j: Server) -> None:
    """Broker-J's management node answers in the shape of the draft: a queue is made, changed, emptied and deleted."""
    async with Connection(broker_j.url()) as connection, connection.management() as management:
        types = await management.request("GET-TYPES", "org.amqp.management", identity="self")
        assert "org.apache.qpid.Queue" in types.body
        name, queue = fresh_name(), "org.apache.qpid.Queue"
        known = {"index": "object-path", "key": name}
        limit = {"maximumQueueDepthMessages": 5}
        made = await management.request("CREATE", queue, body={"name": name, "object-path": name, **limit})
        assert made.body["maximumQueueDepthMessages"] == 5
        changed = await management.request("UPDATE", queue, body={"maximumQueueDepthMessages": 7}, **known)
        assert changed.body["maximumQueueDepthMessages"] == 7
        async with connection.sender(name) as sender:
            await sender.send_many(range(3))
        assert (await management.request("getStatistics", queue, **known)).body["queueDepthMessages"] == 3
        asked = {"attributeNames": ["name"]}
        found = await management.request("QUERY", "org.amqp.management", identity="self", entityType=queue, body=asked)
        assert [name] in found.body["results"]
        assert (await management.request("clearQueue", queue, **known)).body == 3
        await management.request("DELETE", queue, **known)
        with pytest.raises(ManagementError) as missing:
            await management.request("READ", queue, **known)
        assert missing.value.status == 404
        with pytest.raises(ManagementError) as caught:
            await management.request("QUERY", "no.such.type")
        assert caught.value.status >= 400


async def test_management_of_artemis(artemis: Server) -> None:
    """Artemis has a management of another shape; the requester that it stands on is enough for it."""
    async with Connection(artemis.url()) as connection, connection.requester("activemq.management") as requester:
        asked = {"_AMQ_ResourceName": "broker", "_AMQ_OperationName": "getQueueNames"}
        reply = await requester.request(Message("[]", application_properties=asked))
        assert (reply.application_properties or {})["_AMQ_OperationSucceeded"] is True
        assert "expired" in str(reply.body)
