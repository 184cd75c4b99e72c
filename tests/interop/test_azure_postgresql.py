"""Leases in a PostgreSQL of its own: what every store has to do, and what a server adds to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from amqp10 import StoreError
from amqp10.azure import (
    Checkpoint,
    ConsumerGroup,
    EventHub,
    EventProcessor,
    Lease,
    PostgreSQLLeases,
    ReceivedEvent,
)
from amqp10.broker import Broker, TokenRules
from amqp10.broker.azure import EMULATOR_RULE, AzureConfig, EventHubConfig, connection_string

from ..kit.azure.lease_stores import CLAUSES, GROUP, Clause, contract
from ..kit.processes.free_ports import free_ports
from ..kit.unavailable import unavailable
from .brokers import MortalPostgreSQL, Unavailable, serving_postgresql

if TYPE_CHECKING:
    from psycopg_pool import ConnectionPool

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.capability("Event Hubs processor"),
]


@pytest.fixture
def anyio_backend() -> str:
    """One is enough: the store is in threads, and tests/azure/processor has both."""
    return "trio"


@pytest.fixture(scope="module")
def postgresql() -> Iterator[MortalPostgreSQL]:
    if find_spec("psycopg") is None or find_spec("psycopg_pool") is None:
        unavailable("psycopg or psycopg_pool is not installed")
    try:
        with serving_postgresql() as server:
            yield server
    except Unavailable as error:
        unavailable(f"no postgresql: {error}")


@pytest.fixture
def database(postgresql: MortalPostgreSQL) -> str:
    """The URL of an empty database."""
    return make_database(postgresql, "empty", "UTF8")


def make_database(postgresql: MortalPostgreSQL, name: str, encoding: str) -> str:
    import psycopg

    with psycopg.connect(postgresql.url(), autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        connection.execute(f"CREATE DATABASE {name} ENCODING '{encoding}' TEMPLATE template0")
    return postgresql.url(name)


@contextmanager
def opened(url: str, *, timeout: float = 60, **settings: Any) -> Iterator[ConnectionPool[Any]]:
    """Connections to a database, and what each has to be."""
    from psycopg_pool import ConnectionPool

    with ConnectionPool(url, min_size=1, max_size=4, timeout=timeout, kwargs=settings) as pool:
        yield pool


@pytest.fixture
def store(database: str) -> Iterator[PostgreSQLLeases]:
    with opened(database) as pool:
        yield PostgreSQLLeases(pool)


@contract
async def test_contract(clause: Clause, store: PostgreSQLLeases) -> None:
    """What every store has to do; `clause` says what that is."""
    await clause(store)


@contract
async def test_other_settings(clause: Clause, postgresql: MortalPostgreSQL) -> None:
    """It does so whatever the connections are set to, and in a database that knows no UTF-8."""
    from psycopg.rows import dict_row

    url = make_database(postgresql, "ascii", "SQL_ASCII")
    options = "-c default_transaction_isolation=serializable"
    with opened(url, row_factory=dict_row, autocommit=True, options=options, client_encoding="LATIN1") as pool:
        await clause(PostgreSQLLeases(pool))


async def test_names(postgresql: MortalPostgreSQL) -> None:
    """Names have any characters but the one that a database has no room for."""
    hard = "\N{SNOWMAN} 'x' %s \\ \N{GRINNING FACE}"
    with opened(make_database(postgresql, "ascii", "SQL_ASCII")) as pool:
        store = PostgreSQLLeases(pool)
        [written] = await store.write(GROUP, [Lease(hard, hard, None, hard)])
        assert await store.leases(GROUP) == [written]
        await store.save(GROUP, {hard: Checkpoint(1, hard)})
        assert await store.checkpoints(GROUP) == {hard: Checkpoint(1, hard)}
        with pytest.raises(StoreError, match="NUL"):
            await store.write(GROUP, [Lease("0", "\0")])


async def test_made_at_once(database: str) -> None:
    """Of those who find no tables at the same time, one makes them."""
    with opened(database) as pool:
        async with anyio.create_task_group() as tasks:
            for number in range(8):
                tasks.start_soon(PostgreSQLLeases(pool).write, GROUP, [Lease(str(number), "me")])
        assert len(await PostgreSQLLeases(pool).leases(GROUP)) == 8


async def test_no_right_to_make_tables(database: str, store: PostgreSQLLeases) -> None:
    """Who may not make tables uses those that are there; without them the error says what is not allowed."""
    import psycopg

    with psycopg.connect(database, autocommit=True) as owner:
        owner.execute("DROP ROLE IF EXISTS worker")
        owner.execute("CREATE ROLE worker LOGIN PASSWORD 'secret'")
        owner.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
        try:
            with opened(database, user="worker") as pool:
                with pytest.raises(StoreError, match="permission denied for schema public"):
                    await PostgreSQLLeases(pool).leases(GROUP)
                await store.leases(GROUP)
                owner.execute("GRANT SELECT, INSERT, UPDATE ON amqp10_leases, amqp10_checkpoints TO worker")
                for clause in CLAUSES[:2]:
                    await clause(PostgreSQLLeases(pool))
        finally:
            owner.execute("DROP OWNED BY worker")
            owner.execute("DROP ROLE worker")


async def test_stalled(database: str, store: PostgreSQLLeases) -> None:
    """A statement that takes longer than the connections allow is a StoreError, and leaves nothing half done."""
    import psycopg

    assert await store.leases(GROUP) == []
    with psycopg.connect(database) as other, opened(database, options="-c statement_timeout=100ms") as pool:
        impatient = PostgreSQLLeases(pool)
        other.execute("LOCK TABLE amqp10_leases IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(StoreError, match="statement timeout"):
            await impatient.write(GROUP, [Lease("0", "me")])
        other.rollback()
        assert await store.leases(GROUP) == []


async def test_dropped(database: str, store: PostgreSQLLeases) -> None:
    """Tables that are lost while it is used are an error once; then they are made again."""
    import psycopg

    await store.write(GROUP, [Lease("0", "me")])
    with psycopg.connect(database, autocommit=True) as owner:
        owner.execute("DROP TABLE amqp10_leases, amqp10_checkpoints")
    with pytest.raises(StoreError, match='"amqp10_leases" does not exist'):
        await store.leases(GROUP)
    assert await store.leases(GROUP) == []
    assert len(await store.write(GROUP, [Lease("0", "me")])) == 1


async def test_killed(postgresql: MortalPostgreSQL, store: PostgreSQLLeases) -> None:
    """A server that is killed is a StoreError; when it is back, all is there that was written."""
    [written] = await store.write(GROUP, [Lease("0", "me")])
    postgresql.kill()
    try:
        with pytest.raises(StoreError, match="PostgreSQL: "):
            await store.leases(GROUP)
    finally:
        postgresql.start()
    with anyio.fail_after(120):
        while True:  # the pool may have a connection of before
            try:
                assert await store.leases(GROUP) == [written]
                break
            except StoreError:
                await anyio.sleep(0.1)
    assert len(await store.write(GROUP, [written])) == 1


async def test_no_server(postgresql: MortalPostgreSQL) -> None:
    """A server that cannot be reached is a StoreError."""
    (port,) = free_ports(1)
    with opened(f"postgresql://127.0.0.1:{port}/none", timeout=0.1) as pool:
        with pytest.raises(StoreError, match="couldn't get a connection"):
            await PostgreSQLLeases(pool).leases(GROUP)


async def test_time_of_the_database(database: str, store: PostgreSQLLeases) -> None:
    """Each row says when it was written, by the database's clock, and whoever renews a lease changes that."""
    import psycopg

    [lease] = await store.write(GROUP, [Lease("0", "me")])
    await store.save(GROUP, {"0": Checkpoint(1)})
    with psycopg.connect(database, autocommit=True) as connection:
        sql = "SELECT l.written, c.written, clock_timestamp() FROM amqp10_leases l, amqp10_checkpoints c"
        first = connection.execute(sql).fetchone()
        await store.write(GROUP, [lease])
        second = connection.execute(sql).fetchone()
    assert first is not None
    assert second is not None
    assert first[0] < first[1] < first[2] < second[0] < second[2]
    assert first[1] == second[1]


async def test_not_a_pool() -> None:
    with pytest.raises(TypeError, match=r"psycopg_pool\.ConnectionPool, not 'postgresql://"):
        PostgreSQLLeases("postgresql://localhost")  # type: ignore[arg-type]


async def test_processors(database: str) -> None:
    """Two processors, each with connections of its own, share a hub; the other one goes on where one has left."""
    handled: list[tuple[str, bytes]] = []

    async def handle(event: ReceivedEvent) -> None:
        handled.append((event.partition, event.body))

    async def until(condition: Callable[[], bool]) -> None:
        while not condition():  # noqa: ASYNC110
            await anyio.sleep(0.02)

    async def put(body: bytes) -> None:
        for partition in range(4):
            async with hub.sender(partition=partition) as sender:
                await sender.send(body)

    config = AzureConfig(event_hubs=[EventHubConfig("telemetry", 4)])
    with anyio.fail_after(120), opened(database) as one, opened(database) as two:
        async with (
            Broker(azure=config, tokens=TokenRules([EMULATOR_RULE])) as broker,
            EventHub(connection_string(broker.url), "telemetry") as hub,
        ):
            quick: dict[str, Any] = {"interval": 0.2, "expiry": 60.0, "checkpoint_interval": 0.0}
            async with EventProcessor(hub, handle, store=PostgreSQLLeases(one), **quick) as first:
                await put(b"first")
                await until(lambda: len(handled) == 4)
                async with EventProcessor(hub, handle, store=PostgreSQLLeases(two), **quick) as second:
                    await until(lambda: len(first.partitions) == len(second.partitions) == 2)
                    await put(b"second")
                    await until(lambda: len(handled) == 8)
                await until(lambda: len(first.partitions) == 4)
                await put(b"third")
                await until(lambda: len(handled) == 12)
            group = ConsumerGroup(broker.url.partition("://")[2], "telemetry", "$Default")
            kept = await PostgreSQLLeases(two).checkpoints(group)
    assert sorted(handled) == sorted((str(each), body) for each in range(4) for body in (b"first", b"second", b"third"))
    assert {each.sequence_number for each in kept.values()} == {2}
