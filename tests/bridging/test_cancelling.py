"""A bridge is cancelled at each of its checkpoints: every message is at one end, nothing is left open."""

from __future__ import annotations

import anyio
import pytest

import amqp10
from amqp10 import Error, Source
from amqp10.engine import Event, LinkAttached

from ..kit.client.cancelling import CancelAt, Store, at_each_checkpoint
from ..kit.client.peer import serving

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("settings", [{}, {"window": 1}, {"until_empty": True}, {"refused_to": "aside"}])
async def test_a_whole_life(settings: dict[str, int]) -> None:
    """Entered, moving, done, left: wherever it is cut, what the target has is what the source counts as done."""

    async def trial(cancel: CancelAt) -> None:
        async with serving() as (origin, source), serving() as (peer, target), source, target:
            store = Store(origin, ["a", "b", "c"])
            origin.on_event = store.on_event
            tasks = len(anyio.get_running_tasks())
            bridge = amqp10.bridge((source, "in"), (target, "out"), count=3, **settings)  # type: ignore[arg-type]

            async def life() -> None:
                await bridge

            await cancel.run(life)
            await anyio.wait_all_tasks_blocked()
            assert len(anyio.get_running_tasks()) == tasks, "a task leaked"
            assert store.attached == store.ended
            assert store.out == {}
            assert store.done == peer.bodies() == ["a", "b", "c"][: len(store.done)]
            assert sorted(store.done + store.ready) == ["a", "b", "c"]
            assert bridge.report.moved == len(store.done)
            assert not bridge.report.duplicates
            async with target.sender("other") as sender:
                await sender.send("works")
            async with source.receiver("other", credit=0):
                pass

    await at_each_checkpoint(trial, 6)


async def test_waiting_for_the_end() -> None:
    """Only the waiting is cancelled; the bridge goes on."""

    async def trial(cancel: CancelAt) -> None:
        async with serving() as (origin, source), serving() as (peer, target), source, target:
            store = Store(origin, ["a"])
            origin.on_event = store.on_event
            async with amqp10.bridge((source, "in"), (target, "out"), count=2) as bridge:

                async def done() -> None:
                    await bridge.done()

                async with anyio.create_task_group() as group:
                    group.start_soon(cancel.run, done)
                    await anyio.wait_all_tasks_blocked()
                    store.put("b")
                assert (await bridge.done()).moved == 2
            assert peer.bodies() == ["a", "b"]

    await at_each_checkpoint(trial, 1)


async def test_looking_first() -> None:
    """No message has moved, and every link is left."""

    async def trial(cancel: CancelAt) -> None:
        async with serving() as (origin, source), serving() as (_, target), source, target:
            store = Store(origin, ["a", "b"])

            def on_event(event: Event) -> bool:
                if isinstance(event, LinkAttached):
                    asked = event.link.remote.source if event.link.remote is not None else None
                    if isinstance(asked, Source) and asked.distribution_mode == "copy":  # which the store cannot
                        event.link.refuse(Error("amqp:not-implemented"))
                        store.attached += 1
                        return True
                return store.on_event(event)

            origin.on_event = on_event
            bridge = amqp10.bridge((source, "in"), (target, "out"))

            async def plan() -> None:
                assert (await bridge.plan()).target.address == "out"

            await cancel.run(plan)
            await anyio.wait_all_tasks_blocked()
            assert store.attached == store.ended
            assert (store.out, store.done) == ({}, [])
            assert sorted(store.ready) == ["a", "b"]

    await at_each_checkpoint(trial, 4)
