"""A large body between the user's hands and the socket, through the public API: as many copies as are allowed."""

from __future__ import annotations

import tracemalloc
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from amqp10 import Connection, Message
from amqp10.broker import Broker
from amqp10.client.internals import receiver_delivery
from amqp10.messaging.payloads import LARGE, SplitPayload

from ..kit.inside.net import SocketStream, WatchedSocketStream

pytestmark = pytest.mark.anyio

SIZE = 1 << 23
ROOM = SIZE // 10  # for all else that is there meanwhile


@contextmanager
def traced() -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
    finally:
        tracemalloc.stop()


def peak() -> int:
    return tracemalloc.get_traced_memory()[1]


@pytest.mark.parametrize("way", ["send", "submit", "send_many"])
async def test_sending(monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """When the socket is given the first octet of a message, its encoded form is the only copy there has been."""
    peaks = []
    write = SocketStream._write

    def measured(stream: SocketStream, buffers: deque[memoryview]) -> int:
        if sum(map(len, buffers)) > SIZE:
            peaks.append(peak())
        return write(stream, buffers)

    async with (
        Broker(queues=["q"]) as broker,
        Connection(broker.url) as connection,
        connection.sender("q") as sender,
    ):
        await sender.send(b"first")  # with which all is in place
        body = bytes(SIZE)
        monkeypatch.setattr(SocketStream, "_write", measured)
        with traced():
            if way == "send":
                await sender.send(Message(body))
            elif way == "submit":
                await (await sender.submit(body)).outcome()
            else:
                await sender.send_many([Message(body)])
    assert SIZE < peaks[0] < SIZE + ROOM


async def test_receiving(monkeypatch: pytest.MonkeyPatch) -> None:
    """The octets read from the socket are kept as they came, and the body is the only copy of them."""
    read: list[bytes] = []
    receive, receive_each = SocketStream.receive, WatchedSocketStream.receive_each

    async def noted(stream: SocketStream, max_bytes: int = 65_536) -> bytes:
        data = await receive(stream, max_bytes)
        read.append(data)
        return data

    async def noted_each(stream: WatchedSocketStream, max_bytes: int, handler: Callable[[bytes], bool]) -> None:
        def note(data: bytes) -> bool:
            read.append(data)
            return handler(data)

        await receive_each(stream, max_bytes, note)

    async with Broker(queues=["q"]) as broker:
        async with Connection(broker.url) as connection, connection.sender("q") as sender:
            await sender.send(Message(bytes(SIZE)))
        monkeypatch.setattr(SocketStream, "receive", noted)
        monkeypatch.setattr(WatchedSocketStream, "receive_each", noted_each)
        async with Connection(broker.url) as connection, connection.receiver("q", credit=0) as receiver:
            receiver.add_credit(1)
            delivery = await receiver.receive()
            pieces = receiver_delivery(delivery).pieces
            assert isinstance(pieces, SplitPayload)
            came = {id(data) for data in read}
            copied = [each for each in pieces.buffers if id(getattr(each, "obj", None)) not in came]
            assert sum(map(len, copied)) <= LARGE  # the last frame, which is small
            with traced():
                assert len(delivery.message.body) == SIZE
                assert SIZE <= peak() < SIZE + ROOM
            delivery.accept()
