"""The helpers for one-off use, against the embedded broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from amqp10 import Connection, DecodeError, LinkDetached, Message, Released, receive, send
from amqp10.broker import Broker
from amqp10.engine import CreditChanged

from ..kit.inside.client import supervisor

pytestmark = [pytest.mark.anyio, pytest.mark.capability("send and receive")]


async def test_send_and_receive() -> None:
    """The messages that are sent come back and are accepted, and nothing remains."""
    async with Broker() as broker:
        await send(broker.url, "orders", "a", b"b", Message({"c": 1}, subject="s"))
        messages = await receive(broker.url, "orders", count=2)
        assert [message.body for message in messages] == ["a", b"b"]
        (last,) = await receive(broker.url, "orders")
        assert (last.body, last.subject) == ({"c": 1}, "s")
        async with Connection(broker.url) as connection, connection.receiver("orders") as receiver:
            assert await receiver.receive_batch(1, max_wait=0.05) == []


async def test_no_more_than_asked_for_is_taken() -> None:
    """The rest stays where it was, untouched."""
    async with Broker() as broker:
        await send(broker.url, "orders", *range(5))
        assert [message.body for message in await receive(broker.url, "orders", count=3)] == [0, 1, 2]
        rest = await receive(broker.url, "orders", count=2)
        assert [(message.body, message.delivery_count) for message in rest] == [(3, 0), (4, 0)]


async def test_receive_waits() -> None:
    """Messages that come later count too."""
    async with Broker() as broker, anyio.create_task_group() as tasks:
        tasks.start_soon(send, broker.url, "orders", "first")
        bodies: list[object] = []

        async def wait() -> None:
            bodies.extend(message.body for message in await receive(broker.url, "orders", count=2))

        tasks.start_soon(wait)
        await send(broker.url, "orders", "second")
        with anyio.fail_after(60):
            while len(bodies) < 2:
                await anyio.lowlevel.checkpoint()
        assert sorted(map(str, bodies)) == ["first", "second"]


async def test_receive_given_up() -> None:
    """Cancelled, it has taken nothing."""
    async with Broker() as broker:
        await send(broker.url, "orders", "only")
        with anyio.move_on_after(0.05):
            await receive(broker.url, "orders", count=2)
        assert [message.body for message in await receive(broker.url, "orders")] == ["only"]


async def test_what_cannot_be_decoded_is_rejected(serve: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """A payload that is no message raises and is rejected; those that came with it go back."""
    async with serve() as (peer, connection):

        async def connect(*args: Any) -> Any:
            return connection._core.supervisor.given

        monkeypatch.setattr(supervisor, "connect", connect)
        sent: list[Any] = []

        def supply(event: Any) -> bool:
            if isinstance(event, CreditChanged) and not sent:
                sent.extend(peer.send("q", "fine", b"\x00\x53\x77", "fine too"))
            return False

        peer.on_event = supply
        with pytest.raises(DecodeError):
            await receive("amqp://localhost", "q", count=3)
        assert sent[1].remote_state.error.condition == "amqp:decode-error"
        assert [one.remote_state for one in (sent[0], sent[2])] == [Released(), Released()]


async def test_anonymous() -> None:
    """Without an address each message says where it goes."""
    async with Broker() as broker:
        await send(broker.url, None, Message("x", to="orders"))
        assert [message.body for message in await receive(broker.url, "orders")] == ["x"]


async def test_refused() -> None:
    """A refusal of the address comes out."""
    async with Broker(auto_create=False) as broker:
        with pytest.raises(LinkDetached) as caught:
            await send(broker.url, "nowhere", "x")
        assert caught.value.condition == "amqp:not-found"


async def test_settings() -> None:
    """Keyword arguments are those of Connection."""
    async with Broker(users={"user": "secret"}) as broker:
        url = broker.url.replace("amqp://", "amqp://user:secret@")
        await send(url, "orders", "x", container_id="mine", idle_timeout=10)
        assert len(await receive(url, "orders", container_id="mine")) == 1
