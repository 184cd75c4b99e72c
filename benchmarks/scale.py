"""Many links, many connections, mixed rates, much memory or little: what grows and what stays.

    python benchmarks/scale.py                  all of it, some ten minutes
    python benchmarks/scale.py cost fairness memory endurance           some of it
    python benchmarks/scale.py cost memory --native           beside go-amqp, too, which is built for that

Every figure comes from a process of its own, against the counterpart; the clients take turns.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio
from run import Counterpart, setting

import native
from amqp10 import Connection, Message, Receiver, Sender

BODY = b"x" * 100
PAGE = os.sysconf("SC_PAGE_SIZE")
PROTON = Path(__file__).with_name("peers") / "proton_scale.py"
EACH = 500  # messages of each of many links or connections, at least


def resident() -> int:
    """Bytes of memory that this process has, garbage collected."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


# What a message costs with many links or connections


async def take(receiver: Receiver, count: int) -> None:
    async for delivery in receiver:
        assert len(delivery.message.body) == len(BODY)
        delivery.accept()
        count -= 1
        if not count:
            return


async def give(sender: Sender, count: int) -> None:
    await sender.send_many(Message(BODY) for _ in range(count))


async def cost(url: str, way: str, links: int, connections: int, total: int, young: int) -> dict[str, float]:
    """CPU µs a message, `total` messages spread over so many links on each of so many connections, or EACH on each.

    `young`: so many new objects until Python looks for garbage cycles, and those of the links left out; 0: as it does.
    """
    each = max(EACH, total // (links * connections))
    async with AsyncExitStack() as stack:
        ends: list[Any] = []
        for _ in range(connections):
            connection = await stack.enter_async_context(Connection(url))
            for _ in range(links):
                address = f"q.{len(BODY)}.{each}"
                end = connection.sender(address) if way == "send" else connection.receiver(address, credit=0)
                ends.append(await stack.enter_async_context(end))
        if young:
            gc.freeze()
            gc.set_threshold(young)
        began = time.process_time()
        async with anyio.create_task_group() as tasks:
            for end in ends:
                if way != "send":
                    end.add_credit(each)
                tasks.start_soon(give if way == "send" else take, end, each)
        return {"cpu": (time.process_time() - began) / (each * len(ends)) * 1e6}


# Who gets how much


async def first(done: Callable[[], bool]) -> None:
    """Wait for the first message, which on a busy machine may take longer than all that is measured."""
    while not done():  # noqa: ASYNC110 - an event would be set for each message, and measured
        await anyio.sleep(0.01)


async def fairness(url: str, way: str, links: int, seconds: float) -> dict[str, float]:
    """Links of one connection that all go as fast as they may: how evenly, by Jain's index (1: all the same)."""
    counts = [0] * links

    async def flood(number: int, sender: Sender) -> None:
        while True:
            await sender.submit(Message(BODY))
            counts[number] += 1

    async def drink(number: int, receiver: Receiver) -> None:
        async for delivery in receiver:
            delivery.accept()
            counts[number] += 1

    async with AsyncExitStack() as stack:
        connection = await stack.enter_async_context(Connection(url))
        ends: list[Any] = []
        for number in range(links):
            address = f"q{number}.{len(BODY)}.{1 << 30}"
            end = connection.sender(address) if way == "send" else connection.receiver(address)
            ends.append(await stack.enter_async_context(end))
        began = time.process_time()
        async with anyio.create_task_group() as tasks:
            for number, end in enumerate(ends):
                tasks.start_soon(flood if way == "send" else drink, number, end)
            await first(lambda: any(counts))
            await anyio.sleep(seconds)
            tasks.cancel_scope.cancel()
        cpu = (time.process_time() - began) / sum(counts) * 1e6
    index = sum(counts) ** 2 / (links * sum(count * count for count in counts))
    return {"index": index, "least": min(counts), "most": max(counts), "sum": sum(counts), "cpu": cpu}


async def mixed(url: str, floods: int, seconds: float) -> dict[str, float]:
    """Ten sessions, of which some send as fast as they may: what the others see, each with a message every 100 ms."""
    took: list[float] = []
    flooded = 0

    async def flood(sender: Sender) -> None:
        nonlocal flooded
        while True:
            await sender.submit(Message(BODY))
            flooded += 1

    async def pace(sender: Sender) -> None:
        due = time.perf_counter()
        while True:
            await sender.send(Message(BODY))
            took.append(time.perf_counter() - due)
            due += 0.1
            await anyio.sleep(max(0.0, due - time.perf_counter()))

    async with AsyncExitStack() as stack:
        connection = await stack.enter_async_context(Connection(url))
        senders = []
        for n in range(10):
            session = await stack.enter_async_context(connection.session())
            senders.append(await stack.enter_async_context(session.sender(f"q.{n}.1")))
        began = time.process_time()
        async with anyio.create_task_group() as tasks:
            for n, sender in enumerate(senders):
                tasks.start_soon(flood if n < floods else pace, sender)
            await first(lambda: bool(took))
            await anyio.sleep(seconds)
            tasks.cancel_scope.cancel()
        cpu = (time.process_time() - began) / (flooded + len(took)) * 1e6
    took.sort()
    due = (10 - floods) * seconds / 0.1
    figures = {"flooded": flooded / seconds, "done": len(took) / due, "cpu": cpu}
    return figures | {"p50": took[len(took) // 2] * 1e3, "p99": took[len(took) * 99 // 100] * 1e3}


# Memory


async def memory(url: str, what: str, count: int) -> dict[str, float]:
    """Bytes of memory for each of so many, idle."""
    async with AsyncExitStack() as stack:
        if what == "connections":
            await stack.enter_async_context(Connection(url))  # what is imported and made once
            before = resident()
            for _ in range(count):
                await stack.enter_async_context(Connection(url))
            return {"each": (resident() - before) / count}
        connection = await stack.enter_async_context(Connection(url, close_timeout=1))
        if what == "links":
            await stack.enter_async_context(connection.receiver("q.1.0"))
            before = resident()
            for n in range(count):
                await stack.enter_async_context(connection.receiver(f"q{n}.1.0"))
            return {"each": (resident() - before) / count}
        async with connection.receiver(f"q.{len(BODY)}.{count + 1000}", credit=count + 1000) as receiver:
            kept = await receiver.receive_batch(1000)
            before = resident()
            while len(kept) < count + 1000:
                kept += await receiver.receive_batch(count)
            return {"each": (resident() - before) / count}


async def endurance(url: str, count: int) -> dict[str, float]:
    """Resident MiB while so many messages are received: at a tenth, at half, at the end."""
    seen = {}
    marks = {count // 10: "tenth", count // 2: "half", count: "end"}
    async with Connection(url) as connection, connection.receiver(f"q.{len(BODY)}.{count}", credit=1000) as receiver:
        done = 0
        began = time.perf_counter()
        async for delivery in receiver:
            delivery.accept()
            done += 1
            if done in marks:
                seen[marks[done]] = resident() / 2**20
                if done == count:
                    break
        return {**seen, "rate": count / (time.perf_counter() - began)}


# One figure a process


CASES: dict[str, Callable[..., Awaitable[dict[str, float]]]] = {
    "cost": cost,
    "fairness": fairness,
    "mixed": mixed,
    "memory": memory,
    "endurance": endurance,
}


class Children:
    """Runs one case after the other, each in a new process."""

    def __init__(self) -> None:
        self.counterpart = Counterpart([])
        self.url = f"amqp://127.0.0.1:{self.counterpart.port}"

    def __call__(self, case: str, *arguments: object, command: list[str] | None = None) -> dict[str, float]:
        command = command or [sys.executable, __file__, "--url", self.url, "--case", case]
        done = subprocess.run([*command, *map(str, arguments)], capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"{case} {arguments}: {done.stderr}")
        found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
        return found

    def proton(self, case: str, *arguments: object) -> dict[str, float]:
        """The same of python-qpid-proton."""
        return self(case, *arguments, command=[sys.executable, str(PROTON), self.url, case])


def number(text: str) -> int | float | str:
    try:
        return int(text)
    except ValueError:
        try:
            return float(text)
        except ValueError:
            return text


def say_cost(
    run: Children, counts: list[int], total: int, rounds: int, young: int, beside: bool, go: list[str] | None
) -> None:
    head = " | ".join(map(str, counts))
    print(f"\n| CPU µs a message | {head} | {counts[-1]} to {counts[0]} |\n|---|{'--:|' * len(counts)}--:|")
    for what in ("links", "connections"):
        clients = ["amqp10"] + (["proton"] if what == "connections" and beside else [])
        clients += ["go-amqp"] if what == "connections" and go else []
        for way in ("send", "receive"):
            took: dict[tuple[str, int], list[float]] = {(client, count): [] for client in clients for count in counts}
            for _ in range(rounds):
                for client, count in took:
                    each = max(EACH, total // count)
                    if client == "amqp10":
                        spread = (count, 1) if what == "links" else (1, count)
                        got = run("cost", way, *spread, total, young)
                    elif client == "proton":
                        got = run.proton("cost", way, count, each)
                    else:
                        options = [
                            "--mode",
                            f"cost-{way}",
                            "--size",
                            str(len(BODY)),
                            "--connections",
                            str(count),
                            "--count",
                            str(each),
                        ]
                        got = run("cost", "--url", f"{run.url}/q.{len(BODY)}.{each}", *options, command=go)
                    took[client, count].append(got["cpu"])
            for client in clients:
                cpu = [statistics.median(took[client, count]) for count in counts]
                figures = " | ".join(f"{each:.2f}" for each in cpu)
                print(f"| {client}: {way}, by {what} | {figures} | {cpu[-1] / cpu[0]:.2f} |", flush=True)


def say_fairness(run: Children, counts: list[int], seconds: float) -> None:
    print("\n| links of one connection | Jain's index | least | most | messages/s | CPU µs a message |")
    print("|---|--:|--:|--:|--:|--:|")
    for way in ("send", "receive"):
        for links in counts:
            got = run("fairness", way, links, seconds)
            figures = (
                f"{got['index']:.3f} | {got['least']} | {got['most']} | {got['sum'] / seconds:,.0f} | {got['cpu']:.2f}"
            )
            print(f"| {links}, {way} | {figures} |", flush=True)
    print(
        "\n| of ten sessions | messages/s of those | CPU µs a message | the others' messages done | p50 ms | p99 ms |"
    )
    print("|---|--:|--:|--:|--:|--:|")
    for floods in (0, 1, 5, 9):
        got = run("mixed", floods, seconds)
        figures = f"{got['flooded']:,.0f} | {got['cpu']:.2f} | {got['done']:.1%} | {got['p50']:.2f} | {got['p99']:.2f}"
        print(f"| {floods} send all they can | {figures} |")


def say_memory(run: Children, count: int, deliveries: int, go: list[str] | None) -> None:
    others = ["proton"] + (["go-amqp"] if go else [])
    print(f"\n| KiB for each | amqp10 | {' | '.join(others)} |\n|---|{'--:|' * (1 + len(others))}")
    for what, many in (("connections", count), ("links", count), ("deliveries", deliveries)):
        figures = [run("memory", what, many), run.proton(what, many)]
        if go:
            options = ["--url", run.url + "/q", "--mode", f"memory-{what}", "--count", str(many)]
            figures.append(run("go-amqp", *options, command=go))
        cells = " | ".join(f"{got['each'] / 1024:.1f}" for got in figures)
        print(
            f"| idle {what} ({many}) | {cells} |"
            if what != "deliveries"
            else f"| unsettled {what} ({many}) | {cells} |"
        )


def say_endurance(run: Children, count: int) -> None:
    got = run("endurance", count)
    print("\n| received | resident MiB at a tenth | at half | at the end |\n|--:|--:|--:|--:|")
    print(f"| {count:,} | {got['tenth']:.1f} | {got['half']:.1f} | {got['end']:.1f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", help="cost, fairness, memory, endurance; all when none is named")
    parser.add_argument(
        "--counts", default="1,10,100,1000", help="of links and of connections, in each cost; of links, in fairness"
    )
    parser.add_argument("--alone", action="store_true", help="in each cost: no other clients")
    parser.add_argument("--total", type=int, default=100_000, help="messages of each cost")
    parser.add_argument(
        "--young", type=int, default=0, help="in each cost: gc.freeze, and gc.set_threshold to this many objects"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each fairness")
    parser.add_argument("--count", type=int, default=1000, help="connections and links in memory")
    parser.add_argument("--deliveries", type=int, default=50_000, help="deliveries in memory")
    parser.add_argument("--messages", type=int, default=5_000_000, help="of the endurance")
    parser.add_argument("--native", action="store_true", help="cost and memory of go-amqp, too")
    parser.add_argument("--url", help=argparse.SUPPRESS)
    parser.add_argument("--case", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.case:
        print(json.dumps(anyio.run(CASES[given.case], given.url, *map(number, given.what), backend="trio")))
        return
    go = native.CLIENTS["go-amqp"].ready() if given.native else None
    run = Children()
    try:
        print(setting())
        counts = [int(count) for count in given.counts.split(",")]
        if not given.what or "cost" in given.what:
            say_cost(run, counts, given.total, given.rounds, given.young, not given.alone, go)
        if not given.what or "fairness" in given.what:
            say_fairness(run, [count for count in counts if count > 1], given.seconds)
        if not given.what or "memory" in given.what:
            say_memory(run, given.count, given.deliveries, go)
        if not given.what or "endurance" in given.what:
            say_endurance(run, given.messages)
    finally:
        run.counterpart.stop()


if __name__ == "__main__":
    main()
