"""Links and sessions that the peer begins by itself: the client takes none, whatever the peer says on them at once."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from amqp10 import Connection, Source, Target
from amqp10.dialects.v1_0.wire.frames import encode_frame
from amqp10.testing import Attach, Begin, Detach, Disposition, End, Flow, Transfer

from ...kit.client.memory_peer import MemoryPeer

pytestmark = pytest.mark.anyio

WINDOWS: dict[str, Any] = {
    "next_incoming_id": 0,
    "incoming_window": 10,
    "next_outgoing_id": 0,
    "outgoing_window": 10,
}
TO_US = Attach(name="s", handle=7, role=False, source=Source("a"), target=Target("b"), initial_delivery_count=0)
FROM_US = Attach(name="s", handle=7, role=True, source=Source("a"), target=Target("b"))
CREDIT = Flow(**WINDOWS, handle=7, delivery_count=0, link_credit=10)
AVAILABLE = Flow(**WINDOWS, handle=7, delivery_count=0, link_credit=0, available=5, drain=True)
ON_A_LINK = {
    "credit": (FROM_US, CREDIT),
    "credit, and an end": (FROM_US, CREDIT, Detach(handle=7, closed=True)),
    "what is available": (TO_US, AVAILABLE),
    "an end": (TO_US, Detach(handle=7)),
    "an outcome": (FROM_US, Disposition(role=True, first=0, last=9, settled=True)),
}


@pytest.mark.parametrize("said", ON_A_LINK.values(), ids=list(ON_A_LINK))
@pytest.mark.in_memory
async def test_links(memory_peer: MemoryPeer, said: tuple[Any, ...]) -> None:
    """It is refused, and those of the client go on."""
    async with anyio.create_task_group() as tasks:

        async def serve() -> None:
            await memory_peer.accept_receiver()
            await memory_peer.send_bytes(b"".join(encode_frame(0, each) for each in said))
            await memory_peer.expect_any(Detach, skip=(Attach, Flow))
            await memory_peer.send_bytes(
                encode_frame(0, Transfer(handle=0, delivery_id=0, delivery_tag=b"t"), b"\x00\x53\x77\xa1\x01x")
            )
            await memory_peer.expect_any(Disposition, skip=Flow)
            await memory_peer.drop()

        tasks.start_soon(serve)
        with anyio.fail_after(60):
            async with Connection(memory_peer.url, close_timeout=0.2) as connection:
                async with connection.receiver("q", credit=5) as receiver:
                    delivery = await receiver.receive()
                    assert delivery.message.body == "x"
                    delivery.accept()


ON_A_SESSION = {
    "nothing": (),
    "a window": (Flow(**WINDOWS),),
    "a link": (FROM_US,),
    "a link with credit": (FROM_US, CREDIT),
    "a link that sends": (TO_US, Transfer(handle=7, delivery_id=0, delivery_tag=b"t")),
    "a link, and an end": (FROM_US, Detach(handle=7, closed=True), End()),
    "an end": (End(),),
}


@pytest.mark.parametrize("said", ON_A_SESSION.values(), ids=list(ON_A_SESSION))
@pytest.mark.in_memory
async def test_sessions(memory_peer: MemoryPeer, said: tuple[Any, ...]) -> None:
    """The same of a session, with what is on it."""
    async with anyio.create_task_group() as tasks:

        async def serve() -> None:
            await memory_peer.accept_connection()
            begin = Begin(next_outgoing_id=0, incoming_window=0, outgoing_window=10)
            await memory_peer.send_bytes(b"".join(encode_frame(5, each) for each in (begin, *said)))
            await memory_peer.expect_any(End, skip=(Begin, Attach, Detach, Flow))
            await memory_peer.drop()
            entered.set()

        entered = anyio.Event()
        tasks.start_soon(serve)
        with anyio.fail_after(60):
            async with Connection(memory_peer.url, close_timeout=0.2):
                await entered.wait()
