"""Our processor and Microsoft's share a hub of our emulator, by leases in Azurite, an emulator of Azure Storage."""

from __future__ import annotations

import json
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Final

import anyio
import anyio.to_thread
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream
from azure.core.exceptions import ServiceRequestError
from azure.eventhub import EventHubConsumerClient
from azure.eventhub.extensions.checkpointstoreblob import BlobCheckpointStore
from azure.storage.blob import ContainerClient

from amqp10 import StoreError
from amqp10.azure import BlobLeases, Checkpoint, ConsumerGroup, EventHub, EventProcessor, Lease, ReceivedEvent
from amqp10.broker import Broker, TokenRules
from amqp10.broker.azure import EMULATOR_RULE, AzureConfig, EventHubConfig, connection_string

from ..kit.processes.free_ports import free_ports
from ..kit.unavailable import unavailable
from .brokers import Unavailable
from .clients import AZURE_PROCESSOR_JS, AZURITE

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.capability("Event Hubs processor"),
]

PARTITIONS: Final = 4
EXPIRY: Final = 20.0
# The one that Azurite is known for.
KEY: Final = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


@pytest.fixture
def anyio_backend() -> str:
    """One is enough: the store is in threads, and tests/azure/processor has both."""
    return "trio"


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The connection string of an account in Azurite."""
    try:
        folder = AZURITE.installed()
    except Unavailable as error:
        unavailable(str(error))
    (port,) = free_ports(1)
    options = [
        "--blobPort",
        str(port),
        "--inMemoryPersistence",
        "--silent",
        "--disableTelemetry",
        "--skipApiVersionCheck",
    ]
    process = subprocess.Popen(
        [*AZURITE.command(Path(), folder), *options],
        cwd=tmp_path_factory.mktemp("azurite"),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        assert any("listens on" in line for line in process.stdout)
        url = f"http://127.0.0.1:{port}/devstoreaccount1"
        yield f"DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey={KEY};BlobEndpoint={url};"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def container(storage: str, name: str) -> ContainerClient:
    client = ContainerClient.from_connection_string(storage, name)
    client.create_container()
    return client


async def test_blobs(storage: str) -> None:
    """A lease is written by one, where others wrote meanwhile by none; a checkpoint goes forward alone."""
    store = BlobLeases(container(storage, "leases"))
    group = ConsumerGroup("Host", "Hub", "$Default")
    assert not await store.leases(group)
    assert not await store.checkpoints(group)
    first, second = await store.write(group, [Lease("0", "me"), Lease("1", "me")])
    assert not await store.write(group, [Lease("0", "you")])
    assert await store.leases(group) == [first, second]
    [asked] = await store.write(group, [Lease("0", "me", first.version, "you")])
    assert not await store.write(group, [first])
    [released] = await store.write(group, [Lease("0", "", asked.version)])
    assert await store.leases(group) == [released, second]
    for number in (5, 4):
        await store.save(group, {"0": Checkpoint(number, f"offset {number}")})
    assert await store.checkpoints(group) == {"0": Checkpoint(5, "offset 5")}
    theirs = BlobCheckpointStore.from_connection_string(storage, "leases")
    names = (group.namespace, group.hub, group.group)
    found = {each["partition_id"]: each for each in theirs.list_ownership(*names)}
    assert not found["0"]["owner_id"]
    assert found["1"]["owner_id"] == "me"
    [its] = theirs.list_checkpoints(*names)
    assert (its["partition_id"], its["offset"], its["sequence_number"]) == ("0", "offset 5", 5)
    theirs.claim_ownership([found["1"] | {"owner_id": "them"}])
    theirs.update_checkpoint(its | {"sequence_number": 6, "offset": "offset 6"})
    assert {lease.partition: lease.owner for lease in await store.leases(group)} == {"0": "", "1": "them"}
    assert not await store.write(group, [second])
    assert await store.checkpoints(group) == {"0": Checkpoint(6, "offset 6")}
    theirs.close()
    with pytest.raises(StoreError, match="container 'none'"):
        await BlobLeases(ContainerClient.from_connection_string(storage, "none")).leases(group)
    with pytest.raises(StoreError, match="container 'none'"):
        await BlobLeases(ContainerClient.from_connection_string(storage, "none")).write(group, [Lease("0", "me")])
    with pytest.raises(TypeError, match=r"azure\.storage\.blob\.ContainerClient"):
        BlobLeases("leases")  # type: ignore[arg-type]


@asynccontextmanager
async def theirs(url: str, storage: str, handled: set[bytes], *, name: str = "shared") -> AsyncIterator[None]:
    """Run Microsoft's processor for Python, which has a thread of its own."""
    consumer = EventHubConsumerClient.from_connection_string(
        connection_string(url),
        "$Default",
        eventhub_name="telemetry",
        checkpoint_store=BlobCheckpointStore.from_connection_string(storage, name),
        load_balancing_interval=0.5,
        partition_ownership_expiration_interval=EXPIRY,
    )

    def on_event(context: Any, event: Any) -> None:
        handled.add(b"".join(event.body))
        context.update_checkpoint(event)

    thread = Thread(target=partial(consumer.receive, on_event, starting_position="-1"))
    thread.start()
    try:
        yield
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(consumer.close)
            await anyio.to_thread.run_sync(thread.join)


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110
        await anyio.sleep(0.1)


async def test_shared_hub(storage: str) -> None:
    """Both own partitions at the same time, who leaves is replaced by the other, and every event is handled."""
    blobs = container(storage, "shared")
    ours: set[bytes] = set()
    its: set[bytes] = set()

    async def handle(event: ReceivedEvent) -> None:
        ours.add(event.body)

    async def handled_by(name: str, *expected: set[bytes]) -> None:
        """Send to all partitions, wait until all is handled, and see who has handled something."""
        sent = set()
        for partition in range(PARTITIONS):
            async with hub.sender(partition=partition) as sender:
                bodies = [f"{name} {partition} {number}".encode() for number in range(5)]
                await sender.send_many(bodies)
                sent.update(bodies)
        await until(lambda: sent <= ours | its)
        assert [each for each in (ours, its) if each & sent] == list(expected)

    async def shared(*counts: int) -> None:
        """Wait until so many partitions have each owner, as Microsoft's store reads it."""
        store = BlobCheckpointStore.from_connection_string(storage, "shared")
        owners: list[str] = []
        while sorted(map(owners.count, set(owners))) != [*counts]:
            await anyio.sleep(0.2)
            listed = partial(store.list_ownership, broker.url.partition("://")[2], "telemetry", "$Default")
            owners = [each["owner_id"] for each in await anyio.to_thread.run_sync(listed)]
        store.close()

    config = AzureConfig(event_hubs=[EventHubConfig("telemetry", PARTITIONS)])
    with anyio.fail_after(500):
        async with (
            Broker(azure=config, tokens=TokenRules([EMULATOR_RULE])) as broker,
            EventHub(connection_string(broker.url), "telemetry") as hub,
        ):
            one = EventProcessor(hub, handle, store=BlobLeases(blobs), interval=0.3, expiry=EXPIRY)
            async with one:
                await handled_by("first", ours)
                async with theirs(broker.url, storage, its):
                    await shared(2, 2)
                    await until(lambda: len(one.partitions) == 2)
                    await handled_by("together", ours, its)
                await until(lambda: len(one.partitions) == PARTITIONS)
                await handled_by("ours", ours)
                last = theirs(broker.url, storage, its)
                await last.__aenter__()
            try:
                await shared(PARTITIONS)
                await handled_by("theirs", its)
            finally:
                await last.__aexit__(None, None, None)
    host = broker.url.partition("://")[2]
    names = {blob.name.rpartition("/")[0] for blob in blobs.list_blobs()}
    assert names == {f"{host}/telemetry/$default/{kind}" for kind in ("ownership", "checkpoint")}


@asynccontextmanager
async def in_javascript(url: str, storage: str, name: str, handled: set[bytes]) -> AsyncIterator[None]:
    """Run Microsoft's processor for JavaScript, a process of its own."""
    words = [connection_string(url), storage, name, url.partition("://")[2], EXPIRY]
    command, environment = AZURE_PROCESSOR_JS.prepared(*words)
    async with (
        await anyio.open_process(command, env=environment, stderr=None) as process,
        anyio.create_task_group() as tasks,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        lines = BufferedByteReceiveStream(process.stdout)

        async def listen() -> None:
            while True:
                said = json.loads(await lines.receive_until(b"\n", 10_000))
                if "done" in said:
                    return
                handled.add(said["body"].encode())

        tasks.start_soon(listen)
        yield
        await process.stdin.aclose()


async def test_two_languages(storage: str) -> None:
    """Processors for Python and for JavaScript share a hub, with ours and by themselves, and every event is handled."""
    try:
        await anyio.to_thread.run_sync(AZURE_PROCESSOR_JS.installed)
    except Unavailable as error:
        unavailable(str(error))
    blobs = container(storage, "languages")
    kept = BlobLeases(blobs)
    ours: set[bytes] = set()
    python: set[bytes] = set()
    javascript: set[bytes] = set()

    async def handle(event: ReceivedEvent) -> None:
        ours.add(event.body)

    async def shared(*counts: int) -> None:
        """Wait until so many partitions have each owner."""
        owners: list[str] = []
        while sorted(map(owners.count, set(owners))) != [*counts]:
            await anyio.sleep(0.2)
            owners = [each.owner for each in await kept.leases(group) if each.owner]

    async def handled_by(name: str, *expected: set[bytes]) -> None:
        """Send to all partitions until each has handled something: a reader of before may be there for a moment."""
        sent: set[bytes] = set()
        while not all(each & sent for each in expected):
            for partition in range(6):
                async with hub.sender(partition=partition) as sender:
                    await sender.send(body := f"{name} {len(sent)}".encode())
                    sent.add(body)
            await until(lambda: sent <= ours | python | javascript)

    config = AzureConfig(event_hubs=[EventHubConfig("telemetry", 6)])
    with anyio.fail_after(500):
        async with (
            Broker(azure=config, tokens=TokenRules([EMULATOR_RULE])) as broker,
            EventHub(connection_string(broker.url), "telemetry") as hub,
        ):
            group = ConsumerGroup(broker.url.partition("://")[2], "telemetry", "$Default")
            async with (
                theirs(broker.url, storage, python, name="languages"),
                in_javascript(broker.url, storage, "languages", javascript),
            ):
                await shared(3, 3)
                await handled_by("two", python, javascript)
                async with EventProcessor(hub, handle, store=kept, interval=0.3, expiry=EXPIRY):
                    await shared(2, 2, 2)
                    await handled_by("three", ours, python, javascript)
                await shared(3, 3)
                await handled_by("two again", python, javascript)
    assert {blob.name.split("/")[0] for blob in blobs.list_blobs()} == {group.namespace}


async def test_no_storage() -> None:
    """A store that cannot be reached is a StoreError."""
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}/devstoreaccount1"
    client = ContainerClient(url, "leases", credential=KEY, retry_total=0)
    with pytest.raises(StoreError) as raised:
        await BlobLeases(client).leases(ConsumerGroup("host", "hub", "group"))
    assert isinstance(raised.value.__cause__, ServiceRequestError)


class _Nothing(BaseHTTPRequestHandler):
    """Answers as a proxy does that knows of no such page."""

    def do_HEAD(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(404)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_PUT(self) -> None:
        self.do_HEAD()

    def log_message(self, *args: object) -> None:
        """Say nothing."""


async def test_no_blob_is_ever_written() -> None:
    """A checkpoint that is not there, and cannot be written, is a StoreError after some attempts."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Nothing) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        client = ContainerClient(f"http://127.0.0.1:{server.server_port}/account", "leases", credential=KEY)
        with pytest.raises(StoreError, match="checkpoint/0 could not be written, in 10 attempts"):
            await BlobLeases(client).save(ConsumerGroup("host", "hub", "group"), {"0": Checkpoint(7)})
        client.close()
        server.shutdown()
        thread.join()
