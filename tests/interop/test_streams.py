"""Large messages in parts, with real brokers and with proton: sent, received, aborted, given up in the middle."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import anyio
import anyio.to_thread
import pytest

from amqp10 import Connection, Delivery, DeliveryAborted, LocalProtocolError, Message
from amqp10.broker import Broker
from amqp10.client.internals import receiver_delivery

from ._cases import body_of
from ._matrix import Embedded, Peer
from .clients import Kept, Program
from .test_proton_listener import listening
from .test_transactions import lacking

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.interop,
    pytest.mark.timeout(600),
    pytest.mark.capability("large messages"),
]
on_trio = pytest.mark.parametrize("anyio_backend", ["trio"])

SMALL = 12 << 20  # RabbitMQ takes 16 MiB unless configured
LARGE = 20 << 20
HEAD: dict[str, Any] = {"subject": "large", "content_type": "application/octet-stream", "durable": True}


def size_for(peer: Peer) -> int:
    return SMALL if peer.name == "rabbitmq" else LARGE


async def chunks(body: bytes, size: int = 200_000) -> AsyncIterator[bytes]:
    for at in range(0, len(body), size):
        yield body[at : at + size]


async def digest(delivery: Delivery) -> tuple[str, int]:
    """The hash of a body as it comes, and the most bytes of it that waited here."""
    seen, most = hashlib.sha256(), 0
    async for piece in delivery.iter_body():
        seen.update(piece)
        most = max(most, len(piece) + sum(map(len, receiver_delivery(delivery).stream.parts)))
    return seen.hexdigest(), most


@pytest.mark.matrix("large message, streamed")
@pytest.mark.parametrize("sections", ["one section", "a section a chunk"])
async def test_stream(peer: Peer, sections: str) -> None:
    """What is sent in parts is received in parts, byte for byte, with head and footer, in bounded memory."""
    body = body_of(size_for(peer))
    expected = hashlib.sha256(body).hexdigest()
    async with Connection(peer.url()) as connection:
        address = await peer.queue(connection)
        async with connection.sender(address) as sender:
            message = Message(footer={"x-opt-hash": expected}, **HEAD)
            size = len(body) if sections == "one section" else None
            assert await sender.send_stream(message, chunks(body), size=size) == len(body)
        async with connection.receiver(address, stream=True) as receiver:
            delivery = await receiver.receive()
            assert delivery.message.subject == "large"
            assert delivery.message.content_type == "application/octet-stream"
            found, most = await digest(delivery)
            assert found == expected
            assert delivery.message.footer == {"x-opt-hash": expected}
            assert most <= 64 * 131_072
            delivery.accept()
        async with connection.receiver(address, credit=1) as receiver:
            assert await receiver.receive_batch(1, max_wait=0.3) == []


@pytest.mark.matrix("large message, streamed")
async def test_small_window(peer: Peer) -> None:
    """Windows of a few frames are kept to by every broker; another link's messages come while one is not read."""
    body = body_of(1 << 20)
    async with Connection(peer.url(), max_frame_size=8192) as connection:
        address, other = await peer.queue(connection), await peer.queue(connection)
        async with connection.sender(address) as sender, connection.sender(other) as other_sender:
            await sender.send(body)
            await other_sender.send_many(range(50))
        async with connection.session(incoming_window=4) as session:
            async with session.receiver(address, stream=True) as receiver, connection.receiver(other) as other_receiver:
                delivery = await receiver.receive()
                for n in range(50):
                    with await other_receiver.receive() as message:
                        assert message.body == n
                held = len(receiver_delivery(delivery).stream.parts)
                found, most = await digest(delivery)
                assert found == hashlib.sha256(body).hexdigest()
                delivery.accept()
        if connection.profile.keeps_window:
            assert held <= 4
            assert most <= 4 * 8192
        else:
            assert held > 4
            peer.note("it sends messages to their end, whatever the window")


@pytest.mark.matrix("aborted delivery")
async def test_abort(peer: Peer) -> None:
    """What was left by an exception is never received, whether the broker knows aborted deliveries or not."""
    async with Connection(peer.url()) as connection:
        address = await peer.queue(connection)
        async with connection.sender(address) as sender:
            await sender.send("before")
            with pytest.raises(RuntimeError):
                async with sender.stream(Message(subject="aborted")) as body:
                    for _ in range(5):
                        await body.send(bytes(200_000))
                    raise RuntimeError
            await sender.send("after")
        async with connection.sender(address) as sender:
            await sender.send("last")
        async with connection.receiver(address, stream=True) as receiver:
            bodies = []
            while "last" not in bodies:
                with await receiver.receive() as message:
                    bodies.append(message.body)
        assert bodies == ["before", "after", "last"]
        if not connection.profile.aborts:
            peer.note("the sender goes on with a new link")


async def test_abort_among_others(peer: Peer) -> None:
    """What was aborted is in nobody's way: neither of those before it, nor of large messages behind it."""
    bodies = []
    async with Connection(peer.url()) as connection:
        address = await peer.queue(connection)
        async with connection.sender(address) as sender, anyio.create_task_group() as tasks:
            for number in range(5):
                for half in (True, False):
                    bodies.append(body := bytes([number]) * (200_000 if half else 400_000))
                    tasks.start_soon(sender.send_stream, None, body)
                    with pytest.raises(RuntimeError):
                        async with sender.stream(size=600_000) as stream:
                            await stream.send(bytes(500_000))
                            raise RuntimeError
        async with connection.receiver(address, stream=True) as receiver:
            for _ in range(len(bodies)):
                delivery = await receiver.receive()
                bodies.remove(b"".join([piece async for piece in delivery.iter_body()]))
                delivery.accept()
        assert bodies == []


@pytest.mark.matrix("outcome before the end of a message")
@pytest.mark.parametrize("how", ["accept", "release"])
async def test_settled_before_the_end(peer: Peer, how: str) -> None:
    """The rest is given up, the next message comes on the same link, and the outcome counts."""
    body = body_of(size_for(peer))
    async with Connection(peer.url()) as connection:
        address = await peer.queue(connection)
        async with connection.sender(address) as sender:
            for name in ("first", "second"):
                await sender.send_stream(Message(subject=name), body)
        async with connection.receiver(address, stream=True) as receiver:
            delivery = await receiver.receive()
            assert delivery.message.subject == "first"
            async for _ in delivery.iter_body():
                break
            getattr(delivery, how)()
            left = {"second"} if how == "accept" else {"first", "second"}
            while left:
                delivery = await receiver.receive()
                assert (await digest(delivery))[0] == hashlib.sha256(body).hexdigest()
                left.remove(delivery.message.subject or "")
                delivery.accept()
        async with connection.receiver(address, credit=1) as receiver:
            assert await receiver.receive_batch(1, max_wait=0.3) == []
        if not connection.profile.early_outcomes:
            peer.note("told to the broker when the message is whole")


@pytest.mark.matrix("leaving in the middle of a message")
async def test_leaving_in_the_middle(peer: Peer) -> None:
    """It takes no time, and the message comes again, whole."""
    body = body_of(size_for(peer))
    async with Connection(peer.url(), close_timeout=60) as connection:
        address = await peer.queue(connection)
        async with connection.sender(address) as sender:
            await sender.send_stream(Message(**HEAD), body)
        with anyio.fail_after(60):
            async with connection.receiver(address, stream=True) as receiver:
                delivery = await receiver.receive()
                async for _ in delivery.iter_body():
                    break
            async with connection.receiver(address, stream=True) as receiver:
                delivery = await receiver.receive()
                assert (await digest(delivery))[0] == hashlib.sha256(body).hexdigest()
                delivery.accept()


@pytest.mark.matrix("large message in a transaction")
async def test_transaction(peer: Peer) -> None:
    """It is sent when that is committed, and taken; what was rolled back is as if it had not been."""
    body = body_of(size_for(peer))
    async with Connection(peer.url()) as connection:
        if await lacking(peer, connection):
            return
        address = await peer.queue(connection)
        async with connection.session() as session, session.sender(address) as sender:
            for commits in (False, True):
                try:
                    async with session.transaction() as transaction:
                        await sender.send_stream(
                            Message(subject=str(commits)), chunks(body), size=len(body), transaction=transaction
                        )
                        if not commits:
                            raise RuntimeError
                except RuntimeError:
                    pass
            async with session.receiver(address, stream=True) as receiver:
                delivery = await receiver.receive()
                assert delivery.message.subject == "True"
                async with session.transaction() as transaction:
                    if not (receiver_delivery(delivery).stream.whole or connection.profile.early_outcomes):
                        with pytest.raises(LocalProtocolError, match="read it first"):
                            delivery.accept(transaction=transaction)
                    assert (await digest(delivery))[0] == hashlib.sha256(body).hexdigest()
                    delivery.accept(transaction=transaction)
        async with connection.receiver(address, credit=1) as receiver:
            assert await receiver.receive_batch(1, max_wait=0.3) == []


# Proton


@pytest.fixture(scope="module")
def proton_url(proton: None) -> Iterator[str]:
    """Of a listener on proton."""
    with listening() as port:
        yield f"amqp://localhost:{port}"


@on_trio
async def test_to_and_from_proton(proton_url: str, address: str) -> None:
    """A message that was sent in parts is read whole by proton's codec, and what that sends is received in parts."""
    body = body_of(LARGE)
    async with Connection(proton_url) as connection:
        async with connection.sender(address) as sender:
            await sender.send_stream(Message(**HEAD), body)
        async with connection.receiver(address, stream=True) as receiver:
            delivery = await receiver.receive()
            assert delivery.message.subject == "large"
            assert (await digest(delivery))[0] == hashlib.sha256(body).hexdigest()
            delivery.accept()


@on_trio
async def test_proton_sends_in_parts(proton_url: str) -> None:
    """A delivery that proton has begun, and not ended, is handed out already."""
    async with Connection(proton_url) as connection, connection.receiver("parts", stream=True) as receiver:
        delivery = await receiver.receive()
        assert delivery.message.subject == "in parts"
        assert not receiver_delivery(delivery).stream.whole
        part = bytes(range(256)) * 4096
        assert (await digest(delivery))[0] == hashlib.sha256(part * 2).hexdigest()
        delivery.accept()


@on_trio
async def test_proton_aborts(proton_url: str) -> None:
    """The reader hears of it, or it is as if it had never been; what follows is whole."""
    async with Connection(proton_url) as connection, connection.receiver("aborted", stream=True) as receiver:
        delivery = await receiver.receive()
        if delivery.message.subject == "in parts":
            with pytest.raises(DeliveryAborted):
                await digest(delivery)
            delivery = await receiver.receive()
        assert delivery.message.subject == "whole"
        assert [piece async for piece in delivery.iter_body()] == [b"next"]
        delivery.accept()


class Streaming:
    """A proton client that sends to the embedded broker in parts, and reads deliveries that are not whole yet."""

    def __init__(self, url: str, body: bytes) -> None:
        from proton import Message as ProtonMessage
        from proton import handlers

        head = ProtonMessage(subject="by proton", inferred=True, body=b"").encode()[:-5]

        class Handler(handlers.MessagingHandler):  # type: ignore[misc]
            def __init__(self) -> None:
                super().__init__(prefetch=0, auto_accept=False)
                self.payload = b""
                self.partial = 0

            def on_start(self, event: Any) -> None:
                connection = event.container.connect(url)
                self.sender = event.container.create_sender(connection, "q")
                self.receiver = event.container.create_receiver(connection, "q")
                self.state = "abort"

            def on_sendable(self, event: Any) -> None:
                if self.state == "abort":
                    delivery = self.sender.delivery("1")
                    self.sender.stream(head + b"\x00\x53\x75\xb0\x00\x00\x10\x00" + b"half")
                    delivery.abort()
                    self.state = "send"
                if self.state == "send" and self.sender.credit:
                    self.sender.delivery("2")
                    self.sender.stream(head + b"\x00\x53\x75\xb0" + len(body).to_bytes(4, "big"))
                    for at in range(0, len(body), 1_000_000):
                        self.sender.stream(body[at : at + 1_000_000])
                    self.sender.advance()
                    self.state = "sent"

            def on_accepted(self, event: Any) -> None:
                self.receiver.flow(1)

            def on_delivery(self, event: Any) -> None:
                delivery = event.delivery
                if event.link.is_receiver and delivery.readable:
                    self.partial += delivery.partial
                    self.payload += event.link.recv(delivery.pending)
                    if not delivery.partial:
                        delivery.update(delivery.ACCEPTED)
                        delivery.settle()
                        event.connection.close()

        self.handler = Handler()
        self.head = head

    def run(self) -> None:
        from proton.reactor import Container

        Container(self.handler).run()


@on_trio
async def test_proton_streams_through_the_embedded_broker(proton: None) -> None:
    """Proton's own partial deliveries, in and out, and what it aborts."""
    body = body_of(LARGE)
    async with Broker(anonymous=True) as broker:
        client = Streaming(broker.url, body)
        await anyio.to_thread.run_sync(client.run, abandon_on_cancel=True)
        assert client.handler.payload.endswith(body)
        assert Message.decode(client.handler.payload).subject == "by proton"
        assert client.handler.partial
        assert broker.queue("q").dequeued == 1


# Other clients, through the embedded broker


def text_body(number: int, size: int) -> bytes:
    """The body that the clients make."""
    return f"message {number}".encode().ljust(size, b"x")


@on_trio
async def test_others_receive_what_was_streamed(embedded: Embedded, client: Program | Kept, address: str) -> None:
    """A body that was sent in parts, its size known before, is whole for clients that read messages whole."""
    body = text_body(0, 5 << 20)
    async with Connection(embedded.url()) as connection, connection.sender(address) as sender:
        await sender.send_stream(None, chunks(body), size=len(body))
    taken = await client.run("receive", embedded.url(), address, 1, "accept")
    assert taken == [{"body": body[:20].decode(), "size": len(body), "deliveryCount": 0}]


@on_trio
async def test_what_others_send_is_streamed(embedded: Embedded, client: Program | Kept, address: str) -> None:
    """What clients send whole is received in parts."""
    assert await client.run("send", embedded.url(), address, 2, 5 << 20) == [{"outcome": "accepted"}] * 2
    async with Connection(embedded.url()) as connection, connection.receiver(address, stream=True) as receiver:
        for number in range(2):
            delivery = await receiver.receive()
            expected = hashlib.sha256(text_body(number, 5 << 20)).hexdigest()
            assert (await digest(delivery))[0] == expected
            delivery.accept()


@on_trio
async def test_protonj2_streams(embedded: Embedded, protonj2: Kept, address: str) -> None:
    """ProtonJ2 has streams of its own: a data section for each piece that it flushes, read as it comes."""
    size = 3 << 20
    assert await protonj2.run("stream-send", embedded.url(), address, 2, size) == [{"outcome": "accepted"}] * 2
    async with Connection(embedded.url()) as connection:
        async with connection.receiver(address, stream=True) as receiver:
            for number in range(2):
                delivery = await receiver.receive()
                expected = hashlib.sha256(text_body(number, size)).hexdigest()
                assert (await digest(delivery))[0] == expected
                delivery.accept()
        async with connection.sender(address) as sender:
            await sender.send_stream(None, chunks(text_body(7, size)))
    taken = await protonj2.run("stream-receive", embedded.url(), address, 1, "accept")
    assert taken == [{"body": "message 7xxxxxxxxxxx", "size": size, "deliveryCount": 0}]
