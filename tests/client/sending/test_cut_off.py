"""Leaving a sender whose last message the peer has only in part."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from amqp10 import Connection, Message
from amqp10.testing import Detach, Flow, ScriptedPeer, Transfer

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("settle_mode", ["settled", "unsettled"])
async def test_the_last_message_is_cut_off(settle_mode: Any) -> None:
    """The peer's window closes in the middle: leaving says that a delivery has no outcome, settled or not."""

    async def serve(peer: ScriptedPeer) -> None:
        await peer.accept_connection(max_frame_size=512)
        await peer.accept_session(incoming_window=1)
        await peer.accept_link()
        window: dict[str, Any] = {
            "next_incoming_id": 0,
            "incoming_window": 1,
            "next_outgoing_id": 0,
            "outgoing_window": 2048,
        }
        await peer.send(Flow(**window, handle=0, delivery_count=0, link_credit=10))
        await peer.expect(Transfer, more=True)
        detach = await peer.expect_any(Detach, skip=Transfer)  # with the transfer that aborts it
        await peer.reply(Detach(handle=detach.handle, closed=True))

    with anyio.fail_after(60):
        async with ScriptedPeer() as peer, anyio.create_task_group() as tasks:
            tasks.start_soon(serve, peer)
            async with Connection(peer.url, close_timeout=0.2) as connection:
                with pytest.raises(TimeoutError, match="1 delivery had no outcome"):
                    async with connection.sender("q", settle_mode=settle_mode) as sender:
                        await sender.submit(Message(b"x" * 5000))
            tasks.cancel_scope.cancel()
