"""A broker that is killed in mid-commit: what the client says of each transaction is what the broker has afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from amqp10 import (
    AmqpError,
    Connection,
    ConnectionLost,
    Message,
    Transaction,
    TransactionInDoubt,
    TransactionRolledBack,
)

from ..interop.brokers import ARTEMIS, Mortal, Unavailable, java, mortal, write_trust_store
from ..kit.unavailable import unavailable

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.interop,
    pytest.mark.timeout(600),
    pytest.mark.capability("transactions"),
    pytest.mark.xdist_group("crashes"),  # of one Artemis
]


@pytest.fixture(scope="module")
def broker(authority: Path) -> Iterator[Mortal]:
    """Artemis, whose journal outlives its process."""
    try:
        if not (authority / "clients.p12").exists():
            write_trust_store(authority, java())
        with mortal(ARTEMIS, authority) as running:
            yield running
    except Unavailable as error:
        unavailable(f"no artemis: {error}")


async def contents(url: str, address: str) -> list[int]:
    """What waits in a queue."""
    async with Connection(url) as connection, connection.browser(address) as browser:
        return [delivery.message.body async for delivery in browser]


@pytest.mark.parametrize("checkpoints", [1, 20])
async def test_killed_in_mid_commit(broker: Mortal, checkpoints: int, anyio_backend_name: str) -> None:
    """Each message is in one queue: of a commit in the new one, of a rollback in the old one, in doubt in either."""
    url, source, target = broker.server.url(), *(f"{end}-{anyio_backend_name}-{checkpoints}" for end in ("in", "out"))
    numbers = range(50)
    transactions: dict[int, Transaction] = {}
    errors: list[AmqpError] = []

    async def move(connection: Connection) -> None:
        async with connection.receiver(source, credit=10) as receiver, connection.sender(target) as sender:
            async for delivery in receiver:
                number = delivery.message.body
                transactions[number] = transaction = connection.transaction()
                async with transaction:
                    delivery.accept(transaction=transaction)
                    await sender.send(Message(number, durable=True), transaction=transaction)

    async def kill() -> None:
        while len(transactions) < 5 or transactions[4].state != "ending":
            await anyio.lowlevel.checkpoint()
        for _ in range(checkpoints):
            await anyio.lowlevel.checkpoint()
        broker.kill()

    async with Connection(url) as connection, connection.sender(source) as sender:
        await sender.send_many(Message(number, durable=True) for number in numbers)
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(kill)
            try:
                async with Connection(url) as connection:
                    await move(connection)
            except AmqpError as error:
                errors.append(error)
    broker.restart()

    moved, left = await contents(url, target), await contents(url, source)
    assert sorted(moved + left) == list(numbers)
    states = {number: transaction.state for number, transaction in transactions.items()}
    assert [states[number] for number in range(4)] == ["committed"] * 4
    for number, state in states.items():
        assert state in ("committed", "rolled-back", "in-doubt", "new"), number
        if state != "in-doubt":
            assert (number in moved) is (state == "committed"), (number, state)
    last = states[max(states)]
    # One that was met in the block rolls back, and is what the block raised.
    kinds = {"in-doubt": TransactionInDoubt, "rolled-back": (TransactionRolledBack, ConnectionLost)}
    assert isinstance(errors[0], kinds.get(last, ConnectionLost)), (last, errors)  # type: ignore[arg-type]
