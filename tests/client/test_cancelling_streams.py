"""The coroutines of streams, cancelled at every one of their checkpoints; see tests/kit/client/cancelling.py."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from amqp10.engine import SessionTerms
from amqp10.errors import LocalProtocolError
from amqp10.messaging import Data, Message, data_head
from amqp10.profiles import Profile

from ..kit.client.cancelling import CancelAt, Serve, at_each_checkpoint, when_blocked, world

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory]

LARGE = bytes(range(256)) * 2500  # five frames


@pytest.mark.parametrize("aborts", [True, False])
async def test_sending_a_stream(serve: Serve, aborts: bool) -> None:
    """The message is there whole, or was aborted and is not; the sender, its turn and its credit are free again. So it
    is where the peer knows no aborted deliveries, and the sender changes its link."""
    profile = Profile("peer", "Peer", aborts=aborts)

    async def trial(cancel: CancelAt) -> None:
        async with world(serve, [], session=SessionTerms(incoming_window=4), profile=profile) as w:

            async def op() -> None:
                async with w.sender.stream(Message(subject="s")) as body:
                    await body.send(b"first")
                    await body.send(LARGE)

            async with anyio.create_task_group() as tasks:
                await cancel.run(op)
                tasks.start_soon(w.sender.send, "next")
            got = w.peer.bodies()
            assert got in (["next"], [Data(b"first", LARGE), "next"])
            assert not cancel.finished or len(got) == 2
            await w.check()

    await at_each_checkpoint(trial, 3)


async def test_waiting_to_send_a_stream(serve: Serve) -> None:
    """Cancelled while it waits for its turn and for credit, nothing was sent; those behind go on."""

    async def trial(cancel: CancelAt) -> None:
        async with world(serve, []) as w:

            async def op() -> None:
                async with w.sender.stream() as body:
                    await body.send(b"second")

            first = w.sender.stream()
            await first.__aenter__()

            async def third() -> None:
                await anyio.wait_all_tasks_blocked()
                tasks.start_soon(w.sender.send, b"third")
                await anyio.wait_all_tasks_blocked()
                await first.send(b"first")
                await first.__aexit__(None, None, None)

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(third)
                await cancel.run(op)
            got = w.peer.bodies()
            assert set(got) - {b"second"} == {b"first", b"third"}
            assert len(got) == len(set(got))
            assert b"second" in got or not cancel.finished
            await w.check()

    await at_each_checkpoint(trial, 2)


async def test_a_chunk(serve: Serve) -> None:
    """A chunk that was cut off within a stream was not sent at all, or the delivery is aborted; nothing is torn."""

    async def trial(cancel: CancelAt) -> None:
        async with world(serve, [], session=SessionTerms(incoming_window=4)) as w:
            torn = False
            try:
                async with w.sender.stream() as body:
                    await body.send(b"first")
                    await cancel.run(lambda: body.send(LARGE))
                    await body.send(b"last")
            except LocalProtocolError as error:
                torn = "cut off" in str(error)
            await anyio.wait_all_tasks_blocked()
            if torn:
                assert w.peer.bodies() == []
            else:
                chunks = (b"first", LARGE, b"last") if cancel.finished else (b"first", b"last")
                assert w.peer.bodies() == [Data(*chunks)]
            await w.check()

    await at_each_checkpoint(trial, 2)


async def test_the_end_of_a_stream(serve: Serve) -> None:
    """Leaving the block: aborted, or on its way, whatever the outcome."""

    async def trial(cancel: CancelAt) -> None:
        async with world(serve, []) as w:
            stream = w.sender.stream()
            await stream.__aenter__()
            await stream.send(b"x")
            await cancel.run(lambda: stream.__aexit__(None, None, None))
            await anyio.wait_all_tasks_blocked()
            assert w.peer.bodies() in ([], [b"x"])
            assert not cancel.finished or w.peer.bodies() == [b"x"]
            await w.check()

    await at_each_checkpoint(trial, 1)


@pytest.mark.parametrize("kind", ["path", "file"])
async def test_sending_a_file(serve: Serve, kind: str, tmp_path: Path) -> None:
    """The file is closed, the message whole or not there."""
    path = tmp_path / "body"
    path.write_bytes(LARGE)

    async def trial(cancel: CancelAt) -> None:
        async with world(serve, [], session=SessionTerms(incoming_window=4)) as w:
            source: Any = path if kind == "path" else io.BytesIO(LARGE)
            await cancel.run(lambda: w.sender.send_stream(None, source))
            await anyio.wait_all_tasks_blocked()
            got = w.peer.bodies()
            assert got == [] or b"".join(bytes(body) for body in got) == LARGE
            assert not cancel.finished or (cancel.result == len(LARGE) and len(got) == 1)
            await w.check()

    await at_each_checkpoint(trial, 3)


# Receiving


async def test_attaching_a_streaming_receiver(serve: Serve) -> None:
    """The peer has the prefetched messages again, and neither link nor session remains."""

    async def trial(cancel: CancelAt) -> None:
        async with world(serve, [b"a", b"b"]) as w:

            async def op() -> None:
                async with w.connection.receiver("r", name="mine", stream=True, credit=2):
                    await anyio.lowlevel.checkpoint()

            await cancel.run(op)
            await anyio.wait_all_tasks_blocked()
            assert [session.begun for session in w.peer.sessions] == [True] + [False] * (len(w.peer.sessions) - 1)
            await w.check()
            assert w.store.ready == [b"a", b"b"]
            assert w.store.out == {}

    await at_each_checkpoint(trial, 3)


def in_parts(w: Any) -> list[Callable[[], None]]:
    """Acts by which the peer sends a message to the client's receiver "r", part by part."""
    link = w.peer.links["r"]
    sent: list[Any] = []

    def begin() -> None:
        sent.append(link.send(Message(subject="s").encode_head() + data_head(len(LARGE)) + LARGE[:100], more=True))
        w.peer.pump.wake()

    def go_on(part: bytes, more: bool) -> None:
        link.send_more(sent[0], part, more=more)
        w.peer.pump.wake()

    middle, end = LARGE[100:300_000], LARGE[300_000:]
    return [begin, lambda: go_on(middle, True), lambda: go_on(end, False)]


async def test_reading_a_body(serve: Serve) -> None:
    """Cancelled anywhere, nothing of the body is lost, doubled or out of order."""

    async def trial(cancel: CancelAt) -> None:
        async with world(serve, []) as w, w.connection.receiver("r", stream=True) as receiver:
            got = []
            deliveries: list[Any] = []

            async def op() -> None:
                if not deliveries:
                    deliveries.append(await receiver.receive())
                async for piece in deliveries[0].iter_body():
                    got.append(piece)

            await anyio.wait_all_tasks_blocked()
            async with when_blocked(*in_parts(w)):
                await cancel.run(op)
                await op()
            assert b"".join(got) == LARGE
            deliveries[0].accept()
            await anyio.wait_all_tasks_blocked()
            assert w.peer.links["r"].unsettled == {}

    await at_each_checkpoint(trial, 2)


async def test_saving_a_body(serve: Serve, tmp_path: Path) -> None:
    """The file is there whole, or as it was; the delivery can be settled."""
    path = tmp_path / "body"

    async def trial(cancel: CancelAt) -> None:
        path.write_bytes(b"as it was")
        async with world(serve, []) as w, w.connection.receiver("r", stream=True) as receiver:
            await anyio.wait_all_tasks_blocked()
            begin, *others = in_parts(w)
            begin()
            delivery = await receiver.receive()
            async with when_blocked(*others):
                await cancel.run(lambda: delivery.save(path))
                await anyio.wait_all_tasks_blocked()
            whole = path.read_bytes() == LARGE
            assert whole or path.read_bytes() == b"as it was"
            assert whole or not cancel.finished
            assert os.listdir(tmp_path) == [path.name]
            delivery.release()

    await at_each_checkpoint(trial, 3)


async def test_leaving_in_the_middle_of_a_body(serve: Serve) -> None:
    """It is shielded: the link is detached and the session ended, whatever is cancelled."""

    async def trial(cancel: CancelAt) -> None:
        async with world(serve, []) as w:
            receiver = w.connection.receiver("r", stream=True)
            await receiver.__aenter__()
            await anyio.wait_all_tasks_blocked()
            in_parts(w)[0]()
            await receiver.receive()
            await cancel.run(lambda: receiver.__aexit__(None, None, None))
            assert cancel.finished
            await anyio.wait_all_tasks_blocked()
            assert [session.begun for session in w.peer.sessions] == [True, False]
            await w.check()

    await at_each_checkpoint(trial, 2)
