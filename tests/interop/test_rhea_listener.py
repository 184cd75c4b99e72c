"""Our client against a listener on rhea, whose JavaScript shares no code with ours."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

import pytest

from amqp10 import (
    Accepted,
    Connection,
    ConnectionClosed,
    EndpointError,
    FilterNotApplied,
    LinkDetached,
    Message,
    Selector,
    SessionEnded,
    Source,
    Symbol,
)

from ..kit.unavailable import unavailable
from ._cases import body_of, exchange
from .brokers import Unavailable
from .clients import PROGRAMS
from .clients._programs import HERE, tool

pytestmark = [pytest.mark.anyio, pytest.mark.interop, pytest.mark.timeout(600)]
on_trio = pytest.mark.parametrize("anyio_backend", ["trio"])


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Of the listener."""
    rhea = PROGRAMS["rhea"]
    try:
        environment = os.environ | rhea.environment(rhea.installed())
        command = [tool("node"), str(HERE / "rhea" / "listener.js")]
    except Unavailable as error:
        unavailable(f"no rhea: {error}")
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield f"amqp://127.0.0.1:{int(process.stdout.readline())}"
        assert process.poll() is None, "rhea found a fault"
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


# Messages


@pytest.mark.parametrize("size", [1, 255, 256, 131_072, 1 << 20])
@on_trio
async def test_size(url: str, address: str, size: int) -> None:
    """Of any size, in frames as large as the other side takes."""
    body = body_of(size)
    async with Connection(url) as connection:
        (message,) = await exchange(connection, address, body)
        assert message.body == body


@on_trio
async def test_small_frames(url: str, address: str) -> None:
    """In the smallest frames that there are, while the window is refreshed."""
    body = body_of(100_000)
    async with Connection(url, max_frame_size=512, incoming_window=10) as connection:
        (message,) = await exchange(connection, address, body)
        assert message.body == body


async def test_fields(url: str, address: str) -> None:
    """What JavaScript has types for comes back as it was."""
    message = Message(
        {"text": "ü", "flag": True, "nothing": None, "list": ["a", 1.5]},
        durable=True,
        priority=7,
        message_id="id",
        subject="s",
        correlation_id="c",
        reply_to="r",
        group_id="g",
        application_properties={"p": "x", "q": False},
        message_annotations={Symbol("x-opt-m"): "m"},
    )
    async with Connection(url) as connection:
        (came,) = await exchange(connection, address, message)
    assert came == message


@on_trio
async def test_many(url: str, address: str) -> None:
    """More than any window, in order."""
    async with Connection(url) as connection, connection.sender(address) as sender:
        assert await sender.send_many(str(number) for number in range(2500)) == 2500
        async with connection.receiver(address) as receiver:
            for number in range(2500):
                with await receiver.receive() as message:
                    assert message.body == str(number)


@on_trio
async def test_streamed(url: str, address: str) -> None:
    """Sent in parts, received in parts."""
    async with Connection(url) as connection, connection.sender(address) as sender:
        assert await sender.send_stream(None, [b"x" * 100_000] * 10) == 1_000_000
        async with connection.receiver(address, stream=True) as receiver:
            delivery = await receiver.receive()
            assert sum([len(part) async for part in delivery.iter_body()]) == 1_000_000
            delivery.accept()


# Settlement and credit


async def test_outcomes(url: str, address: str) -> None:
    """Rhea has understood each, and says its own."""
    async with Connection(url) as connection:
        async with connection.sender(address) as sender:
            assert await (await sender.submit("x")).outcome() == Accepted()
        async with connection.receiver(address, credit=1) as receiver:
            (first := await receiver.receive()).release()
            (second := await receiver.receive()).modify(delivery_failed=True)
            (third := await receiver.receive()).reject("test:broken", "no good")
        assert [each.message.delivery_count for each in (first, second, third)] == [0, 0, 1]
        async with connection.receiver("dead", credit=1) as dead:
            with await dead.receive() as message:
                assert message.message_annotations == {Symbol("x-opt-reason"): "test:broken"}


@on_trio
async def test_settled(url: str, address: str) -> None:
    """Sent settled, received settled."""
    async with Connection(url) as connection, connection.sender(address, settle_mode="settled") as sender:
        await sender.send_many(str(number) for number in range(50))
        async with connection.receiver(address, settle_mode="settled") as receiver:
            assert [(await receiver.receive()).message.body for _ in range(50)] == [str(each) for each in range(50)]


async def test_drain(url: str, address: str) -> None:
    """Of an empty queue, and of one that has less than the credit; the link goes on."""
    async with Connection(url) as connection, connection.receiver(address, credit=0) as receiver:
        receiver.add_credit(10)
        await receiver.drain()
        assert (receiver.credit, receiver.buffered) == (0, 0)
        async with connection.sender(address) as sender:
            await sender.send_many(["a", "b"])
        receiver.add_credit(10)
        await receiver.drain()
        assert [(await receiver.receive()).message.body for _ in range(2)] == ["a", "b"]
        assert receiver.credit == 0


# Links


async def test_dynamic(url: str) -> None:
    """It names the node, which others can send to."""
    async with Connection(url) as connection, connection.receiver(dynamic=True) as receiver:
        assert receiver.address is not None
        assert receiver.address.startswith("dynamic-")
        async with connection.sender(receiver.address) as sender:
            await sender.send("hello")
        with await receiver.receive() as message:
            assert message.body == "hello"


async def test_anonymous(url: str, address: str) -> None:
    """Without a target the message says where it goes."""
    async with Connection(url) as connection, connection.sender(None) as sender:
        await sender.send(Message("x", to=address))
        async with connection.receiver(address) as receiver:
            with await receiver.receive() as message:
                assert message.body == "x"


async def test_filters(url: str, address: str) -> None:
    """One that is not answered is not in place."""
    async with Connection(url) as connection:
        with pytest.raises(FilterNotApplied):
            async with connection.receiver(Source(address, filters=[Selector("a = 1")])):
                pytest.fail("it does not apply it")


@pytest.mark.parametrize("sends", [False, True])
async def test_refused(url: str, sends: bool) -> None:
    """With the reason of the detach; the session goes on."""
    async with Connection(url) as connection:
        for _ in range(2):
            with pytest.raises(LinkDetached) as caught:
                async with connection.sender("forbidden") if sends else connection.receiver("forbidden"):
                    pytest.fail("it is refused")
            assert (caught.value.condition, caught.value.description) == ("amqp:unauthorized-access", "not you")


@pytest.mark.parametrize(
    ("what", "error"), [("link", LinkDetached), ("session", SessionEnded), ("connection", ConnectionClosed)]
)
async def test_ended(url: str, address: str, what: str, error: type[EndpointError]) -> None:
    """With the error of the link, session or connection that it ends."""
    with pytest.raises(error) as caught:
        async with Connection(url, reconnect=None) as connection, connection.sender(address) as sender:
            await sender.send(Message("x", subject=what))
    assert caught.value.condition == f"test:{what}"
