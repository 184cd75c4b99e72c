"""Transactions on the real brokers, and by an independent client on ours."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.to_thread
import pytest

from amqp10 import Connection, TransactionRolledBack, Unsupported

from ._matrix import Embedded, Peer
from .brokers import Server
from .clients import Kept

pytestmark = [pytest.mark.anyio, pytest.mark.interop, pytest.mark.timeout(600), pytest.mark.capability("transactions")]


async def lacking(peer: Peer, connection: Connection) -> bool:
    """Assert and note the error of a broker that has no transactions."""
    if peer.name != "rabbitmq":
        return False
    with pytest.raises(Unsupported, match="RabbitMQ has no transactions"):
        async with connection.transaction():
            pass
    peer.lacks("`Unsupported`")
    return True


@pytest.mark.matrix("transactions: send and accept, committed")
async def test_commit(peer: Peer) -> None:
    """What is sent in it is seen after the commit only; what is accepted in it is gone then; on several links."""
    async with Connection(peer.url()) as connection:
        if await lacking(peer, connection):
            return
        source, target = await peer.queue(connection), await peer.queue(connection)
        async with connection.sender(source) as sender:
            await sender.send_many(["one", "two"])
        async with (
            connection.receiver(source) as receiver,
            connection.sender(target) as sender,
            connection.receiver(target) as watcher,
        ):
            async with connection.transaction() as transaction:
                for _ in range(2):
                    delivery = await receiver.receive()
                    await sender.send(delivery.message.body.upper(), transaction=transaction)
                    delivery.accept(transaction=transaction)
                assert await watcher.receive_batch(1, max_wait=0.3) == []
            for body in ("ONE", "TWO"):
                with await watcher.receive() as message:
                    assert message.body == body
        async with connection.receiver(source) as receiver:
            assert await receiver.receive_batch(1, max_wait=0.3) == []


@pytest.mark.matrix("transactions: rolled back by an exception")
async def test_rollback(peer: Peer) -> None:
    """What was sent in it is nowhere, what was accepted in it comes again."""
    async with Connection(peer.url()) as connection:
        if await lacking(peer, connection):
            return
        address, other = await peer.queue(connection), await peer.queue(connection)
        async with connection.sender(address) as sender:
            await sender.send("kept")
        async with connection.sender(other) as sender, connection.receiver(address) as receiver:
            with pytest.raises(KeyError):
                async with connection.transaction() as transaction:
                    (await receiver.receive()).accept(transaction=transaction)
                    await sender.send("never", transaction=transaction)
                    raise KeyError
        async with connection.receiver(address) as receiver, connection.receiver(other) as nothing:
            with await receiver.receive() as message:
                assert message.body == "kept"
            assert await nothing.receive_batch(1, max_wait=0.3) == []


@pytest.mark.matrix("transactions: several at once")
async def test_two_at_once(peer: Peer) -> None:
    """Two open transactions do not see each other; one is committed, one rolled back."""
    async with Connection(peer.url()) as connection:
        if await lacking(peer, connection):
            return
        address = await peer.queue(connection)
        async with connection.sender(address) as sender, connection.receiver(address) as receiver:
            async with connection.transaction() as first, connection.transaction() as second:
                assert first.id != second.id
                await sender.send("by the first", transaction=first)
                await sender.send("by the second", transaction=second)
                await second.rollback()
            with await receiver.receive() as message:
                assert message.body == "by the first"
            assert await receiver.receive_batch(1, max_wait=0.3) == []


@pytest.mark.matrix("transactions: links of several sessions, streams, messages of many frames")
async def test_sessions_and_streams(peer: Peer) -> None:
    """All of it is there with the commit, and nothing before."""
    async with Connection(peer.url()) as connection:
        if await lacking(peer, connection):
            return
        address = await peer.queue(connection)
        async with connection.session() as session, session.sender(address) as other:
            async with connection.sender(address) as sender, connection.receiver(address) as watcher:
                async with connection.transaction() as transaction:
                    await other.send("from another session", transaction=transaction)
                    await sender.send(b"x" * 500_000, transaction=transaction)
                    async with sender.stream(size=300_000, transaction=transaction) as body:
                        for _ in range(3):
                            await body.send(b"y" * 100_000)
                    assert await watcher.receive_batch(1, max_wait=0.3) == []
                sizes = []
                for _ in range(3):
                    with await watcher.receive() as message:
                        sizes.append(len(message.body))
                assert sorted(sizes) == [20, 300_000, 500_000]


@pytest.mark.matrix("transactions: rejected, released and modified in one")
async def test_other_outcomes(peer: Peer) -> None:
    """What the broker applies counts with the commit; what it would ignore or lose is refused here."""
    async with Connection(peer.url()) as connection:
        if await lacking(peer, connection):
            return
        applied = connection.profile.transactions
        assert applied is not None
        address = await peer.queue(connection)
        async with connection.sender(address) as sender:
            await sender.send_many(["modified", "released", "rejected"])
        async with connection.receiver(address, credit=3) as receiver:
            async with connection.transaction() as transaction:
                for name in ("modify", "release", "reject"):
                    delivery = await receiver.receive()
                    outcome = delivery.message.body
                    if outcome in applied.outcomes:
                        getattr(delivery, name)(transaction=transaction)
                    else:
                        with pytest.raises(Unsupported, match=f"does not apply the outcome {outcome}"):
                            getattr(delivery, name)(transaction=transaction)
                        delivery.release()
        missing = {"modified", "released", "rejected"} - applied.outcomes
        if missing:
            peer.lacks(f"`Unsupported`: {', '.join(sorted(missing))}")


@pytest.mark.matrix("transactions: acquired in one")
async def test_acquire(peer: Peer) -> None:
    """What was acquired is the broker's again after a rollback, and gone after a commit if it was accepted."""
    async with Connection(peer.url()) as connection:
        if await lacking(peer, connection):
            return
        address = await peer.queue(connection)
        async with connection.sender(address) as sender:
            await sender.send_many(["a", "b"])
        async with connection.receiver(address, credit=0) as receiver:
            async with connection.transaction() as transaction:
                if peer.name == "artemis":
                    with pytest.raises(Unsupported, match="does not acquire messages"):
                        receiver.add_credit(1, transaction=transaction)
                    peer.lacks("`Unsupported`")
                    return
                receiver.add_credit(2, transaction=transaction)
                for _ in range(2):
                    (await receiver.receive()).accept()
                await transaction.rollback()
            async with connection.transaction() as transaction:
                receiver.add_credit(2, transaction=transaction)
                again = [await receiver.receive() for _ in range(2)]
                assert [delivery.message.body for delivery in again] == ["a", "b"]
                again[0].accept()
            again[1].release()
            receiver.add_credit(1)
            with await receiver.receive() as message:
                assert message.body == "b"


async def test_second_mode_on_broker_j(broker_j: Server, address: str) -> None:
    """With receiver-settle-mode "second" a delivery outlives the rollback, and is settled with the next commit."""
    async with Connection(broker_j.url()) as connection:
        async with connection.sender(address) as sender:
            await sender.send_many(["accepted", "modified"])
        async with connection.receiver(address, receiver_settle_mode="second", credit=2) as receiver:
            assert receiver.receiver_settle_mode == "second"
            deliveries = [await receiver.receive() for _ in range(2)]
            for commits in (False, True):
                async with connection.transaction() as transaction:
                    deliveries[0].accept(transaction=transaction)
                    deliveries[1].modify(delivery_failed=True, transaction=transaction)
                    if not commits:
                        await transaction.rollback()
            for delivery in deliveries:
                await delivery.wait_settled()
        async with connection.receiver(address) as receiver:
            assert (await receiver.receive()).message.body == "modified"
            assert await receiver.receive_batch(1, max_wait=0.5) == []


@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_a_connection_that_dies(peer: Peer) -> None:
    """A transaction whose connection ends is rolled back by the broker."""
    async with Connection(peer.url()) as connection:
        if await lacking(peer, connection):
            return
        address = await peer.queue(connection)
        async with Connection(peer.url(), close_timeout=0.5) as dying:
            async with dying.sender(address) as sender:
                with pytest.raises(TransactionRolledBack):
                    async with dying.transaction() as transaction:
                        await sender.send("never", transaction=transaction)
                        dying._core.in_engine.receive_eof()
                        dying._core.handle(dying._core.in_engine.events())
        async with connection.receiver(address) as receiver:
            assert await receiver.receive_batch(1, max_wait=0.5) == []


@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_protonj2(embedded: Embedded, protonj2: Kept, address: str) -> None:
    """An independent client commits and rolls back on our coordinator."""
    sent = [{"outcome": "transactional"}] * 2
    assert await protonj2.run("transact", embedded.url(), address, 2, "rollback") == sent
    assert await protonj2.run("transact", embedded.url(), address, 2, "commit") == sent
    async with Connection(embedded.url()) as connection, connection.receiver(address) as receiver:
        for number in range(2):
            with await receiver.receive() as message:
                assert message.body == b"message %d" % number
        assert await receiver.receive_batch(1, max_wait=0.2) == []


@pytest.mark.parametrize("anyio_backend", ["trio"])
@pytest.mark.parametrize("commits", [True, False])
async def test_proton(proton: None, embedded: Embedded, address: str, commits: bool) -> None:
    """python-qpid-proton sends in a transaction of our coordinator; what it says decides what is there."""
    from proton import Message as ProtonMessage
    from proton.handlers import MessagingHandler, TransactionHandler
    from proton.reactor import Container

    class Sender(MessagingHandler, TransactionHandler):  # type: ignore[misc]
        """Two messages in one transaction."""

        def __init__(self) -> None:
            super().__init__(auto_settle=False)
            self.ended = ""
            self.sent = 0

        def on_start(self, event: Any) -> None:
            self.container = event.container
            self.connection = event.container.connect(embedded.url(), allowed_mechs="PLAIN")
            self.sender = event.container.create_sender(self.connection, address)
            self.container.declare_transaction(self.connection, handler=self)

        def on_transaction_declared(self, event: Any) -> None:
            self.transaction = event.transaction
            self.send()

        def on_sendable(self, event: Any) -> None:
            self.send()

        def send(self) -> None:
            if getattr(self, "transaction", None) is None or not self.sender.credit or self.sent:
                return
            for number in range(2):
                self.transaction.send(self.sender, ProtonMessage(body=f"message {number}"))
            self.sent = 2
            (self.transaction.commit if commits else self.transaction.abort)()

        def on_transaction_committed(self, event: Any) -> None:
            self.ended = "committed"
            self.connection.close()

        def on_transaction_aborted(self, event: Any) -> None:
            self.ended = "aborted"
            self.connection.close()

        def on_transport_error(self, event: Any) -> None:
            self.ended = str(event.transport.condition)

    sender = Sender()
    await anyio.to_thread.run_sync(Container(sender).run)
    assert sender.ended == ("committed" if commits else "aborted")
    async with Connection(embedded.url()) as connection, connection.receiver(address) as receiver:
        for body in ["message 0", "message 1"] if commits else []:
            assert (await receiver.receive()).message.body == body
        assert await receiver.receive_batch(1, max_wait=0.3) == []


@pytest.mark.parametrize("anyio_backend", ["trio"])
@pytest.mark.parametrize("commits", [True, False])
async def test_proton_accepts(proton: None, embedded: Embedded, address: str, commits: bool) -> None:
    """python-qpid-proton accepts in a transaction of our coordinator; after a rollback the messages are there again."""
    from proton.handlers import MessagingHandler, TransactionHandler
    from proton.reactor import Container

    class Receiver(MessagingHandler, TransactionHandler):  # type: ignore[misc]
        """Accepts two messages in one transaction."""

        def __init__(self) -> None:
            super().__init__(prefetch=2, auto_accept=False)
            self.ended = ""
            self.transaction: Any = None
            self.deliveries: list[Any] = []

        def on_start(self, event: Any) -> None:
            self.connection = event.container.connect(embedded.url(), allowed_mechs="PLAIN")
            event.container.create_receiver(self.connection, address)
            event.container.declare_transaction(self.connection, handler=self)

        def on_transaction_declared(self, event: Any) -> None:
            self.transaction = event.transaction
            self.accept_all()

        def on_message(self, event: Any) -> None:
            self.deliveries.append(event.delivery)
            self.accept_all()

        def accept_all(self) -> None:
            if self.transaction is not None and len(self.deliveries) == 2:
                for delivery in self.deliveries:
                    self.transaction.accept(delivery)
                (self.transaction.commit if commits else self.transaction.abort)()

        def on_transaction_committed(self, event: Any) -> None:
            self.ended = "committed"
            self.connection.close()

        def on_transaction_aborted(self, event: Any) -> None:
            self.ended = "aborted"
            self.connection.close()

        def on_transport_error(self, event: Any) -> None:
            self.ended = str(event.transport.condition)

    async with Connection(embedded.url()) as connection, connection.sender(address) as sender:
        await sender.send_many(["a", "b"])
    receiver = Receiver()
    await anyio.to_thread.run_sync(Container(receiver).run)
    assert receiver.ended == ("committed" if commits else "aborted")
    async with Connection(embedded.url()) as connection, connection.receiver(address) as again:
        for body in [] if commits else ["a", "b"]:
            assert (await again.receive()).message.body == body
        assert await again.receive_batch(1, max_wait=0.3) == []
