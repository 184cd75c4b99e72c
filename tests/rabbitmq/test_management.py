"""What management says on the wire, and how it ends; that RabbitMQ understands it is proven in tests/interop/."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from amqp10 import Connection, ManagementError, Message, SessionEnded, Symbol, Unsupported
from amqp10.engine import ConnectionTerms, DeliveriesReceived, Event, LinkAttached
from amqp10.errors import RemoteProtocolError
from amqp10.messaging import Error
from amqp10.rabbitmq import Binding, Management, management

from ..kit.client.cancelling import CancelAt, at_each_checkpoint
from ..kit.client.peer import serving

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory]

QUEUE = {
    "name": "q",
    "vhost": "/",
    "type": "quorum",
    "durable": True,
    "exclusive": False,
    "auto_delete": False,
    "arguments": {"x-queue-type": "quorum"},
    "message_count": 3,
    "consumer_count": 1,
}
BOUND = {"source": "e", "destination_queue": "q", "binding_key": "k", "arguments": {}, "location": "/bindings/it"}


class Node:
    """A management node: notes the requests, and gives the next of the replies to each."""

    def __init__(self, peer: Any, *replies: tuple[str, Any]) -> None:
        self.peer = peer
        self.replies = list(replies)
        self.requests: list[Message] = []
        self.attached: list[Any] = []
        peer.on_event = self.on_event

    def on_event(self, event: Event) -> bool:
        if isinstance(event, LinkAttached):
            self.attached.append(event.link)
        if not isinstance(event, DeliveriesReceived) or event.link is self.peer.links.get("q"):
            return False
        self.peer.take(event.link)
        request = Message.decode(self.peer.received[-1])
        self.requests.append(request)
        if self.replies:
            status, body = self.replies.pop(0)
            reply = Message(body, subject=status, correlation_id=request.message_id)
            sender = next(link for link in self.attached if link.is_sender and link.attached)
            sender.send(reply.encode(), settled=True)
        return True


@asynccontextmanager
async def node(*replies: tuple[str, Any]) -> AsyncIterator[tuple[Node, Connection]]:
    """A peer that has a management node, and an open connection to it."""
    terms = ConnectionTerms("peer", offered_capabilities=("LINK_PAIR_V1_0",))
    async with serving(terms=terms) as (peer, connection), connection:
        yield Node(peer, *replies), connection


async def test_a_pair_of_links() -> None:
    """Two links of one name, both marked, both settled, on a session of their own that ends with them."""
    async with node() as (peer, connection):
        async with connection.sender("q"), management(connection):
            pair = peer.attached[1:]
            assert len({link.name for link in pair}) == 1
            assert [link.is_sender for link in pair] == [True, False]
            for link in pair:
                assert link.remote.properties == {Symbol("paired"): True}
                assert link.remote.settle_mode == "settled"
            assert peer.attached[0].session is not pair[0].session
        await anyio.wait_all_tasks_blocked()
        assert [session.begun for session in peer.peer.sessions] == [True, False]


Call = Callable[[Management], Awaitable[Any]]
DECLARED = {
    "durable": True,
    "exclusive": False,
    "auto_delete": False,
    "arguments": {"x-queue-type": "quorum", "x-delivery-limit": 5},
}
EXCHANGE = {"type": "topic", "durable": True, "auto_delete": False, "internal": False, "arguments": {}}
BINDING = {"source": "e", "destination_queue": "q", "binding_key": "a.#", "arguments": {}}
CALLS: list[tuple[Call, str, str, Any, tuple[str, Any]]] = [
    (lambda m: m.declare_queue("ä/b", delivery_limit=5), "PUT", "/queues/%C3%A4%2Fb", DECLARED, ("201", QUEUE)),
    (lambda m: m.queue("q"), "GET", "/queues/q", None, ("200", QUEUE)),
    (lambda m: m.purge_queue("q"), "DELETE", "/queues/q/messages", None, ("200", {"message_count": 3})),
    (lambda m: m.delete_queue("q"), "DELETE", "/queues/q", None, ("200", {"message_count": 3})),
    (lambda m: m.declare_exchange("e", "topic"), "PUT", "/exchanges/e", EXCHANGE, ("204", None)),
    (lambda m: m.delete_exchange("e f"), "DELETE", "/exchanges/e%20f", None, ("204", None)),
    (lambda m: m.bind("e", queue="q", key="a.#"), "POST", "/bindings", BINDING, ("204", None)),
    (lambda m: m.bindings("e", queue="q", key="a&b"), "GET", "/bindings?src=e&dstq=q&key=a%26b", None, ("200", [])),
    (lambda m: m.bindings("e", exchange="f"), "GET", "/bindings?src=e&dste=f&key=", None, ("200", [])),
    (lambda m: m.request("GET", "/any?thing=1"), "GET", "/any?thing=1", None, ("200", None)),
]


@pytest.mark.parametrize(("call", "method", "path", "body", "reply"), CALLS)
async def test_requests(call: Call, method: str, path: str, body: Any, reply: tuple[str, Any]) -> None:
    """The method is the subject, the path is `to`, names percent-encoded; the reply is asked for on the pair."""
    async with node(reply) as (peer, connection), management(connection) as rabbit:
        await call(rabbit)
    (request,) = peer.requests
    assert (request.subject, request.to, request.body, request.reply_to) == (method, path, body, "$me")
    assert request.message_id


async def test_answers() -> None:
    """Bodies become values, whatever is left out."""
    counted = ("200", {"message_count": 3})
    async with node(("200", QUEUE), counted, counted, ("200", [BOUND])) as (_, connection):
        async with management(connection) as rabbit:
            queue = await rabbit.queue("q")
            assert (queue.name, queue.type, queue.messages, queue.consumers) == ("q", "quorum", 3, 1)
            assert (queue.leader, queue.replicas) == (None, ())
            assert await rabbit.purge_queue("q") == await rabbit.delete_queue("q") == 3
            assert await rabbit.bindings("e", queue="q", key="k") == [Binding("e", "q", None, "k", {})]


@pytest.mark.parametrize(
    "body", [None, 7, "text", [], {}, {"name": "q"}, {**QUEUE, "message_count": "many"}, {**QUEUE, "arguments": 7}]
)
async def test_answers_of_another_form(body: Any) -> None:
    """A hostile or a broken node is an error of the protocol, and the next request is served."""
    odd = [{**BOUND, "arguments": 7}, {"source": "e"}]
    async with node(("200", body), ("200", {"message_count": {}}), ("200", odd), ("200", QUEUE)) as (_, connection):
        async with management(connection) as rabbit:
            with pytest.raises(RemoteProtocolError, match="cannot be understood"):
                await rabbit.queue("q")
            with pytest.raises(RemoteProtocolError, match="cannot be understood"):
                await rabbit.purge_queue("q")
            with pytest.raises(RemoteProtocolError, match="cannot be understood"):
                await rabbit.bindings("e", queue="q")
            assert (await rabbit.queue("q")).name == "q"


async def test_unbinding_asks_where_it_is() -> None:
    """RabbitMQ names a binding with arguments by a hash of its own: it is looked up, and only that one deleted."""
    other = {**BOUND, "arguments": {"x": 1}, "location": "/bindings/another"}
    async with node(("200", [other, BOUND]), ("204", None)) as (peer, connection):
        async with management(connection) as rabbit:
            await rabbit.unbind("e", queue="q", key="k")
    assert [(each.subject, each.to) for each in peer.requests] == [
        ("GET", "/bindings?src=e&dstq=q&key=k"),
        ("DELETE", "/bindings/it"),
    ]


async def test_destinations() -> None:
    """A binding has one destination."""
    async with node() as (peer, connection), management(connection) as rabbit:
        with pytest.raises(ValueError, match="name either a queue or an exchange"):
            await rabbit.bind("e")
        with pytest.raises(ValueError, match="name either a queue or an exchange"):
            await rabbit.unbind("e", queue="q", exchange="e")
        assert peer.requests == []


@pytest.mark.parametrize(
    ("reply", "status", "text"),
    [(("409", "other arguments"), 409, "409: other arguments"), (("404", None), 404, "404"), (("what", {}), 0, "0")],
)
async def test_errors(reply: tuple[str, Any], status: int, text: str) -> None:
    """What is no success is an error with the broker's words; the next request is served."""
    async with node(reply, ("200", QUEUE)) as (_, connection), management(connection) as rabbit:
        with pytest.raises(ManagementError) as caught:
            await rabbit.declare_queue("q")
        assert caught.value.status == status
        assert str(caught.value) == text
        assert (await rabbit.queue("q")).name == "q"


async def test_not_rabbitmq() -> None:
    """A peer without pairs of links is told from one that has them before anything is attached."""
    async with serving() as (_, connection), connection:
        with pytest.raises(Unsupported, match="RabbitMQ 4"):
            async with management(connection):
                pass


async def test_forbidden() -> None:
    """The broker ends the session over it: who waits is told, and the connection's other links do not notice."""
    async with node() as (peer, connection), connection.sender("q") as sender:
        async with management(connection) as rabbit, anyio.create_task_group() as tasks:

            async def declare() -> None:
                with pytest.raises(SessionEnded, match="unauthorized-access"):
                    await rabbit.declare_queue("q")

            tasks.start_soon(declare)
            await anyio.wait_all_tasks_blocked()
            peer.peer.sessions[-1].end(Error("amqp:unauthorized-access", "not you"))
            peer.peer.pump.wake()
        with pytest.raises(anyio.ClosedResourceError):
            await rabbit.declare_queue("q")
        await sender.send("works")


async def test_cancelled_at_each_checkpoint() -> None:
    """Opening, asking and closing, cut anywhere: no link and no session is left, and the next one is served."""

    async def trial(cancel: CancelAt) -> None:
        async with node(*[("200", QUEUE)] * 2) as (peer, connection):

            async def op() -> None:
                async with management(connection) as rabbit:
                    await rabbit.queue("q")

            await cancel.run(op)
            await anyio.wait_all_tasks_blocked()
            assert not any(session.begun for session in peer.peer.sessions)
            async with management(connection) as rabbit:
                peer.replies.append(("200", QUEUE))
                assert (await rabbit.queue("q")).name == "q"

    await at_each_checkpoint(trial, 4)
