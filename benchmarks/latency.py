"""How long one message takes when each waits for the one before: `await sender.send()`, one in flight.

    python benchmarks/latency.py                                    against the counterpart, about half a minute
    python benchmarks/latency.py --url amqp://localhost/queue       against a broker; what was sent stays there

Beside it python-qpid-proton's blocking sender, in the same run. Each run is a process of its own, the runs take turns,
and the table has the median of their p50 and p99 (µs from the call to the outcome), so that a busy moment, which p99
shows most, does not fall on one of them alone.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable
from urllib.parse import urlsplit

import anyio
from run import Counterpart, installed, positive, setting, some_of

from amqp10 import Connection, Message

BODY = b"x" * 100
PEERS = ("amqp10 trio", "amqp10 asyncio", "proton")


def amqp10(url: str, address: str, count: int, backend: str) -> list[float]:
    took = []

    async def main() -> None:
        clock = time.perf_counter
        async with Connection(url) as connection, connection.sender(address) as sender:
            for _ in range(count):
                began = clock()
                await sender.send(Message(BODY))
                took.append(clock() - began)

    anyio.run(main, backend=backend)
    return took


def proton(url: str, address: str, count: int) -> list[float]:
    from proton import Message as ProtonMessage
    from proton.utils import BlockingConnection

    took = []
    clock = time.perf_counter
    connection = BlockingConnection(url, allowed_mechs=None if urlsplit(url).username else "ANONYMOUS")
    sender = connection.create_sender(address)
    for _ in range(count):
        began = clock()
        sender.send(ProtonMessage(body=BODY, inferred=True))
        took.append(clock() - began)
    connection.close()
    return took


def run(peer: str, url: str, count: int) -> None:
    """One run, in this process: prints its percentiles, without the first fifth."""
    server, address = url.rpartition("/")[::2]
    name, _, backend = peer.partition(" ")
    before = time.process_time()
    took = amqp10(server, address, count, backend) if name == "amqp10" else proton(server, address, count)
    cpu = (time.process_time() - before) / count
    counted = sorted(took[count // 5 :])
    p50, p99 = counted[len(counted) // 2], counted[len(counted) * 99 // 100]
    print(json.dumps({"p50": p50 * 1e6, "p99": p99 * 1e6, "cpu": cpu * 1e6}))


def measure(peers: Iterable[str], url: str, rounds: int, count: int) -> dict[str, list[dict[str, float]]]:
    results: dict[str, list[dict[str, float]]] = {peer: [] for peer in peers}
    for _ in range(rounds):
        for peer, runs in results.items():
            command = [sys.executable, __file__, "--url", url, "--count", str(count), "--run", peer]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                sys.exit(f"{peer}: {(done.stderr.strip().splitlines() or ['it said nothing'])[-1]}")
            runs.append(json.loads(done.stdout.splitlines()[-1]))
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="of a queue, in place of the counterpart")
    parser.add_argument("--count", type=positive, default=3000, help="messages of a run")
    parser.add_argument("--rounds", type=positive, default=9)
    parser.add_argument("--peers", type=some_of(PEERS), default=",".join(PEERS), help="of %(default)s")
    parser.add_argument("--run", metavar="PEER", help="do one run of it here")
    given = parser.parse_args()
    if given.run:
        run(given.run, given.url, given.count)
        return
    counterpart = None if given.url else Counterpart([])
    try:
        url = given.url or f"amqp://127.0.0.1:{counterpart.port if counterpart else 0}/q.100.1"
        peers = [peer for peer in given.peers if installed([peer.partition(" ")[0]])]
        results = measure(peers, url, given.rounds, given.count)
    finally:
        if counterpart is not None:
            counterpart.stop()
    print(f"{setting()}\n\n| one in flight | p50 µs | p99 µs | CPU µs/message |\n|---|--:|--:|--:|")
    for peer, runs in results.items():
        p50, p99, cpu = (statistics.median(one[figure] for one in runs) for figure in ("p50", "p99", "cpu"))
        print(f"| {peer} | {p50:.0f} | {p99:.0f} | {cpu:.0f} |")


if __name__ == "__main__":
    main()
