"""A client that resumes a link, and a server that answers what cannot be: no message is lost, nobody waits for ever."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import anyio
import pytest

from amqp10 import Connection, DeliveryUncertain, Reconnect
from amqp10.messaging import Accepted, Declared, Received, TransactionalState
from amqp10.testing import Attach, Begin, Close, Detach, Disposition, End, Flow, ScriptedPeer, Transfer

from ...kit.client.memory_peer import MemoryPeer
from ...kit.hostile.acts import NOTHING

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory]

QUICK = Reconnect(initial_delay=0.001, max_delay=0.01)
ODD = {
    b"never sent": None,
    b"beyond": Received(7, 1 << 60),
    b"in a transaction": TransactionalState(b"none", Accepted()),
}

# What the server says of the delivery whose outcome was lost, with what it never got.
Map = Callable[[bytes], dict[bytes, Any] | None]


async def lose(peer: ScriptedPeer) -> Transfer:
    """Take a message and cut the connection before its outcome; the transfer."""
    await peer.accept_connection()
    await peer.accept_session()
    await peer.accept_link(credit=5)
    sent = await peer.expect(Transfer)
    await peer.drop()
    await peer.accept()
    await peer.accept_connection()
    await peer.accept_session()
    return sent


async def take_the_rest(peer: ScriptedPeer) -> list[Transfer]:
    """Accept what comes and answer what ends, until the client closes; the transfers."""
    got = []
    while True:
        frame = await peer.expect_any(Transfer, Detach, End, Close, skip=(Flow, Disposition))
        if isinstance(frame, Transfer):
            got.append(frame)
            if not frame.aborted and not frame.settled:
                await peer.send(Disposition(role=True, first=frame.delivery_id or 0, settled=True, state=Accepted()))
        else:
            await peer.reply(Detach(handle=0, closed=True) if isinstance(frame, Detach) else type(frame)())
            if isinstance(frame, Close):
                return got


@pytest.mark.parametrize(
    ("told", "again"),
    [
        (lambda tag: {tag: Accepted(), **ODD}, 0),
        (lambda tag: {tag: Declared(b"no transaction"), **ODD}, 1),
        (lambda tag: {tag: Received(9, 1 << 60)}, 1),
        (lambda tag: {tag: Received(0, 1 << 60), **ODD}, 1),
        (lambda tag: ODD, 1),
        (lambda tag: {}, 1),
        (lambda tag: None, 1),
    ],
    ids=["accepted", "declared", "beyond the message", "beyond the section", "others", "none", "no map"],
)
async def test_what_the_server_says_of_a_message(memory_peer: MemoryPeer, told: Map, again: int) -> None:
    """Where the outcome is told it counts; else, whatever is said, the message goes once more, and `send` returns."""
    transfers: list[Transfer] = []
    async with anyio.create_task_group() as tasks:

        async def serve() -> None:
            sent = await lose(memory_peer)
            assert sent.delivery_tag is not None
            await memory_peer.accept_link(credit=5, unsettled=told(bytes(sent.delivery_tag)))
            transfers.extend(await take_the_rest(memory_peer))

        tasks.start_soon(serve)
        with anyio.fail_after(60):
            async with Connection(memory_peer.url, reconnect=QUICK) as connection, connection.sender("q") as sender:
                await sender.send("x")
    # An abort, or the word that it is settled, takes a transfer too, without the message.
    assert len([each for each in transfers if not each.aborted and not each.settled]) == again


async def test_a_map_that_never_ends(memory_peer: MemoryPeer) -> None:
    """A server whose map is never complete is asked a few times, then no more: the link begins anew."""
    attached: list[Attach] = []
    async with anyio.create_task_group() as tasks:

        async def serve() -> None:
            await lose(memory_peer)
            while True:
                attach = await memory_peer.expect(Attach)
                attached.append(attach)
                again = attach.unsettled is not None
                fields: dict[str, Any] = {"unsettled": {b"more": None}, "incomplete_unsettled": True} if again else {}
                await memory_peer.reply(
                    Attach(
                        name=attach.name,
                        handle=attach.handle,
                        role=True,
                        source=attach.source,
                        target=attach.target,
                        **fields,
                    )
                )
                await memory_peer.grant(5, handle=attach.handle)
                if not again:
                    break
                detach = await memory_peer.expect(Detach)
                await memory_peer.reply(Detach(handle=detach.handle, closed=detach.closed))
            await take_the_rest(memory_peer)

        tasks.start_soon(serve)
        with anyio.fail_after(60):
            async with Connection(memory_peer.url, reconnect=QUICK) as connection, connection.sender("q") as sender:
                await sender.send("x")
    assert 2 < len(attached) < 10


async def test_a_server_that_breaks_each_connection(memory_peer: MemoryPeer) -> None:
    """It lets the client in and cuts it off, again and again: the pauses grow, and the attempts have an end."""
    times: list[float] = []
    async with anyio.create_task_group() as tasks:

        async def serve() -> None:
            while len(times) < 8:
                with suppress(AssertionError, anyio.BrokenResourceError):  # the client left
                    await memory_peer.accept_connection()
                    await memory_peer.expect(Begin)
                    times.append(anyio.current_time())
                await memory_peer.drop()
                await memory_peer.accept()
            tasks.cancel_scope.cancel()

        tasks.start_soon(serve)
        settings = Reconnect(initial_delay=0.02, max_delay=0.2, jitter=0, on_uncertain="raise")
        async with Connection(memory_peer.url, reconnect=settings, close_timeout=0.1) as connection:
            async with connection.sender("q") as sender:
                await sender.send("x")
    assert len(times) == 8
    assert times[-1] - times[0] > 0.8  # 0.02 + 0.04 + 0.08 + 0.16 + 0.2 + ...


async def test_resuming_what_never_came(memory_peer: MemoryPeer) -> None:
    """A server resumes deliveries that it never sent: they are ignored, and what it sends anew is received."""
    async with anyio.create_task_group() as tasks:

        async def serve() -> None:
            await memory_peer.accept_receiver()
            await memory_peer.send(Transfer(handle=0, delivery_id=0, delivery_tag=b"real"), NOTHING)
            await held.wait()
            await memory_peer.drop()
            await memory_peer.accept()
            await memory_peer.accept_receiver(unsettled=ODD)
            for number, tag in enumerate(ODD):
                await memory_peer.send(
                    Transfer(handle=0, delivery_id=number, delivery_tag=tag, resume=True, state=Received(9, 9)), NOTHING
                )
            await memory_peer.send(Transfer(handle=0, delivery_id=len(ODD), delivery_tag=b"anew"), NOTHING)
            await take_the_rest(memory_peer)

        held = anyio.Event()
        tasks.start_soon(serve)
        with anyio.fail_after(60):
            async with Connection(memory_peer.url, reconnect=QUICK) as connection:
                async with connection.receiver("q", credit=10) as receiver:
                    first = await receiver.receive()
                    held.set()
                    second = await receiver.receive()
                    assert second.tag == b"anew"
                    second.accept()
                    first.accept()  # the server's map does not have it: for the server it is settled already
                    assert receiver.unsettled == 0


async def test_uncertain_is_said(memory_peer: MemoryPeer) -> None:
    """With `on_uncertain="raise"` a server that forgot the message makes `send` say so, once, and the link goes on."""
    settings = Reconnect(initial_delay=0.001, max_delay=0.01, on_uncertain="raise")
    async with anyio.create_task_group() as tasks:

        async def serve() -> None:
            await lose(memory_peer)
            await memory_peer.accept_link(credit=5, unsettled=ODD)
            await take_the_rest(memory_peer)

        tasks.start_soon(serve)
        with anyio.fail_after(60):
            async with Connection(memory_peer.url, reconnect=settings) as connection, connection.sender("q") as sender:
                with pytest.raises(DeliveryUncertain):
                    await sender.send("x")
                await sender.send("y")
