"""Requesters and responders, against the embedded broker."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from amqp10 import (
    Connection,
    ConnectionLost,
    DecodeError,
    LinkDetached,
    LocalProtocolError,
    ManagementError,
    Message,
    MessageRejected,
    Requester,
    Responder,
    Symbol,
    ULong,
    Unsupported,
)
from amqp10.broker import Broker
from amqp10.engine import ConnectionTerms, LinkAttached
from amqp10.messaging import Error, Rejected
from amqp10.testing import Attach, Disposition, Flow, Transfer

from ...kit.client.cancelling import CancelAt, at_each_checkpoint
from ...kit.client.memory_peer import MemoryPeer

pytestmark = [pytest.mark.anyio, pytest.mark.capability("requests and replies")]


@asynccontextmanager
async def pair(**settings: Any) -> AsyncIterator[tuple[Connection, Requester, Responder]]:
    """A requester and a responder of one service."""
    async with Broker() as broker, broker.connect() as connection:
        async with connection.responder("service") as responder:
            async with connection.requester("service", **settings) as requester:
                yield connection, requester, responder


async def echo(responder: Responder) -> None:
    """Answer everything with what it was."""
    async for request in responder:
        await request.reply(Message(request.message.body))


async def test_request_and_reply() -> None:
    """A reply is a message with the request's correlation-id, to the requester's own node."""
    async with pair() as (_, requester, responder), anyio.create_task_group() as tasks:
        tasks.start_soon(echo, responder)
        reply = await requester.request("ping")
        assert (reply.body, reply.to) == ("ping", requester.reply_to)
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize("credit", [1, 100])
async def test_many_in_flight_and_out_of_order(credit: int) -> None:
    """Each of many tasks gets its own reply, whatever the order of the replies; also with little credit."""
    async with pair(credit=credit) as (_, requester, responder):
        got = {}

        async def ask(number: int) -> None:
            got[number] = (await requester.request(number)).body

        async def answer_backwards() -> None:
            requests = [await responder.receive() for _ in range(50)]
            for request in reversed(requests):
                await request.reply(request.message.body * 2)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(answer_backwards)
            for number in range(50):
                tasks.start_soon(ask, number)
        assert got == {number: number * 2 for number in range(50)}
        assert (requester.pending, requester.unmatched) == (0, 0)


async def test_cancelled_request() -> None:
    """Its waiter is gone; the late reply is accepted, counted, and in nobody's way."""
    async with pair() as (_, requester, responder):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(requester.request, "too slow")
            late = await responder.receive()
            tasks.cancel_scope.cancel()
        assert requester.pending == 0
        async with anyio.create_task_group() as tasks:
            await late.reply("late")
            tasks.start_soon(echo, responder)
            assert (await requester.request("next")).body == "next"
            tasks.cancel_scope.cancel()
        assert requester.unmatched == 1
        assert requester.replies.unsettled == 0


IDS = ["mine", b"\x00\xff", ULong(7), uuid.UUID(int=5)]


@pytest.mark.parametrize("kept", IDS, ids=repr)
@pytest.mark.parametrize("field", ["correlation_id", "message_id"])
async def test_ids_of_the_user(field: str, kept: object) -> None:
    """A correlation-id or message-id that the user gave is kept, in its type, and matched."""
    async with pair() as (_, requester, responder), anyio.create_task_group() as tasks:

        async def serve() -> None:
            request = await responder.receive()
            asked = request.message
            assert (asked.correlation_id, type(asked.correlation_id)) == (kept, type(kept))
            await request.reply(None)

        tasks.start_soon(serve)
        given: dict[str, Any] = {field: kept}
        reply = await requester.request(Message("x", **given))
        assert reply.correlation_id == kept


async def test_matched_by_message_id() -> None:
    """A responder that copies the message-id, as some brokers' management does, is understood."""
    async with pair() as (connection, requester, responder), anyio.create_task_group() as tasks:

        async def serve() -> None:
            request = await responder.receive()
            async with connection.sender(request.message.reply_to) as sender:
                await sender.send(Message("by message-id", correlation_id=request.message.message_id))
            request.delivery.accept()

        tasks.start_soon(serve)
        reply = await requester.request(Message("x", message_id="m", correlation_id="c"))
        assert reply.body == "by message-id"


async def test_correlation_id_in_use() -> None:
    """Two requests of one correlation-id could not be told apart."""
    async with pair() as (_, requester, responder), anyio.create_task_group() as tasks:
        tasks.start_soon(requester.request, Message("first", correlation_id="same"))
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(LocalProtocolError, match="'same' already waits"):
            await requester.request(Message("second", correlation_id="same"))
        await (await responder.receive()).reply("done")


@pytest.mark.in_memory
async def test_a_malformed_reply(memory_peer: MemoryPeer) -> None:
    """It is raised where it was waited for; one that does not even name its request is only counted."""
    async with anyio.create_task_group() as tasks:

        async def serve() -> None:
            await memory_peer.accept_receiver()
            await memory_peer.accept_link(handle=1, credit=5)
            await memory_peer.expect(Transfer)
            reply = Message("reply", correlation_id="mine").encode()
            for number, payload in enumerate((reply[:5], reply[:-1] + b"\xff")):
                await memory_peer.send(Transfer(handle=0, delivery_id=number, delivery_tag=b"%d" % number), payload)
            for number in range(2):
                told = await memory_peer.expect_any(Disposition, skip=(Flow,))
                assert told.first == number
                assert isinstance(told.state, Rejected)
            await memory_peer.drop()

        tasks.start_soon(serve)
        async with Connection(memory_peer.url, close_timeout=0.1) as connection:
            with pytest.raises(ConnectionLost):
                async with connection.requester("q", reply_to="replies") as requester:
                    with pytest.raises(DecodeError, match="UTF-8"), anyio.fail_after(60):
                        await requester.request(Message("x", correlation_id="mine"))
                    assert requester.unmatched == 1
                    await requester.request("more")


@pytest.mark.in_memory
async def test_request_that_is_not_taken(memory_peer: MemoryPeer) -> None:
    """The peer's rejection is raised at once: no reply would ever come."""
    async with anyio.create_task_group() as tasks:

        async def serve() -> None:
            await memory_peer.accept_receiver()
            attach = await memory_peer.accept_link(handle=1, credit=5)
            assert isinstance(attach, Attach)
            await memory_peer.expect(Transfer)
            state = Rejected(Error(Symbol("test:no"), "not this one"))
            await memory_peer.send(Disposition(role=True, first=0, settled=True, state=state))
            await memory_peer.drop()

        tasks.start_soon(serve)
        async with Connection(memory_peer.url, close_timeout=0.1) as connection:
            with pytest.raises(MessageRejected, match="not this one"):
                async with connection.requester("q") as requester:
                    await requester.request("x")


async def test_death_of_a_link_wakes_every_request() -> None:
    """When the node of the replies goes, everyone who waits gets the cause."""
    async with Broker() as broker:
        async with broker.connect() as connection, connection.requester("service") as requester:
            causes = []

            async def ask() -> None:
                with pytest.raises(Exception) as caught:  # noqa: PT011
                    await requester.request("x")
                causes.append(type(caught.value))

            async with anyio.create_task_group() as tasks:
                for _ in range(3):
                    tasks.start_soon(ask)
                await anyio.wait_all_tasks_blocked()
                requester.replies._core.engine_link.fail("test:gone", "gone")  # type: ignore[union-attr]
                connection._core.handle(connection._core.in_engine.events())
            assert len(set(causes)) == 1
            assert requester.pending == 0


async def test_request_without_reply_to() -> None:
    """`reply` says that there is none, and the request is still the responder's to settle."""
    async with pair() as (connection, _, responder):
        async with connection.sender("service") as sender:
            await sender.send("tell me nothing")
        request = await responder.receive()
        with pytest.raises(LocalProtocolError, match="no reply-to"):
            await request.reply("to whom?")
        assert request.delivery.state is None
        request.delivery.accept()


async def test_requester_that_is_gone() -> None:
    """A reply that cannot be delivered is an error, the request stays unsettled, and the responder goes on."""
    async with Broker(auto_create=False, queues=["service"]) as broker, broker.connect() as connection:
        async with connection.responder("service") as responder:
            async with connection.sender("service") as sender:
                await sender.send(Message("x", reply_to="nobody"))
            request = await responder.receive()
            with pytest.raises((MessageRejected, LinkDetached)):
                await request.reply("y")
            assert request.delivery.state is None
            request.delivery.accept()
            async with connection.requester("service") as requester, anyio.create_task_group() as tasks:
                tasks.start_soon(echo, responder)
                assert (await requester.request("z")).body == "z"
                tasks.cancel_scope.cancel()


async def test_without_anonymous_relay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the peer does not relay, each reply address has a sender, and the least used ones are closed."""
    monkeypatch.setattr("amqp10.client._requests.responder.ANONYMOUS_RELAY", "NOT-OFFERED")
    monkeypatch.setattr("amqp10.client._requests.responder.KEPT_SENDERS", 2)
    async with pair() as (connection, _, responder), anyio.create_task_group() as tasks:
        tasks.start_soon(echo, responder)
        for _ in range(3):
            async with connection.requester("service") as requester:
                for number in range(3):
                    assert (await requester.request(number)).body == number
        assert len(responder._senders) == 2
        tasks.cancel_scope.cancel()


async def test_management() -> None:
    """The draft's shape: what is asked, and statuses as results and errors."""
    async with Broker() as broker, broker.connect() as connection:
        async with connection.responder("$management") as node, connection.management() as management:

            async def serve() -> None:
                for status in (200, 404):
                    request = await node.receive()
                    asked = request.message.application_properties
                    assert asked == {"operation": "READ", "type": "queue", "name": "q", "identity": "7"}
                    said = {"statusCode": status, "statusDescription": "so it is"}
                    await request.reply(Message({"a": 1}, application_properties=said))
                await (await node.receive()).reply("no status at all")

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(serve)
                assert (await management.request("READ", "queue", "q", identity="7")).body == {"a": 1}
                with pytest.raises(ManagementError, match="404: so it is") as caught:
                    await management.request("READ", "queue", "q", identity="7")
                assert caught.value.status == 404
                with pytest.raises(ManagementError, match="no status"):
                    await management.request("READ", "queue")


@pytest.mark.parametrize(("version", "made"), [("4.0.5", False), ("4.1.10", False), ("4.2.0", True), ("5.0", True)])
async def test_replies_of_rabbitmq(serve: Any, version: str, made: bool) -> None:
    """RabbitMQ makes nodes for replies, in its own way, since 4.2; before that nothing is asked of it."""
    terms = ConnectionTerms("peer", properties={"product": "RabbitMQ", "version": version})
    async with serve(terms=terms) as (peer, connection), connection:
        requester = connection.requester("/queues/service")
        if made:
            async with requester:
                attach = peer.links["dynamic-1"].remote
                assert attach.source.capabilities == (Symbol("rabbitmq:volatile-queue"),)
                assert (attach.source.expiry_policy, attach.settle_mode) == ("link-detach", "settled")
            return
        with pytest.raises(Unsupported, match=f"RabbitMQ {version} makes no node for replies.*give reply_to="):
            async with requester:
                pass
        assert peer.links == {}
        async with connection.requester("/queues/service", reply_to="/queues/replies"):
            assert list(peer.links) == ["/queues/replies", "/queues/service"]


async def test_no_credit_is_a_mistake() -> None:
    """Without credit no reply could come."""
    async with Broker() as broker, broker.connect() as connection:
        with pytest.raises(ValueError, match="credit"):
            connection.requester("service", credit=0)


async def test_cancelled_at_each_checkpoint() -> None:
    """Opening, asking and closing, cut anywhere: no waiter, link or delivery is left, and the next one is served."""

    async def trial(cancel: CancelAt) -> None:
        async with pair() as (connection, requester, responder), anyio.create_task_group() as tasks:
            tasks.start_soon(echo, responder)

            async def op() -> None:
                async with connection.requester("service") as another:
                    assert (await another.request("x")).body == "x"

            await cancel.run(op)
            assert requester.pending == 0
            with anyio.fail_after(60):
                assert (await requester.request("next")).body == "next"
            tasks.cancel_scope.cancel()

    await at_each_checkpoint(trial, 4)


async def test_reply_cancelled_at_each_checkpoint() -> None:
    """A reply that is cut is sent or not; the request is accepted only if it was, and can be answered again else."""

    async def trial(cancel: CancelAt) -> None:
        async with pair() as (_, requester, responder), anyio.create_task_group() as tasks:
            replies = []

            async def ask() -> None:
                replies.append((await requester.request("x")).body)

            tasks.start_soon(ask)
            request = await responder.receive()
            await cancel.run(lambda: request.reply("y"))
            if request.delivery.state is None:
                with anyio.fail_after(60):
                    await request.reply("y")
        assert replies == ["y"]

    await at_each_checkpoint(trial, 2)


async def test_a_node_that_answers_by_itself(serve: Any) -> None:
    """Replies that come from where requests go have an end of that name, as management nodes at Azure want it."""
    async with serve() as (peer, connection):
        ends: list[Any] = []

        def note(event: Any) -> bool:
            if isinstance(event, LinkAttached):
                remote: Any = event.link.remote
                ends.append((remote.source.address, remote.target.address))
            return False

        peer.on_event = note
        async with connection, connection.requester("node", reply_to="node") as requester:
            assert ends == [("node", "node"), (None, "node")]
            assert requester.reply_to == "node"
