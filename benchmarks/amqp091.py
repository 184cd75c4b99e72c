"""What a message costs in AMQP 0-9-1: this client beside pika and aio-pika, against one counterpart.

    python benchmarks/amqp091.py               some two minutes
    python benchmarks/amqp091.py --seconds 0.3 --reps 3
    python benchmarks/amqp091.py --json benchmarks/results/amqp091_run.json    for the docs: see report.py

Publishing with confirms, up to 1000 of them open, and consuming with prefetch 1000, each message acked. Each client is
driven in the quickest way that it documents. As in run.py the figure is µs of CPU a message of the client's process,
interleaved runs, medians; the first third of a run is warm-up.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
IN_FLIGHT = 1000
FIRST_COUNT = 2000
PATIENCE = 120  # seconds for one run


class Clock:
    """Counts what is done, and what it took."""

    def __init__(self, warmup: int, count: int) -> None:
        self.total = warmup + count
        self._warmup, self._count = warmup, count
        self._done = 0
        self._begin: tuple[float, float] = (0.0, 0.0)

    @staticmethod
    def _now() -> tuple[float, float]:
        used = resource.getrusage(resource.RUSAGE_SELF)
        return time.perf_counter(), used.ru_utime + used.ru_stime

    def tick(self, count: int = 1) -> bool:
        """So many more are done; True when all are, and the line is printed."""
        before = self._done
        self._done = done = before + count
        if before < self._warmup <= done:
            self._begin = self._now()
        if done < self.total:
            return False
        seconds, cpu = (now - then for now, then in zip(self._now(), self._begin, strict=True))
        print(json.dumps({"count": self._count, "seconds": seconds, "cpu": cpu}))
        return True


# The clients


def amqp10_peer(port: int, mode: str, queue: str, body: bytes, clock: Clock) -> None:
    """`send_many`, and `async for` with `accept`."""
    import trio

    from amqp10 import Connection, Message

    async def main() -> None:
        async with Connection(f"amqp://guest:guest@127.0.0.1:{port}", dialect="0-9-1") as connection:
            if mode == "send":
                async with connection.sender(queue) as sender:
                    for count in (clock.total - clock._count, clock._count):
                        await sender.send_many(Message(body) for _ in range(count))
                        clock.tick(count)
            else:
                async with connection.receiver(queue, credit=IN_FLIGHT) as receiver:
                    async for delivery in receiver:
                        assert len(delivery.message.body) == len(body)
                        delivery.accept()
                        if clock.tick():
                            break

    trio.run(main)


def pika_peer(port: int, mode: str, queue: str, body: bytes, clock: Clock) -> None:
    """Its asynchronous adapter; the blocking one waits for each confirm."""
    import pika

    state = {"sent": 0, "confirmed": 0}

    def publish(channel: Any) -> None:
        while state["sent"] - state["confirmed"] < IN_FLIGHT and state["sent"] < clock.total:
            channel.basic_publish("", queue, body, mandatory=True)
            state["sent"] += 1

    def confirmed(channel: Any, frame: Any) -> None:
        number = frame.method.delivery_tag
        count = number - state["confirmed"] if frame.method.multiple else 1
        state["confirmed"] += count
        if clock.tick(count):
            channel.connection.close()
        else:
            publish(channel)

    def received(channel: Any, method: Any, _properties: Any, got: bytes) -> None:
        assert len(got) == len(body)
        channel.basic_ack(method.delivery_tag)
        if clock.tick():
            channel.connection.close()

    def opened(channel: Any) -> None:
        if mode == "send":
            channel.confirm_delivery(lambda frame: confirmed(channel, frame), callback=lambda _: publish(channel))
        else:
            channel.basic_qos(prefetch_count=IN_FLIGHT, callback=lambda _: channel.basic_consume(queue, received))

    connection = pika.SelectConnection(
        pika.ConnectionParameters("127.0.0.1", port),
        on_open_callback=lambda connection: connection.channel(on_open_callback=opened),
        on_close_callback=lambda connection, _: connection.ioloop.stop(),
    )
    connection.ioloop.start()


def aio_pika_peer(port: int, mode: str, queue: str, body: bytes, clock: Clock) -> None:
    """Publishes gathered by the thousand, and a consumer's callback."""
    import aio_pika

    async def main() -> None:
        connection = await aio_pika.connect(f"amqp://guest:guest@127.0.0.1:{port}/")
        channel = await connection.channel()
        if mode == "send":
            publish = channel.default_exchange.publish
            for begin in range(0, clock.total, IN_FLIGHT):
                count = min(IN_FLIGHT, clock.total - begin)
                await asyncio.gather(*(publish(aio_pika.Message(body), queue) for _ in range(count)))
                clock.tick(count)
        else:
            await channel.set_qos(prefetch_count=IN_FLIGHT)
            done = asyncio.Event()

            async def received(message: Any) -> None:
                assert len(message.body) == len(body)
                await message.ack()
                if clock.tick():
                    done.set()

            source = await channel.get_queue(queue, ensure=False)
            await source.consume(received)
            await done.wait()
        await connection.close()

    asyncio.run(main())


PEERS: dict[str, Callable[[int, str, str, bytes, Clock], None]] = {
    "amqp10": amqp10_peer,
    "pika": pika_peer,
    "aio-pika": aio_pika_peer,
}


# Running them


class Counterpart:
    """The process at the other end."""

    def __init__(self) -> None:
        command = [sys.executable, str(HERE / "counterpart_0_9_1.py")]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.port: int = self._line()["port"]

    def _line(self) -> dict[str, int]:
        assert self.process.stdout is not None
        found: dict[str, int] = json.loads(self.process.stdout.readline())
        return found

    def run(self, peer: str, mode: str, size: int, count: int) -> dict[str, float]:
        """One run of a client.

        Raises:
            AssertionError: what crossed the wire is not what was asked for.
        """
        total = count + count // 2
        command = [sys.executable, str(Path(__file__)), "--peer", peer, "--mode", mode, "--port", str(self.port)]
        command += ["--sizes", str(size), "--count", str(count)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
        seen = self._line()
        assert done.returncode == 0, done.stderr
        assert seen["published" if mode == "send" else "acked"] == total, seen
        result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
        return result


Figures = dict[tuple[str, int, str], tuple[float, float]]


def measure(peers: list[str], sizes: list[int], reps: int, seconds: float, count: int | None) -> Figures:
    """By mode, size and client: CPU µs a message, and messages a second; medians.

    A run has `count` messages, else as many as take about so many seconds, found by trying.
    """
    counterpart = Counterpart()
    found: dict[tuple[str, int, str], list[dict[str, float]]] = {}
    counts: dict[tuple[str, int, str], int] = {}
    try:
        for _ in range(reps):
            for mode in ("send", "recv"):
                for size in sizes:
                    for peer in peers:
                        case = mode, size, peer
                        if count is not None:
                            counts[case] = count
                        elif case not in counts:
                            tried = counterpart.run(peer, mode, size, FIRST_COUNT)
                            counts[case] = max(FIRST_COUNT, round(FIRST_COUNT * seconds / tried["seconds"]))
                        found.setdefault(case, []).append(counterpart.run(peer, mode, size, counts[case]))
    finally:
        counterpart.process.terminate()
        counterpart.process.wait()
    return {
        case: (
            statistics.median(run["cpu"] / run["count"] * 1e6 for run in runs),
            statistics.median(run["count"] / run["seconds"] for run in runs),
        )
        for case, runs in found.items()
    }


def table(figures: Figures) -> list[str]:
    """A line for each case; the first client is ours."""
    lines = ["| case | client | CPU µs/message | times ours | messages/s |", "|---|---|--:|--:|--:|"]
    ours = next(iter(figures))[2]
    for (mode, size, peer), (cpu, rate) in figures.items():
        what = "publish, confirms" if mode == "send" else "consume, acks"
        base, _ = figures[mode, size, ours]
        lines.append(f"| {what} {size} B | {peer} | {cpu:.2f} | {cpu / base:.1f} | {rate:,.0f} |")
    return lines


def main() -> None:
    """Be the runner, or one of the clients."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", default=",".join(PEERS), help="of %(default)s")
    parser.add_argument("--sizes", default="100,1024", help="of the body, bytes")
    parser.add_argument("--reps", type=int, default=5, help="runs of each")
    parser.add_argument("--seconds", type=float, default=1.0, help="about so long is a run")
    parser.add_argument("--count", type=int, help="messages of a run, whatever time they take")
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    for option in ("--peer", "--mode", "--port"):
        parser.add_argument(option, help=argparse.SUPPRESS)
    given = parser.parse_args()
    sizes = [int(size) for size in given.sizes.split(",")]
    if given.peer is None:
        figures = measure(given.peers.split(","), sizes, given.reps, given.seconds, given.count)
        print("\n".join(table(figures)))
        if given.json is not None:
            versions = ", ".join(f"{name} {version(name)}" for name in given.peers.split(","))
            facts = {"runs": given.reps, "clients": versions, "python": platform.python_version()}
            facts["figures"] = {" ".join(map(str, case)): found for case, found in figures.items()}
            given.json.write_text(json.dumps(facts, indent=1) + "\n")
        return
    count = given.count
    queue = f"q.{sizes[0]}.{count + count // 2}"
    PEERS[given.peer](int(given.port), given.mode, queue, b"x" * sizes[0], Clock(count // 2, count))


if __name__ == "__main__":
    main()
