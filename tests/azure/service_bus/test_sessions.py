"""Sessions of Service Bus, as its users hold them, against the emulator."""

from __future__ import annotations

from datetime import timedelta

import pytest

from amqp10 import (
    LocalProtocolError,
    Message,
)
from amqp10.azure import (
    NoSession,
    SessionCannotBeLocked,
    SessionLockLost,
)

from ...kit.azure.emulated import emulated
from ...kit.azure.entities import HOUR, now, put

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory, pytest.mark.capability("Service Bus client")]


async def test_sessions() -> None:
    async with emulated() as (bus, _):
        await put(bus, "sessions", *(Message(n, group_id=name) for n in range(3) for name in ("a", "b")))
        assert await bus.list_sessions("sessions") == ["a", "b"]
        assert await bus.list_sessions("sessions", updated_after=now() - HOUR) == []
        async with bus.next_session("sessions") as first, bus.session("sessions", "b") as second:
            assert (first.session_id, second.session_id) == ("a", "b")
            assert first.locked_until is not None
            assert timedelta() < first.locked_until - now() <= timedelta(seconds=61)
            batch = await first.receive_batch(3)
            assert [(each.session_id, each.message.body) for each in batch] == [("a", 0), ("a", 1), ("a", 2)]
            for each in reversed(batch):  # several of a session may be under way
                await each.complete()
            with pytest.raises(LocalProtocolError, match="the lock belongs to the session"):
                batch[0].keep_locked()
            assert await first.state() is None
            await first.set_state(b"")  # as good as none
            assert await first.state() is None
            await first.set_state(b"done")
            assert await first.state() == b"done"
            assert await second.state() is None
            with pytest.raises(TypeError, match="encode it"):
                await first.set_state("done")  # type: ignore[arg-type]
            with pytest.raises(SessionCannotBeLocked):
                async with bus.session("sessions", "b"):
                    raise AssertionError("it is locked already")
            with pytest.raises(NoSession):
                async with bus.next_session("sessions", max_wait=0.05):
                    raise AssertionError("there is none")
            [aside, *_] = await second.receive_batch(1)
            await aside.defer()
            [aside] = await second.receive_deferred(aside.sequence_number)
            await aside.complete()
            assert [each.session_id for each in await second.peek()] == ["b", "b"]
            async with second.keep_locked():
                assert (await second.renew_lock()) > now()
        assert await bus.list_sessions("sessions", updated_after=now() - HOUR) == ["a"]


async def test_a_session_that_is_lost() -> None:
    """Whatever is done with it then says so; it is not locked again by itself."""
    async with emulated() as (bus, azure):
        await put(bus, "sessions", Message("x", group_id="a"))
        async with bus.session("sessions", "a") as session:
            delivery = await session.receive()
            with pytest.raises(SessionLockLost):
                async with session.keep_locked():
                    azure.lose_locks("sessions")
                    await session.receive()
            for lost in (delivery.complete, session.receive, session.renew_lock, lambda: session.set_state(b"")):
                with pytest.raises(SessionLockLost):
                    await lost()
        async with bus.session("sessions", "a") as session:
            async with await session.receive() as message:
                assert message.body == "x"
