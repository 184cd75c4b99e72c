"""Waiting to send: credit, drains, the session's window and turns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from amqp10.engine import CreditChanged, LinkAttached, LinkTerms, SessionTerms
from amqp10.errors import (
    LocalProtocolError,
)
from amqp10.messaging import Message

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory]

Serve = Callable[..., Any]

FULL = "its queue or its memory may be full"


async def test_credit_is_waited_for(serve: Serve) -> None:
    """Without credit nothing is sent; each credit lets one through, in order of arrival."""
    async with serve() as (peer, connection), connection:
        peer.credit = 0
        async with connection.sender("q") as sender, anyio.create_task_group() as tasks:
            for n in range(3):
                tasks.start_soon(sender.send, Message(n))
                await anyio.wait_all_tasks_blocked()
            assert peer.bodies() == []
            assert sender.credit == 0
            for n in range(3):
                peer.links["q"].flow(1)
                peer.pump.wake()
                await anyio.wait_all_tasks_blocked()
                assert peer.bodies() == list(range(n + 1))


@pytest.mark.parametrize("long", [True, False])
async def test_giving_up_without_credit(serve: Serve, long: bool, caplog: pytest.LogCaptureFixture) -> None:
    """A timeout does not say why it came: the log does, if a task has waited for credit for long."""
    async with serve() as (peer, connection), connection:
        peer.credit = 0
        async with connection.sender("q") as sender:
            with anyio.move_on_after(7 if long else 1):
                await sender.send(Message(1))
            said = [record.getMessage() for record in caplog.records]
            assert said == ([f"{sender!r} waited 7 s for credit, and the peer granted none: {FULL}"] if long else [])


async def test_a_newcomer_does_not_overtake(serve: Serve) -> None:
    """A task that waits for credit is served before a task that comes when the credit arrives."""
    async with serve() as (peer, connection), connection:
        peer.credit = 0
        async with connection.sender("q") as sender, anyio.create_task_group() as tasks:
            tasks.start_soon(sender.send, Message("first"))
            await anyio.wait_all_tasks_blocked()
            came = anyio.Event()
            handle = connection._core.handle

            def late(events: Any) -> None:
                handle(events)
                if any(isinstance(event, CreditChanged) for event in events) and not came.is_set():
                    came.set()
                    tasks.start_soon(sender.send, Message("second"))

            connection._core.pump._on_events = late
            peer.links["q"].flow(1)
            peer.pump.wake()
            await anyio.wait_all_tasks_blocked()
            assert came.is_set()
            assert peer.bodies() == ["first"]
            peer.links["q"].flow(1)
            peer.pump.wake()
        assert peer.bodies() == ["first", "second"]


@pytest.mark.spec("2.6.7", "with drain the sender uses its credit or gives it back")
async def test_drain_gives_credit_back(serve: Serve) -> None:
    """A sender that is asked to drain answers, and the link goes on."""
    async with serve() as (peer, connection), connection, connection.sender("q") as sender:
        peer.links["q"].flow(100, drain=True)
        peer.pump.wake()
        await anyio.wait_all_tasks_blocked()
        assert sender.credit == 0
        assert peer.links["q"].credit == 0
        peer.links["q"].flow(5)
        peer.pump.wake()
        await sender.send(Message("on"))
        assert peer.bodies() == ["on"]


async def test_drain_lets_those_who_wait_send_first(serve: Serve) -> None:
    """Credit that comes with drain is used by who waits, and the rest is given back."""
    async with serve() as (peer, connection), connection:
        peer.credit = 0
        async with connection.sender("q") as sender, anyio.create_task_group() as tasks:
            for n in range(2):
                tasks.start_soon(sender.send, Message(n))
                await anyio.wait_all_tasks_blocked()
            peer.links["q"].flow(5, drain=True)
            peer.pump.wake()
            await anyio.wait_all_tasks_blocked()
            assert sorted(peer.bodies()) == [0, 1]
            assert sender.credit == 0
            assert peer.links["q"].credit == 0


@pytest.mark.parametrize("drain", [False, True])
@pytest.mark.parametrize("how", ["submit", "stream"])
async def test_credit_that_is_not_used_after_all(serve: Serve, how: str, drain: bool) -> None:
    """A task that cannot send leaves its credit to the next one. A peer that drains gets unused credit back."""
    async with serve() as (peer, connection), connection:

        def attach(event: Any) -> bool:
            if isinstance(event, LinkAttached):
                peer.links["q"] = link = event.link
                assert link.remote is not None
                link.attach(LinkTerms(link.name, target=link.remote.target, max_message_size=100))
            return isinstance(event, LinkAttached)

        peer.on_event, peer.credit = attach, 0
        too_much = Message(subject="x" * 200)
        async with connection.sender("q") as sender, anyio.create_task_group() as tasks:

            async def fail() -> None:
                with pytest.raises(LocalProtocolError, match="max-message-size"):
                    await (sender.submit(too_much) if how == "submit" else sender.stream(too_much).__aenter__())

            tasks.start_soon(fail)
            await anyio.wait_all_tasks_blocked()
            if not drain:
                tasks.start_soon(sender.send, "next")
                await anyio.wait_all_tasks_blocked()
            peer.links["q"].flow(1, drain=drain)
            peer.pump.wake()
            await anyio.wait_all_tasks_blocked()
            assert peer.bodies() == ([] if drain else ["next"])
            assert sender.credit == peer.links["q"].credit == 0
            tasks.cancel_scope.cancel()


async def test_woken_and_cancelled(serve: Serve) -> None:
    """Credit that woke a task which is cancelled in the same moment is the next one's."""
    async with serve() as (peer, connection), connection:
        peer.credit = 0
        async with connection.sender("q") as sender, anyio.create_task_group() as tasks:
            scope = anyio.CancelScope()

            async def first() -> None:
                with scope:
                    await sender.send("first")

            tasks.start_soon(first)
            await anyio.wait_all_tasks_blocked()
            tasks.start_soon(sender.send, "next")
            await anyio.wait_all_tasks_blocked()
            handle = connection._core.handle

            def cancelling(events: Any) -> None:
                scope.cancel()
                handle(events)

            connection._core.pump._on_events = cancelling
            peer.links["q"].flow(1)
            peer.pump.wake()
            await anyio.wait_all_tasks_blocked()
            assert peer.bodies() == ["next"]
            tasks.cancel_scope.cancel()


async def test_who_gave_up_waiting_is_in_nobodys_way(serve: Serve) -> None:
    """One credit is enough for who comes after a task that was cancelled while it waited for one."""
    async with serve() as (peer, connection), connection:
        peer.credit = 0
        async with connection.sender("q") as sender, anyio.create_task_group() as tasks:
            with anyio.CancelScope() as scope:
                tasks.start_soon(cancel_when_blocked, scope)
                await sender.submit("given up")
            assert scope.cancelled_caught
            peer.links["q"].flow(1)
            peer.pump.wake()
            tasks.start_soon(sender.submit, "next")
            await anyio.wait_all_tasks_blocked()
            assert peer.bodies() == ["next"]
            tasks.cancel_scope.cancel()


async def cancel_when_blocked(scope: anyio.CancelScope) -> None:
    await anyio.wait_all_tasks_blocked()
    scope.cancel()


@pytest.mark.spec("2.5.6", "transfers wait for the peer's incoming window")
async def test_the_window_is_waited_for(serve: Serve) -> None:
    """A closed session window holds `submit` up, and no message is lost when it opens."""
    async with serve(session=SessionTerms(incoming_window=4)) as (peer, connection), connection:
        async with connection.sender("q") as sender:
            assert await sender.send_many(range(50)) == 50
            assert peer.bodies() == list(range(50))
