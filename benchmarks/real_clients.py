"""What messages as applications send them cost each client: interleaved runs against one counterpart, medians.

    make bench-real                                            everything, and the figures for the docs
    python benchmarks/real_clients.py --count 2000 --reps 3    a first impression, only clients in Python
    python benchmarks/real_clients.py --native --workloads one,links --peers amqp10,go-amqp

The messages are those of `real.py`, each different. Who is not here or cannot do a workload is left out.
"JSON" in the table is what the JSON of an order and its id cost that client's language alone. README.md says what each
workload is.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import UUID

import compiled
import floor
from real import as_sent, orders, rows
from run import PATIENCE, Counterpart, Failed, cpu_us, file_to_be, installed, machine, positive, setting, some_of

import native

HERE = Path(__file__).resolve().parent
LINKS = 50
SIZE = 300
"""Octets of the bodies that are sent one at a time."""


@dataclass(frozen=True)
class Workload:
    """What is measured.

    Attributes:
        mode: how the peers call it.
        source: what the counterpart sends: "orders", "rows" or nothing.
        sends: the counterpart takes messages.
        links: that many receive.
        part: of the messages of a run that it takes, where one takes longer.
    """

    mode: str
    source: str = ""
    sends: bool = False
    links: int = 1
    part: float = 1.0


WORKLOADS = {
    "order-send": Workload("order-send", sends=True),
    "order-receive": Workload("order-receive", "orders"),
    "row-send": Workload("row-send", sends=True),
    "row-receive": Workload("row-receive", "rows"),
    "relay": Workload("relay", "orders", sends=True),
    "relay-task": Workload("relay", "orders", sends=True),
    "relay-worker": Workload("relay", "orders", sends=True),
    "one": Workload("one", sends=True, part=0.2),
    "links": Workload("links", "orders", links=LINKS),
}
ALL = tuple(WORKLOADS)
CODEC = ("order-send", "order-receive", "row-send", "row-receive", "one")
OURS = ("amqp10", "amqp10+asyncio", "amqp10+compiled")
CAN = {
    **dict.fromkeys(OURS, ALL),
    "go-amqp": ALL,
    "rhea": tuple(name for name in ALL if name not in ("relay-task", "relay-worker")),
    "fe2o3-amqp": CODEC,
    "proton": tuple(name for name in ALL if name not in ("relay-task", "relay-worker")),
    "pyamqp": CODEC,
    "bare": ("one",),
    "bare+trio": ("one",),
    "bare+trio+reader": ("one",),
    "bare+asyncio": ("one",),
}
"""Whose program does which: a task a message is for languages that have tasks; the Rust client has no relay here."""

SLOW = ("proton", "pyamqp")
"""Who runs in every third round: with all rounds these two would take half of the time of all clients."""

PROGRAMS = {"rhea": ("rhea_peer.js", "rhea_real.js")}


def as_json(fields: dict[str, Any], body: str) -> dict[str, Any]:
    """Return the fields of a message in what JSON has: moments in milliseconds, UUIDs as text."""

    def plain(value: Any) -> Any:
        if isinstance(value, datetime):
            return round(value.timestamp() * 1000)
        return str(value) if isinstance(value, UUID) else value

    made = {
        name: {key: plain(each) for key, each in value.items()} if isinstance(value, dict) else plain(value)
        for name, value in fields.items()
        if name != "body"
    }
    value = fields["body"]
    return made | {body: json.loads(value) if isinstance(value, bytes) else {k: plain(v) for k, v in value.items()}}


def write_messages(folder: Path) -> Path:
    """Write what the counterpart sends, and return the file of what the peers send."""
    made = {"orders": orders(2000), "rows": rows(2000)}
    for name, each in made.items():
        payloads = [as_sent(fields) for fields in each]
        (folder / name).write_bytes(b"".join(len(one).to_bytes(4, "big") + one for one in payloads))
    file = folder / "messages.json"
    told = {
        "orders": [as_json(each, "order") for each in made["orders"]],
        "rows": [as_json(each, "row")["row"] for each in made["rows"]],
    }
    file.write_text(json.dumps(told))
    return file


class Bench:
    """Runs every peer in every workload, in turn, as often as is asked for."""

    def __init__(
        self,
        peers: Iterable[str],
        workloads: Iterable[str],
        count: int,
        commands: dict[str, list[str]],
        built: Path | None,
        folder: Path,
    ) -> None:
        self.peers, self.workloads, self.count = list(peers), list(workloads), count
        self.commands, self.built = commands, built
        self.messages = write_messages(folder)
        program = native.COUNTERPART.ready() if commands else None
        self.counterpart = Counterpart(["--messages", str(folder)], program)
        self.results: dict[str, dict[str, list[dict[str, float]]]] = {
            workload: {peer: [] for peer in self.peers if workload in CAN[peer]} for workload in self.workloads
        }
        self.failures: list[str] = []

    def round(self, number: int) -> None:
        """Each peer once in each workload; neighbours in time are compared, so that a busy moment hits all of them."""
        for workload, runs in self.results.items():
            for peer, results in runs.items():
                if peer in SLOW and number % 3 != 1:
                    continue
                try:
                    result = self.run(peer, workload)
                except Failed as failed:
                    self.failures.append(f"{peer}, {workload}: {failed}")
                    print(f"{number}  {self.failures[-1]}", file=sys.stderr)
                    with suppress(queue.Empty):  # what the counterpart tells of it is not of the next
                        self.counterpart.told.get(timeout=2)
                    continue
                figures = {"cpu": cpu_us(result), "rate": result["count"] / result["seconds"]}
                figures |= {name: result[name] for name in ("p50", "p99", "json") if name in result}
                results.append(figures)
                print(f"{number}  {workload:14} {peer:16} {figures['cpu']:8.2f} µs CPU", file=sys.stderr)

    def run(self, peer: str, workload: str) -> dict[str, Any]:
        """One run in a process of its own, a third of its messages being the warm-up.

        Raises:
            Failed: it did not end well, or did not do what it says.
        """
        what = WORKLOADS[workload]
        each = max(1, round(self.count * what.part) // what.links)
        count = each * what.links
        warmup = each // 2 * what.links
        total = count + warmup
        name, _, variant = peer.partition("+")
        if workload in ("relay-task", "relay-worker"):
            # Go's goroutine a message is what both are measured against.
            way = "worker" if workload == "relay-worker" and peer in OURS else "task"
            variant = "+".join(filter(None, (variant, way)))
        self.counterpart.ready(what.mode, 0, total)
        path = f"{what.source}.0.{total // what.links}" if what.source else "q"
        asked = {
            "url": f"amqp://127.0.0.1:{self.counterpart.port}/{path}",
            "mode": what.mode,
            "count": count,
            "warmup": warmup,
            "size": SIZE,
            "links": what.links,
            "messages": self.messages,
        }
        if variant:
            asked["variant"] = variant
        command = list(self.commands.get(name) or [sys.executable, str(HERE / "peers" / f"{name}_real.py")])
        for option, value in asked.items():
            command += [f"--{option}", str(value)]
        env = dict(os.environ)
        if "compiled" in variant:
            env["PYTHONPATH"] = str(self.built)
        try:
            done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            raise Failed(f"not done after {PATIENCE} s") from None
        if done.returncode or not done.stdout:
            raise Failed((done.stderr.strip().splitlines() or ["it printed nothing"])[-1])
        result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        if what.sends:
            seen = self.counterpart.check("send", 0, total)
        if what.source:
            seen = seen if what.sends else self.counterpart.check("recv", 0, total)
            if seen["settled_by_client"] != total:
                raise Failed(f"settled_by_client {seen['settled_by_client']} and not {total}")
        return result


def median(runs: list[dict[str, float]], figure: str) -> float:
    return statistics.median(run[figure] for run in runs)


def table(bench: Bench) -> str:
    """Medians, and how many times that of go-amqp or, without it, of ours."""
    lines = []
    for workload, runs in bench.results.items():
        base = runs.get("go-amqp") or runs.get("amqp10") or []
        than = "go-amqp" if runs.get("go-amqp") else "amqp10"
        lines += [f"| {workload} | CPU µs/message | times {than} | min-max | messages/s | p50 µs | p99 µs | JSON |"]
        lines += ["|---|--:|--:|--:|--:|--:|--:|--:|"]
        for peer, results in runs.items():
            if not results:
                continue
            cpus = [run["cpu"] for run in results]
            cpu = statistics.median(cpus)
            ratio = f"{cpu / median(base, 'cpu'):.2f}" if base else ""
            more = [f"{median(results, name):.1f}" if name in results[0] else "" for name in ("p50", "p99", "json")]
            spread = f"{min(cpus):.1f}-{max(cpus):.1f}"
            cells = [peer, f"{cpu:.1f}", ratio, spread, f"{median(results, 'rate'):,.0f}", *more]
            lines.append(f"| {' | '.join(cells)} |")
        lines.append("")
    return "\n".join(lines)


def added(before: dict[str, Any], facts: dict[str, Any]) -> dict[str, Any]:
    """Return the facts of two series of runs as those of one."""
    figures = {
        workload: {peer: before["figures"][workload][peer] + runs for peer, runs in peers.items()}
        for workload, peers in facts["figures"].items()
    }
    joined = {name: before[name] + facts[name] for name in ("loads", "runs")}
    return facts | joined | {"figures": figures}


def check_alike(before: dict[str, Any], facts: dict[str, Any]) -> None:
    """Refuse to add runs to those of other programs, messages or another machine.

    Raises:
        SystemExit: a fact differs.
    """
    for name, value in facts.items():
        if before[name] != value:
            sys.exit(f"--add: the {name} was {before[name]!r} before, and is {value!r}")


def main() -> int:
    """Run what is asked for, print the tables; 1 if a run failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", type=some_of(CAN), help=f"of {', '.join(CAN)}; all that are here")
    parser.add_argument("--workloads", type=some_of(WORKLOADS), default=",".join(WORKLOADS), help="of %(default)s")
    parser.add_argument("--count", type=positive, default=20_000, help="messages of a run, besides the warm-up")
    parser.add_argument("--reps", type=positive, default=5, help="runs of each")
    parser.add_argument("--native", action="store_true", help="build and run the clients of other languages, too")
    parser.add_argument("--compiled", action="store_true", help="build and run this client with its compiled part, too")
    parser.add_argument("--json", type=file_to_be, help="write all figures there, too")
    parser.add_argument("--add", action="store_true", help="add the runs to those that the JSON file has already")
    given = parser.parse_args()
    if given.add and not given.json:
        parser.error("--add needs --json, the file with the runs before")
    began = time.monotonic()
    wanted = given.peers or list(CAN)
    python = {"proton", "pyamqp"}
    present = set(installed(name for name in wanted if name in python))
    programs = {}
    for name, program in native.CLIENTS.items():
        if given.native and name in wanted and (command := program.ready()) is not None:
            programs[name] = [part.replace(*PROGRAMS[name]) if name in PROGRAMS else part for part in command]
    peers = [
        name
        for name in wanted
        if name in programs
        or name in present
        or (name not in native.CLIENTS and name not in python and ("compiled" not in name or given.compiled))
    ]
    where = ", ".join(filter(None, [setting(), native.versions(programs)]))
    alike = {"setting": where, "machine": machine(), "count": given.count}
    before = json.loads(given.json.read_text()) if given.add else None
    if before is not None:
        check_alike(before, alike)
    built = compiled.installed() if "amqp10+compiled" in peers else None
    with TemporaryDirectory() as folder:
        bench = Bench(peers, given.workloads, given.count, programs, built, Path(folder))
        try:
            loads = [os.getloadavg()[0]]
            for number in range(1, given.reps + 1):
                bench.round(number)
                loads.append(os.getloadavg()[0])
        finally:
            bench.counterpart.stop()
    print(f"{where}\nload of the last minute: {', '.join(f'{load:.1f}' for load in loads)}\n\n{table(bench)}")
    if given.json:
        facts: dict[str, Any] = {
            "date": f"{datetime.now(UTC):%Y-%m-%d}",
            **alike,
            "cpus": os.cpu_count(),
            "loads": loads,
            "runs": given.reps,
            "counterpart": "Rust" if programs else "Python",
            "figures": bench.results,
            "decoding": floor.figures(built),
        }
        if before is not None:
            facts = added(before, facts)
        given.json.write_text(json.dumps(facts, indent=1) + "\n")
    print(f"took {(time.monotonic() - began) / 60:.1f} minutes", file=sys.stderr)
    return 1 if bench.failures else 0


if __name__ == "__main__":
    sys.exit(main())
