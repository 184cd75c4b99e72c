"""Requests and replies with python-qpid-proton at the other end of the service, on each broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import anyio
import anyio.to_thread
import pytest

from amqp10 import Connection, Message

from ._matrix import Peer

proton = pytest.importorskip("proton", reason="python-qpid-proton is not installed")
from proton import utils  # noqa: E402

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.interop,
    pytest.mark.timeout(600),
    pytest.mark.capability("requests and replies"),
]
T = TypeVar("T")
SECONDS = 20
IDS = [7, "seven", b"\x07", None]


@pytest.fixture(params=["trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Our side is the same on both backends."""
    backend: str = request.param
    return backend


async def on_thread(function: Callable[[], T]) -> T:
    return await anyio.to_thread.run_sync(function, abandon_on_cancel=True)


@contextmanager
def connected(peer: Peer) -> Iterator[Any]:
    """A blocking connection of proton's."""
    connection = utils.BlockingConnection(peer.url(), timeout=SECONDS, allowed_mechs="PLAIN", allow_insecure_mechs=True)
    try:
        yield connection
    finally:
        connection.close()


def proton_id(value: Any) -> Any:
    return proton.ulong(value) if isinstance(value, int) else value


@pytest.mark.matrix("replies to requests of qpid-proton")
async def test_proton_asks(peer: Peer) -> None:
    """Our responder answers proton: to its reply address, by its correlation-id in its type, else by its message-id."""

    def ask(address: str, replies: str | None) -> list[Any]:
        with connected(peer) as connection:
            receiver = connection.create_receiver(replies, dynamic=replies is None, credit=10)
            sender = connection.create_sender(address)
            reply_to = replies or receiver.remote_source.address
            answers = []
            for each in IDS:
                asked = proton.Message(id="m", body="ping", reply_to=reply_to, correlation_id=proton_id(each))
                sender.send(asked)
                answers.append(receiver.receive(timeout=SECONDS))
                receiver.accept()
            return answers

    async with Connection(peer.url()) as connection:
        address = await peer.queue(connection)
        replies = await peer.queue(connection) if peer.name == "rabbitmq" else None
        async with connection.responder(address) as responder, anyio.create_task_group() as tasks:

            async def serve() -> None:
                async for request in responder:
                    await request.reply(Message(f"re: {request.message.body}", content_type="text/plain"))

            tasks.start_soon(serve)
            answers = await on_thread(lambda: ask(address, replies))
            tasks.cancel_scope.cancel()
    assert [answer.body for answer in answers] == ["re: ping"] * len(IDS)
    assert [answer.correlation_id for answer in answers] == [7, "seven", b"\x07", "m"]


@pytest.mark.parametrize("name", ["artemis", "broker_j", "embedded"])
async def test_proton_requester(name: str, request: pytest.FixtureRequest) -> None:
    """Proton's own requester, which wants a dynamic node for the replies; on RabbitMQ it has none."""
    peer = Peer(name, request.getfixturevalue(name))

    def ask(address: str) -> list[Any]:
        with connected(peer) as connection:
            requester = utils.SyncRequestResponse(connection, address)
            return [requester.call(proton.Message(body=number)).body for number in range(5)]

    async with Connection(peer.url()) as connection:
        address = await peer.queue(connection)
        async with connection.responder(address) as responder, anyio.create_task_group() as tasks:

            async def serve() -> None:
                async for asked in responder:
                    await asked.reply(asked.message.body * 2)

            tasks.start_soon(serve)
            assert await on_thread(lambda: ask(address)) == [0, 2, 4, 6, 8]
            tasks.cancel_scope.cancel()


@pytest.mark.matrix("requests to a service of qpid-proton")
async def test_proton_answers(peer: Peer) -> None:
    """Our requester understands proton's replies, in any order, by correlation-id or by message-id."""

    def serve(address: str, count: int) -> None:
        with connected(peer) as connection:
            receiver = connection.create_receiver(address, credit=count)
            requests = []
            for _ in range(count):
                requests.append(receiver.receive(timeout=SECONDS))
                receiver.accept()
            sender = connection.create_sender(None)
            for number, request in reversed(list(enumerate(requests))):
                known = request.correlation_id if number % 2 else request.id
                sender.send(proton.Message(body=request.body * 2, address=request.reply_to, correlation_id=known))

    async with Connection(peer.url()) as connection:
        address = await peer.queue(connection)
        replies = await peer.queue(connection) if peer.name == "rabbitmq" else None
        async with connection.requester(address, reply_to=replies) as requester, anyio.create_task_group() as tasks:
            answers = {}

            async def ask(number: int) -> None:
                answers[number] = (await requester.request(number)).body

            for number in range(10):
                tasks.start_soon(ask, number)
            await on_thread(lambda: serve(address, 10))
    assert answers == {number: number * 2 for number in range(10)}
