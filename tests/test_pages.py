"""Every block of Python in the pages runs, beside an embedded broker in memory, and reaches each of its statements."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from amqp10 import TLS, Connection, Message
from amqp10.azure import EventHub, ServiceBus
from amqp10.broker import Broker, TokenRules
from amqp10.broker.azure import EMULATOR_RULE, AzureConfig, connection_string
from amqp10.otel import uninstrument
from amqp10.testing import BackgroundBroker, BackgroundServiceBus, CertificateAuthority

from .kit.jumping_clock import Backend, jumping
from .kit.memory_network import MemoryConnection, MemoryNetwork
from .kit.page_blocks import FENCE, IMPORT, PAGES, Block, blocks
from .kit.page_supplies import AZURE, Supplies
from .kit.token_rig import wall

PORT = 5672
PATIENCE = 60
"""Seconds of a clock that jumps: a block that waits for ever has nothing more to do by then."""
ELSEWHERE = ("azure.eventhub", "azure.servicebus", "amqp10.sync")
"""What is no program for an event loop in memory: other tests run blocks that import these."""


def in_memory(block: Block) -> bool:
    """Whether a block runs here: it is no test, is not for Spark, and needs no thread."""
    return "@pytest." not in block.code and "spark" not in block.page and not block.imports(*ELSEWHERE)


BLOCKS = [block for block in blocks() if in_memory(block)]
TESTS = [block for block in blocks() if "@pytest." in block.code]
WITHOUT_ASYNC = [block for block in blocks() if block.imports("amqp10.sync")]
SETTINGS: Mapping[str, dict[str, Any]] = {
    "brokers/activemq-classic.md": {"properties": {"product": "ActiveMQ"}},
    "brokers/solace.md": {"properties": {"product": "Solace"}},
    "build/filters.md": {"queues": {"events": {"x-queue-type": "stream"}}},
}
"""What the broker of a page is beside the usual."""


class Hosts(MemoryNetwork):
    """A network on which every host is the broker of the page."""

    async def connect(self, host: str, port: int, **_: Any) -> MemoryConnection:
        return await super().connect("localhost", port if port in self.listeners else PORT)


@pytest.fixture
def hosts(monkeypatch: pytest.MonkeyPatch) -> Hosts:
    return Hosts(monkeypatch)


@pytest.fixture
def anyio_backend(block: Block) -> Backend:
    return jumping(block.backend)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Path], TLS]:
    """The files that pages name, and the server's side."""
    authority = CertificateAuthority(tmp_path_factory.mktemp("certificates"), password="secret")
    mine = authority.client("me")
    files = {
        "ca.pem": authority.ca,
        "company-ca.pem": authority.ca,
        "me.pem": mine.certificate,
        "me.key": mine.key,
        "me.p12": mine.pkcs12,
    }
    server = authority.server("broker.example.com", "mq.example.com")
    return files, TLS(certificate=server.certificate, key=server.key)


@pytest.fixture
def server_tls(certificates: tuple[dict[str, Path], TLS], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TLS:
    """The server's side; the files are where the blocks run, and the system trusts who signed them."""
    files, tls = certificates
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(files["ca.pem"]))
    for name, path in files.items():
        (tmp_path / name).write_bytes(path.read_bytes())
    return tls


async def serve(broker: Broker) -> None:
    """Reply to the requests of a page, and ask what its own responder replies to."""
    async with (
        Connection(broker.url) as connection,
        connection.responder("service") as responder,
        connection.requester("questions") as requester,
        anyio.create_task_group() as tasks,
    ):
        for body in ("bad", "good"):
            tasks.start_soon(requester.request, Message(body))
        async for request in responder:
            await request.reply(Message(request.message.body))


async def fill(broker: Broker) -> None:
    """Put messages where pages receive."""
    async with Connection(broker.url) as connection:
        for address in ("orders", "jobs", "examples", "videos", "images"):
            async with connection.sender(address) as sender:
                for kind in ("video/mp4", "application/json"):
                    await sender.send(Message(b"[7]", content_type=kind))
    for number in range(3):
        broker.quarantine.set_aside("orders", Message(number).encode(), 0, ValueError("no such plan"))


async def fill_namespace(broker: Broker) -> None:
    """Put messages into a queue of Service Bus, and events into each partition of an event hub."""
    where = connection_string(broker.url)
    async with ServiceBus(where, clock=wall) as bus, bus.sender("orders") as sender:
        await sender.send_many(Message(f"order {number}".encode()) for number in range(3))
        async with bus.sender("kitchen") as steps:
            await steps.send(Message(b"fill", group_id="kettle"))
    async with EventHub(where, "telemetry", clock=wall) as hub:
        for partition in (await hub.properties()).partitions:
            async with hub.sender(partition=partition) as sender:
                await sender.send(b"20.5")


@asynccontextmanager
async def world(block: Block, server_tls: TLS) -> AsyncIterator[Supplies]:
    """Run the broker that a block talks to, and fill it."""
    settings: dict[str, Any] = dict(SETTINGS.get(block.page, {}))
    if users := dict(re.findall(r"//(\w+):(\w+)@", block.code)):
        settings |= {"users": users, "anonymous": True}
    if tls := re.search(r"async with Connection\(\s*\"amqps:", block.code):
        settings["tls"] = server_tls
    if azure := "azure" in block.page or block.page in ("brokers/service-bus.md", "brokers/event-hubs.md"):
        settings |= {"azure": AZURE, "tokens": TokenRules([EMULATOR_RULE], required=True)}
    async with AsyncExitStack() as stack:
        broker = await stack.enter_async_context(Broker(port=PORT, **settings))
        if azure:
            await fill_namespace(broker)
        elif not tls:
            await fill(broker)
            tasks = await stack.enter_async_context(anyio.create_task_group())
            tasks.start_soon(serve, broker)
            stack.callback(tasks.cancel_scope.cancel)
        yield Supplies(block, broker, stack)


async def post_an_order(names: dict[str, Any]) -> None:
    """Have an application take an order; one that connects beside its server takes the second, a second later."""
    early = [503] if "stay_connected" in names else []
    assert await statuses(names["app"], len(early) + 1) == [*early, 202]


async def statuses(app: Any, orders: int) -> list[int]:
    """Do with an application what a web server does: start it, hand it orders a second apart, stop it."""
    states: dict[str, Any] = {}
    to_app, from_server = anyio.create_memory_object_stream[Any](1)
    to_server, from_app = anyio.create_memory_object_stream[Any](1)
    request = {"type": "http.request", "body": b'{"id": 1}', "more_body": False}
    replies: list[Any] = []

    async def receive() -> Any:
        return request

    async def send(event: Any) -> None:
        replies.append(event)

    async with to_app, from_server, to_server, from_app, anyio.create_task_group() as tasks:
        tasks.start_soon(app, {"type": "lifespan", "state": states}, from_server.receive, to_server.send)
        await to_app.send({"type": "lifespan.startup"})
        assert (await from_app.receive())["type"] == "lifespan.startup.complete"
        scope = {
            "type": "http",
            "method": "POST",
            "path": "/orders",
            "query_string": b"",
            "headers": [],
            "state": states,
        }
        for _ in range(orders):
            await app({"http_version": "1.1", "scheme": "http", "root_path": "", **scope}, receive, send)
            await anyio.sleep(1)
        await to_app.send({"type": "lifespan.shutdown"})
        assert (await from_app.receive())["type"] == "lifespan.shutdown.complete"
    return [event["status"] for event in replies if event["type"] == "http.response.start"]


async def decide(names: dict[str, Any]) -> None:
    """Have a broker ask the function of the page."""
    assert names["authorize"]("shop", "write", "shop.orders", "/")
    assert not names["authorize"]("shop", "configure", "shop.orders", "/")


async def find_out(names: dict[str, Any]) -> None:
    """Ask for credentials as a connection does for each attempt."""
    assert (await names["details"]()).url == "amqps://broker.example"


async def undo(names: dict[str, Any]) -> None:
    """Do what Spark would call, and leave the process as it was."""
    if "begin" in names:
        names["begin"]()
    uninstrument()
    if "connection" in names:
        uninstrument(names["connection"])


AFTERWARDS = {"app": post_an_order, "authorize": decide, "details": find_out, "instrument": undo}
"""What is done with that which a block defines for others to call."""


@pytest.mark.anyio
@pytest.mark.parametrize("block", BLOCKS, ids=str)
async def test_block(block: Block, hosts: Hosts, server_tls: TLS) -> None:
    """It runs with nothing but what the page has said before, and ends, or waits for more when it has done all."""
    async with world(block, server_tls) as supplies:
        supplied = {name: await getattr(supplies, name)() for name in sorted(block.needs())}
        with anyio.move_on_after(PATIENCE):
            await block.run(supplied)
            for name in AFTERWARDS.keys() & block.binds():
                await AFTERWARDS[name](block.names)
    assert block.missed() == []


@pytest.mark.anyio
@pytest.mark.parametrize("block", [block for block in BLOCKS if "stay_connected" in block.code], ids=str)
async def test_a_web_server_starts_without_a_broker(block: Block, hosts: Hosts) -> None:
    """An application that connects beside its server starts, refuses orders and ends, though no broker ever comes."""
    await block.run({})
    with anyio.fail_after(PATIENCE):
        assert await statuses(block.names["app"], 2) == [503, 503]


@pytest.mark.slow
@pytest.mark.parametrize("block", WITHOUT_ASYNC, ids=str)
def test_without_async(block: Block) -> None:
    """It waits in a thread for a broker in another, so here the network is a real one."""
    with BackgroundBroker() as broker, BackgroundServiceBus(AzureConfig(["orders"])) as bus:
        here = replace(block, code=block.code.replace("amqp://localhost:5672", broker.url))
        supplied = {"connection_string": bus.connection_string}
        anyio.run(here.run, {name: supplied[name] for name in block.needs()})
    assert here.missed() == []


USES = {
    "amqp_broker": "def test_of_the_fixture(amqp_broker):\n    assert amqp_broker.queue('orders').depth == 0\n",
    "connection": "@pytest.mark.anyio\nasync def test_of_the_fixture(connection):\n"
    "    async with connection.sender('orders') as sender:\n        await sender.send('hello')\n",
}
"""What uses a fixture, where a page has the fixture alone."""
DIALECT = (
    "import dataclasses\nfrom amqp10.dialects import v1_0\nDIALECT = dataclasses.replace(v1_0.DIALECT, name='mine')\n"
)


@pytest.mark.slow
def test_tests(tmp_path: Path) -> None:
    """The tests of the pages pass, those of a fixture with a test that uses it; of contracts their names are known."""
    run: list[str] = []
    collected: list[str] = []
    for number, block in enumerate(TESTS):
        path = tmp_path / f"test_{number}.py"
        above = [ast.unparse(each) for each in block.above if isinstance(each, IMPORT)]
        uses = "" if "def test" in block.code or "class Test" in block.code else USES[min(USES.keys() & block.binds())]
        path.write_text("\n".join([*above, "import pytest", block.code, uses]))
        (collected if "class Test" in block.code else run).append(path.name)
    (tmp_path / "my_package.py").write_text(DIALECT)
    for options in (run, ["--collect-only", *collected]):
        command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", "-c", "/dev/null"]
        done = subprocess.run([*command, *options], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_no_line_is_long(page: Path) -> None:
    """Code fits a page without scrolling sideways: 90 columns, copies of examples too."""
    code = "\n".join(match[2] for match in FENCE.finditer(page.read_text(encoding="utf-8")))
    assert [line for line in code.splitlines() if len(line) > 90] == []
