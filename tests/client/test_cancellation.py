"""Every coroutine of the client, cancelled at every one of its checkpoints; see tests/kit/client/cancelling.py."""

from __future__ import annotations

from contextlib import aclosing
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from amqp10.client import receive, send
from amqp10.engine import (
    SessionTerms,
)
from amqp10.errors import FilterNotApplied
from amqp10.messaging import ACCEPTED, Accepted, Selector, Source

from ..kit.client.cancelling import CancelAt, Serve, Store, at_each_checkpoint, when_blocked, world
from ..kit.inside.client import supervisor

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory, pytest.mark.capability("cancellation")]


# Connections


async def test_a_whole_life(serve: Serve) -> None:
    """Pitfall 14: open, attach, send, receive, close: wherever it is cut, both sides end in order, nothing is lost."""

    async def trial(cancel: CancelAt) -> None:
        async with serve() as (peer, connection):
            store = Store(peer, ["a", "b"])
            peer.on_event = store.on_event
            accepted = []

            async def life() -> None:
                async with connection:
                    async with connection.sender("q") as sender:
                        await sender.send("x")
                    async with connection.receiver("in") as receiver:
                        delivery = await receiver.receive()
                        delivery.accept()
                        accepted.append(delivery.message.body)

            tasks = len(anyio.get_running_tasks())
            await cancel.run(life)
            await anyio.wait_all_tasks_blocked()
            assert len(anyio.get_running_tasks()) <= tasks  # the peer's may have ended too
            assert peer.over
            assert store.attached == store.ended
            assert store.out == {}
            assert store.done == accepted
            assert sorted(store.ready + store.done) == ["a", "b"]
            assert peer.bodies() in ([], ["x"])

    await at_each_checkpoint(trial, 6)


async def test_the_helper_send(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """`amqp10.send`: the peer has the messages or not, and the connection is gone."""

    async def trial(cancel: CancelAt) -> None:
        async with serve() as (peer, connection):

            async def connect(*args: Any) -> Any:
                await anyio.lowlevel.checkpoint()
                return connection._core.supervisor.given

            monkeypatch.setattr(supervisor, "connect", connect)
            await cancel.run(lambda: send("amqp://localhost", "q", "a", "b", close_timeout=1))
            await anyio.wait_all_tasks_blocked()
            assert peer.bodies() in ([], ["a", "b"])
            assert peer.over or peer.engine.remote is None

    await at_each_checkpoint(trial, 5)


async def test_the_helper_receive(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """`amqp10.receive`: all messages come back to the caller, accepted, or all stay with the peer."""

    async def trial(cancel: CancelAt) -> None:
        async with serve() as (peer, connection):

            async def connect(*args: Any) -> Any:
                await anyio.lowlevel.checkpoint()
                return connection._core.supervisor.given

            store = Store(peer, ["a", "b", "c"])
            peer.on_event = store.on_event
            monkeypatch.setattr(supervisor, "connect", connect)
            await cancel.run(lambda: receive("amqp://localhost", "in", count=2, close_timeout=1))
            await anyio.wait_all_tasks_blocked()
            assert peer.over or peer.engine.remote is None
            assert store.out == {}
            if cancel.finished:
                assert [message.body for message in cancel.result] == store.done == ["a", "b"]
            else:
                assert store.ready == ["a", "b", "c"]

    await at_each_checkpoint(trial, 5)


# Sessions and links


async def test_sessions(serve: Serve) -> None:
    """A session that was cut while it began or ended is gone at the peer too."""

    async def trial(cancel: CancelAt) -> None:
        async with world(serve, []) as w:

            async def op() -> None:
                async with w.connection.session() as session, session.sender("s") as sender:
                    await sender.send("x")

            await cancel.run(op)
            await w.check()
            assert [session.begun for session in w.peer.sessions[1:]] == [False] * (len(w.peer.sessions) - 1)

    await at_each_checkpoint(trial, 3)


async def test_a_filter_that_is_not_applied(serve: Serve) -> None:
    """The link that was attached in vain is gone at the peer too, wherever it is cut, and its name is free."""

    async def trial(cancel: CancelAt) -> None:
        async with world(serve, []) as w:
            w.peer.filters = False
            source = Source("f", filters=[Selector("a = 1")])

            async def op() -> None:
                with pytest.raises(FilterNotApplied):
                    async with w.connection.receiver(source, name="f"):
                        pytest.fail("it has entered")

            await cancel.run(op)
            await anyio.wait_all_tasks_blocked()
            async with w.connection.receiver(source, name="f", require_filters=False):
                pass
            await w.check()

    await at_each_checkpoint(trial, 2)


async def test_attaching_a_sender(serve: Serve) -> None:
    """A link that was cut while it attached or detached is gone at the peer too, and its name is free."""

    async def trial(cancel: CancelAt) -> None:
        async with world(serve, []) as w:

            async def op() -> None:
                async with w.connection.sender("s", name="mine"):
                    pass

            await cancel.run(op)
            await w.check()
            async with w.connection.sender("s", name="mine") as sender:
                await sender.send("x")

    await at_each_checkpoint(trial, 2)


async def test_attaching_a_receiver(serve: Serve) -> None:
    """The peer has the prefetched messages of a cancelled receiver again."""

    async def trial(cancel: CancelAt) -> None:
        async with world(serve, ["a", "b", "c"]) as w:

            async def op() -> None:
                async with w.connection.receiver("r", name="mine", credit=2):
                    await anyio.lowlevel.checkpoint()

            await cancel.run(op)
            await w.check()
            assert w.store.ready == ["a", "b", "c"]
            assert w.store.out == {}

    await at_each_checkpoint(trial, 3)


async def test_attaching_to_a_silent_peer(serve: Serve) -> None:
    """A cancelled attach is cleaned up when the answer comes, however late."""
    async with world(serve, ["a"]) as w:
        w.peer.answers = False
        for call in (w.connection.sender("s"), w.connection.receiver("r")):
            with anyio.move_on_after(0.01):
                await call.__aenter__()
        w.peer.answer()
        await w.check()
        assert w.store.ready == ["a"]


async def test_leaving_a_sender(serve: Serve) -> None:
    """Leaving is shielded: outcomes that are out are waited for, and the link is detached."""

    async def trial(cancel: CancelAt) -> None:
        async with world(serve, []) as w:
            w.peer.outcome = None
            sender = w.connection.sender("s")
            await sender.__aenter__()
            delivery = await sender.submit("x")

            def settle() -> None:
                link = w.peer.links["s"]
                for one in list(link.unsettled.values()):
                    link.settle(one, ACCEPTED)
                w.peer.pump.wake()

            async with when_blocked(settle):
                await cancel.run(lambda: sender.__aexit__(None, None, None))
            assert cancel.finished
            assert await delivery.outcome() == Accepted()
            await w.check()

    await at_each_checkpoint(trial, 2)


async def test_leaving_a_receiver(serve: Serve) -> None:
    """Leaving is shielded: the credit is drained, the rest released, the link detached."""

    async def trial(cancel: CancelAt) -> None:
        async with world(serve, ["a", "b", "c"]) as w:
            receiver = w.connection.receiver("r", credit=10)
            await receiver.__aenter__()
            (await receiver.receive()).accept()
            await cancel.run(lambda: receiver.__aexit__(None, None, None))
            assert cancel.finished
            await w.check()
            assert w.store.ready == ["b", "c"]
            assert w.store.done == ["a"]

    await at_each_checkpoint(trial, 2)


# Sending


async def test_send(serve: Serve) -> None:
    """The message is sent once or not at all."""

    async def trial(cancel: CancelAt) -> None:
        async with world(serve, []) as w:
            await cancel.run(lambda: w.sender.send("x"))
            await anyio.wait_all_tasks_blocked()
            assert w.peer.bodies() == ["x"]  # there was credit, so it was handed over before the first checkpoint
            await w.check()

    await at_each_checkpoint(trial, 1)


async def test_send_without_credit(serve: Serve) -> None:
    """Cancelled while it waits for credit, nothing was sent and the credit is there for the next."""

    async def trial(cancel: CancelAt) -> None:
        async with world(serve, []) as w:
            link = w.peer.links["out"]
            w.peer.credit = 0
            link.flow(0)
            w.peer.pump.wake()
            await anyio.wait_all_tasks_blocked()

            def grant() -> None:
                link.flow(1)
                w.peer.pump.wake()

            async with when_blocked(grant):
                await cancel.run(lambda: w.sender.send("x"))
                await anyio.wait_all_tasks_blocked()
            await anyio.wait_all_tasks_blocked()
            sent = w.peer.bodies()
            assert sent == ["x"] if cancel.finished else sent in ([], ["x"])
            assert w.sender.credit == link.credit
            await w.check()

    await at_each_checkpoint(trial, 2)


async def test_waiting_in_line_for_credit(serve: Serve) -> None:
    """A task that stops waiting passes its credit on to the tasks behind it."""

    async def trial(cancel: CancelAt) -> None:
        async with world(serve, []) as w:
            link = w.peer.links["out"]
            w.peer.credit = 0
            link.flow(0)
            w.peer.pump.wake()
            await anyio.wait_all_tasks_blocked()

            def grant() -> None:
                link.flow(2)
                w.peer.pump.wake()

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(w.sender.send, "first")
                await anyio.wait_all_tasks_blocked()

                async def third() -> None:
                    await anyio.wait_all_tasks_blocked()
                    tasks.start_soon(w.sender.send, "third")
                    await anyio.wait_all_tasks_blocked()
                    grant()
                    await anyio.wait_all_tasks_blocked()
                    grant()

                tasks.start_soon(third)
                await cancel.run(lambda: w.sender.send("second"))
            bodies = w.peer.bodies()
            assert sorted(set(bodies) - {"second"}) == ["first", "third"]
            assert len(bodies) == len(set(bodies))
            await w.check()

    await at_each_checkpoint(trial, 2)


async def test_submit_many(serve: Serve) -> None:
    """A loop of submits, cancelled where it lets others run: what was submitted is sent once, what was not is not."""

    async def trial(cancel: CancelAt) -> None:
        async with world(serve, []) as w:
            link = w.peer.links["out"]
            link.flow(1000)
            w.peer.pump.wake()
            await anyio.wait_all_tasks_blocked()
            submitted = []

            async def op() -> None:
                for n in range(200):
                    await w.sender.submit(n)
                    submitted.append(n)

            await cancel.run(op)
            await anyio.wait_all_tasks_blocked()
            assert w.peer.bodies() == submitted
            await w.check()

    await at_each_checkpoint(trial, 2)


@pytest.mark.parametrize("kind", ["iterable", "async iterable"])
async def test_send_many(serve: Serve, kind: str) -> None:
    """The messages sent so far are in order and get their outcomes. No more are taken."""

    async def trial(cancel: CancelAt) -> None:
        async with world(serve, []) as w:
            taken = []

            def bodies() -> Any:
                for n in range(10):
                    taken.append(n)
                    yield n

            async def async_bodies() -> Any:
                for n in bodies():
                    await anyio.lowlevel.checkpoint()
                    yield n

            async def op() -> None:
                if kind == "iterable":
                    await w.sender.send_many(bodies(), window=3)
                else:
                    async with aclosing(async_bodies()) as generator:
                        await w.sender.send_many(generator, window=3)

            await cancel.run(op)
            await anyio.wait_all_tasks_blocked()
            sent = w.peer.bodies()
            assert sent in (taken, taken[:-1])  # the last one may have waited for the window
            assert w.sender.unsettled == 0
            await w.check()

    await at_each_checkpoint(trial, 3)


async def test_the_window(serve: Serve) -> None:
    """A large message that waits for the session's window is whole or not there."""

    async def trial(cancel: CancelAt) -> None:
        async with world(serve, [], session=SessionTerms(incoming_window=4)) as w:
            body = bytes(1_000_000)

            async def op() -> None:
                await w.sender.submit(body)
                await w.sender.submit(b"after")

            await cancel.run(op)
            await anyio.wait_all_tasks_blocked()
            assert w.peer.bodies() in ([], [body], [body, b"after"])
            await w.check()

    await at_each_checkpoint(trial, 1)


async def test_outcome(serve: Serve) -> None:
    """The outcome is not lost with a waiter that was cancelled."""

    async def trial(cancel: CancelAt) -> None:
        async with world(serve, []) as w:
            w.peer.outcome = None
            delivery = await w.sender.submit("x")
            await anyio.wait_all_tasks_blocked()

            def settle() -> None:
                link = w.peer.links["out"]
                for one in list(link.unsettled.values()):
                    link.settle(one, ACCEPTED)
                w.peer.pump.wake()

            async with when_blocked(settle):
                await cancel.run(delivery.outcome)
                await anyio.wait_all_tasks_blocked()
            settle()
            assert await delivery.outcome() == Accepted()
            await w.check()

    await at_each_checkpoint(trial, 1)
