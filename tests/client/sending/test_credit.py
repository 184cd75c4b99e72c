"""Waiting to send: credit, drains, the session's window and turns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from anyio.abc import ByteStream

from amqp10.broker.internals import memory_streams
from amqp10.engine import CreditChanged, LinkAttached, LinkTerms, SessionTerms
from amqp10.errors import (
    LocalProtocolError,
)
from amqp10.messaging import Message

from ...kit.client.peer import Valve

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory]

Serve = Callable[..., Any]

FULL = "the peer grants none; its queue or its memory may be full"


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


def reports(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "amqp10.connection"]


async def test_waiting_without_credit_is_logged(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    """Neither a task that waits nor the error of its timeout says why: the log does, once for all, and ever less often.

    It begins anew when something was sent.
    """
    async with serve() as (peer, connection), connection:
        peer.credit = 0
        async with connection.sender("q") as sender:

            def line(seconds: int, messages: str) -> str:
                return f"{sender!r} has waited {seconds} s for credit, with {messages} to send: {FULL}"

            async with anyio.create_task_group() as tasks:
                for n in range(3):
                    tasks.start_soon(sender.send, n)
                await anyio.sleep(4)
                assert reports(caplog) == []
                await anyio.sleep(42)
                assert reports(caplog) == [line(seconds, "3 messages") for seconds in (5, 10, 20, 40)]
                caplog.clear()
                peer.links["q"].flow(1)
                peer.pump.wake()
                await anyio.sleep(12)
                assert reports(caplog) == [line(5, "2 messages")]
                tasks.cancel_scope.cancel()
            caplog.clear()
            await anyio.sleep(60)
            assert reports(caplog) == []


@pytest.mark.parametrize(("patience", "waited"), [(1, None), (5, 5), (7, 5)])
async def test_giving_up_without_credit(
    serve: Serve, patience: float, waited: int | None, caplog: pytest.LogCaptureFixture
) -> None:
    """The log says so in time for a timeout that comes as early as the first line, too; many give up with one line."""
    async with serve() as (peer, connection), connection:
        peer.credit = 0
        async with connection.sender("q") as sender:
            with anyio.move_on_after(patience):
                async with anyio.create_task_group() as tasks:
                    for n in range(3):
                        tasks.start_soon(sender.send, n)
            said = f"{sender!r} has waited {waited} s for credit, with 3 messages to send: {FULL}"
            assert reports(caplog) == ([said] if waited else [])
            caplog.clear()
            with anyio.move_on_after(patience):
                await sender.send("next")
            assert len(reports(caplog)) == (1 if waited else 0)


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


async def test_waiting_for_the_window_is_logged(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    """Credit is no use while the peer keeps the session's window closed, as RabbitMQ does when its memory is full."""
    async with serve(session=SessionTerms(incoming_window=4)) as (peer, connection), connection:
        async with connection.sender("q", settle_mode="settled") as sender:
            peer.stream.shut = True
            with anyio.move_on_after(6):
                await sender.send_many(range(50))
            assert sender.credit > 0
            why = "the peer keeps it closed; its memory or its disk may be full"
            assert reports(caplog) == [
                f"{sender!r} has waited 5 s for the session's window, with 1 message to send: {why}"
            ]


class Jam(Valve):
    """A stream that takes nothing while it is shut, until it is freed: its other end does not read."""

    def __init__(self, stream: ByteStream) -> None:
        super().__init__(stream)
        self.freed = anyio.Event()

    async def send(self, item: bytes) -> None:
        if self.shut:
            await self.freed.wait()
        await self._stream.send(item)


async def test_waiting_for_the_output_is_logged(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    """A peer that does not read holds senders up, too, whatever credit and window say."""
    here, there = memory_streams()
    stream = Jam(here)
    async with serve(streams=lambda: (stream, there)) as (_, connection), connection:
        async with connection.sender("q", settle_mode="settled") as sender:
            stream.shut = True
            with anyio.move_on_after(6):
                await sender.send_many(bytes(100_000) for _ in range(50))
            why = "the peer does not read; it or the network may be overloaded"
            assert reports(caplog) == [
                f"{sender!r} has waited 5 s for room in the output, with 1 message to send: {why}"
            ]
            stream.freed.set()
