"""What the emulator of Azure does a second and costs, and what our client costs beside Microsoft's on it.

    make bench-azure                                              everything, and the figures for the docs
    python benchmarks/azure_emulator.py --count 2000 --reps 1     a first impression
    python benchmarks/azure_emulator.py --parts javascript --cases through,lock

The emulator is `amqp10 broker --azure Config.json`, a process of its own. Parts: "start": from starting that process to
the first connection that it answers. "javascript": @azure/service-bus, and rhea alone, send to a queue without sessions
and receive from it. "sessions": the JavaScript SDK makes sessions and holds all of them. "python": our client beside
azure-servicebus and azure-eventhub, taking turns. Who is not here is left out, and that is said.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio
from run import PATIENCE, Failed, cpu_us, file_to_be, machine, positive, some_of

from amqp10.azure import EventHub, ServiceBus
from amqp10.broker import Broker, TokenRules
from amqp10.broker.azure import EMULATOR_RULE, AzureConfig

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from tests.interop.brokers import Unavailable  # noqa: E402
from tests.interop.clients import _programs as programs  # noqa: E402  # as the interop tests get the SDK

TICKS = os.sysconf("SC_CLK_TCK")
PARTS = ("start", "javascript", "sessions", "python")
SIZE = 100
QUEUE, SESSIONS, HUB = "orders", "visits", "readings"
CONFIG = {
    "UserConfig": {
        "Namespaces": [
            {
                "Name": "bench",
                "Queues": [
                    {"Name": QUEUE, "Properties": {"LockDuration": "PT5M"}},
                    {"Name": SESSIONS, "Properties": {"LockDuration": "PT5M", "RequiresSession": True}},
                ],
            }
        ],
        "NamespaceConfig": [
            {"Type": "EventHub", "Name": "bench", "Entities": [{"Name": HUB, "PartitionCount": "1"}]},
        ],
    }
}
BYTECODE = Path(tempfile.gettempdir(), "amqp10-bench-bytecode")
HEADER = b"AMQP\x03\x01\x00\x00"
JAVASCRIPT, RHEA, OURS, SERVICE_BUS, EVENT_HUBS = "azure-js", "rhea", "amqp10", "azure-servicebus", "azure-eventhub"
PYTHON = {
    "send": (OURS, SERVICE_BUS),
    "delete": (OURS, SERVICE_BUS),
    "lock": (OURS, SERVICE_BUS),
    "events-send": (OURS, EVENT_HUBS),
    "events-receive": (OURS, EVENT_HUBS),
}
JAVASCRIPTS = dict.fromkeys(("send", "delete", "lock", "through"), (JAVASCRIPT, RHEA))
CASES = tuple({**JAVASCRIPTS, **PYTHON})
FILLED = ("delete", "lock")
"""What reads a queue, which is filled before: by whoever sends quickest, and it does not count."""


def cpu_of(pid: int) -> float:
    """Seconds of CPU that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


@dataclass(frozen=True)
class Emulator:
    """The emulator, running.

    Attributes:
        url: where it listens.
        connection: what SDKs connect by.
        pid: of its process.
        seconds: from its start to the first connection that it answered.
        spent: seconds of CPU until then.
    """

    url: str
    connection: str
    pid: int
    seconds: float
    spent: float

    @property
    def login(self) -> str:
        """The URL for a client that knows no tokens, and logs in by PLAIN."""
        said = dict(part.split("=", 1) for part in self.connection.rstrip(";").split(";"))
        user, password = quote(said["SharedAccessKeyName"]), quote(said["SharedAccessKey"])
        return self.url.replace("://", f"://{user}:{password}@")

    def cpu(self) -> float:
        """Seconds of CPU that it has used."""
        return cpu_of(self.pid)

    def memory(self) -> float:
        """MiB of its resident set."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


@contextmanager
def emulator(folder: Path) -> Iterator[Emulator]:
    """Start the emulator, and wait until it answers the header of a connection."""
    config = folder / "Config.json"
    config.write_text(json.dumps(CONFIG))
    began = time.perf_counter()
    command = [sys.executable, "-m", "amqp10", "broker", "--port", "0", "--azure", str(config)]
    # With bytecode, as an installed package has it: a checkout that may write none compiles all at each start.
    env = {**os.environ, "PYTHONPYCACHEPREFIX": str(BYTECODE)}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as process:
        assert process.stdout is not None
        try:
            url = process.stdout.readline().split()[3]
            host, _, port = url.partition("://")[2].rpartition(":")
            with socket.create_connection((host, int(port))) as connection:
                connection.sendall(HEADER)
                if connection.recv(8) != HEADER:
                    raise Failed("the emulator answers with another header")
            seconds, spent = time.perf_counter() - began, cpu_of(process.pid)
            text = process.stdout.readline().partition(": ")[2].strip()
            yield Emulator(url, text, process.pid, seconds, spent)
        finally:
            process.kill()


def installed() -> dict[str, str]:
    """The versions of Microsoft's SDKs for Python; who is left out is said."""
    found = {}
    for name in (SERVICE_BUS, EVENT_HUBS):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            print(f"{name}: left out, it is not installed", file=sys.stderr)
    return found


def system() -> str:
    """Where this was measured."""
    return f"Python {platform.python_version()}, trio {version('trio')}, {platform.system()}"


def javascript() -> dict[str, str] | None:
    """The environment in which node finds the SDK, and rhea, on which that is built; None: it cannot be had."""
    try:
        command, env = programs.AZURE_SERVICEBUS_JS.prepared()
    except Unavailable as why:
        print(f"JavaScript: left out, {why}", file=sys.stderr)
        return None
    assert command
    return env


def versions(env: dict[str, str]) -> str:
    """Of the JavaScript clients and of node."""
    folder = Path(env["NODE_PATH"])
    told = [
        f"{name} {json.loads((folder / name / 'package.json').read_text())['version']}"
        for name in ("@azure/service-bus", "rhea")
    ]
    node = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout
    return f"{', '.join(told)} (Node {node.strip().lstrip('v')})"


class Bench:
    """Runs clients against an emulator."""

    def __init__(self, target: Emulator, env: dict[str, str] | None, count: int) -> None:
        self.emulator, self.count = target, count
        self.env = {**os.environ, **(env or {}), "AMQP10_BENCH_AZURE": target.connection}

    def start(self, peer: str, mode: str, address: str, count: int | None = None) -> subprocess.Popen[str]:
        """Start a client; a third of its messages are the warm-up, unless it is to send so many and no more."""
        rhea = peer == RHEA
        program = {JAVASCRIPT: "azure_peer.js", RHEA: "native/rhea/rhea_peer.js", OURS: "azure_amqp10_peer.py"}.get(
            peer, "azure_sdk_peer.py"
        )
        path = str(HERE / "peers" / program)
        asked = {
            "url": f"{self.emulator.login if rhea else self.emulator.url}/{address}",
            "mode": ("send" if mode == "send" else "recv") if rhea else mode,
            "settled": int(mode == "delete" and rhea),
            "count": self.count if count is None else count,
            "warmup": self.count // 2 if count is None else 0,
            "size": SIZE,
        }
        command = ["node" if path.endswith(".js") else sys.executable, path]
        for option, value in asked.items():
            command += [f"--{option}", str(value)]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=self.env)

    def end(self, process: subprocess.Popen[str]) -> dict[str, Any]:
        """What a client printed in the end.

        Raises:
            Failed: it did not end well.
        """
        try:
            out, err = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            raise Failed(f"not done after {PATIENCE} s") from None
        if process.returncode or not out:
            raise Failed((err.strip().splitlines() or ["it printed nothing"])[-1])
        result: dict[str, Any] = json.loads(out.splitlines()[-1])
        return result

    def run(self, peer: str, mode: str) -> dict[str, float]:
        """One run: CPU of client and emulator a message, µs, and messages a second.

        Raises:
            Failed: the client did not end well, or the entity does not have what the run should have left.
        """
        events = mode.startswith("events")
        address = HUB if events else QUEUE
        total = self.count + self.count // 2
        if mode in FILLED:
            self.end(self.start(OURS, "send", QUEUE, total))
        there = anyio.run(events_of, self.emulator.connection)
        before = self.emulator.cpu()
        result = self.end(self.start(peer, mode, address))
        figures = {"cpu": cpu_us(result), "rate": result["count"] / result["seconds"]}
        figures["emulator"] = (self.emulator.cpu() - before) / total * 1e6
        if mode == "send":
            self.end(self.start(OURS, "delete", QUEUE, total))
        if anyio.run(more, self.emulator.connection):
            raise Failed(f"the queue has more than the {total} messages that were sent and received")
        came = anyio.run(events_of, self.emulator.connection) - there
        if came != (total if mode == "events-send" else 0):
            raise Failed(f"{came} events came, of {total}")
        return figures

    def through(self, peer: str) -> dict[str, float]:
        """One client sends while another receives and deletes; the rate is that of the receiver.

        Raises:
            Failed: one of them did not end well.
        """
        before = self.emulator.cpu()
        receiver = self.start(peer, "delete", QUEUE)
        sent = self.end(self.start(peer, "send", QUEUE))
        received = self.end(receiver)
        total = self.count + self.count // 2
        return {
            "cpu": cpu_us(sent) + cpu_us(received),
            "rate": received["count"] / received["seconds"],
            "emulator": (self.emulator.cpu() - before) / total * 1e6,
        }

    def sessions(self, count: int) -> dict[str, float]:
        """The memory of the emulator with so many sessions, at each stage of their life, in MiB.

        Raises:
            Failed: the client did not end well, or did not hold all of them.
        """
        process = self.start(JAVASCRIPT, "sessions", SESSIONS, count)
        assert process.stdout is not None
        assert process.stdin is not None
        told: dict[str, float] = {"count": count}
        for line in process.stdout:
            said = json.loads(line)
            told[said["stage"]] = self.emulator.memory()
            told |= {name: said[name] for name in ("seconds", "sessions") if name in said}
            process.stdin.write("\n")
            process.stdin.flush()
        process.wait(PATIENCE)
        assert process.stderr is not None
        problem = process.stderr.read().strip()
        if process.returncode or told.get("sessions") != count or "closed" not in told:
            raise Failed((problem.splitlines() or [f"it held {told.get('sessions')} sessions and not {count}"])[-1])
        return told


async def events_of(connection: str) -> int:
    """How many events the partition has, by our client."""
    async with EventHub(connection, HUB) as hub:
        found = await hub.partition_properties("0")
        return 0 if found.empty else found.last_sequence_number + 1


async def more(connection: str) -> bool:
    """The queue has messages, by our client."""
    async with ServiceBus(connection) as bus, bus.receiver(QUEUE) as receiver:
        return bool(await receiver.peek(1))


async def begin_seconds(folder: Path) -> float:
    """What it takes in a process that has the package imported: from the configuration to an open port."""
    began = time.perf_counter()
    async with Broker(azure=AzureConfig.read(folder / "Config.json"), tokens=TokenRules([EMULATOR_RULE])):
        return time.perf_counter() - began


def median(runs: list[dict[str, float]], figure: str) -> float:
    """The one in the middle."""
    return statistics.median(run[figure] for run in runs)


def table(facts: dict[str, Any]) -> str:
    """All that was measured, for people."""
    lines = []
    if starts := facts["starts"]:
        seconds, spent, inside = (median(starts, name) for name in ("seconds", "cpu", "inside"))
        lines += [f"start to first answer: {seconds:.2f} s, {spent:.2f} s of CPU; in this process {inside:.4f} s", ""]
    for title, cases in facts["figures"].items():
        lines += [f"| {title} | client | CPU µs/message | messages/s | emulator's CPU |", "|---|---|--:|--:|--:|"]
        for case, peers in cases.items():
            for peer, runs in peers.items():
                cpu, rate, other = (median(runs, name) for name in ("cpu", "rate", "emulator"))
                lines.append(f"| {case} | {peer} | {cpu:.1f} | {rate:,.0f} | {other:.1f} |")
        lines.append("")
    if held := facts["sessions"]:
        lines.append("sessions, MiB: " + ", ".join(f"{name} {value:.1f}" for name, value in held.items()))
    return "\n".join(lines)


def main() -> int:
    """Run what is asked for, print the tables; 1 if a run failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", type=some_of(PARTS), default=",".join(PARTS), help="of %(default)s")
    parser.add_argument("--cases", type=some_of(CASES), default=",".join(CASES), help="of %(default)s")
    parser.add_argument("--count", type=positive, default=8_000, help="messages of a run, besides the warm-up")
    parser.add_argument("--sessions", type=positive, default=1000, help="sessions that are held at a time")
    parser.add_argument("--reps", type=positive, default=3, help="runs of each")
    parser.add_argument("--json", type=file_to_be, help="write all figures there, too")
    given = parser.parse_args()
    env = javascript() if {"javascript", "sessions"} & set(given.parts) else None
    sdks = installed() if "python" in given.parts else {}
    here = {OURS, *sdks, *((JAVASCRIPT, RHEA) if env else ())}
    cases = {
        part: {mode: {peer: [] for peer in peers if peer in here} for mode, peers in of.items() if mode in given.cases}
        for part, of in (("javascript", JAVASCRIPTS), ("python", PYTHON))
        if part in given.parts and (part == "python" or env)
    }
    starts: list[dict[str, float]] = []
    held: dict[str, float] = {}
    loads = [os.getloadavg()[0]]
    failures = 0
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        with emulator(folder):  # so that there is bytecode
            pass
        for number in range(1, given.reps + 1):
            with emulator(folder) as running:  # a new one each time: events stay
                if "start" in given.parts:
                    starts.append(
                        {"seconds": running.seconds, "cpu": running.spent, "inside": anyio.run(begin_seconds, folder)}
                    )
                bench = Bench(running, env, given.count)
                for part, modes in cases.items():
                    for mode, peers in modes.items():
                        for peer, results in peers.items():
                            try:
                                results.append(bench.through(peer) if mode == "through" else bench.run(peer, mode))
                            except Failed as failed:
                                failures += 1
                                print(f"{number}  {part} {mode} {peer}: {failed}", file=sys.stderr)
                                continue
                            told = ", ".join(f"{name} {value:,.1f}" for name, value in results[-1].items())
                            print(f"{number}  {part:10} {mode:14} {peer:16} {told}", file=sys.stderr)
            loads.append(os.getloadavg()[0])
        if "sessions" in given.parts and env:
            with emulator(folder) as running:
                try:
                    held = Bench(running, env, given.count).sessions(given.sessions)
                except Failed as failed:
                    failures += 1
                    print(f"sessions: {failed}", file=sys.stderr)
    named = [f"{name} {number}" for name, number in sdks.items()]
    where = ", ".join(filter(None, [system(), *named, versions(env) if env else ""]))
    facts = {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "setting": where,
        "machine": machine(),
        "cpus": os.cpu_count(),
        "loads": loads,
        "runs": given.reps,
        "count": given.count,
        "size": SIZE,
        "starts": starts,
        "figures": cases,
        "sessions": held,
    }
    if not failures:
        print(f"{where}\nload of the last minute: {', '.join(f'{load:.1f}' for load in loads)}\n\n{table(facts)}")
        if given.json:
            given.json.write_text(json.dumps(facts, indent=1) + "\n")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
