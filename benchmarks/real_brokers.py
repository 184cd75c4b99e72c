"""What orders cost a broker: the embedded one beside Artemis and RabbitMQ, go-amqp at both ends, runs that take turns.

    make bench-real-brokers                           everything, and the figures for the docs
    python benchmarks/real_brokers.py --reps 3 --brokers amqp10,artemis
    python benchmarks/real_brokers.py --brokers amqp10,amqp10@OTHER/src     beside another tree of this package

The messages are the orders of `real.py`, each with an id of its own. "through": one client sends while another
receives, reads all and accepts; "fill": one sends; "drain": one receives what that left. "memory" has messages that are
not durable; "store" has durable ones, with `fsync` before a message is confirmed. Needs go, and what the interop tests
need for Artemis (java, mvn) and RabbitMQ (Debian); who is not here is left out, and that is said. All brokers run all
the time; the first round is their warm-up and not counted.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import compiled
from real_clients import write_messages
from run import PATIENCE, Failed, file_to_be, machine, positive, setting, some_of

import native
from amqp10 import Connection
from amqp10.rabbitmq import management

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from tests.interop import brokers as servers  # noqa: E402  # as the interop tests set them up

TICKS = os.sysconf("SC_CLK_TCK")
WORKLOADS = ("through", "fill", "drain")
KINDS = ("memory", "store")
OURS, COMPILED, ARTEMIS, RABBITMQ = "amqp10", "amqp10+compiled", "artemis", "rabbitmq"
JAVA = ("-XX:TieredStopAtLevel=4", "-XX:-UseSerialGC", "-XX:+UseParallelGC", "-Xms512m", "-Xmx1g")
"""What Artemis's own script gives Java, in place of the options for short lives that the tests give it."""


@dataclass(frozen=True)
class Running:
    """A broker that serves.

    Attributes:
        url: with the address of the queue.
        pid: whose CPU counts.
    """

    url: str
    pid: int

    def cpu(self) -> float:
        """Seconds of CPU that its process has used."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS


def fsync_seconds(folder: Path) -> float:
    """What appending 4 KiB and having it on the disk takes there: a median."""
    took = []
    with (folder / "probe").open("wb", buffering=0) as file:
        for _ in range(200):
            began = time.perf_counter()
            file.write(bytes(4096))
            os.fdatasync(file.fileno())
            took.append(time.perf_counter() - began)
    return statistics.median(took)


@contextmanager
def embedded(store: Path | None, source: Path | None) -> Iterator[Running]:
    """The embedded broker in a process of its own, of that tree or of this one."""
    command = [sys.executable, str(HERE / "store.py"), "--serve", str(store or "")]
    env = dict(os.environ)
    if source is not None:
        env["PYTHONPATH"] = str(source.resolve())
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as process:
        assert process.stdout is not None
        try:
            yield Running(process.stdout.readline().strip() + "/orders", process.pid)
        finally:
            process.kill()


@contextmanager
def artemis(certificates: Path, folder: Path) -> Iterator[dict[str, Running]]:
    """Artemis, whose journal syncs; as its own `create` does, it waits for more to write as long as the disk takes."""
    text = (servers.ARTEMIS.config / "broker.xml").read_text()
    wait = round(fsync_seconds(folder) * 1e9)
    for old, new in (
        ("<journal-datasync>false<", f"<journal-buffer-timeout>{wait}</journal-buffer-timeout><journal-datasync>true<"),
        ("<journal-pool-files>2<", "<journal-pool-files>10<"),
    ):
        assert old in text, old
        text = text.replace(old, new)
    config = folder / "broker.xml"
    config.write_text(text)
    recipe = replace(
        servers.ARTEMIS, options=(*servers.ARTEMIS.options, *JAVA), files=(("etc/broker.xml", str(config)),)
    )
    servers.write_trust_store(certificates, servers.java())
    with servers.serving(recipe, certificates) as broker:
        server = broker.server
        yield {kind: Running(f"amqp://127.0.0.1:{server.ports['amqp']}/orders", server.pid) for kind in KINDS}


@contextmanager
def rabbitmq(certificates: Path) -> Iterator[dict[str, Running]]:
    """RabbitMQ with a classic queue, and a quorum queue, which is the kind whose messages it syncs."""

    async def declare(server: servers.Server) -> None:
        async with Connection(server.url()) as connection, management(connection) as rabbit:
            await rabbit.declare_queue("memory", "classic")
            await rabbit.declare_queue("store", "quorum")

    with servers.serving_rabbitmq(certificates, servers.NEWEST) as broker:
        server = broker.server
        anyio.run(declare, server)
        url = f"amqp://127.0.0.1:{server.ports['amqp']}//queues"
        yield {kind: Running(f"{url}/{kind}", server.pid) for kind in KINDS}


def start(name: str, stack: ExitStack, folder: Path, certificates: Path) -> dict[str, Running]:
    """The broker of that name, for each kind."""
    own, _, source = name.partition("@")
    if own in (OURS, COMPILED):
        tree = Path(source) if source else compiled.installed() if own == COMPILED else None
        file = folder / f"{abs(hash(name))}.db"
        return {kind: stack.enter_context(embedded(file if kind == "store" else None, tree)) for kind in KINDS}
    return stack.enter_context(rabbitmq(certificates) if own == RABBITMQ else artemis(certificates, folder))


class Bench:
    """Runs every workload with every broker, in turn."""

    def __init__(self, running: dict[str, dict[str, Running]], program: list[str], messages: Path, count: int) -> None:
        self.running, self.program, self.messages, self.count = running, program, messages, count
        self.figures: dict[str, dict[str, list[dict[str, float]]]] = {
            f"{kind} {workload}": {name: [] for name in running} for kind in KINDS for workload in WORKLOADS
        }

    def round(self, number: int) -> None:
        """Each broker once in each workload, neighbours in time being compared; the first counts for nothing."""
        for case, runs in self.figures.items():
            kind, workload = case.split()
            for name, results in runs.items():
                result = self.run(self.running[name][kind], kind, workload)
                told = f"{result['cpu']:8.2f} µs CPU {result['rate']:9,.0f}/s"
                print(f"{number}  {case:16} {name:16} {told}", file=sys.stderr)
                if number:
                    results.append(result)

    def run(self, broker: Running, kind: str, workload: str) -> dict[str, float]:
        """One run; a third of its messages come before the clock of the clients starts.

        Raises:
            Failed: a client did not end well.
        """
        before = broker.cpu()
        modes = {"through": ("broker-receive", "broker-send"), "fill": ("broker-send",), "drain": ("broker-receive",)}
        clients = [self.client(broker.url, mode, kind) for mode in modes[workload]]
        told: list[dict[str, Any]] = []
        for client in clients:
            try:
                out, err = client.communicate(timeout=PATIENCE)
            except subprocess.TimeoutExpired:
                for each in clients:
                    each.kill()
                raise Failed(f"not done after {PATIENCE} s") from None
            if client.returncode or not out:
                raise Failed((err.strip().splitlines() or ["it printed nothing"])[-1])
            told.append(json.loads(out.splitlines()[-1]))
        total = self.count + self.count // 2
        clients_cpu = sum(each["cpu_user"] + each["cpu_sys"] for each in told) / self.count
        return {
            "cpu": (broker.cpu() - before) / total * 1e6,
            "rate": told[0]["count"] / told[0]["seconds"],
            "clients": clients_cpu * 1e6,
        }

    def client(self, url: str, mode: str, kind: str) -> subprocess.Popen[str]:
        command = [*self.program, "-url", url, "-mode", mode, "-messages", str(self.messages)]
        command += ["-count", str(self.count), "-warmup", str(self.count // 2)]
        if kind == "store":
            command.append("-durable")
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def table(figures: dict[str, dict[str, list[dict[str, float]]]]) -> str:
    """Medians, and of Artemis's, or of the first broker's, how many times that is, round by round."""
    lines = ["| case | broker | CPU µs/message | times | messages/s | times | clients' CPU |"]
    lines.append("|---|---|--:|--:|--:|--:|--:|")
    for case, runs in figures.items():
        than = runs.get(ARTEMIS) or next(iter(runs.values()))
        for name, results in runs.items():
            cells = [case, name]
            for figure, form in (("cpu", ".1f"), ("rate", ",.0f")):
                cells.append(format(statistics.median(each[figure] for each in results), form))
                ratios = (one[figure] / other[figure] for one, other in zip(results, than, strict=True))
                cells.append(f"{statistics.median(ratios):.2f}")
            cells.append(f"{statistics.median(each['clients'] for each in results):.1f}")
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> int:
    """Run what is asked for, print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    everyone = f"{OURS},{COMPILED},{ARTEMIS},{RABBITMQ}"
    parser.add_argument("--brokers", default=everyone, help="of %(default)s; amqp10@PATH is that of another tree")
    parser.add_argument("--count", type=positive, default=30_000, help="messages of a run, besides the warm-up")
    parser.add_argument("--reps", type=positive, default=5, help="rounds that count")
    parser.add_argument("--cases", type=some_of([f"{kind} {each}" for kind in KINDS for each in WORKLOADS]))
    parser.add_argument("--json", type=file_to_be, help="write all figures there, too")
    given = parser.parse_args()
    program = native.CLIENTS["go-amqp"].ready()
    if program is None:
        return 1
    with tempfile.TemporaryDirectory() as place, ExitStack() as stack:
        folder = Path(place)
        certificates = folder / "tls"
        certificates.mkdir()
        servers.write_certificates(certificates)
        running = {}
        for name in given.brokers.split(","):
            try:
                running[name] = start(name, stack, folder, certificates)
            except (servers.Unavailable, servers.DidNotStart) as why:
                print(f"{name}: left out, {why}", file=sys.stderr)
        bench = Bench(running, program, write_messages(folder), given.count)
        if given.cases:
            bench.figures = {case: bench.figures[case] for case in given.cases}
        loads = [os.getloadavg()[0]]
        for number in range(given.reps + 1):
            bench.round(number)
            loads.append(os.getloadavg()[0])
        synced = fsync_seconds(folder) * 1e6
    where = f"{setting()}, {native.versions(['go-amqp'])}"
    print(f"{where}\nfsync of 4 KiB: {synced:.0f} µs; load: {', '.join(f'{load:.1f}' for load in loads)}\n")
    print(table(bench.figures))
    if given.json:
        facts = {
            "date": f"{datetime.now(UTC):%Y-%m-%d}",
            "setting": where,
            "machine": machine(),
            "cpus": os.cpu_count(),
            "loads": loads,
            "runs": given.reps,
            "count": given.count,
            "fsync_us": round(synced),
            "figures": bench.figures,
        }
        given.json.write_text(json.dumps(facts, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
