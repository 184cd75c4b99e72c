"""What becomes of a transaction when something ends in the middle of it, and what can be part of one at all."""

from __future__ import annotations

from typing import Any, cast

import anyio
import anyio.lowlevel
import pytest

from amqp10 import (
    AmqpError,
    Connection,
    ConnectionLost,
    LinkDetached,
    LocalProtocolError,
    Message,
    MessageRejected,
    SentDelivery,
    SessionEnded,
    TransactionInDoubt,
    TransactionRolledBack,
    Unsupported,
)
from amqp10.broker import Broker
from amqp10.client.internals import sender_delivery
from amqp10.messaging import (
    Coordinator,
    Declare,
    Declared,
    Discharge,
    Error,
    TransactionalState,
)
from amqp10.profiles import Profile
from amqp10.testing import Detach, End, ScriptedPeer, Transfer
from amqp10.types import Symbol, as_composite

from ...kit.client.cancelling import CancelAt, at_each_checkpoint
from ...kit.client.coordinating import answer, broker_and_connection, connected, coordinate
from ...kit.client.memory_peer import MemoryPeer

pytestmark = [pytest.mark.anyio, pytest.mark.capability("transactions")]


async def end(peer: ScriptedPeer, how: str, condition: str | None = None) -> None:
    """End the coordinator link, its session or the connection."""
    error = None if condition is None else Error(Symbol(condition), "because")
    if how == "link":
        await peer.send(Detach(handle=0, closed=True, error=error))
    elif how == "session":
        await peer.send(End(error=error))
    else:
        await peer.drop()


@pytest.mark.spec("4.1", "the end of the control link is the end of its transactions")
@pytest.mark.parametrize(
    ("how", "cause"), [("link", LinkDetached), ("session", SessionEnded), ("connection", ConnectionLost)]
)
@pytest.mark.in_memory
async def test_declaring(memory_peer: MemoryPeer, how: str, cause: type[Exception]) -> None:
    """A task that waits for the answer to a declare gets the cause."""

    async def serve() -> None:
        await coordinate(memory_peer)
        await memory_peer.expect(Transfer)
        await end(memory_peer, how)

    async with connected(memory_peer, serve, close_timeout=0.2) as connection:
        with pytest.raises(cause):
            async with connection.transaction():
                pytest.fail("it was not declared")


@pytest.mark.parametrize(
    ("how", "cause"), [("link", LinkDetached), ("session", SessionEnded), ("connection", ConnectionLost)]
)
@pytest.mark.in_memory
async def test_working(memory_peer: MemoryPeer, how: str, cause: type[Exception]) -> None:
    """An end before the commit was asked for is a rollback, and no doubt."""

    async def serve() -> None:
        await coordinate(memory_peer)
        await answer(memory_peer, 0, Declare, Declared(b"t"))
        await end(memory_peer, how)

    async with connected(memory_peer, serve, close_timeout=0.2) as connection:
        with pytest.raises(TransactionRolledBack) as caught:
            async with connection.transaction() as transaction:
                await transaction._core._coordinator._core.until(lambda: transaction._core._coordinator._core.over)
        assert isinstance(caught.value.__cause__, cause)
        assert transaction.state == "rolled-back"


@pytest.mark.parametrize(
    ("how", "cause"), [("link", LinkDetached), ("session", SessionEnded), ("connection", ConnectionLost)]
)
@pytest.mark.in_memory
async def test_committing(memory_peer: MemoryPeer, how: str, cause: type[Exception]) -> None:
    """An end instead of the answer to the commit leaves it in doubt."""

    async def serve() -> None:
        await coordinate(memory_peer)
        await answer(memory_peer, 0, Declare, Declared(b"t"))
        await memory_peer.expect(Transfer)
        await end(memory_peer, how)

    async with connected(memory_peer, serve, close_timeout=0.2) as connection:
        with pytest.raises(TransactionInDoubt) as caught:
            async with connection.transaction() as transaction:
                pass
        assert isinstance(caught.value.__cause__, cause)
        assert transaction.state == "in-doubt"


@pytest.mark.spec("4.3", "a coordinator that cannot reject a discharge detaches with the transaction-error")
@pytest.mark.in_memory
async def test_refused_by_detach(memory_peer: MemoryPeer) -> None:
    """That is an answer: it was rolled back."""

    async def serve() -> None:
        await coordinate(memory_peer)
        await answer(memory_peer, 0, Declare, Declared(b"t"))
        await memory_peer.expect(Transfer)
        await end(memory_peer, "link", "amqp:transaction:timeout")

    async with connected(memory_peer, serve, close_timeout=0.2) as connection:
        with pytest.raises(TransactionRolledBack, match="because") as caught:
            async with connection.transaction():
                pass
        assert caught.value.condition == "amqp:transaction:timeout"


@pytest.mark.in_memory
async def test_cancelled_commit_without_an_answer(memory_peer: MemoryPeer) -> None:
    """A commit waits as long as it has to; cancelled, only `close_timeout`, and its state says that nobody knows."""
    async with anyio.create_task_group() as tasks:
        asked = anyio.Event()

        async def serve() -> None:
            await coordinate(memory_peer)
            await answer(memory_peer, 0, Declare, Declared(b"t"))
            await memory_peer.expect(Transfer)
            asked.set()
            await anyio.sleep_forever()

        tasks.start_soon(serve)
        async with Connection(memory_peer.url, close_timeout=0.1) as connection:
            transaction = connection.transaction()
            async with anyio.create_task_group() as committing:

                async def commit() -> None:
                    async with transaction:
                        pass

                committing.start_soon(commit)
                await asked.wait()
                committing.cancel_scope.cancel()
            assert transaction.state == "in-doubt"
        tasks.cancel_scope.cancel()


@pytest.mark.in_memory
async def test_rollback_without_an_answer(memory_peer: MemoryPeer) -> None:
    """A rollback takes `close_timeout` at most, and raises nothing."""

    async def serve() -> None:
        await coordinate(memory_peer)
        await answer(memory_peer, 0, Declare, Declared(b"t"))
        await memory_peer.expect(Transfer)
        assert as_composite(Message.decode(memory_peer.payload).body) == Discharge(b"t", True)

    async with connected(memory_peer, serve, close_timeout=0.1) as connection:
        with anyio.fail_after(60):
            async with connection.transaction() as transaction:
                await transaction.rollback()
        assert transaction.state == "rolled-back"


@pytest.mark.in_memory
async def test_one_session_only(memory_peer: MemoryPeer) -> None:
    """Where the coordinator does not say that it spans sessions, a link of another one is refused here."""

    async def serve() -> None:
        await memory_peer.accept_connection()
        await memory_peer.accept_session()
        await memory_peer.accept_link(credit=10, target=Coordinator(("amqp:local-transactions",)))
        await answer(memory_peer, 0, Declare, Declared(b"t"))
        await memory_peer.accept_session()
        await memory_peer.accept_link(credit=10)

    async with connected(memory_peer, serve, close_timeout=0.1) as connection:
        with pytest.raises(LocalProtocolError, match="different sessions"):
            async with connection.transaction() as transaction, connection.session() as session:
                async with session.sender("q") as sender:
                    await sender.send("x", transaction=transaction)


@pytest.mark.spec("4.4.1", "every frame of a message names the transaction")
@pytest.mark.in_memory
async def test_each_frame(memory_peer: MemoryPeer) -> None:
    """A message of several frames, and one that is streamed."""
    states: list[Any] = []
    async with anyio.create_task_group() as tasks:

        async def serve() -> None:
            await memory_peer.accept_connection(max_frame_size=512)
            await memory_peer.accept_session()
            await memory_peer.accept_link(credit=10)
            await answer(memory_peer, 0, Declare, Declared(b"t"))
            await memory_peer.accept_link(credit=10)
            while True:
                transfer = await memory_peer.expect(Transfer)
                states.append(transfer.state)
                if not transfer.more:
                    break
            tasks.cancel_scope.cancel()

        tasks.start_soon(serve)
        async with Connection(memory_peer.url, close_timeout=0.1) as connection:
            async with connection.transaction() as transaction, connection.sender("q") as sender:
                await sender.send(b"x" * 2000, transaction=transaction)
    assert len(states) > 3
    assert set(states) == {TransactionalState(b"t")}


async def test_outcomes_are_merged() -> None:
    """Outcomes of neighbors go out as one range, before the discharge."""
    async with broker_and_connection() as (_, connection):
        async with connection.sender("q") as sender:
            await sender.send_many(range(100))
        async with connection.receiver("q", credit=100) as receiver:
            batch = await receiver.receive_batch(100, max_wait=30)
            assert len(batch) == 100
            async with connection.transaction() as transaction:
                before = connection._core.in_engine.output_size
                for delivery in batch:
                    delivery.accept(transaction=transaction)
                connection._core.in_engine.flush()
                assert connection._core.in_engine.output_size - before < 200


@pytest.mark.spec("4.4.2", "after a rollback the delivery can be given another outcome")
async def test_second_mode() -> None:
    """With receiver-settle-mode "second" it stays here, and the block of the delivery says what becomes of it."""
    async with broker_and_connection() as (broker, connection):
        async with connection.sender("q") as sender:
            await sender.send_many(["a", "b"])
        async with connection.receiver("q", receiver_settle_mode="second", credit=2) as receiver:
            delivery = await receiver.receive()
            with pytest.raises(KeyError):
                with delivery:
                    async with connection.transaction() as transaction:
                        delivery.accept(transaction=transaction)
                        raise KeyError
            await delivery.wait_settled()
            assert broker.queue("q").redelivered == 1
            other = await receiver.receive()
            async with connection.transaction() as transaction:
                other.accept(transaction=transaction)
            await other.wait_settled()
            assert broker.queue("q").depth == 1


async def test_settled_deliveries_join_nothing() -> None:
    """A delivery that already has an outcome cannot be part of a transaction: the call raises."""
    async with broker_and_connection() as (_, connection):
        async with connection.sender("q") as sender:
            await sender.send("x")
        async with connection.receiver("q") as receiver, connection.transaction() as transaction:
            delivery = await receiver.receive()
            delivery.accept()
            with pytest.raises(LocalProtocolError, match="settled already"):
                delivery.accept(transaction=transaction)


async def test_profiles() -> None:
    """An outcome that the broker is known to ignore is refused before anything is written."""
    async with Broker() as broker:
        async with broker.connect(profile="rabbitmq") as connection:
            with pytest.raises(Unsupported, match="RabbitMQ has no transactions"):
                async with connection.transaction():
                    pass
            assert connection._core._default is None
        async with broker.connect(profile="artemis") as connection, connection.sender("q") as sender:
            await sender.send("x")
            async with connection.receiver("q", credit=0) as receiver:
                receiver.add_credit(1)
                delivery = await receiver.receive()
                async with connection.transaction() as transaction:
                    with pytest.raises(Unsupported, match="released in a transaction"):
                        delivery.release(transaction=transaction)
                    with pytest.raises(Unsupported, match="does not acquire messages"):
                        receiver.add_credit(1, transaction=transaction)
                    delivery.accept(transaction=transaction)
            assert broker.queue("q").depth == 0


async def test_rejected_message() -> None:
    """A message that was not accepted keeps the rest from being committed, whether anybody looked at it or not."""
    async with broker_and_connection() as (broker, connection):
        async with connection.sender(None) as sender:
            with pytest.raises(TransactionRolledBack) as caught:
                async with connection.transaction() as transaction:
                    await sender.submit(Message("x", to="q"), transaction=transaction)
                    await sender.submit(Message("x"), transaction=transaction)
            assert isinstance(caught.value.__cause__, MessageRejected)
        assert not broker.queue("q").depth


@pytest.mark.parametrize("commit", [True, False])
async def test_acquired(commit: bool) -> None:
    """Outcomes of what was acquired are part of it without being told; credit that is left does not outlive it."""
    async with broker_and_connection() as (broker, connection):
        async with connection.sender("q") as sender:
            await sender.send_many(range(4))
        async with connection.receiver("q", credit=0) as receiver:
            async with connection.transaction() as transaction:
                receiver.add_credit(3, transaction=transaction)
                first, second = await receiver.receive(), await receiver.receive()
                first.accept()
                with pytest.raises(LocalProtocolError, match="until it ends"):
                    receiver.add_credit(1)
                async with connection.transaction() as other:
                    with pytest.raises(LocalProtocolError, match="another open transaction"):
                        second.accept(transaction=other)
                if not commit:
                    await transaction.rollback()
            assert broker.queue("q").depth == (3 if commit else 4)
            if commit:
                second.accept()
                (await receiver.receive()).accept()
            else:
                assert receiver.buffered == 0
            receiver.add_credit(4)
            for body in [3] if commit else [0, 1, 2, 3]:
                assert (await receiver.receive()).message.body == body
            assert await receiver.receive_batch(1, max_wait=0.1) == []


async def test_left_receiver() -> None:
    """A receiver that acquires and is left gives back what nobody took, within the transaction."""
    async with broker_and_connection() as (broker, connection):
        async with connection.sender("q") as sender:
            await sender.send_many(range(3))
        async with connection.transaction() as transaction:
            async with connection.receiver("q", credit=0) as receiver:
                receiver.add_credit(3, transaction=transaction)
                (await receiver.receive()).accept()
        assert transaction.state == "committed"
        assert (broker.queue("q").depth, broker.queue("q").unsettled) == (2, 0)


async def test_streams() -> None:
    """A stream is part of it once complete; before, it cannot be committed, and a rollback aborts it."""
    async with broker_and_connection() as (broker, connection), connection.sender("q") as sender:
        async with connection.transaction() as transaction:
            async with sender.stream(transaction=transaction) as body:
                await body.send(b"x" * 300_000)
                with pytest.raises(LocalProtocolError, match="not complete"):
                    await transaction.commit()
            assert broker.queue("q").depth == 0
        assert broker.queue("q").depth == 1
        with pytest.raises(LocalProtocolError, match="rolled back"):
            async with connection.transaction() as transaction, sender.stream(transaction=transaction) as body:
                await body.send(b"x" * 300_000)
                await transaction.rollback()
                await body.send(b"x")
        await sender.send("still usable")
        assert broker.queue("q").depth == 2


async def test_a_stream_that_costs_the_link() -> None:
    """Where an abort makes the sender change its link, what was sent in the transaction on the old one still counts."""
    profile = Profile("peer", "Gets lost with aborts", aborts=False)
    async with Broker() as broker, broker.connect(profile=profile) as connection, connection.sender("q") as sender:
        name = sender.name
        async with connection.transaction() as transaction:
            await sender.send("before", transaction=transaction)
            await sender.submit("at the same time", transaction=transaction)
            with pytest.raises(KeyError):
                async with sender.stream(transaction=transaction) as body:
                    await body.send(b"x" * 300_000)
                    raise KeyError
            with anyio.fail_after(60):
                while sender.name == name:
                    await anyio.lowlevel.checkpoint()
            assert broker.queue("q").depth == 0
        await sender.send("after")
        assert broker.queue("q").depth == 3


async def test_what_is_held_back() -> None:
    """Of another session whose window is shut: a rollback takes it back, and does not overtake it."""
    async with broker_and_connection() as (broker, connection), connection.session() as session:
        async with session.sender("q") as sender:
            async with connection.transaction() as transaction:
                link = sender._core.link
                assert link is not None
                window = link.session.window  # type: ignore[attr-defined]
                open_window, window.remote_incoming_window = window.remote_incoming_window, 0
                state = transaction._core.post(sender._core)
                delivery = link.send(Message("x").encode(), state=state)
                transaction._core.add(delivery)
                assert not delivery.on_wire
                await transaction.rollback()
                window.remote_incoming_window = open_window
            assert not delivery.on_wire
            await sender.send("after")
        assert broker.queue("q").depth == 1


@pytest.mark.parametrize("aborts", [True, False])
async def test_what_is_sent_in_part(aborts: bool) -> None:
    """A task that waits for the outcome of a message is told of the rollback, at once and later."""
    profile = Profile("peer", "May get lost with aborts", aborts=aborts)
    told: list[AmqpError] = []

    async def wait(delivery: SentDelivery) -> None:
        with pytest.raises(TransactionRolledBack, match="rolled back before it was sent") as caught:
            await delivery.outcome()
        told.append(caught.value)

    async with Broker() as broker, broker.connect(profile=profile) as connection:
        async with connection.session() as session, session.sender("q") as sender:
            async with connection.transaction() as transaction, anyio.create_task_group() as tasks:
                link = sender._core.link
                assert link is not None
                window = link.session.window  # type: ignore[attr-defined]
                window.remote_incoming_window = 1
                sent = link.send(Message(b"x" * 400_000).encode(), state=transaction._core.post(sender._core))
                delivery = cast("SentDelivery", sent)
                transaction._core.add(sender_delivery(delivery))
                assert not sender_delivery(delivery).on_wire
                tasks.start_soon(wait, delivery)
                await anyio.wait_all_tasks_blocked()
                with anyio.fail_after(60):
                    await transaction.rollback()
            await wait(delivery)
            assert len(told) == 2
            with anyio.fail_after(60):
                async with session.sender("other"):  # the flow for it tells the window, so that the abort goes out
                    await sender.send("after")
        assert broker.queue("q").depth == 1


async def test_cut_anywhere() -> None:
    """Acquire, stream, commit and roll back by hand, cut at each checkpoint: whole or not at all, and all usable."""

    async def trial(cancel: CancelAt) -> None:
        async with broker_and_connection() as (broker, connection):
            async with connection.sender("in") as first:
                await first.send_many(["x", "y"])
            async with connection.receiver("in", credit=0) as receiver, connection.sender("out") as sender:

                async def op() -> None:
                    async with connection.transaction() as transaction:
                        receiver.add_credit(1, transaction=transaction)
                        with await receiver.receive():
                            async with sender.stream(transaction=transaction) as body:
                                await body.send(b"z")
                        await transaction.commit()
                    async with connection.transaction() as transaction:
                        await sender.send("never", transaction=transaction)
                        await transaction.rollback()

                await cancel.run(op)
                await anyio.lowlevel.checkpoint()
                depths = broker.queue("in").depth, broker.queue("out").depth
                assert depths in ((2, 0), (1, 1)), depths
                assert depths == (1, 1) or not cancel.finished
                async with connection.transaction() as transaction:
                    await sender.send("z", transaction=transaction)
                assert broker.queue("out").depth == depths[1] + 1
            queue = broker.queue("in")
            assert (queue.depth, queue.unsettled) == (depths[0], 0)

    await at_each_checkpoint(trial, 8)
