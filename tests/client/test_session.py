"""Sessions: of one's own, and the one that connections begin by themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import pytest

from amqp10.client import Connection
from amqp10.engine import ConnectionTerms, SessionTerms
from amqp10.errors import LocalProtocolError, SessionEnded
from amqp10.messaging import Error

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory]

Serve = Callable[..., Any]


async def test_one_of_its_own(serve: Serve) -> None:
    """A session begins, carries links, and ends."""
    async with serve() as (peer, connection), connection:
        async with connection.session(incoming_window=16, handle_max=3) as session:
            async with session.sender("q") as sender, session.receiver("r") as receiver:
                await sender.send("x")
                await anyio.wait_all_tasks_blocked()
                peer.send("r", "y")
                assert (await receiver.receive()).message.body == "y"
            assert peer.sessions[0].remote.incoming_window == 16
            assert peer.sessions[0].remote.handle_max == 3
            assert session.remote == SessionTerms()
        assert not peer.sessions[0].begun
        with pytest.raises(anyio.ClosedResourceError):
            async with session.sender("q"):
                pytest.fail("the block must not run")


async def test_the_default_one_is_shared(serve: Serve) -> None:
    """Links that ask for none share one session."""
    async with serve() as (peer, connection), connection:
        assert peer.sessions == []
        async with connection.sender("q") as sender, connection.receiver("r"), connection.sender("s"):
            await sender.send("x")
        assert len(peer.sessions) == 1


async def test_the_peer_ends_it(serve: Serve) -> None:
    """Its links get the cause; the next link of the connection gets a new default session."""
    async with serve() as (peer, connection), connection:
        async with connection.sender("q") as sender:
            peer.sessions[0].end(Error("amqp:resource-limit-exceeded", "enough"))
            peer.pump.wake()
            await anyio.wait_all_tasks_blocked()
            with pytest.raises(SessionEnded, match="enough") as caught:
                await sender.send("x")
            assert caught.value.condition == "amqp:resource-limit-exceeded"
        async with connection.sender("q") as sender:
            await sender.send("y")
        assert len(peer.sessions) == 2


async def test_its_own_is_not_begun_again(serve: Serve) -> None:
    """A session of one's own that the peer ended stays ended, and says why."""
    async with serve() as (peer, connection), connection, connection.session() as session:
        await anyio.wait_all_tasks_blocked()
        peer.sessions[0].end(Error("x:why", "because"))
        peer.pump.wake()
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(SessionEnded, match="because"):
            async with session.sender("q"):
                pytest.fail("the block must not run")


async def test_waiters_get_the_cause(serve: Serve) -> None:
    """A receive that waits ends with the session, with its cause."""
    async with serve() as (peer, connection), connection, connection.session() as session:
        async with session.receiver("q") as receiver, anyio.create_task_group() as tasks:

            async def wait() -> None:
                with pytest.raises(SessionEnded, match="because"):
                    await receiver.receive()

            tasks.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            peer.sessions[0].end(Error("x:why", "because"))
            peer.pump.wake()


async def test_ended_here_under_a_waiter(serve: Serve) -> None:
    """Links of a session that was ended here are closed."""
    async with serve() as (_, connection), connection, anyio.create_task_group() as tasks:
        async with connection.session() as session:
            receiver = await session.receiver("q").__aenter__()

            async def wait() -> None:
                with pytest.raises(anyio.ClosedResourceError):
                    await receiver.receive()

            tasks.start_soon(wait)
            await anyio.wait_all_tasks_blocked()


async def test_channels_take_turns(serve: Serve) -> None:
    """A channel is not used again at once, if there are others: RabbitMQ 4.0 may lose the begin."""
    for channel_max, channels in ((2, [0, 1, 2, 0]), (0, [0, 0, 0, 0])):
        async with serve(terms=ConnectionTerms("peer", channel_max=channel_max)) as (peer, connection), connection:
            for _ in channels:
                async with connection.session():
                    pass
            assert [session.remote_channel for session in peer.sessions] == channels


@pytest.mark.spec("2.7.1", "channel-max: no session beyond what the peer takes")
async def test_too_many(serve: Serve) -> None:
    """The peer's limit raises before anything is written."""
    async with serve(terms=ConnectionTerms("peer", channel_max=0)) as (_, connection), connection:
        async with connection.session():
            with pytest.raises(LocalProtocolError, match="1 sessions"):
                async with connection.session():
                    pytest.fail("the block must not run")


async def test_ending_is_bounded(serve: Serve) -> None:
    """A peer that does not answer the end cannot hold the exit up."""
    async with serve(close_timeout=0.1) as (peer, connection), connection:
        async with connection.session():
            peer.stream.shut = True
            left = anyio.current_time()
        assert 0.09 <= anyio.current_time() - left < 4


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: Connection("amqp://h", max_frame_size=511), "max_frame_size"),
        (lambda: Connection("amqp://h", max_frame_size=2**32), "max_frame_size"),
        (lambda: Connection("amqp://h", channel_max=65536), "channel_max"),
        (lambda: Connection("amqp://h", idle_timeout=-1), "idle_timeout"),
        (lambda: Connection("amqp://h", incoming_window=0), "incoming_window"),
        (lambda: Connection("amqp://h").session(incoming_window=0), "incoming_window"),
        (lambda: Connection("amqp://h").session(handle_max=-1), "handle_max"),
        (lambda: Connection("amqp://h").sender("q", settle_mode="never"), "settle_mode"),  # type: ignore[arg-type]
        (lambda: Connection("amqp://h").receiver("q", receiver_settle_mode="third"), "settle_mode"),  # type: ignore[arg-type]
        (lambda: Connection("amqp://h").receiver("q", max_message_size=-1), "max_message_size"),
        (lambda: Connection("amqp://h").receiver("q", max_message_size=2**64), "max_message_size"),
        (lambda: Connection("amqp://h").receiver("q", credit=-1), "credit"),
        (lambda: Connection("amqp://h").receiver("q", credit=2**32), "credit"),
        (lambda: Connection("amqp://h").browser("q", credit=2**32), "credit"),
        (lambda: Connection("amqp://h", container_id="c").subscription("t", "s", credit=-1), "credit"),
    ],
)
def test_what_no_peer_can_be_told(make: Callable[[], object], name: str) -> None:
    """A limit or mode that is none is a ValueError that names it, before anything is connected or written."""
    with pytest.raises(ValueError, match=name):
        make()
