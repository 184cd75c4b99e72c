"""Peers that do not take what is unsettled in an attach: it is attached without, once, and nothing is lost by that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import pytest

from amqp10 import (
    ConnectionClosed,
    DeliveryUncertain,
    Error,
    LinkDetached,
    MemoryDeliveryStore,
    Reconnect,
    StaleDelivery,
    Symbol,
)
from amqp10.client import LinkKey
from amqp10.engine import LinkAttached
from amqp10.messaging import ACCEPTED

from ...kit.client.hosts import connecting, hosting
from ...kit.client.peer import Peer
from ...kit.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory]

HOW = pytest.mark.parametrize("how", ["link", "session", "connection"])
UNKNOWN = Error(Symbol("amqp:not-implemented"), "no resuming here")


def unsettled(event: LinkAttached) -> list[bytes]:
    """The tags that an attach names."""
    assert event.link.remote is not None
    return list(event.link.remote.unsettled or ())


def refusing(how: str, asked: list[bool], error: Error = UNKNOWN) -> Callable[[Peer], None]:
    """Make peers refuse links that say what is unsettled; `asked` gets for each attach whether it said something."""

    def prepare(peer: Peer) -> None:
        def on_event(event: Any) -> bool:
            if not isinstance(event, LinkAttached):
                return False
            asked.append(bool(unsettled(event)))
            if not asked[-1]:
                return False
            if how == "link":
                event.link.refuse(error)
            elif how == "session":
                event.link.session.end(error)
            else:
                peer.engine.close(error)
            return True

        peer.on_event = on_event

    return prepare


@HOW
@pytest.mark.parametrize("on_uncertain", ["resend", "raise"])
async def test_a_sender_that_is_restored(monkeypatch: pytest.MonkeyPatch, how: str, on_uncertain: Any) -> None:
    """A send under way is repeated or raises, as was asked for, and the link is attached without its map, once."""
    asked: list[bool] = []
    raised: list[DeliveryUncertain] = []
    settings = Reconnect(initial_delay=0.001, max_delay=0.01, on_uncertain=on_uncertain)
    async with hosting(monkeypatch) as hosts:
        refuse = refusing(how, asked)

        def prepare(peer: Peer) -> None:
            refuse(peer)
            peer.outcome = None if not hosts.peers else ACCEPTED

        hosts.prepare = prepare
        async with connecting(reconnect=settings) as connection, connection.sender("q") as sender:

            async def send() -> None:
                try:
                    await sender.send("x")
                except DeliveryUncertain as error:
                    raised.append(error)

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(send)
                await until(lambda: hosts.peer.received)
                await hosts.cut()
            await sender.send("y")
        assert asked == [False, True, False]
        assert len(raised) == (on_uncertain == "raise")
        assert hosts.peer.bodies() == (["y"] if raised else ["x", "y"])


@HOW
async def test_a_receiver_that_is_restored(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """A delivery that nobody settled is stale, and the link goes on with new ones."""
    asked: list[bool] = []
    async with hosting(monkeypatch) as hosts:
        hosts.prepare = refusing(how, asked)
        async with connecting() as connection, connection.receiver("q") as receiver:
            await hosts.credit("q")
            hosts.peer.send("q", 1)
            old = await receiver.receive()
            await hosts.cut()
            await until(lambda: asked[1:] == [True, False])
            await hosts.credit("q")
            with pytest.raises(StaleDelivery):
                old.accept()
            hosts.peer.send("q", 2)
            assert (await receiver.receive()).message.body == 2
        assert asked == [False, True, False]


@HOW
async def test_a_sender_of_a_later_process(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """The next process sends the messages of the store as new ones if they cannot be resumed."""
    asked: list[bool] = []
    store = MemoryDeliveryStore()
    key = LinkKey("me", "out", "sender")
    store.add(key, b"1", b"\0\x53\x77\xa1\x01x", 0)
    async with hosting(monkeypatch) as hosts:
        hosts.prepare = refusing(how, asked)
        async with (
            connecting(container_id="me", delivery_store=store) as connection,
            connection.sender("q", name="out") as sender,
        ):
            (delivery,) = sender.recovered
            assert await delivery.outcome() == ACCEPTED
        assert asked == [True, False]
        assert hosts.peer.bodies() == ["x"]
    assert store.load(key) == []


@HOW
async def test_a_receiver_of_a_later_process(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """Outcomes that cannot be told any more are forgotten, and the link works."""
    asked: list[bool] = []
    store = MemoryDeliveryStore()
    key = LinkKey("me", "in", "receiver")
    store.outcome(key, b"1", ACCEPTED)
    async with hosting(monkeypatch) as hosts:
        hosts.prepare = refusing(how, asked)
        async with (
            connecting(container_id="me", delivery_store=store) as connection,
            connection.receiver("q", name="in", receiver_settle_mode="second") as receiver,
        ):
            await hosts.credit("q")
            hosts.peer.send("q", 2)
            assert (await receiver.receive()).message.body == 2
        assert asked == [True, False]
    assert store.load(key) == []


@pytest.mark.parametrize("role", ["sender", "receiver"])
async def test_a_first_attach_that_is_cut_off(monkeypatch: pytest.MonkeyPatch, role: str) -> None:
    """A connection lost before the first answer takes nothing of what a process left: the next attach says it again."""
    asked: list[list[bytes]] = []
    store = MemoryDeliveryStore()
    store.add(LinkKey("me", "l", "sender"), b"1", b"\0\x53\x77\xa1\x01x", 0)
    store.outcome(LinkKey("me", "l", "receiver"), b"1", ACCEPTED)
    async with hosting(monkeypatch) as hosts:

        def prepare(peer: Peer) -> None:
            def on_event(event: Any) -> bool:
                if isinstance(event, LinkAttached):
                    asked.append(unsettled(event))
                    return len(asked) == 1
                return False

            peer.on_event = on_event

        hosts.prepare = prepare
        async with (
            connecting(container_id="me", delivery_store=store) as connection,
            anyio.create_task_group() as tasks,
        ):

            async def attach() -> None:
                link: Any = (
                    connection.sender("q", name="l")
                    if role == "sender"
                    else connection.receiver("q", name="l", receiver_settle_mode="second")
                )
                async with link:
                    pass

            tasks.start_soon(attach)
            await until(lambda: asked)
            await hosts.cut()
        assert asked == [[b"1"], [b"1"]]


async def test_without_reconnect_on_another_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session that ends over what a process left is followed by another, also where nothing is restored."""
    asked: list[bool] = []
    store = MemoryDeliveryStore()
    store.add(LinkKey("me", "out", "sender"), b"1", b"\0\x53\x77\xa1\x01x", 0)
    async with hosting(monkeypatch) as hosts:
        hosts.prepare = refusing("session", asked)
        async with connecting(reconnect=None, container_id="me", delivery_store=store) as connection:
            async with connection.sender("q", name="out") as sender:
                (delivery,) = sender.recovered
                assert await delivery.outcome() == ACCEPTED
        assert asked == [True, False]


async def test_a_connection_closed_for_another_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that goes down while a link is being resumed is asked again for all that it keeps."""
    asked: list[bool] = []
    async with hosting(monkeypatch) as hosts:

        def prepare(peer: Peer) -> None:
            def on_event(event: Any) -> bool:
                if not isinstance(event, LinkAttached):
                    return False
                asked.append(bool(unsettled(event)))
                if not 1 < len(asked) < 5:
                    return False
                peer.engine.close(Error(Symbol("amqp:connection:forced"), "shutting down"))
                return True

            peer.on_event = on_event
            peer.outcome = None if not hosts.peers else ACCEPTED

        hosts.prepare = prepare
        async with connecting() as connection, connection.sender("q") as sender:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(sender.send, "x")
                await until(lambda: hosts.peer.received)
                await hosts.cut()
        assert asked == [False, True, True, True, True]


@HOW
async def test_a_cause_that_might_pass(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """It is waited for a few times, with all that the link holds; then it is taken for a refusal to resume."""
    asked: list[bool] = []
    async with hosting(monkeypatch) as hosts:
        refuse = refusing(how, asked, Error(Symbol("amqp:internal-error"), "something is wrong"))

        def prepare(peer: Peer) -> None:
            refuse(peer)
            peer.outcome = None if not hosts.peers else ACCEPTED

        hosts.prepare = prepare
        async with connecting() as connection, connection.sender("q") as sender, anyio.create_task_group() as tasks:
            tasks.start_soon(sender.send, "x")
            await until(lambda: hosts.peer.received)
            await hosts.cut()
        assert asked == [False, True, True, True, True, False]
        assert hosts.peer.bodies() == ["x"]


LOCKED = Error(Symbol("amqp:resource-locked"), "not now")


def busy(times: range, asked: list[bool]) -> Callable[[Peer], None]:
    """Make peers refuse the links of these attaches, for a cause that has nothing to do with what they say."""

    def prepare(peer: Peer) -> None:
        def on_event(event: Any) -> bool:
            if not isinstance(event, LinkAttached):
                return False
            asked.append(bool(unsettled(event)))
            if len(asked) - 1 not in times:
                return False
            event.link.refuse(LOCKED)
            return True

        peer.on_event = on_event
        peer.outcome = None if not asked else ACCEPTED

    return prepare


async def test_a_restored_link_that_is_locked_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is attached with its deliveries until it is taken: without, the peer could only get them twice."""
    asked: list[bool] = []
    async with hosting(monkeypatch) as hosts:
        hosts.prepare = busy(range(1, 4), asked)
        async with connecting() as connection, connection.sender("q") as sender:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(sender.send, "x")
                await until(lambda: hosts.peer.received)
                await hosts.cut()
        assert asked == [False, True, True, True, True]


@pytest.mark.parametrize("role", ["sender", "receiver"])
async def test_a_first_attach_that_is_locked(monkeypatch: pytest.MonkeyPatch, role: Any) -> None:
    """A link that is refused for a temporary cause raises, and the next attach has the same unsettled map again."""
    asked: list[bool] = []
    store = MemoryDeliveryStore()
    key = LinkKey("me", "link", role)
    if role == "sender":
        store.add(key, b"1", b"\0\x53\x77\xa1\x01x", 0)
    else:
        store.outcome(key, b"1", ACCEPTED)
    async with hosting(monkeypatch) as hosts:
        hosts.prepare = busy(range(1), asked)
        async with connecting(container_id="me", delivery_store=store) as connection:
            for refused in (True, False):
                link: Any
                if role == "sender":
                    link = connection.sender("q", name="link")
                else:
                    link = connection.receiver("q", name="link", receiver_settle_mode="second")
                if refused:
                    with pytest.raises(LinkDetached, match="amqp:resource-locked"):
                        await link.__aenter__()
                    assert store.load(key)
                else:
                    hosts.peer.outcome = ACCEPTED
                    async with link:
                        assert asked == [True, True]


async def test_a_connection_closed_over_it_without_reconnect(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no other connection to attach on without; the error says what to do."""
    store = MemoryDeliveryStore()
    store.add(LinkKey("me", "out", "sender"), b"1", b"\0\x53\x77\xa1\x01x", 0)
    async with hosting(monkeypatch) as hosts:
        hosts.prepare = refusing("connection", [])
        async with connecting(reconnect=None, container_id="me", delivery_store=store) as connection:
            with pytest.raises(ConnectionClosed) as caught:
                await connection.sender("q", name="out").__aenter__()
        assert any("reconnect=Reconnect()" in note for note in caught.value.__notes__)
    assert store.load(LinkKey("me", "out", "sender"))
