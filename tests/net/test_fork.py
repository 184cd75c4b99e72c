"""A forked child has nothing of its parent's connections. Tried in a process of its own, which forks."""

from __future__ import annotations

import os
import subprocess
import sys

import anyio
import pytest
from anyio.abc import ByteStream, SocketAttribute

from amqp10 import Connection
from amqp10.broker import Broker

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork"),
]

PARENT_AND_CHILD = """
import os, sys, anyio
from amqp10 import Connection, ConnectionLost, Reconnect

async def main():
    reconnect = Reconnect() if sys.argv[3] == "reconnect" else None
    async with Connection(sys.argv[1], reconnect=reconnect) as connection, connection.sender("q") as sender:
        await sender.send("from the parent")
        child = os.fork()
        if child == 0:
            try:
                await sender.submit("from the child")
            except ConnectionLost as error:
                print(error, flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        await sender.send("from the parent again")
        print("the parent goes on", flush=True)

anyio.run(main, backend=sys.argv[2])
"""

AWAY = """
import os, sys, anyio
from amqp10 import Connection, ConnectionLost, Reconnect

async def main():
    async with Connection(sys.argv[1], reconnect=Reconnect(initial_delay=0.2)) as connection:
        async with connection.sender("q") as sender:
            events = connection.events()
            connection._core.supervisor.drop()
            await anext(events)  # it is interrupted
            last = connection._core._engine
            child = os.fork()
            if child == 0:
                try:
                    await sender.send("from the child")
                except ConnectionLost as error:
                    print(error, flush=True)
                if sys.argv[2] == "trio":  # in a child of asyncio nothing runs on
                    await anyio.sleep(0.5)
                print(connection._core._engine is last, flush=True)
                os._exit(0)
            os.waitpid(child, 0)  # and nothing else meanwhile: the child of a trio has its epoll
            await sender.send("from the parent")

anyio.run(main, backend=sys.argv[2])
"""

CHILD_OUTLIVES = """
import os, sys, time, anyio
from amqp10 import Connection

async def main():
    async with Connection(sys.argv[1]):
        if os.fork() == 0:
            sys.stdin.read()  # until the test is done with it
        os._exit(0)  # the parent dies without a word

anyio.run(main, backend=sys.argv[2])
"""

BROKER = """
import os, sys, anyio
from amqp10.broker import Broker

async def main():
    async with Broker() as broker:
        if os.fork() == 0:
            sys.stdin.read()
            os._exit(0)
        print(broker.url, flush=True)
        await anyio.sleep(0)

anyio.run(main, backend=sys.argv[1])
"""


CONNECTING = """
import os, sys, anyio
from amqp10 import Connection

def sockets():
    # There are as many numbers in the child, but what a number stands for is another thing.
    names = {}
    for number in os.listdir("/proc/self/fd"):
        try:
            names[number] = os.readlink(f"/proc/self/fd/{number}")
        except OSError:
            pass  # the one of the directory itself
    return {name for name in names.values() if name.startswith("socket:")}

async def main():
    before = sockets()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(Connection(sys.argv[1]).__aenter__)
        while not sockets() - before:
            await anyio.sleep(0.01)
        for _ in range(20):  # rounds of the event loop, after which it is connected, and TLS waits for the server
            await anyio.sleep(0.01)
        ours = sockets() - before
        child = os.fork()
        if child == 0:
            print(len(ours), len(ours & sockets()), flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        print(len(ours & sockets()), flush=True)
        tasks.cancel_scope.cancel()

anyio.run(main, backend=sys.argv[2])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell what a process has open")
async def test_30_a_child_of_one_that_connects(anyio_backend: str) -> None:
    """Pitfall 30: a socket that is being secured is the parent's alone, too."""
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, silent)
        url = f"amqps://127.0.0.1:{listener.extra(SocketAttribute.local_port)}"
        with anyio.fail_after(60):
            done = await anyio.run_process([sys.executable, "-c", CONNECTING, url, anyio_backend])
        tasks.cancel_scope.cancel()
    assert done.stdout.decode().splitlines() == ["1 0", "1"]


async def silent(stream: ByteStream) -> None:
    async with stream:
        await anyio.sleep_forever()


@pytest.mark.parametrize("how", ["plain", "reconnect"])
async def test_30_a_child_cannot_use_the_connection(amqp_broker: Broker, anyio_backend: str, how: str) -> None:
    """Pitfall 30: in the child every call says whose connection it is, and the parent goes on."""
    command = [sys.executable, "-c", PARENT_AND_CHILD, amqp_broker.url, anyio_backend, how]
    done = await anyio.run_process(command)
    assert done.stderr == b""
    assert done.stdout.decode().splitlines() == [
        "the connection belongs to the process that this one was forked from",
        "the parent goes on",
    ]
    assert amqp_broker.queue("q").depth == 2


async def test_30_a_child_restores_nothing(amqp_broker: Broker, anyio_backend: str) -> None:
    """Pitfall 30: in the child of a process whose connection is just away no call waits for it, and none is made."""
    with anyio.fail_after(60):
        done = await anyio.run_process([sys.executable, "-c", AWAY, amqp_broker.url, anyio_backend])
    assert done.stdout.decode().splitlines() == [
        "the connection belongs to the process that this one was forked from",
        "True",
    ]
    assert amqp_broker.queue("q").depth == 1


async def test_30_a_child_does_not_hold_the_connection(amqp_broker: Broker, anyio_backend: str) -> None:
    """Pitfall 30: when the parent dies the broker knows at once, though a child lives on."""
    command = [sys.executable, "-c", CHILD_OUTLIVES, amqp_broker.url, anyio_backend]
    process = await anyio.open_process(command, stdin=subprocess.PIPE)
    async with process:
        await process.wait()
        with anyio.fail_after(60):
            while amqp_broker.connections:  # noqa: ASYNC110 - there is no event to wait for
                await anyio.sleep(0.01)
        assert process.stdin is not None
        await process.stdin.aclose()


async def test_30_a_child_does_not_hold_the_port(anyio_backend: str) -> None:
    """Pitfall 30: when a broker is gone its port is free, though a child of its process lives on."""
    process = await anyio.open_process([sys.executable, "-c", BROKER, anyio_backend], stdin=subprocess.PIPE)
    async with process:
        assert process.stdout is not None
        url = (await process.stdout.receive()).decode().strip()
        await process.wait()
        port = int(url.rpartition(":")[2])
        async with Broker(port=port) as broker, Connection(broker.url) as connection:
            assert connection.open
        assert process.stdin is not None
        await process.stdin.aclose()
