"""Deliveries that the peer releases itself: RabbitMQ 4.3 does so with a consumer that takes too long."""

from __future__ import annotations

import anyio
import pytest

from amqp10 import Connection, DeliveriesStale, Message, StaleDelivery
from amqp10.messaging import RELEASED, Modified
from amqp10.testing import Disposition, Flow, ScriptedPeer, Transfer

from ...kit.client.memory_peer import MemoryPeer

pytestmark = [pytest.mark.anyio, pytest.mark.capability("send and receive")]


async def take_back(peer: ScriptedPeer, held: anyio.Event, settled: list[Disposition], state: object) -> None:
    """Deliver two messages, take both back once one is held, and deliver two more when that is settled."""
    await peer.accept_connection()
    await peer.accept_session()
    await peer.accept_link()
    assert (await peer.expect(Flow)).link_credit == 2
    for number in range(2):
        await peer.send(Transfer(handle=0, delivery_id=number, delivery_tag=b"%d" % number), Message(number).encode())
    await held.wait()
    await peer.send(Disposition(role=False, first=0, last=1, state=state))
    while not settled or (settled[-1].last or settled[-1].first) != 1:
        settled.append(await peer.expect_any(Disposition, skip=Flow))
    for number in range(2, 4):
        await peer.send(Transfer(handle=0, delivery_id=number, delivery_tag=b"%d" % number), Message(number).encode())
    settled.append(await peer.expect_any(Disposition, skip=Flow))
    await peer.drop()


@pytest.mark.parametrize("state", [RELEASED, Modified(delivery_failed=True)], ids=["released", "modified"])
@pytest.mark.in_memory
async def test_taken_back(memory_peer: MemoryPeer, caplog: pytest.LogCaptureFixture, state: object) -> None:
    """One that is held is stale, one that waits is handed out no more; both are settled, and their credit is back."""
    settled: list[Disposition] = []
    first_held = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(take_back, memory_peer, first_held, settled, state)
        with anyio.fail_after(60):
            async with Connection(memory_peer.url, close_timeout=0.2) as connection:
                async with connection.receiver("q", credit=2) as receiver:
                    held = await receiver.receive()
                    first_held.set()
                    events = connection.events()
                    assert isinstance(await anext(events), DeliveriesStale)
                    assert connection.health().counts["deliveries_returned"] == 2
                    with pytest.raises(StaleDelivery, match="took the delivery back"):
                        held.accept()
                    with pytest.raises(StaleDelivery, match="took the delivery back"):
                        await held.wait_settled()
                    with held:
                        pass  # what is accepted at the end of the block only says so in the log
                    assert held.message.body == 0
                    assert (await receiver.receive()).message.body == 2
                    (await receiver.receive()).accept()
    *back, last = settled
    assert back[0].first == 0
    # RabbitMQ ends the session where no state is said.
    assert all((each.role, each.settled, each.state) == (True, True, state) for each in back)
    assert (last.first, last.settled) == (3, True)
    assert "2 unsettled deliveries" in caplog.text
    assert "would accept is stale" in caplog.text


@pytest.mark.in_memory
async def test_what_has_an_outcome_stays(memory_peer: MemoryPeer) -> None:
    """In receiver-settle-mode "second" the outcome that was given stands, whatever the peer says before it settles."""

    async def serve() -> None:
        await memory_peer.accept_receiver()
        await memory_peer.send(Transfer(handle=0, delivery_id=0, delivery_tag=b"0"), Message("x").encode())
        told = await memory_peer.expect_any(Disposition, skip=Flow)
        await memory_peer.send(Disposition(role=False, first=0, state=RELEASED))
        await memory_peer.send(Disposition(role=False, first=0, state=told.state, settled=True))
        await memory_peer.drop()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve)
        with anyio.fail_after(60):
            async with Connection(memory_peer.url, close_timeout=0.2) as connection:
                async with connection.receiver("q", receiver_settle_mode="second") as receiver:
                    delivery = await receiver.receive()
                    delivery.accept()
                    await delivery.wait_settled()
