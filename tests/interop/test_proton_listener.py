"""Our client against a listener on python-qpid-proton, an implementation that shares no code with ours."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest

from amqp10 import (
    TLS,
    Accepted,
    AuthenticationFailed,
    Connection,
    ConnectionLost,
    LinkDetached,
    Message,
    Plain,
    Symbol,
)

from ..kit.processes.free_ports import free_ports
from ._cases import BODIES, KEPT, PRIMITIVES, body_of, everything, exchange, same

pytestmark = [pytest.mark.anyio, pytest.mark.interop]
on_trio = pytest.mark.parametrize("anyio_backend", ["trio"])

# Proton's `Message` has one body: a value, or with `inferred` one data section or one sequence.
ONE_BODY = [kind for kind in BODIES if kind not in ("data-sections", "sequences")]


@contextmanager
def listening(*arguments: str) -> Iterator[int]:
    """Run the listener on a free port."""
    (port,) = free_ports(1)
    program = Path(__file__).with_name("proton_listener.py")
    command = [sys.executable, str(program), str(port), *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "listening\n"
        yield port
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


@pytest.fixture(scope="module")
def url(proton: None) -> Iterator[str]:
    """Of the listener, without TLS."""
    with listening() as port:
        yield f"amqp://localhost:{port}"


@pytest.fixture(scope="module")
def tls_url(proton: None, authority: Path) -> Iterator[str]:
    """Of a listener with TLS."""
    with listening(str(authority)) as port:
        yield f"amqps://localhost:{port}"


# Messages


@pytest.mark.parametrize("kind", ONE_BODY)
@on_trio
async def test_body(url: str, address: str, kind: str) -> None:
    """Proton reads each kind of body, and writes it so that we read the same value of the same type."""
    async with Connection(url) as connection:
        (message,) = await exchange(connection, address, Message(BODIES[kind]))
        assert same(message.body, BODIES[kind]), message.body


@on_trio
async def test_application_properties(url: str, address: str) -> None:
    """Every primitive type as an application property."""
    async with Connection(url) as connection:
        (message,) = await exchange(connection, address, Message("x", application_properties=PRIMITIVES))
        assert same(message.application_properties, PRIMITIVES)


async def test_fields(url: str, address: str) -> None:
    """All fields that proton's messages have; a footer they have not."""
    async with Connection(url) as connection:
        (message,) = await exchange(connection, address, everything())
    for name, value in KEPT.items():
        if name != "footer":
            assert same(getattr(message, name), value), name


@pytest.mark.parametrize("size", [1, 255, 256, 1000, 131_072, 1 << 20, 10 << 20])
@on_trio
async def test_size(url: str, address: str, size: int) -> None:
    """From one byte to ten mebibytes, in frames as large as the other side takes."""
    body = body_of(size)
    async with Connection(url) as connection:
        (message,) = await exchange(connection, address, body)
        assert message.body == body


@on_trio
async def test_small_frames(url: str, address: str) -> None:
    """The least frame size that there is; a message in hundreds of frames each way, while the window is refreshed."""
    body = body_of(200_000)
    async with Connection(url, max_frame_size=512, incoming_window=10) as connection:
        (message,) = await exchange(connection, address, body)
        assert message.body == body


# Settlement


async def test_presettled(url: str, address: str) -> None:
    """Sent settled, received settled."""
    async with Connection(url) as connection:
        async with connection.sender(address, settle_mode="settled") as sender:
            await sender.send_many(range(50))
        async with connection.receiver(address, settle_mode="settled") as receiver:
            for number in range(50):
                delivery = await receiver.receive()
                assert delivery.local_settled
                assert delivery.message.body == number


async def test_outcomes(url: str, address: str) -> None:
    """Released, modified with annotations, rejected with an error: proton has understood each."""
    async with Connection(url) as connection:
        async with connection.sender(address) as sender:
            assert await (await sender.submit("x")).outcome() == Accepted()
        async with connection.receiver(address, credit=1) as receiver:
            first = await receiver.receive()
            first.release()
            second = await receiver.receive()
            second.modify(delivery_failed=True, message_annotations={Symbol("x-opt-by"): "us"})
            third = await receiver.receive()
            third.reject("example:broken", "no good")
        assert [delivery.message.delivery_count for delivery in (first, second, third)] == [0, 0, 1]
        assert third.message.message_annotations == {Symbol("x-opt-by"): "us"}
        async with connection.receiver("dead", credit=1) as dead:
            with await dead.receive() as message:
                assert message.body == "x"
                assert message.message_annotations == {Symbol("x-opt-reason"): "example:broken"}


async def test_settle_second(url: str, address: str) -> None:
    """receiver-settle-mode "second": settled here only after proton has settled."""
    async with Connection(url) as connection:
        async with connection.sender(address) as sender:
            await sender.send_many(range(3))
        async with connection.receiver(address, receiver_settle_mode="second") as receiver:
            for number in range(3):
                delivery = await receiver.receive()
                assert delivery.message.body == number
                delivery.accept()
                await delivery.wait_settled()
            assert receiver.unsettled == 0


# Credit


async def test_drain(url: str, address: str) -> None:
    """Drain returns on an empty queue and with less than the credit; the link goes on."""
    async with Connection(url) as connection, connection.receiver(address, credit=0) as receiver:
        receiver.add_credit(10)
        await receiver.drain()
        assert (receiver.credit, receiver.buffered) == (0, 0)
        async with connection.sender(address) as sender:
            await sender.send_many(["a", "b"])
        receiver.add_credit(10)
        await receiver.drain()
        assert (receiver.credit, receiver.buffered) == (0, 2)
        for expected in "ab":
            with await receiver.receive() as message:
                assert message.body == expected


async def test_one_credit_at_a_time(url: str) -> None:
    """A sender waits for each credit, and many tasks that send are served in their order."""
    async with Connection(url) as connection:
        async with connection.sender("slow") as sender, anyio.create_task_group() as tasks:
            for number in range(20):
                tasks.start_soon(sender.send, number)
        async with connection.receiver("slow") as receiver:
            bodies: list[int] = []
            for _ in range(20):
                with await receiver.receive() as message:
                    bodies.append(message.body)
    assert sorted(bodies) == list(range(20))


@on_trio
async def test_batches(url: str, address: str) -> None:
    """Thousands of messages in a pipeline, more than the window and the credit, each once and in order."""
    count = 3000
    async with Connection(url, incoming_window=64) as connection:
        async with connection.sender(address) as sender:
            assert await sender.send_many(range(count)) == count
        async with connection.receiver(address, credit=500) as receiver:
            bodies: list[int] = []
            while len(bodies) < count:
                for delivery in await receiver.receive_batch(200):
                    bodies.append(delivery.message.body)
                    delivery.accept()
    assert bodies == list(range(count))


# Termini


async def test_dynamic_and_anonymous(url: str) -> None:
    """A reply through the anonymous terminus to an address that was made for the receiver."""
    async with Connection(url) as connection:
        async with connection.receiver(dynamic=True) as replies, connection.sender(None) as anonymous:
            assert replies.address
            await anonymous.send(Message("reply", to=replies.address))
            with await replies.receive() as message:
                assert (message.body, message.to) == ("reply", replies.address)


async def test_refused_link(url: str) -> None:
    """A link that proton refuses: its condition and description; the connection works on."""
    async with Connection(url) as connection:
        for link in (connection.sender("forbidden"), connection.receiver("forbidden")):
            with pytest.raises(LinkDetached) as refused:
                async with link:
                    pass
            assert refused.value.condition == "amqp:unauthorized-access"
            assert refused.value.description == "nobody may use this address"
        async with connection.receiver(dynamic=True) as receiver:
            assert receiver.address


# Security


async def test_anonymous(url: str) -> None:
    """ANONYMOUS, and no SASL layer at all."""
    async with Connection(url) as connection:
        assert connection.mechanism == "ANONYMOUS"
    async with Connection(url, sasl=False) as connection:
        assert connection.mechanism is None


async def test_mechanism_not_offered(url: str) -> None:
    """PLAIN is not what this listener offers; credentials never become ANONYMOUS."""
    with pytest.raises(AuthenticationFailed):
        async with Connection(url, sasl=Plain("user", "secret")):
            pass


async def test_tls(tls_url: str, authority: Path, address: str) -> None:
    """Over TLS with the certificate verified; refused when its authority is not trusted."""
    async with Connection(tls_url, tls=TLS(ca=authority / "ca.pem")) as connection:
        (message,) = await exchange(connection, address, body_of(1 << 20))
        assert message.body == body_of(1 << 20)
    with pytest.raises(ConnectionLost, match="certificate"):
        async with Connection(tls_url, tls=TLS(ca=authority / "stranger.pem")):
            pass
