"""What a message costs each client: interleaved runs against one counterpart, medians, side by side.

    make bench                                        everything, some four minutes
    python benchmarks/run.py --quick                  a first impression, about one
    python benchmarks/run.py --sizes 100 --workloads send,recv --reps 9 --peers amqp10,proton
    python benchmarks/run.py --variants submit,batch,asyncio       other ways to use this client, beside the others
    python benchmarks/run.py --broker amqp://127.0.0.1       a broker as the other end, which takes ANONYMOUS
    python benchmarks/run.py --native           with clients of Go, Rust and JavaScript, against a counterpart in Rust

Read README.md on the method before quoting a figure.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import queue
import statistics
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

import compiled

import native
from amqp10.testing import CertificateAuthority

HERE = Path(__file__).resolve().parent
OURS = "amqp10"
PEERS = {OURS: "amqp10", "proton": "python-qpid-proton", "pyamqp": "azure-servicebus"}
WITHOUT_WEBSOCKET = {"proton"}
VARIANTS = ("submit", "batch", "asyncio", "compiled")
WORKLOADS = {"send": ("send", 0), "recv": ("recv", 0), "send-settled": ("send", 1), "recv-settled": ("recv", 1)}
FIRST_COUNT = 2000
FIRST_SIZE = 1 << 28  # bytes of them together, at most
PATIENCE = 120  # seconds for one run


class Failed(Exception):
    """A run whose figure says nothing, and why."""


@dataclass(frozen=True)
class Case:
    """One row of the table."""

    workload: str
    size: int

    def __str__(self) -> str:
        return f"{self.workload} {self.size} B"


@dataclass
class Measured:
    """The runs of one peer in one case."""

    cpu: list[float] = field(default_factory=list)  # µs a message
    rate: list[float] = field(default_factory=list)  # messages a second
    counterpart: list[float] = field(default_factory=list)  # µs a message


class OtherEnd(Protocol):
    """Where the peers connect: the counterpart, or a broker.

    Attributes:
        most: messages of one run.
        most_bytes: of all their bodies together.
    """

    most: int
    most_bytes: int

    def ready(self, mode: str, size: int, total: int) -> str:
        """The URL for a run of so many messages, the warm-up among them."""

    def check(self, mode: str, settled: int, total: int) -> dict[str, Any]:
        """What crossed the wire.

        Raises:
            Failed: it is not what the peer was asked for.
        """

    def stop(self) -> None:
        """The last run is over."""


class Counterpart:
    """The process at the other end, and what it says of each connection."""

    most = 1_000_000
    most_bytes = 1 << 40

    def __init__(self, options: list[str], program: list[str] | None = None) -> None:
        self.scheme = "amqps" if "--tls" in options else "ws" if "--websocket" in options else "amqp"
        command = program or [sys.executable, str(HERE / "counterpart.py")]
        self.process = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.port: int = json.loads(self.process.stdout.readline())["port"]
        self.told: queue.Queue[dict[str, Any]] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.told.put(json.loads(line))

    def ready(self, mode: str, size: int, total: int) -> str:
        """The URL, whose path says what is to be sent; what was told of earlier runs is forgotten."""
        while not self.told.empty():
            self.told.get()
        return f"{self.scheme}://127.0.0.1:{self.port}/q.{size}.{total}"

    def check(self, mode: str, settled: int, total: int) -> dict[str, Any]:
        """What crossed the wire.

        Raises:
            Failed: it is not what the peer was asked for.
        """
        try:
            seen = self.told.get(timeout=10)
        except queue.Empty:
            raise Failed("the counterpart saw no connection end") from None
        if mode == "send":
            wanted = {"received": total, "received_settled": total if settled else 0}
        else:
            wanted = {"sent": total, "settled_by_client": 0 if settled else total}
        wrong = [
            f"{name} {seen.get(name)} and not {value}" for name, value in wanted.items() if seen.get(name) != value
        ]
        if wrong or "error" in seen:
            raise Failed(", ".join([*wrong, *filter(None, [seen.get("error")])]))
        return seen

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()


class Bench:
    """Runs every peer in every case, in turn, as often as is asked for."""

    def __init__(
        self,
        peers: list[str],
        cases: list[Case],
        seconds: float,
        counterpart: OtherEnd,
        commands: dict[str, list[str]] | None = None,
        compiled: Path | None = None,
        count: int | None = None,
    ) -> None:
        self.compiled = compiled
        self.count = count
        self.peers = peers
        self.commands = commands or {}
        self.cases = cases
        self.seconds = seconds
        self.counterpart = counterpart
        self.counts: dict[tuple[str, Case], int] = {}
        self.results = {(peer, case): Measured() for peer in peers for case in cases}
        self.failures: list[str] = []

    def round(self, number: int) -> None:
        """Each peer once in each case; neighbours in time are compared, so that a busy moment hits all of them."""
        for case in self.cases:
            for peer in self.peers:
                try:
                    result = self.run(peer, case, self._count(peer, case))
                except Failed as failed:
                    self.failures.append(f"{peer}, {case}: {failed}")
                    print(f"{number}  {self.failures[-1]}", file=sys.stderr)
                    continue
                measured = self.results[peer, case]
                measured.cpu.append(cpu_us(result))
                measured.rate.append(result["count"] / result["seconds"])
                measured.counterpart.append(result["counterpart_us"])
                line = f"{measured.cpu[-1]:8.2f} µs CPU {measured.rate[-1]:11,.0f}/s"
                print(f"{number}  {case!s:20} {peer:16} {line}", file=sys.stderr)

    def _count(self, peer: str, case: Case) -> int:
        """As many messages as were asked for, else so many that a run takes about `seconds`, found by trying."""
        if self.count is not None:
            return self.count
        key = peer, case
        if key not in self.counts:
            most = min(self.counterpart.most, self.counterpart.most_bytes // case.size) * 2 // 3
            count = least = max(10, min(FIRST_COUNT, FIRST_SIZE // case.size, most))
            for _ in range(3):
                tried = self.run(peer, case, count)
                enough = tried["seconds"] > self.seconds / 3
                count = max(least, min(most, round(count * self.seconds / max(tried["seconds"], 1e-4))))
                if enough:
                    break
            self.counts[key] = count
        return self.counts[key]

    def run(self, peer: str, case: Case, count: int) -> dict[str, Any]:
        """One run in a process of its own, a third of its messages being the warm-up.

        Raises:
            Failed: it did not end well, or did not do what it says.
        """
        mode, settled = WORKLOADS[case.workload]
        warmup = count // 2
        total = count + warmup
        name, _, variant = peer.partition("+")
        asked = {
            "url": self.counterpart.ready(mode, case.size, total),
            "mode": mode,
            "settled": settled,
            "count": count,
            "size": case.size,
            "warmup": warmup,
        }
        if variant:
            asked["variant"] = variant
        command = list(self.commands.get(name) or [sys.executable, str(HERE / "peers" / f"{name}_peer.py")])
        for option, value in asked.items():
            command += [f"--{option}", str(value)]
        env = dict(os.environ)
        if "compiled" in variant.split("+"):
            env["PYTHONPATH"] = str(self.compiled)
        try:
            done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            raise Failed(f"not done after {PATIENCE} s") from None
        if done.returncode or not done.stdout:
            raise Failed((done.stderr.strip().splitlines() or ["it printed nothing"])[-1])
        result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        seen = self.counterpart.check(mode, settled, total)
        return {**result, "counterpart_us": seen["cpu_us"] / total}


def cpu_us(result: dict[str, Any]) -> float:
    """User and system µs of CPU that the client's process took a message."""
    return float(result["cpu_user"] + result["cpu_sys"]) / int(result["count"]) * 1e6


@contextmanager
def certificate() -> Iterator[str]:
    """A PEM file with a key, a certificate of it for 127.0.0.1, and that of who signed it."""
    with TemporaryDirectory() as folder:
        authority = CertificateAuthority(folder, lifetime=timedelta(days=1))
        files = authority.server("127.0.0.1")
        path = Path(folder) / "counterpart.pem"
        path.write_bytes(b"".join(each.read_bytes() for each in (files.key, files.certificate, authority.ca)))
        yield str(path)


def table(bench: Bench) -> str:
    """Medians side by side, and how many times as much CPU as ours."""
    lines = ["| case | client | CPU µs/message | times ours | min-max | messages/s | counterpart µs |"]
    lines.append("|---|---|--:|--:|--:|--:|--:|")
    for case in bench.cases:
        base = bench.results.get((OURS, case), Measured()).cpu
        for peer in bench.peers:
            got = bench.results[peer, case]
            if not got.cpu:
                lines.append(f"| {case} | {peer} | - | | | | |")
                continue
            cpu = statistics.median(got.cpu)
            ratio = f"{cpu / statistics.median(base):.1f}" if base else ""
            spread = f"{min(got.cpu):.2f}-{max(got.cpu):.2f}"
            rate = f"{statistics.median(got.rate):,.0f}"
            of_it = statistics.median(got.counterpart)
            other_end = "" if math.isnan(of_it) else f"{of_it:.2f}"
            lines.append(f"| {case} | {peer} | {cpu:.2f} | {ratio} | {spread} | {rate} | {other_end} |")
    return "\n".join(lines)


def bar(bench: Bench) -> str:
    """Whether this client takes less CPU than each of the others, case by case."""
    lines = []
    for case in bench.cases:
        ours = bench.results.get((OURS, case), Measured()).cpu
        others = {peer: bench.results[peer, case].cpu for peer in bench.peers if peer.partition("+")[0] != OURS}
        if ours and others and all(others.values()):
            best = min(statistics.median(cpu) for cpu in others.values())
            less = statistics.median(ours) < best
            lines.append(
                f"{case}: {statistics.median(ours):.2f} against {best:.2f} µs, {'less' if less else 'NOT LESS'}"
            )
    return "\n".join(lines)


def setting() -> str:
    """Where this was measured."""

    def which(package: str) -> str:
        try:
            return f"{package} {version(package)}"
        except PackageNotFoundError:
            return f"{package} (not installed)"

    names = [*PEERS.values(), "trio", "anyio"]
    machine = f"{platform.machine()}, {os.cpu_count()} CPUs, {platform.system()}"
    return f"Python {platform.python_version()}, {machine}; " + ", ".join(map(which, names))


def machine() -> str:
    """The processor, by its own word."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def some_of(known: Iterable[str]) -> Callable[[str], list[str]]:
    """What reads an argument: names of these, separated by commas."""

    def read(given: str) -> list[str]:
        names = given.split(",")
        for name in names:
            if name not in known:
                raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(known)}")
        return names

    return read


def variants(given: str) -> list[str]:
    """Of ours, each of one or several."""
    some_of(VARIANTS)(given.replace("+", ","))
    return given.split(",")


def positive(given: str) -> int:
    """A count."""
    if not given.isdecimal() or not int(given):
        raise argparse.ArgumentTypeError(f"{given!r} is no positive number")
    return int(given)


def sizes(given: str) -> list[int]:
    """Several of them."""
    return [positive(size) for size in given.split(",")]


def file_to_be(given: str) -> Path:
    """One that can be written in the end."""
    path = Path(given)
    if not path.resolve().parent.is_dir():
        raise argparse.ArgumentTypeError(f"there is no folder {path.parent}")
    return path


def installed(peers: Iterable[str]) -> list[str]:
    """Those of them that are; who is left out is said."""
    here = []
    for name in peers:
        try:
            if name != OURS:
                version(PEERS[name])
        except PackageNotFoundError:
            print(f"{name}: left out, {PEERS[name]} is not installed", file=sys.stderr)
        else:
            here.append(name)
    return here


def main() -> int:
    """Run what is asked for, print the table; 1 if a run failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", type=some_of(PEERS), default=",".join(PEERS), help="of %(default)s")
    parser.add_argument(
        "--variants",
        type=variants,
        default=[],
        help=f"of ours: {', '.join(VARIANTS)}; joined by + for several at once",
    )
    parser.add_argument("--workloads", type=some_of(WORKLOADS), default=",".join(WORKLOADS), help="of %(default)s")
    parser.add_argument("--sizes", type=sizes, default="100,1024", help="of the body, bytes")
    parser.add_argument("--reps", type=positive, default=5, help="runs of each")
    parser.add_argument("--seconds", type=float, default=1.0, help="about so long is a run")
    parser.add_argument("--count", type=positive, help="messages of a run, whatever time they take")
    parser.add_argument("--quick", action="store_true", help="3 runs of 0.3 seconds")
    parser.add_argument("--single", action="store_true", help="the counterpart answers each delivery by itself")
    parser.add_argument(
        "--transport",
        choices=("tcp", "tls", "websocket"),
        default="tcp",
        help="what lies between; proton has no WebSocket",
    )
    parser.add_argument("--broker", metavar="URL", help="this one in place of the counterpart; over TCP")
    parser.add_argument("--label", metavar="NAME", help="what that is, as the table in the docs is to say it")
    parser.add_argument("--native", action="store_true", help="build and run the clients of other languages, too")
    parser.add_argument("--json", type=file_to_be, help="write all figures there, too")
    given = parser.parse_args()
    if given.quick:
        given.reps, given.seconds = 3, 0.3
    peers = installed(given.peers) + [f"{OURS}+{variant}" for variant in given.variants]
    cases = [Case(workload, size) for size in given.sizes for workload in given.workloads]
    programs = {name: program.ready() for name, program in native.CLIENTS.items()} if given.native else {}
    commands = {name: command for name, command in programs.items() if command is not None}
    peers += list(commands)
    if given.transport == "websocket":
        peers = [name for name in peers if name not in WITHOUT_WEBSOCKET]
    options = ["--single"] if given.single else []
    with ExitStack() as stack:
        if given.transport == "tls":
            os.environ["AMQP10_BENCH_CA"] = pem = stack.enter_context(certificate())
            options += ["--tls", pem]
        elif given.transport == "websocket":
            options.append("--websocket")
        counterpart: OtherEnd
        rust = None
        if given.broker:
            from broker import Broker

            counterpart = Broker(given.broker)
        else:
            rust = native.COUNTERPART.ready() if given.native and given.transport != "tls" else None
            counterpart = Counterpart(options, rust)
        stack.callback(counterpart.stop)
        compiled_ = compiled.installed() if any("compiled" in variant for variant in given.variants) else None
        bench = Bench(peers, cases, given.seconds, counterpart, commands, compiled_, given.count)
        loads = [os.getloadavg()[0]]  # of the last minute
        for number in range(1, given.reps + 1):
            bench.round(number)
            loads.append(os.getloadavg()[0])
    print(f"{setting()}\n\n{table(bench)}\n\n{bar(bench)}")
    if given.json:
        figures = {
            f"{case} {peer}": {**vars(got), "mib_per_s": [rate * case.size / 2**20 for rate in got.rate]}
            for (peer, case), got in bench.results.items()
            if got.cpu
        }
        facts = {
            "date": f"{datetime.now(UTC):%Y-%m-%d}",
            "setting": ", ".join(filter(None, [setting(), native.versions(commands)])),
            "machine": machine(),
            "cpus": os.cpu_count(),
            "loads": loads,
            "transport": given.transport,
            "counterpart": given.label or given.broker or ("Python" if rust is None else "Rust"),
        }
        given.json.write_text(json.dumps({**facts, "runs": given.reps, "figures": figures}, indent=1) + "\n")
    return 1 if bench.failures else 0


if __name__ == "__main__":
    sys.exit(main())
