"""`amqp10 trace` between other people's clients and real brokers: each frame is there and is read, and no secret is."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from amqp10 import Connection

from ..kit.inside.cli import Call, take_apart
from ..kit.processes.programs import started
from ..kit.unavailable import unavailable
from ._matrix import Peer
from .brokers import Server, Unavailable
from .clients import PROGRAMS, Kept, Program

pika: Any = pytest.importorskip("pika", reason="pika is not installed")

from ._amqp091 import Inbox, channel_of  # noqa: E402

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    # They say nothing about our event loop: one backend is enough.
    pytest.mark.parametrize("anyio_backend", ["trio"]),
    pytest.mark.capability("frame trace"),
]

AT_ONCE = 8
EACH = 25
SECONDS = 60
BODY = "hunter2 is a body"
SECRET = re.compile(r"(?<!<)(?<!&lt;)secret|hunter2|message \d")
"""The password that all brokers here have, where it is no `<secret>`, and bodies of messages."""


class Trace:
    """The command, and what it wrote when it has ended.

    Attributes:
        port: where clients connect to.
        calls: the frames of the trace file that name something; client to server if True.
        page: as text.
    """

    def __init__(self, port: int) -> None:
        self.port = port
        self.calls: list[tuple[bool, Call]] = []
        self.page = ""

    def read(self, lines: str, page: str) -> None:
        self.page = page
        for line in lines.splitlines():
            told = json.loads(line)
            call = take_apart(told["l"])
            if call is not None:
                self.calls.append((told["d"] == ">", call))

    def count(self, name: str) -> tuple[int, int]:
        """How many a client sent, and a server."""
        found = Counter(sent for sent, call in self.calls if call.name == name)
        return found[True], found[False]


@contextmanager
def traced(server: Server, folder: Path) -> Iterator[Trace]:
    """Run the command in front of a broker, as users do; read what it wrote after the block."""
    page, lines = folder / "page.html", folder / "trace.jsonl"
    options = ["--output", str(page), "--trace-file", str(lines)]
    command = [sys.executable, "-m", "amqp10", "trace", server.url(user=None), *options]
    with started(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = re.match(r"listening at amqp://127\.0\.0\.1:(\d+), for ", process.stdout.readline())
        assert said is not None
        trace = Trace(int(said[1]))
        yield trace
        process.send_signal(signal.SIGINT)
        _, told = process.communicate()
    assert process.returncode == 128 + signal.SIGINT, told
    text, html = lines.read_text(), page.read_text()
    for written in (text, html, told):
        assert SECRET.search(written) is None
        assert "cannot be read" not in written
        assert "no AMQP" not in written
        assert "in the tracer" not in written
    trace.read(text, html)


async def many(work: Callable[[str], None], addresses: list[str]) -> None:
    """Do it for each address, at once."""
    async with anyio.create_task_group() as tasks:
        for address in addresses:
            tasks.start_soon(anyio.to_thread.run_sync, work, address)


def url_of(trace: Trace) -> str:
    return f"amqp://user:secret@127.0.0.1:{trace.port}"


@pytest.mark.parametrize("broker", ["rabbitmq", "broker_j"])
async def test_pika(broker: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """In 0-9-1, over connections at once: what each has published and taken is in the trace, one for one."""

    def work(queue: str) -> None:
        with channel_of(url_of(trace), confirms=broker == "rabbitmq") as channel:  # Broker-J's cannot be had by pika
            channel.queue_declare(queue)
            for _ in range(EACH):
                channel.basic_publish("", queue, BODY.encode())
            channel.basic_qos(prefetch_count=10)
            inbox = Inbox(channel, queue)
            taken = 0
            while taken < EACH:
                channel.connection.process_data_events(SECONDS)
                for tag in inbox.tags[taken:]:
                    channel.basic_ack(tag)
                    taken += 1
            channel.basic_cancel(inbox.tag)
            channel.queue_delete(queue)

    with traced(request.getfixturevalue(broker), tmp_path) as trace:
        await many(work, [f"traced-{number}" for number in range(AT_ONCE)])
    total = AT_ONCE * EACH
    assert trace.count("connection.start-ok") == (AT_ONCE, 0)
    assert trace.count("basic.publish") == (total, 0)
    assert trace.count("basic.deliver") == (0, total)
    assert trace.count("basic.ack")[0] == total
    assert "deliveries that the client takes, channel 1" in trace.page


@pytest.mark.parametrize("broker", ["artemis", "rabbitmq_43"])
@pytest.mark.usefixtures("proton")
async def test_proton(broker: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """In 1.0, over connections at once: likewise, and each message has its outcome."""
    import proton
    from proton.utils import BlockingConnection

    def work(address: str) -> None:
        connection = BlockingConnection(url_of(trace), timeout=SECONDS, allowed_mechs="PLAIN")
        sender = connection.create_sender(address)
        for _ in range(EACH):
            sender.send(proton.Message(BODY))
        receiver = connection.create_receiver(address, credit=10)
        for _ in range(EACH):
            receiver.receive(timeout=SECONDS)
            receiver.accept()
        connection.close()

    server = request.getfixturevalue(broker)
    peer = Peer(broker.removesuffix("_43"), server)
    async with Connection(server.url()) as connection:
        addresses = [await peer.queue(connection) for _ in range(AT_ONCE)]
    with traced(server, tmp_path) as trace:
        await many(work, addresses)
    total = AT_ONCE * EACH
    assert trace.count("SaslInit") == (AT_ONCE, 0)
    assert trace.count("Transfer") == (total, total)
    told = [call for sent, call in trace.calls if sent and call.name == "Disposition"]
    ids = [
        number for call in told for number in range(call.number("first"), call.number("last", call.number("first")) + 1)
    ]
    assert len(ids) == total
    assert "credit of the server on link" in trace.page


@pytest.mark.parametrize("broker", ["broker_j"])
async def test_rhea(broker: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """In 1.0, by JavaScript's client."""
    rhea = installed(PROGRAMS["rhea"])
    server = request.getfixturevalue(broker)
    peer = Peer(broker.removesuffix("_43"), server)
    async with Connection(server.url()) as connection:
        address = await peer.queue(connection)
    with traced(server, tmp_path) as trace:
        assert await rhea.run("send", url_of(trace), address, EACH, 20) == [{"outcome": "accepted"}] * EACH
        assert len(await rhea.run("receive", url_of(trace), address, EACH, "accept")) == EACH
    assert trace.count("Transfer") == (EACH, EACH)
    assert trace.count("Close") == (2, 2)


@pytest.mark.parametrize("broker", ["broker_j"])
async def test_jms(
    broker: str, request: pytest.FixtureRequest, qpid_client: Kept, address: str, tmp_path: Path
) -> None:
    """In 0-10, by Qpid's client for Java, the one that is left of those of 0-10."""
    with traced(request.getfixturevalue(broker), tmp_path) as trace:
        url = f"amqp://user:secret@test/?brokerlist='tcp://localhost:{trace.port}'"
        assert await qpid_client.run("0-10", "send", url, address, EACH, 20) == [{"outcome": "accepted"}] * EACH
        assert len(await qpid_client.run("0-10", "receive", url, address, EACH, "accept")) == EACH
    sent, taken = trace.count("message.transfer")
    assert (sent, taken) == (EACH, EACH + 2)  # each of its connections asks for the properties of the virtual host
    assert trace.count("connection.start-ok") == (2, 0)


def installed(program: Program) -> Program:
    """The program; the test is skipped where it cannot be had."""
    try:
        program.installed()
    except Unavailable as error:
        unavailable(f"no {program.library}: {error}")
    return program
