"""Connections with a store of deliveries: a client that dies at any write is followed by one that loses nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from amqp10 import (
    Accepted,
    Connection,
    ConnectionLost,
    DeliveryStore,
    Error,
    LinkKey,
    MemoryDeliveryStore,
    Message,
    SentDelivery,
    Source,
    SQLiteDeliveryStore,
    StoredDelivery,
    StoreError,
    Symbol,
    Target,
)
from amqp10.broker import Broker
from amqp10.client.internals import sender_delivery
from amqp10.engine import OutgoingDelivery
from amqp10.messaging import ACCEPTED
from amqp10.profiles import GENERIC
from amqp10.testing import Detach, Disposition, ScriptedPeer, Transfer

from ...kit.client.mortal_store import Mortal, MortalStream

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory, pytest.mark.capability("exactly once")]

BODIES = [1, 2, 3, 4]
OUT, IN = LinkKey("me", "out", "sender"), LinkKey("me", "in", "receiver")
KEPT: dict[str, Any] = {"expiry_policy": "connection-close", "timeout": 60}


def mortal(broker: Broker, store: Mortal) -> Connection:
    return Connection.over(
        MortalStream(broker.open_stream(), store), container_id="me", delivery_store=store, close_timeout=0.2
    )


def bodies(deliveries: Iterable[OutgoingDelivery | SentDelivery]) -> list[object]:
    return [Message.decode(delivery.payload).body for delivery in deliveries]


async def left_in(broker: Broker) -> Counter[object]:
    """Return the messages in the queue, and take them out of it."""
    async with broker.connect() as connection, connection.receiver("q") as receiver:
        await receiver.drain()
        deliveries = await receiver.receive_batch(100, max_wait=0)
        for delivery in deliveries:
            delivery.accept()
        return Counter(delivery.message.body for delivery in deliveries)


@pytest.mark.parametrize("mode", ["first", "second"])
@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("last", range(1, 13))
async def test_a_sender_that_dies(tmp_path: Path, last: int, before: bool, mode: Any) -> None:
    """The next process resumes the messages without a known outcome. Each arrives, and in mode "second" once."""
    path = tmp_path / "deliveries"
    sent: dict[object, SentDelivery] = {}
    async with Broker() as broker:
        with Mortal(path, last, before=before) as store:
            try:
                async with mortal(broker, store) as connection:
                    async with connection.sender(Target("q", **KEPT), name="out", receiver_settle_mode=mode) as sender:
                        for body in BODIES:
                            sent[body] = await sender.submit(body)
                            if body % 2 == 0:
                                await sent[body].outcome()
            except (ConnectionLost, TimeoutError):
                pass
        heard = [
            body for body, delivery in sent.items() if isinstance(sender_delivery(delivery).remote_state, Accepted)
        ]
        with SQLiteDeliveryStore(path) as again:
            async with broker.connect(container_id="me", delivery_store=again) as connection:
                async with connection.sender(Target("q", **KEPT), name="out", receiver_settle_mode=mode) as sender:
                    recovered = bodies(sender.recovered)
                    for delivery in sender.recovered:
                        assert isinstance(await delivery.outcome(), Accepted)
                    for body in BODIES:
                        if body not in heard and body not in recovered:
                            await sender.send(body)
            assert again.load(OUT) == []
        arrived = await left_in(broker)
    assert arrived.keys() == set(BODIES)
    assert mode == "first" or arrived.total() == len(BODIES)


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("last", range(1, 13))
async def test_a_receiver_that_dies(tmp_path: Path, last: int, before: bool) -> None:
    """A message whose outcome was kept does not come again, and any other does."""
    path = tmp_path / "deliveries"
    source = Source("q", **KEPT)
    done: set[object] = set()
    async with Broker() as broker:
        async with broker.connect() as connection, connection.sender("q") as sender:
            await sender.send_many(BODIES)
        given: dict[bytes, object] = {}
        with Mortal(path, last, before=before) as store:
            try:
                async with mortal(broker, store) as connection:
                    async with connection.receiver(source, name="in", receiver_settle_mode="second") as receiver:
                        for _ in BODIES:
                            delivery = await receiver.receive()
                            given[delivery.tag] = delivery.message.body
                            delivery.accept()
                            await delivery.wait_settled()
                            done.add(given[delivery.tag])
            except (ConnectionLost, TimeoutError):
                pass
        with SQLiteDeliveryStore(path) as again:
            done |= {given[each.tag] for each in again.load(IN)}
            async with broker.connect(container_id="me", delivery_store=again) as connection:
                async with connection.receiver(source, name="in", receiver_settle_mode="second") as receiver:
                    while len(done) < len(BODIES):
                        delivery = await receiver.receive()
                        delivery.accept()
                        await delivery.wait_settled()
                        assert delivery.message.body not in done
                        done.add(delivery.message.body)
            assert again.load(IN) == []
        assert done == set(BODIES)
        assert await left_in(broker) == {}
        assert broker.queue("q").depth == 0


# Which links, and which deliveries


async def test_the_container_has_a_name() -> None:
    """A store needs a container_id that the next connection has, too."""
    with pytest.raises(ValueError, match="container_id"):
        Connection("amqp://localhost", delivery_store=MemoryDeliveryStore())


async def test_what_is_kept() -> None:
    """Deliveries of links that the user named: sent unsettled outside of transactions, received in mode "second"."""
    store = Watched()
    async with Broker() as broker, broker.connect(container_id="me", delivery_store=store) as connection:
        async with connection.sender("q", name="out", settle_mode="mixed") as named, connection.sender("q") as unnamed:
            await named.send("kept")
            await named.send("settled", settled=True)
            await unnamed.send("unnamed")
            async with connection.transaction() as transaction:
                await named.send("of a transaction", transaction=transaction)
        async with connection.receiver("q", name="first") as receiver:
            (await receiver.receive()).accept()
        async with connection.receiver("q", name="second", receiver_settle_mode="second") as receiver:
            delivery = await receiver.receive()
            delivery.accept()
            await delivery.wait_settled()
            delivery = await receiver.receive()
            async with connection.transaction() as transaction:
                delivery.accept(transaction=transaction)
        async with connection.receiver("q", receiver_settle_mode="second") as receiver:
            (await receiver.receive()).accept()
    assert [(link.name, what) for link, what in store.told] == [
        ("out", b"\0\x53\x77\xa1\x04kept"),
        ("second", ACCEPTED),
    ]
    assert store.left == 0


async def test_the_peer_is_asked_to_keep_the_link() -> None:
    """Links that the store is for ask for time without a connection, where the user said nothing."""
    store = MemoryDeliveryStore()
    async with Broker() as broker, broker.connect(container_id="me", delivery_store=store) as connection:
        async with connection.sender("q", name="out") as named, connection.sender("q") as unnamed:
            asked = [each.remote.target for each in (named, unnamed)]
            assert [(each.expiry_policy, each.timeout) for each in asked if isinstance(each, Target)] == [
                ("connection-close", 60),
                ("session-end", 0),
            ]


class Watched(MemoryDeliveryStore):
    """Remembers all that it was told to keep."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[tuple[LinkKey, object]] = []

    def _added(self, link: LinkKey, delivery: StoredDelivery) -> None:
        self.told.append((link, delivery.outcome or delivery.payload))

    @property
    def left(self) -> int:
        return sum(map(len, self._links.values()))


async def begin(peer: ScriptedPeer) -> None:
    await peer.accept_connection()
    await peer.accept_session()


async def end(peer: ScriptedPeer) -> None:
    with suppress(anyio.EndOfStream):
        await peer.accept_close()


def scripted(peer: ScriptedPeer, store: DeliveryStore, **settings: Any) -> Connection:
    return Connection.over(peer.connect(), container_id="me", delivery_store=store, **settings)


async def unheard(store: DeliveryStore) -> bytes:
    """Send a message to a peer that goes without an outcome; return its tag."""
    async with ScriptedPeer() as peer, anyio.create_task_group() as tasks:

        async def serve() -> None:
            await begin(peer)
            await peer.accept_link(credit=1)
            await peer.expect(Transfer)
            await peer.drop()

        tasks.start_soon(serve)
        with pytest.raises(ConnectionLost):
            async with scripted(peer, store) as connection, connection.sender("q", name="out") as sender:
                await sender.send("unheard")
    (left,) = store.load(OUT)
    return left.tag


async def test_memory_between_connections() -> None:
    """Within one process memory is enough: the next connection resumes what the one before left."""
    store = MemoryDeliveryStore()
    await unheard(store)
    async with Broker() as broker:
        async with broker.connect(container_id="me", delivery_store=store) as connection:
            async with connection.sender("q", name="out") as sender:
                (delivery,) = sender.recovered
                assert isinstance(await delivery.outcome(), Accepted)
        assert store.load(OUT) == []
        assert await left_in(broker) == {"unheard": 1}


@pytest.mark.parametrize("resumes", [True, False])
async def test_a_peer_that_does_not_resume(resumes: bool) -> None:
    """A peer that refuses what was left gets it once more as a new delivery; one that is known for it, at once."""
    store = MemoryDeliveryStore()
    tag = await unheard(store)
    async with ScriptedPeer() as peer, anyio.create_task_group() as tasks:

        async def serve() -> None:
            await begin(peer)
            if resumes:
                attach = await peer.accept_link(target=None)
                assert list(attach.unsettled or ()) == [tag]
                await peer.reply(Detach(handle=0, closed=True, error=Error(Symbol("amqp:not-implemented"))))
                await peer.expect(Detach)
            attach = await peer.accept_link(credit=1)
            assert attach.unsettled is None
            transfer = await peer.expect(Transfer)
            assert not transfer.resume
            await peer.reply(Disposition(role=True, first=transfer.delivery_id or 0, settled=True, state=ACCEPTED))
            await end(peer)

        tasks.start_soon(serve)
        profile = replace(GENERIC, resumes=resumes)
        async with scripted(peer, store, profile=profile) as connection, connection.sender("q", name="out") as sender:
            (delivery,) = sender.recovered
            assert isinstance(await delivery.outcome(), Accepted)
    assert store.load(OUT) == []


async def test_a_receiver_where_nothing_is_known() -> None:
    """An outcome that the peer has no delivery for any more is forgotten."""
    store = MemoryDeliveryStore()
    store.outcome(IN, b"old", ACCEPTED)
    async with Broker() as broker, broker.connect(container_id="me", delivery_store=store) as connection:
        async with connection.receiver("q", name="in", receiver_settle_mode="second"):
            assert store.load(IN) == []


class TestLeaving:
    """All in memory, and on a clock that jumps when nothing else is left to do."""

    async def test_leaving_with_something_left(self) -> None:
        """A link that is left without an outcome is not closed, only detached, and the store has it for the next."""
        store = MemoryDeliveryStore()
        async with ScriptedPeer() as peer, anyio.create_task_group() as tasks:

            async def serve() -> None:
                await begin(peer)
                await peer.accept_link(credit=1)
                await peer.expect(Transfer)
                detach = await peer.expect(Detach)
                assert not detach.closed
                await peer.reply(Detach(handle=0, closed=False))
                await end(peer)

            tasks.start_soon(serve)
            async with scripted(peer, store, close_timeout=0.1) as connection:
                with pytest.raises(TimeoutError):
                    async with connection.sender("q", name="out") as sender:
                        await sender.submit("without an outcome")
        assert len(store.load(OUT)) == 1


class Full(MemoryDeliveryStore):
    """A disk that is full."""

    full = False

    async def commit(self) -> None:
        if self.full:
            raise StoreError("disk is full")


async def test_what_cannot_be_kept_is_not_written() -> None:
    """A commit that fails ends the connection before a byte of what relied on it is written."""
    store = Full()
    async with Broker() as broker:
        with pytest.raises(StoreError, match="disk is full"):
            async with broker.connect(container_id="me", delivery_store=store) as connection:
                async with connection.sender("q", name="out") as sender:
                    store.full = True
                    await sender.send("not written")
        assert broker.queue("q").depth == 0
    assert len(store.load(OUT)) == 1
