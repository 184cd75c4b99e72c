"""Connections: opening, what leaves `async with`, how they end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from amqp10.client import Connection
from amqp10.engine import ConnectionOpened, ConnectionTerms, LinkTerms
from amqp10.errors import (
    AuthenticationFailed,
    ConnectionClosed,
    ConnectionLost,
    InsecureTransport,
    LinkDetached,
    LocalProtocolError,
    Unsupported,
)
from amqp10.messaging import Error, Source, Target
from amqp10.sasl import Anonymous, Authenticator, Plain
from amqp10.testing import ScriptedPeer

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory, pytest.mark.capability("send and receive")]

Serve = Callable[..., Any]


async def test_opens_and_closes(serve: Serve) -> None:
    """Both opens are exchanged inside the block, both closes after it."""
    terms = ConnectionTerms("peer", properties={"product": "test"}, offered_capabilities=("x",))
    async with serve(terms=terms, container_id="me", properties={"app": "a"}, hostname="vhost") as (peer, connection):
        async with connection:
            assert connection.remote_container_id == "peer"
            assert connection.remote_properties == {"product": "test"}
            assert connection.offered_capabilities == ("x",)
            assert connection.remote.max_frame_size == terms.max_frame_size
            assert connection.mechanism == "ANONYMOUS"
            assert connection.dialect == "1.0"
            assert peer.engine.remote.container_id == "me"
            assert peer.engine.remote.hostname == "vhost"
            assert peer.engine.remote.properties == {"app": "a"}
            assert not peer.over
        await anyio.wait_all_tasks_blocked()
        assert peer.over
        with pytest.raises(anyio.ClosedResourceError):
            async with connection.sender("q"):
                pytest.fail("the block must not run")


async def test_container_ids_differ(serve: Serve) -> None:
    """Made-up container ids are unique."""
    one, other = Connection("amqp://localhost"), Connection("amqp://localhost")
    assert one.container_id != other.container_id


async def test_without_sasl(serve: Serve) -> None:
    """`sasl=False`: the bare AMQP header (§2.2)."""
    async with serve(sasl=False) as (_, connection), connection:
        assert connection.mechanism is None
        async with connection.sender("q") as sender:
            await sender.send("x")


async def test_authentication_fails(serve: Serve) -> None:
    """A refusal of the credentials comes out of entering."""
    async with serve(
        sasl=Plain("user", "secret"),
    ) as (_, connection):
        with pytest.raises(AuthenticationFailed) as caught:
            async with connection:
                pytest.fail("the block must not run")
        assert "secret" not in str(caught.value)


async def test_secrets_need_a_safe_transport(serve: Serve) -> None:
    """PLAIN over a stream that is not known to be safe is refused; where it is, or the user insists, it works."""
    users = Authenticator({"user": "secret"})
    async with serve(authenticator=users, sasl=Plain("user", "secret")) as (peer, connection):
        with pytest.raises(InsecureTransport):
            async with connection:
                pytest.fail("the block must not run")
        assert peer.engine.identity is None
    async with serve(authenticator=users, sasl=[Plain("user", "secret"), Anonymous()], secure=True) as (_, connection):
        async with connection:
            assert connection.mechanism == "PLAIN"
    async with serve(authenticator=users, sasl=Plain("user", "secret", allow_insecure=True)) as (peer, connection):
        async with connection:
            assert peer.engine.identity == "user"


async def test_credentials_of_the_url(serve: Serve) -> None:
    """Without `sasl` the URL's credentials choose the strongest mechanism that is offered."""
    users = Authenticator({"user": "se/cret"}, anonymous=True)
    async with serve(authenticator=users, url="amqp://user:se%2Fcret@localhost") as (peer, connection), connection:
        assert connection.mechanism == "SCRAM-SHA-512"
        assert peer.engine.identity == "user"
    async with serve(authenticator=users, url="amqp://user:wrong@localhost") as (_, connection):
        with pytest.raises(AuthenticationFailed):
            async with connection:
                pytest.fail("the block must not run")


async def test_the_exception_of_the_block_leaves_as_it_is(serve: Serve) -> None:
    """Not wrapped in a group, and the connection is closed."""
    error = KeyError("mine")
    async with serve() as (peer, connection):
        with pytest.raises(KeyError) as caught:
            async with connection, connection.sender("q") as sender:
                await sender.send("x")
                raise error
        assert caught.value is error
        await anyio.wait_all_tasks_blocked()
        assert peer.over


async def test_a_group_of_the_block_leaves_as_it_is(serve: Serve) -> None:
    """A group that the user's own tasks made is neither wrapped nor unwrapped."""

    async def fail() -> None:
        raise KeyError

    async with serve() as (_, connection):
        with pytest.raises(BaseExceptionGroup) as caught:
            async with connection, connection.receiver("q"), anyio.create_task_group() as tasks:
                tasks.start_soon(fail)
        assert [type(error) for error in caught.value.exceptions] == [KeyError]


async def test_a_cancellation_passes_through(serve: Serve) -> None:
    """Cancelling the block closes the connection in order, and the scope catches its own cancellation."""
    async with serve() as (peer, connection):
        with anyio.move_on_after(60) as scope:
            async with connection, connection.receiver("q"):
                scope.cancel()
                await anyio.sleep_forever()
        assert scope.cancelled_caught
        await anyio.wait_all_tasks_blocked()
        assert peer.over
        assert isinstance(peer.ended[0].error, LinkDetached)
        assert isinstance(peer.error, ConnectionClosed)
        assert peer.ended[0].error.condition is peer.error.condition is None


async def test_the_peer_closes(serve: Serve) -> None:
    """Waiters and later calls get the peer's words; the block itself goes on, and leaving raises nothing new."""
    async with serve() as (peer, connection), connection, connection.receiver("q") as receiver:
        async with anyio.create_task_group() as tasks:

            async def wait() -> None:
                with pytest.raises(ConnectionClosed, match="maintenance") as caught:
                    await receiver.receive()
                assert caught.value.condition == "amqp:connection:forced"

            tasks.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            peer.engine.close(Error("amqp:connection:forced", "maintenance"))
            peer.pump.wake()
        with pytest.raises(ConnectionClosed, match="maintenance"):
            async with connection.sender("q"):
                pytest.fail("the block must not run")
        with pytest.raises(ConnectionClosed, match="maintenance"):
            async with connection.session():
                pytest.fail("the block must not run")


async def test_the_peer_closes_at_once(serve: Serve) -> None:
    """A connection that the peer opens only to close it raises why, from entering."""
    async with serve() as (peer, connection):

        def refuse(event: Any) -> bool:
            if isinstance(event, ConnectionOpened):
                peer.engine.open()
                peer.engine.close(Error("amqp:resource-limit-exceeded", "full"))
                return True
            return False

        peer.on_event = refuse
        with pytest.raises(ConnectionClosed, match="full"):
            async with connection, connection.sender("q") as sender:
                await sender.send("x")


async def test_the_transport_ends_while_opening(serve: Serve) -> None:
    """A stream that ends before the open raises ConnectionLost."""
    async with serve() as (peer, connection):
        peer.on_event = lambda event: True
        async with anyio.create_task_group() as tasks:

            async def enter() -> None:
                with pytest.raises(ConnectionLost):
                    await connection.__aenter__()

            tasks.start_soon(enter)
            await anyio.wait_all_tasks_blocked()
            await peer.stream.aclose()


async def test_opening_is_cancelled(serve: Serve) -> None:
    """The transport is closed, and nothing runs on."""
    async with serve() as (peer, connection):
        peer.on_event = lambda event: isinstance(event, ConnectionOpened)
        with anyio.move_on_after(60) as scope:
            async with anyio.create_task_group() as tasks:

                async def enter() -> None:
                    async with connection:
                        pytest.fail("the block must not run")

                tasks.start_soon(enter)
                await anyio.wait_all_tasks_blocked()
                scope.cancel()
        await anyio.wait_all_tasks_blocked()
        assert peer.over


async def test_closing_is_bounded() -> None:
    """A peer that has fallen silent holds the exit up for `close_timeout` seconds, and not for longer."""
    async with ScriptedPeer() as peer, anyio.create_task_group() as tasks:
        tasks.start_soon(peer.accept_connection)
        async with Connection.over(peer.connect(), close_timeout=0.1):
            left = anyio.current_time()
        assert 0.09 <= anyio.current_time() - left < 4


async def test_a_fault_of_our_own_is_not_hidden(serve: Serve) -> None:
    """If the background task fails, waiters are told, and leaving raises the fault itself."""
    async with serve() as (peer, connection):
        with pytest.raises(ZeroDivisionError):
            async with connection, connection.receiver("q") as receiver:
                await anyio.wait_all_tasks_blocked()
                receiver._core.on_deliveries = lambda: 1 / 0
                peer.send("q", 1)
                await anyio.wait_all_tasks_blocked()
                with pytest.raises(ConnectionLost, match="ZeroDivisionError"):
                    async with connection.sender("r"):
                        pytest.fail("the block must not run")


async def test_links_and_sessions_of_the_peer_are_refused(serve: Serve) -> None:
    """A peer that attaches to us gets an answer, and nothing else happens."""
    async with serve() as (peer, connection), connection, connection.sender("q") as sender:
        link = peer.sessions[0].attach_sender(LinkTerms("theirs", source=Source("a"), target=Target("b")))
        session = peer.engine.begin()
        peer.pump.wake()
        await anyio.wait_all_tasks_blocked()
        assert not link.attached
        assert not session.begun
        assert peer.ended[0].error.condition == "amqp:not-implemented"
        await sender.send("x")


async def test_once(serve: Serve) -> None:
    """A connection object opens once, and is of no use before."""
    async with serve() as (_, connection):
        with pytest.raises(LocalProtocolError, match="async with"):
            _ = connection.remote
        with pytest.raises(LocalProtocolError, match="async with"):
            async with connection.sender("q"):
                pytest.fail("the block must not run")
        async with connection:
            pass
        with pytest.raises(LocalProtocolError, match="once"):
            await connection.__aenter__()


async def test_settings_are_checked_early() -> None:
    """An impossible setting is refused when the object is made."""
    with pytest.raises(Unsupported, match="0-8"):
        Connection("amqp://localhost", dialect="0-8")
    with pytest.raises(ValueError):  # noqa: PT011  (the words are the URL's parser's)
        Connection("http://localhost")


async def test_many_tasks_share_it(serve: Serve) -> None:
    """Any number of tasks work on one connection at once."""
    async with serve() as (peer, connection), connection, anyio.create_task_group() as tasks:

        async def work(n: int) -> None:
            async with connection.sender(f"q-{n}") as sender:
                for k in range(20):
                    await sender.send([n, k])

        for n in range(10):
            tasks.start_soon(work, n)
    assert sorted(peer.bodies()) == [[n, k] for n in range(10) for k in range(20)]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_native_cancellation(serve: Serve) -> None:
    """A task cancelled by asyncio's own means closes its connection in order too."""
    async with serve() as (peer, connection):

        async def life() -> None:
            async with connection, connection.receiver("q") as receiver:
                await receiver.receive()

        task = asyncio.create_task(life())
        await anyio.wait_all_tasks_blocked()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await anyio.wait_all_tasks_blocked()
        assert isinstance(peer.error, ConnectionClosed)
        assert peer.error.condition is None


def test_made_where_no_event_loop_runs() -> None:
    """A connection can be made at module level and entered later; nothing happens before."""
    assert not Connection("amqp://user:password@localhost").open
