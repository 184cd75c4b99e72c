"""What `Broker(store=...)` costs in messages a second: a broker in a process of its own, in memory and with a store.

    python benchmarks/store.py                        durable messages of 1 KiB, one connection and ten
    python benchmarks/store.py --delay 5              the same as on a disk that takes 5 ms more for each fsync

Compare within one run only; the disk is that of the temporary folder.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import anyio

from amqp10 import Connection, Message
from amqp10.broker import Broker
from amqp10.broker._store.tables import StoreFile

CREDIT = 1000


async def serve(store: str | None, delay: float) -> None:
    """The broker's process."""
    commit = StoreFile.commit

    def slow(file: StoreFile) -> None:
        time.sleep(delay)
        commit(file)

    StoreFile.commit = slow  # type: ignore[method-assign]
    async with Broker(store=store) as broker:
        print(broker.url, flush=True)
        await anyio.sleep_forever()


async def measure(url: str, connections: int, count: int, size: int) -> list[float]:
    """Messages a second: sent by `send_many`, received and accepted, sent one by one."""
    body = b"x" * size

    async def send_many(number: int) -> None:
        async with Connection(url) as connection, connection.sender("q") as sender:
            await sender.send_many(Message(body, durable=True) for _ in range(number))

    async def receive(number: int) -> None:
        async with Connection(url) as connection, connection.receiver("q", credit=CREDIT) as receiver:
            for _ in range(number):
                (await receiver.receive()).accept()

    async def send(number: int) -> None:
        async with Connection(url) as connection, connection.sender("q") as sender:
            for _ in range(number):
                await sender.send(Message(body, durable=True))

    async def rate(work: Callable[[int], Coroutine[Any, Any, Any]], number: int) -> float:
        begin = time.perf_counter()
        async with anyio.create_task_group() as tasks:
            for _ in range(connections):
                tasks.start_soon(work, number // connections)
        return number / (time.perf_counter() - begin)

    return [await rate(send_many, count), await rate(receive, count), await rate(send, min(count // 20, 2000))]


def run(store: str | None, options: argparse.Namespace, connections: int) -> list[float]:
    """One broker, from its start to its end."""
    command = [sys.executable, __file__, "--serve", store or "", "--delay", str(options.delay)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        try:
            return anyio.run(measure, url, connections, options.count, options.size, backend="trio")
        finally:
            process.kill()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=40_000, help="messages of each measurement")
    parser.add_argument("--size", type=int, default=1024, help="bytes of a body")
    parser.add_argument("--delay", type=float, default=0.0, help="milliseconds that each commit takes longer")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve is not None:
        anyio.run(serve, options.serve or None, options.delay / 1000, backend="trio")
        return
    print(f"{'messages a second':24}{'send_many':>12}{'receive':>12}{'one by one':>12}")
    for connections in (1, 10):
        for name in ("memory", "store"):
            with tempfile.TemporaryDirectory() as folder:
                rates = run(str(Path(folder, "store")) if name == "store" else None, options, connections)
            print(f"{connections:3} connections, {name:8}", *(f"{rate:12,.0f}" for rate in rates), sep="")


if __name__ == "__main__":
    main()
