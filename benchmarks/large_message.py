"""One large message through the client, in a process of its own: how much memory it takes, and how long.

    python benchmarks/large_message.py [--size MiB] [--backend trio|asyncio]

    send      `sender.stream` with chunks of 64 KiB
    receive   `receiver(stream=True)`, every piece of `delivery.iter_body()` looked at
    pass on   both at once: each piece that was received is sent

The other end is `counterpart.py`, in a process of its own, which never holds more than a frame of the message. Memory
is the client's resident set: what it has grown at most since the links were attached. The exit status is 1 where that
is 64 MiB or more, or where the counterpart did not see just the one message.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio

from amqp10 import Connection, Delivery, Message, Receiver, Sender

HERE = Path(__file__).parent
LIMIT = 64  # MiB
CHUNK = bytes(65_536)
CASES = ("send", "receive", "pass-on")


def resident() -> float:
    """What this process has in memory now, MiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def highest() -> float:
    """The most that it ever had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


async def send(sender: Sender, size: int) -> int:
    async with sender.stream(Message(content_type="application/octet-stream"), size=size) as body:
        while body.sent < size:
            await body.send(CHUNK[: size - body.sent])
    return body.sent


async def receive(receiver: Receiver, handle: Callable[[bytes], Awaitable[None]] | None = None) -> int:
    delivery: Delivery = await receiver.receive()
    size = 0
    async for piece in delivery.iter_body():
        size += len(piece)
        if handle is not None:
            await handle(piece)
    delivery.accept()
    return size


async def pass_on(receiver: Receiver, sender: Sender, size: int) -> int:
    async with sender.stream(Message(content_type="application/octet-stream"), size=size) as body:
        return await receive(receiver, body.send)


async def run(url: str, case: str, size: int) -> None:
    """One case, in this process; what it took goes to standard output."""
    async with (
        Connection(url) as connection,
        connection.sender("q") as sender,
        connection.receiver(f"q.{size}.{0 if case == 'send' else 1}", stream=True, credit=0) as receiver,
    ):
        before, begun, cpu = resident(), time.perf_counter(), time.process_time()
        if case != "send":
            receiver.add_credit(1)
        calls = {
            "send": lambda: send(sender, size),
            "receive": lambda: receive(receiver),
            "pass-on": lambda: pass_on(receiver, sender, size),
        }
        done = await calls[case]()
        took, cpu = time.perf_counter() - begun, time.process_time() - cpu
        growth = max(highest() - before, 0.0)
    assert done == size, f"{done} of {size} bytes"
    print(json.dumps({"before": before, "growth": growth, "seconds": took, "cpu": cpu}))


def counted(counterpart: subprocess.Popen[str], case: str) -> None:
    """Hold the client to what the counterpart saw."""
    assert counterpart.stdout is not None
    seen: dict[str, Any] = json.loads(counterpart.stdout.readline())
    wanted = {"received": case != "receive", "sent": case != "send", "settled_by_client": case != "send"}
    wrong = [f"{name}: {seen[name]}" for name, value in wanted.items() if seen[name] != value]
    if wrong or "error" in seen:
        raise SystemExit(f"{case}: the counterpart saw {', '.join(wrong) or seen['error']}")


def main() -> int:
    """Every case in a process of its own; 1 if one of them took too much."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=2048, help="of the message, MiB (%(default)s)")
    parser.add_argument("--backend", choices=["trio", "asyncio"], default="trio")
    parser.add_argument("--case", choices=CASES, help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.case:
        anyio.run(run, given.url, given.case, given.size << 20, backend=given.backend)
        return 0
    command = [sys.executable, str(HERE / "counterpart.py")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as counterpart:
        try:
            assert counterpart.stdout is not None
            url = f"amqp://127.0.0.1:{json.loads(counterpart.stdout.readline())['port']}"
            print(f"| {given.size} MiB, {given.backend} | RSS before, MiB | grown at most, MiB | s | MiB/s | CPU s |")
            print("|---|--:|--:|--:|--:|--:|")
            too_much = False
            for case in CASES:
                options = ["--case", case, "--url", url, "--size", str(given.size), "--backend", given.backend]
                done = subprocess.run([sys.executable, __file__, *options], stdout=subprocess.PIPE, check=True)
                told = json.loads(done.stdout)
                counted(counterpart, case)
                too_much = too_much or told["growth"] >= LIMIT
                rate = given.size / told["seconds"]
                print(
                    f"| {case} | {told['before']:.0f} | {told['growth']:.1f} | {told['seconds']:.1f} | {rate:,.0f} "
                    f"| {told['cpu']:.1f} |",
                    flush=True,
                )
        finally:
            counterpart.terminate()
    return 1 if too_much else 0


if __name__ == "__main__":
    sys.exit(main())
