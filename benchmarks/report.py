"""Write docs/reference/benchmarks.md and its plot from the figures of a full run.

make bench-real                                  real_run.json
... with --json .../real_run_other.json          the same on a machine with another processor
make bench-real-brokers                          real_brokers_run.json
make bench-azure                                 azure_run.json
make bench-full                                  full_run.json; for the others `run.py --native --variants asyncio` with
... --broker URL --label "Artemis 2.55.0" --json benchmarks/results/artemis_run.json      and broker_j_run.json likewise
... --transport tls --json benchmarks/results/tls_run.json                           and websocket, websocket_run.json
... --sizes 10485760 --json benchmarks/results/large_run.json
python benchmarks/amqp091.py --json benchmarks/results/amqp091_run.json
python benchmarks/report.py                      `--check` writes nothing, fails if a file is old

All of them stand in benchmarks/results/. all_clients_run.json has the results of a harness that is not part of this
project, as it gives them: a list with an object for each run.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import amqp091

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
FIGURES = RESULTS / "full_run.json"
FIGURES_0_9_1 = RESULTS / "amqp091_run.json"
BROKERS = (RESULTS / "artemis_run.json", RESULTS / "broker_j_run.json")
TRANSPORTS = {"TLS": RESULTS / "tls_run.json", "WebSocket": RESULTS / "websocket_run.json"}
LARGE = RESULTS / "large_run.json"
REAL = RESULTS / "real_run.json"
REAL_ELSEWHERE = RESULTS / "real_run_other.json"
REAL_BROKERS = RESULTS / "real_brokers_run.json"
AZURE = RESULTS / "azure_run.json"
ALL_CLIENTS = RESULTS / "all_clients_run.json"
PAGE = HERE.parent / "docs" / "reference" / "benchmarks.md"
PLOT = PAGE.with_name("benchmarks.svg")
PLOT_REAL = HERE.parent / "docs" / "images" / "real-messages.svg"
STYLE = """\
text { font: 13px sans-serif; fill: #444 }
.head { font-weight: bold; fill: #111 }
.note { font-size: 11px }
.ours { fill: #2a7ae2 }
.theirs { fill: #b5b5b5 }
@media (prefers-color-scheme: dark) {
  text { fill: #bbb }
  .head { fill: #eee }
  .ours { fill: #5c9df0 }
  .theirs { fill: #666 }
}"""
OURS = "amqp10"
WORKLOADS = {
    "send": "send",
    "send-settled": "send settled",
    "recv": "receive and accept",
    "recv-settled": "receive settled",
}
NAMES = {
    "amqp10": "amqp10, trio",
    "amqp10+asyncio": "amqp10, asyncio",
    "amqp10+compiled": "amqp10 compiled, trio",
    "amqp10+compiled+asyncio": "amqp10 compiled, asyncio",
    "proton": "python-qpid-proton (C)",
    "pyamqp": "azure-servicebus (Python)",
    "go-amqp": "go-amqp (Go)",
    "fe2o3-amqp": "fe2o3-amqp (Rust)",
    "rhea": "rhea (JavaScript)",
}
BARE = {
    "bare": "bare, a blocking socket",
    "bare+trio": "bare, one task on trio",
    "bare+trio+reader": "bare, a task on trio and one that reads",
    "bare+asyncio": "bare, one task and a protocol on asyncio",
}
REAL_WORKLOADS = {
    "order-send": "orders, send",
    "order-receive": "orders, receive",
    "row-send": "rows, send",
    "row-receive": "rows, receive",
    "relay": "relay",
    "relay-task": "relay, a task each",
    "relay-worker": "relay, by a Worker",
    "one": "one send at a time",
    "links": "orders, 50 links",
}
PLOTTED = ("order-send", "order-receive", "row-send", "row-receive", "relay-worker", "one", "links")
SHORT_NAMES = {
    "amqp10": "amqp10",
    "amqp10+compiled": "compiled",
    "proton": "proton",
    "pyamqp": "pyamqp",
    "go-amqp": "go-amqp",
    "fe2o3-amqp": "fe2o3",
    "rhea": "rhea",
}
REAL_BROKER_NAMES = {
    "amqp10": "amqp10, embedded",
    "amqp10+compiled": "amqp10 compiled, embedded",
    "artemis": "Artemis 2.55",
    "rabbitmq": "RabbitMQ 4.3",
}
AZURE_CLIENTS = {"azure-js": "@azure/service-bus", "rhea": "rhea", "amqp10": "amqp10.azure"}
AZURE_CASES = {
    "send": "send",
    "delete": "receive and delete",
    "lock": "receive, complete",
    "through": "through: send beside receive and delete",
    "events-send": "send events",
    "events-receive": "receive events",
}
MIB_PER_S_OF = (OURS, "amqp10+asyncio", "go-amqp")
# As the harness with all clients calls them; its raw results are a list.
HARNESS_NAMES = {
    "amqp10": "amqp10",
    "amqp10-asyncio": "amqp10+asyncio",
    "amqp10-compiled": "amqp10+compiled",
    "proton-python": "proton",
    "pyamqp": "pyamqp",
    "rabbitmq-python": "rabbitmq-python",
    "go-amqp": "go-amqp",
    "fe2o3-amqp": "fe2o3-amqp",
    "rhea": "rhea",
    "protonj2": "protonj2",
}
HARNESS_WORKLOADS = {"send-presettled": "send-settled", "recv-presettled": "recv-settled"}
NAMES |= {"protonj2": "protonj2 (Java)", "rabbitmq-python": "rabbitmq-amqp-python-client (proton's C)"}

Medians = dict[tuple[str, int, str], tuple[float, float]]


def medians(run: dict[str, Any]) -> Medians:
    """CPU µs a message and messages a second, by workload, size and client."""
    found = {}
    for key, got in run["figures"].items():
        workload, size, _, peer = key.split(" ")
        found[workload, int(size), peer] = statistics.median(got["cpu"]), statistics.median(got["rate"])
    return found


def table(size: int, figures: Medians) -> list[str]:
    """A row for each client: CPU, and in brackets how many times ours that is."""
    lines = [f"| {size:,} bytes | " + " | ".join(WORKLOADS.values()) + " |", "|---|" + "--:|" * len(WORKLOADS)]
    for peer, name in NAMES.items():
        cells = []
        for workload in WORKLOADS:
            got, ours = figures.get((workload, size, peer)), figures.get((workload, size, OURS))
            cells.append(f"{got[0]:.2f} ({got[0] / ours[0]:.1f})" if got and ours else "")
        if any(cells):
            lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def plot(run: dict[str, Any], size: int, figures: Medians) -> str:
    """Bars of CPU a message, on a logarithmic scale, the shortest first."""
    width, left, bar, gap = 760, 210, 18, 34
    shown = {w: sorted((figures[w, size, p][0], p) for p in NAMES if (w, size, p) in figures) for w in WORKLOADS}
    most = max(cpu for bars in shown.values() for cpu, _ in bars)
    scale = (width - left - 70) / math.log(most / 0.5)
    parts: list[str] = []
    y = 44
    for workload, bars in shown.items():
        parts.append(f'<text x="0" y="{y}" class="head">{WORKLOADS[workload]}</text>')
        y += 8
        for cpu, peer in bars:
            long = max(1.0, scale * math.log(max(cpu, 0.5) / 0.5))
            kind = "ours" if peer.startswith(OURS) else "theirs"
            parts.append(f'<text x="{left - 8}" y="{y + 13}" text-anchor="end">{NAMES[peer]}</text>')
            parts.append(f'<rect x="{left}" y="{y}" width="{long:.1f}" height="{bar - 4}" class="{kind}"/>')
            parts.append(f'<text x="{left + long + 6:.1f}" y="{y + 13}">{cpu:.1f}</text>')
            y += bar
        y += gap
    note = f"{size} bytes, median of {run['runs']} runs; {run['machine']}; {run['setting'].partition(';')[0]}"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {y}" role="img">',
            "<title>CPU µs of the client a message, logarithmic</title>",
            f"<style>{STYLE}</style>",
            '<text x="0" y="16" class="head">CPU µs of the client a message (logarithmic; shorter is better)</text>',
            *parts,
            f'<text x="0" y="{y - 10}" class="note">{note}</text>',
            "</svg>",
            "",
        ]
    )


def real_medians(run: dict[str, Any]) -> dict[tuple[str, str], dict[str, float]]:
    """The figures of a run with real messages, by workload and client."""
    return {
        (workload, peer): {name: statistics.median(each[name] for each in results) for name in results[0]}
        for workload, runs in run["figures"].items()
        for peer, results in runs.items()
        if results
    }


def plot_real(run: dict[str, Any], small_run: dict[str, Any], small: Medians) -> str:
    """Bars of CPU a message in three columns: real messages, then small ones; the shortest bar first."""
    figures = real_medians(run)
    panels = [
        (title, [(figures[workload, peer]["cpu"], peer) for peer in SHORT_NAMES if (workload, peer) in figures])
        for workload, title in REAL_WORKLOADS.items()
        if workload in PLOTTED
    ]
    for workload, title in (("send", "small messages, send"), ("recv", "small messages, receive")):
        bars = [(small[workload, 100, peer][0], peer) for peer in SHORT_NAMES if (workload, 100, peer) in small]
        panels.append((title, bars))
    left, long, bar, column = 75, 165, 19, 300
    high = len(SHORT_NAMES) * bar + 46
    parts: list[str] = []
    for index, (title, bars) in enumerate(panels):
        x, y = index % 3 * column, 52 + index // 3 * high
        most = max(cpu for cpu, _ in bars)
        parts.append(f'<text x="{x}" y="{y}" class="head">{title}</text>')
        for cpu, peer in sorted(bars):
            y += bar
            width = max(2.0, long * cpu / most)
            kind = "ours" if peer.startswith(OURS) else "theirs"
            parts.append(f'<text x="{x + left - 8}" y="{y}" text-anchor="end">{SHORT_NAMES[peer]}</text>')
            parts.append(f'<rect x="{x + left}" y="{y - 12}" width="{width:.1f}" height="14" class="{kind}"/>')
            parts.append(f'<text x="{x + left + width + 6:.1f}" y="{y}">{cpu:.{0 if cpu >= 10 else 1}f}</text>')
    y = 56 + -(-len(panels) // 3) * high
    title = "CPU µs of the client for each message (shorter is better)"
    busy = "; other programs ran, so compare the bars" if max(run["loads"]) > run["cpus"] else ""
    machine = f"{run['machine']}, {run['cpus']} CPUs{busy}"
    notes = [
        f"real messages: {run['date']}, median of {run['runs']} runs of {run['count']:,} different messages; {machine}",
        f"small messages, 100 bytes: {small_run['date']}, median of {small_run['runs']} runs; {small_run['machine']}",
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 890 {y}" role="img">',
            f"<title>{title}</title>",
            f"<style>{STYLE}</style>",
            f'<text x="0" y="16" class="head">{title}</text>',
            *parts,
            *(f'<text x="0" y="{y - 26 + 16 * n}" class="note">{note}</text>' for n, note in enumerate(notes)),
            "</svg>",
            "",
        ]
    )


def leaders(figures: dict[tuple[str, str], dict[str, float]], ours: str) -> str:
    """Say who costs less than a variant of ours, and in how many of the columns that both are in."""
    told = []
    for peer, name in NAMES.items():
        both = [one for one in REAL_WORKLOADS if {(one, peer), (one, ours)} <= figures.keys()]
        less = [one for one in both if figures[one, peer]["cpu"] < figures[one, ours]["cpu"]]
        if less and not peer.startswith(OURS):
            told.append(f"{name} in {len(less)} of {len(both)}")
    return f"**Columns where others cost less than {NAMES[ours]}**: {', '.join(told) or 'none'}."


TASKS_ALONE = (
    "Without AMQP, a hundred tasks that stay, each woken by another task for each message, take 3.4 µs of CPU a",
    "message on trio and 1.7 on asyncio. A task spawned for each message takes 12.1 and 4.1. No relay in such tasks",
    "can take less. One send at a time takes 2,700 steps of the interpreter on trio, and the bare loop 1,500.",
    "",
    "The p50 of one send on trio is 1.6 times that of the bare loop; its CPU is 1.3 times. The blocking socket's p50",
    "has 46 µs in which it waits for the peer. In that time the bare loop does almost all of its own work. A client",
    "encodes before that time and decodes after it.",
)


def page_elsewhere(run: dict[str, Any]) -> list[str]:
    """What an earlier series of runs, on a machine with another processor, cost as ratios to go-amqp."""
    figures = real_medians(run)
    lines = [
        f"Ratios depend on the processor. {run['runs']} runs of {run['date']} on {run['machine']},",
        "had these ratios of CPU to go-amqp:",
        "",
        "| | " + " | ".join(REAL_WORKLOADS.values()) + " |",
        "|---|" + "--:|" * len(REAL_WORKLOADS),
    ]
    for peer, name in NAMES.items():
        cells = [
            f"{got['cpu'] / figures[workload, 'go-amqp']['cpu']:.2f}" if (got := figures.get((workload, peer))) else ""
            for workload in REAL_WORKLOADS
        ]
        if any(cells) and peer != "go-amqp":
            lines.append(f"| {name} | {' | '.join(cells)} |")
    return [*lines, "", *TASKS_ALONE, ""]


def page_real(run: dict[str, Any]) -> list[str]:
    """The part with messages as applications send them."""
    figures = real_medians(run)
    measured = [workload for workload in REAL_WORKLOADS if (workload, OURS) in figures]
    compiled = any("amqp10+compiled" in runs for runs in run["figures"].values())
    without_compiled = [] if compiled else ["The compiled part of amqp10 was not in this run."]
    runs = {
        peer: max(map(len, of)) for peer in NAMES if (of := [w[peer] for w in run["figures"].values() if peer in w])
    }
    fewer = ["", *(f"{NAMES[peer]} {number} of them" for peer, number in runs.items() if number < run["runs"])]
    lines = [
        "## Messages as applications send them",
        "",
        "Each message is different. It is made from a dict when it is sent, and read completely when it is received.",
        *(leaders(figures, variant) for variant in (OURS, "amqp10+compiled") if (measured[0], variant) in figures),
        *without_compiled,
        "",
        f"- {run['date']}, {run['runs']} runs of {run['count']:,} messages, in turn; medians{', '.join(fewer)}.",
        f"- Machine: {run['machine']}; {run['setting']}.",
        f"- Load average before, between and after the runs: {', '.join(f'{load:.1f}' for load in run['loads'])}, on",
        f"  {run['cpus']} CPUs. Above 2 the machine is busy, and all figures are too high: compare the ratios.",
        "- Runs are short, so those of rhea include the work of JavaScript's compiler.",
        f"- Counterpart: hand-written in {run['counterpart']}. The workloads: `benchmarks/README.md`, *Real messages*.",
        "",
        "| CPU µs a message | " + " | ".join(REAL_WORKLOADS[each] for each in measured) + " |",
        "|---|" + "--:|" * len(measured),
    ]
    for peer, name in NAMES.items():
        cells = []
        for workload in measured:
            got, ours = figures.get((workload, peer)), figures.get((workload, OURS))
            cells.append(f"{got['cpu']:.1f} ({got['cpu'] / ours['cpu']:.1f})" if got and ours else "")
        if any(cells):
            lines.append(f"| {name} | {' | '.join(cells)} |")
    of_json = [
        f"{got['json']:.1f} ({name})"
        for peer, name in NAMES.items()
        if "json" in (got := figures.get(("order-send", peer), {}))
    ]
    lines += [
        "",
        f"Making the JSON and the id of an order takes this part of sending it, in µs: {'; '.join(of_json)}.",
        "",
        "One send at a time, from the call to the outcome, in µs. *Bare*: the same octets without a client:",
        "",
        "| | CPU | p50 | p99 |",
        "|---|--:|--:|--:|",
    ]
    for peer, name in (NAMES | BARE).items():
        if got := figures.get(("one", peer)):
            lines.append(f"| {name} | {got['cpu']:.0f} | {got['p50']:.0f} | {got['p99']:.0f} |" if "p50" in got else "")
    return [*lines, "", *page_floor(run["decoding"])]


def page_floor(decoding: dict[str, dict[str, float]]) -> list[str]:
    """What decoding alone costs, down to the floor."""
    if "C" not in decoding:
        return []
    names = {"amqp10": "amqp10", "amqp10+compiled": "amqp10 compiled", "C": "a bare loop in C"}
    lines = [
        "Decoding alone, without a connection, every field into its Python object. *A bare loop in C* makes the same",
        "objects of the same octets and checks nothing: nobody who makes them can cost less",
        "(`benchmarks/floor.c`). In brackets: how many times that.",
        "",
        "| CPU µs a message | orders | rows |",
        "|---|--:|--:|",
    ]
    for peer, name in names.items():
        if costs := decoding.get(peer):
            cells = [f"{cost:.1f} ({cost / decoding['C'][workload]:.1f})" for workload, cost in costs.items()]
            lines.append(f"| {name} | {' | '.join(cells)} |")
    return [*lines, ""]


def page_real_brokers(run: dict[str, Any]) -> list[str]:
    """The part with orders through brokers, go-amqp at both ends."""

    def cell(results: list[dict[str, float]], than: list[dict[str, float]], figure: str, form: str) -> str:
        ratio = statistics.median(one[figure] / other[figure] for one, other in zip(results, than, strict=True))
        return f"{statistics.median(each[figure] for each in results):{form}} ({ratio:.2f})"

    cases = list(run["figures"])
    lines = [
        "## Orders through brokers",
        "",
        "The orders of the first table through a broker, with go-amqp at both ends: `make bench-real-brokers`.",
        "",
        "- *through*: one client sends while another receives, reads and accepts.",
        "- *fill*, *drain*: one client sends all messages. Then the other receives them.",
        "- *memory*: messages are not durable.",
        "- *store*: messages are durable, and confirmed only after `fsync`. The embedded broker uses SQLite with",
        "  `synchronous=FULL`, Artemis its journal with `journal-datasync`, and RabbitMQ a quorum queue.",
        "",
        f"- {run['date']}, {run['runs']} runs of {run['count']:,} messages, brokers in turn, after one to warm up.",
        "  Figures are medians. In brackets: the median of the ratio to Artemis in the same round. Below 1, the broker",
        "  takes less CPU than Artemis; in the table of rates, it passes fewer messages.",
        f"- Load average: {', '.join(f'{load:.1f}' for load in run['loads'])}, on {run['cpus']} CPUs, which broker and",
        "  clients share. Above 2 the machine is busy: compare the ratios of CPU.",
        f"- fsync of 4 KiB took {run['fsync_us']:,} µs there. Machine: {run['machine']}; {run['setting']}.",
        "- Artemis runs with Java's better compiler, and is warm. It uses all CPUs. The embedded broker is one process",
        "  of Python, so its CPU for a message limits how many messages it passes.",
        "- The kernel's work for the socket comes to 1.5 µs. The store adds SQLite's work: some 4 µs to insert a",
        "  message, 2 to mark it as held, 1 to remove it, and 4 for the commits.",
        "- The floor in plain Python: a relay on trio that only rewrites handle, delivery-id and tag of each transfer,",
        "  and answers ranges, took 0.48 of Artemis's CPU in *memory through* on 2026-11-28, and the embedded broker",
        "  0.77 (7.1, 10.0 and 14.2 µs; medians of 5 rounds, in turn, load 16 to 20).",
        "",
    ]
    for figure, form, title in (
        ("cpu", ".1f", "CPU µs of the broker a message"),
        ("rate", ",.0f", "messages a second"),
    ):
        lines += [f"| {title} | {' | '.join(cases)} |", "|---|" + "--:|" * len(cases)]
        for name in run["figures"][cases[0]]:
            title = REAL_BROKER_NAMES.get(name) or f"amqp10 of {name.partition('@')[2]}, embedded"
            cells = [cell(runs[name], runs["artemis"], figure, form) for runs in run["figures"].values()]
            lines.append(f"| {title} | {' | '.join(cells)} |")
        lines.append("")
    clients = [statistics.median(each["clients"] for each in runs["amqp10"]) for runs in run["figures"].values()]
    told = ", ".join(f"{case} {clients_cpu:.0f}" for case, clients_cpu in zip(cases, clients, strict=True))
    return [
        *lines,
        "The clients take part of the same CPUs, in µs a message:",
        f"{told}.",
        "So even an infinitely fast broker would pass only",
        f"{run['cpus'] / clients[0] * 1e6:,.0f} messages a second in *memory through*.",
        "",
    ]


def page(run: dict[str, Any], figures: Medians, real: dict[str, Any]) -> str:
    sizes = sorted({size for _, size, _ in figures})
    lines = [
        "# Benchmarks",
        "",
        "<!-- Written by benchmarks/report.py from benchmarks/results/full_run.json; do not edit. -->",
        "",
        "Figures are the CPU time of the client for one message, user and system, in µs. In brackets: the ratio to",
        "amqp10 on trio. Compare figures only within a section.",
        "",
        *page_real(real),
        *page_elsewhere(json.loads(REAL_ELSEWHERE.read_text())),
        *page_real_brokers(json.loads(REAL_BROKERS.read_text())),
        "## Small messages that look alike",
        "",
        f"One binary data section, the same in each message. Median of {run['runs']} runs, clients in turn.",
        "",
        f"- {run['date']}. Machine: {run['machine']}; {run['setting']}.",
        f"- Load average before, between and after the runs: {', '.join(f'{load:.1f}' for load in run['loads'])}. The",
        "  benchmark itself causes about 1.5. The rest was other work on the same CPUs.",
        f"- Counterpart: hand-written in {run['counterpart']}, over TCP on loopback. It settles a range for each read.",
        "- What is measured, how each client is driven and how to run it yourself: `benchmarks/README.md`.",
        "  What makes a program fast, and what was tried: [speed](../concepts/speed.md).",
        "",
        "![CPU µs a message, by client and workload](benchmarks.svg)",
        "",
    ]
    for size in sizes:
        lines += [*table(size, figures), ""]
    lines += [
        f"Messages a second, with client and counterpart on the same {run['cpus']} CPUs:",
        "",
        *rates(figures, MIB_PER_S_OF),
    ]
    return "\n".join([*lines, ""])


def rates(figures: Medians, peers: Iterable[str]) -> list[str]:
    """A row for each size and client: messages a second, and in brackets MiB."""
    lines = ["| bytes | client | " + " | ".join(WORKLOADS.values()) + " |", "|--:|---|" + "--:|" * len(WORKLOADS)]
    for size in sorted({size for _, size, _ in figures}):
        for peer in peers:
            got = [figures.get((workload, size, peer), (math.nan, math.nan))[1] for workload in WORKLOADS]
            cells = ["" if math.isnan(rate) else f"{rate:,.0f} ({rate * size / 2**20:,.0f} MiB/s)" for rate in got]
            if any(cells):
                lines.append(f"| {size:,} | {NAMES[peer]} | {' | '.join(cells)} |")
    return lines


def tables(figures: Medians) -> list[str]:
    """One for each size."""
    return [line for size in sorted({size for _, size, _ in figures}) for line in (*table(size, figures), "")]


def page_transports(runs: dict[str, dict[str, Any]]) -> str:
    """The part with TLS or a WebSocket between the client and the counterpart."""
    lines = [
        "## TLS and WebSocket",
        "",
        "The same clients and workloads, with TLS or a WebSocket between client and counterpart:",
        "`run.py --transport`. Clients in Python, C and JavaScript use OpenSSL. Those in Go use Go's own TLS, and",
        "those in Rust use rustls. Both ends share the CPUs, so messages a second include the counterpart's work.",
        "What this means for a program: [speed](../concepts/speed.md#tls-websockets-large-messages).",
        "",
    ]
    for name, run in runs.items():
        figures = medians(run)
        lines += [
            f"### {name}",
            "",
            f"Median of {run['runs']} runs, clients in turn; load {', '.join(f'{load:.1f}' for load in run['loads'])}.",
            f"Counterpart in {run['counterpart']}. CPU µs of the client a message:",
            "",
            *tables(figures),
            f"Messages a second, on {run['cpus']} CPUs:",
            "",
            *rates(figures, NAMES),
            "",
        ]
    return "\n".join(lines)


def page_large(run: dict[str, Any]) -> str:
    """The part with messages of many frames."""
    figures = medians(run)
    lines = [
        "## Large messages",
        "",
        f"The same with messages of 10 MiB, in frames of 128 KiB. Median of {run['runs']} runs, clients in turn; load",
        f"{', '.join(f'{load:.1f}' for load in run['loads'])}. CPU µs of the client a message. A cell is empty",
        "if the counterpart did not see what the client was asked to do:",
        "",
        *tables(figures),
        f"Messages a second, on {run['cpus']} CPUs:",
        "",
        *rates(figures, NAMES),
    ]
    return "\n".join([*lines, ""])


def page_brokers(runs: list[dict[str, Any]]) -> str:
    """The part with brokers at the other end."""
    lines = [
        "## Beside brokers",
        "",
        "The same clients, with a broker at the other end that shares the CPUs with them. All logged in by ANONYMOUS.",
        "After each run, the queue held exactly the messages that it should.",
        "",
    ]
    for run in runs:
        figures = medians(run)
        lines += [
            f"### {run['counterpart']}",
            "",
            f"Median of {run['runs']} runs, clients in turn; load {', '.join(f'{load:.1f}' for load in run['loads'])}.",
            *([run["note"]] if "note" in run else []),
            "",
        ]
        lines += tables(figures)
    return "\n".join(lines)


def page_all_clients(results: list[dict[str, Any]]) -> str:
    """The part of a run with clients that this project does not build: each result of it as it came."""
    cpu: dict[tuple[str, int, str], list[float]] = {}
    for got in results:
        workload = HARNESS_WORKLOADS.get(got["workload"], got["workload"])
        case = workload, int(got["size"]), HARNESS_NAMES[got["peer"]]
        cpu.setdefault(case, []).append((got["cpu_user"] + got["cpu_sys"]) / got["count"] * 1e6)
    figures = {case: (statistics.median(each), math.nan) for case, each in cpu.items()}
    runs = max(map(len, cpu.values()))
    lines = [
        "## All clients",
        "",
        "This run used other programs and another counterpart. They were written to compare all these clients, and not",
        "together with this one. The machine and the figures are the same. Each cell is the median of up to",
        f"{runs} runs, clients in turn. protonj2 is 1.0.0 on Java 17, and rabbitmq-amqp-python-client is 1.0.1. The",
        "others have the versions above.",
        "",
    ]
    return "\n".join([*lines, *tables(figures)])


def page_0_9_1(run: dict[str, Any]) -> str:
    """The part on AMQP 0-9-1; its figures are as amqp091.py gives them."""
    figures: amqp091.Figures = {}
    for case, (cpu, rate) in run["figures"].items():
        mode, size, peer = case.split(" ")
        figures[mode, int(size), peer] = cpu, rate
    lines = [
        "## AMQP 0-9-1",
        "",
        "CPU µs of the client a message, beside the two clients that most Python programs use. Publishing waits for",
        "confirms, with at most 1000 messages on their way. Consuming has a prefetch of 1000, and acks each message.",
        "",
        f"- {run['clients']}; Python {run['python']}; the same machine. Median of {run['runs']} runs, clients in turn.",
        "- Counterpart: hand-written in Python (`benchmarks/counterpart_0_9_1.py`). It counts what each client sends.",
        "- Each client is used in the fastest way of its documentation: this client by `send_many` and `async for`,",
        "  pika by its asynchronous adapter, aio-pika by gathering publishes and a consumer's callback.",
        "",
        *amqp091.table(figures),
    ]
    return "\n".join([*lines, ""])


def page_azure(run: dict[str, Any]) -> str:
    """The part on the emulator of Azure, and on our client beside Microsoft's on it."""

    def median(runs: list[dict[str, float]], figure: str) -> float:
        return statistics.median(each[figure] for each in runs)

    starts, held = run["starts"], run["sessions"]
    lines = [
        "## The emulator of Azure",
        "",
        "`make bench-azure` runs [the emulator](../embedded/azure.md) as `amqp10 broker --azure Config.json`.",
        f"Messages have an id and {run['size']} octets of data. The queue has no sessions, except in the last",
        "part.",
        "",
        f"- {run['date']}, {run['runs']} runs of {run['count']:,} messages, clients in turn; medians. To warm",
        "  up, each client first had half as many.",
        f"- Load average before, between and after the runs: {', '.join(f'{load:.1f}' for load in run['loads'])}, on",
        f"  {run['cpus']} CPUs, which emulator and clients share. Above 2 the machine is busy, and seconds and",
        "  messages a second are worse than on an idle one. Compare CPU and its ratios.",
        *([f"- Start and sessions were measured later, at a load of {run['again']:.1f}."] if "again" in run else []),
        f"- Machine: {run['machine']}; {run['setting']}.",
        "- The emulator is one process of Python, and its CPU is from the same run. A million divided by that is the",
        "  most messages that it can pass in a second.",
        "- The SDKs and `amqp10.azure` send batches of 100, one after the other, and receive up to 100 at a time.",
        "  The JavaScript SDK is built on rhea. rhea itself sends messages one by one without an id, at most 2000 on",
        "  their way, and receives with a credit of 1000. It shows what JavaScript can do without an SDK.",
        "",
        f"**Start**: {median(starts, 'seconds'):.2f} s from the start of the process to its first answer to a",
        f"connection, {median(starts, 'cpu'):.2f} s of CPU. In a process that has imported the package,",
        f"`async with Broker(azure=...)` takes {median(starts, 'inside') * 1000:.1f} ms.",
        "",
        "| JavaScript | client | CPU µs of the client | of the emulator | the emulator's most a second | messages/s |",
        "|---|---|--:|--:|--:|--:|",
    ]
    for case, peers in run["figures"]["javascript"].items():
        for peer, runs in peers.items():
            cpu, emulator, rate = (median(runs, name) for name in ("cpu", "emulator", "rate"))
            cells = [AZURE_CASES[case], AZURE_CLIENTS[peer], f"{cpu:.1f}", f"{emulator:.1f}", f"{1e6 / emulator:,.0f}"]
            lines.append(f"| {' | '.join(cells)} | {rate:,.0f} |")
    lines += [
        "",
        "In brackets: the ratio to `amqp10.azure`.",
        "",
        "| Python | client | CPU µs of the client | of the emulator | messages/s |",
        "|---|---|--:|--:|--:|",
    ]
    for case, peers in run["figures"]["python"].items():
        for peer, runs in peers.items():
            cpu, emulator, rate = (median(runs, name) for name in ("cpu", "emulator", "rate"))
            times = f"{cpu / median(peers[OURS], 'cpu'):.1f}"
            cells = [AZURE_CASES[case], AZURE_CLIENTS.get(peer, peer), f"{cpu:.1f} ({times})", f"{emulator:.1f}"]
            lines.append(f"| {' | '.join(cells)} | {rate:,.0f} |")
    lines += [
        "",
        "azure-servicebus completes one message at a time. `complete_many` of `amqp10.azure` completes 100",
        "together, and so does the program in JavaScript.",
        "",
        *page_azure_sessions(held),
    ]
    return "\n".join(lines)


def page_azure_sessions(held: dict[str, float]) -> list[str]:
    """The part on sessions."""
    if not held:
        return []
    kib = (held["idle"] - held["before"]) / held["count"] * 1024
    return [
        f"**Sessions**: @azure/service-bus accepted {held['count']:,} sessions one after another, in",
        f"{held['seconds'] / held['count'] * 1000:.1f} ms each. Each had one message. It held all of them on one",
        "connection, each with an AMQP session of its own. RSS of the emulator, MiB:",
        "",
        "| before | messages sent | all accepted | all messages completed | all closed |",
        "|--:|--:|--:|--:|--:|",
        "| " + " | ".join(f"{held[name]:.1f}" for name in ("before", "created", "accepted", "idle", "closed")) + " |",
        "",
        f"That is {kib:.1f} KiB for each held session without messages.",
        "",
    ]


def main() -> int:
    """Write the page and its plots, or compare them with the results."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--check", action="store_true", help="write nothing, fail if a file is not what the results say"
    )
    arguments = parser.parse_args()
    run, real = json.loads(FIGURES.read_text()), json.loads(REAL.read_text())
    figures = medians(run)
    parts = [page(run, figures, real)]
    if ALL_CLIENTS.exists():
        parts.append(page_all_clients(json.loads(ALL_CLIENTS.read_text())))
    if LARGE.exists():
        parts.append(page_large(json.loads(LARGE.read_text())))
    transports = {name: json.loads(each.read_text()) for name, each in TRANSPORTS.items() if each.exists()}
    if transports:
        parts.append(page_transports(transports))
    brokers = [json.loads(each.read_text()) for each in BROKERS if each.exists()]
    if brokers:
        parts.append(page_brokers(brokers))
    if AZURE.exists():
        parts.append(page_azure(json.loads(AZURE.read_text())))
    text = "\n".join([*parts, page_0_9_1(json.loads(FIGURES_0_9_1.read_text()))])
    files = {PAGE: text, PLOT: plot(run, 100, figures), PLOT_REAL: plot_real(real, run, figures)}
    if arguments.check:
        old = [path.name for path, new in files.items() if not path.exists() or path.read_text() != new]
        if old:
            print(f"{', '.join(old)}: not what benchmarks/results/ says; run benchmarks/report.py", file=sys.stderr)
        return int(bool(old))
    for path, new in files.items():
        path.write_text(new)
    print(f"{', '.join(path.name for path in files)} are written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
