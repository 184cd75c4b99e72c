"""The event of waits that occur once per message, as the running backend has it."""

from __future__ import annotations

import anyio
import pytest

from amqp10.net import signal_type

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory]


async def test_wakes_all_that_wait() -> None:
    """Each task that waits is woken once, and those that come later do not wait."""
    signal = signal_type()()
    woken = []

    async def wait(number: int) -> None:
        await signal.wait()
        woken.append(number)

    async with anyio.create_task_group() as tasks:
        for number in range(3):
            tasks.start_soon(wait, number)
        await anyio.wait_all_tasks_blocked()
        assert not signal.is_set()
        assert not woken
        signal.set()
        signal.set()
        assert signal.is_set()
        await anyio.wait_all_tasks_blocked()
        assert sorted(woken) == [0, 1, 2]
    await signal.wait()


async def test_cancelled_task_does_not_wait() -> None:
    """Of two tasks that wait, one is cancelled; the other is woken by the signal, and a cancelled one is not."""
    signal = signal_type()()
    ends = []

    async def wait(name: str, scope: anyio.CancelScope) -> None:
        with scope:
            await signal.wait()
            ends.append(f"{name} woken")
        if scope.cancelled_caught:
            ends.append(f"{name} cancelled")

    async with anyio.create_task_group() as tasks:
        one, other = anyio.CancelScope(), anyio.CancelScope()
        tasks.start_soon(wait, "one", one)
        tasks.start_soon(wait, "other", other)
        await anyio.wait_all_tasks_blocked()
        one.cancel()
        await anyio.wait_all_tasks_blocked()
        assert ends == ["one cancelled"]
        signal.set()
        other.cancel()  # too late: the signal came first
        await anyio.wait_all_tasks_blocked()
    assert ends == ["one cancelled", "other woken"]
