"""Write docs/reference/benchmarks.md and its plot from the figures of a full run.

make bench-full                                  full_run.json; for the others `run.py --native --variants asyncio` with
... --broker URL --label "Artemis 2.55.0" --json benchmarks/results/artemis_run.json      and broker_j_run.json likewise
... --transport tls --json benchmarks/results/tls_run.json                           and websocket, websocket_run.json
... --sizes 10485760 --json benchmarks/results/large_run.json
python benchmarks/amqp091.py --json benchmarks/results/amqp091_run.json
python benchmarks/report.py

All of them stand in benchmarks/results/. all_clients_run.json has the results of a harness that is not part of this
project, as it gives them: a list with an object for each run.
"""

from __future__ import annotations

import json
import math
import statistics
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
ALL_CLIENTS = RESULTS / "all_clients_run.json"
PAGE = HERE.parent / "docs" / "reference" / "benchmarks.md"
PLOT = PAGE.with_name("benchmarks.svg")
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
    style = (
        "text{font:13px sans-serif;fill:#555}.head{font-weight:bold}.ours{fill:#2a7ae2}.theirs{fill:#b5b5b5}"
        ".note{font-size:11px}"
    )
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {y}" role="img">',
            "<title>CPU µs of the client a message, logarithmic</title>",
            f"<style>{style}</style>",
            '<text x="0" y="16" class="head">CPU µs of the client a message (logarithmic; shorter is better)</text>',
            *parts,
            f'<text x="0" y="{y - 10}" class="note">{note}</text>',
            "</svg>",
            "",
        ]
    )


def page(run: dict[str, Any], figures: Medians) -> str:
    sizes = sorted({size for _, size, _ in figures})
    lines = [
        "# Benchmarks",
        "",
        "<!-- Written by benchmarks/report.py from benchmarks/results/full_run.json; do not edit. -->",
        "",
        "CPU µs of the client a message, user and system; in brackets, how many times that of amqp10 on trio.",
        f"Median of {run['runs']} runs that took turns. Compare within one section only.",
        "",
        f"- {run['date']}. Machine: {run['machine']}; {run['setting']}.",
        f"- Load average before, between and after the runs: {', '.join(f'{load:.1f}' for load in run['loads'])}. The",
        "  benchmark itself makes about 1.5; the rest was other work on the same CPUs.",
        f"- Counterpart: hand-written in {run['counterpart']}, over TCP on loopback; it settles a range for each read.",
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
        "The same clients, workloads and figures with TLS, and with a WebSocket, between client and counterpart",
        "(`run.py --transport`). Each has its own language's TLS: OpenSSL for Python, C, JavaScript, Go's own, rustls",
        "in Rust. Both ends are on the same CPUs, so that messages a second have the counterpart's share of the work",
        "in them. What it means for a program: [speed](../concepts/speed.md#tls-websockets-large-messages).",
        "",
    ]
    for name, run in runs.items():
        figures = medians(run)
        lines += [
            f"### {name}",
            "",
            f"Median of {run['runs']} runs that took turns; load {', '.join(f'{load:.1f}' for load in run['loads'])}.",
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
        f"The same with messages of 10 MiB, in frames of 128 KiB. Median of {run['runs']} runs that took turns; load",
        f"{', '.join(f'{load:.1f}' for load in run['loads'])}. CPU µs of the client a message; the runs of an",
        "empty cell were thrown out, for the counterpart saw something else than was asked for:",
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
        "The same clients and figures with a broker at the other end, which shares the CPUs with them. All logged in",
        "by ANONYMOUS; after each run the queue held exactly what it should.",
        "",
    ]
    for run in runs:
        figures = medians(run)
        lines += [
            f"### {run['counterpart']}",
            "",
            f"Median of {run['runs']} runs that took turns; load {', '.join(f'{load:.1f}' for load in run['loads'])}.",
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
        "Another run, with programs and a counterpart that were written for the comparison of all these clients, and",
        "not with this one; the same machine, and counted is the same. For each row and column the median of up to",
        f"{runs} runs that took turns. protonj2 is 1.0.0, on Java 17, and rabbitmq-amqp-python-client 1.0.1; of the",
        "others the versions are those above.",
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
        "CPU µs of the client a message, as above, beside the two that most programs in Python use. Publishing with",
        "confirms, 1000 at most on their way; consuming with a prefetch of 1000, each message acked.",
        "",
        f"- {run['clients']}; Python {run['python']}; the same machine. Median of {run['runs']} runs that took turns.",
        "- Counterpart: hand-written in Python (`benchmarks/counterpart_0_9_1.py`); it counts what each client says.",
        "- Each is driven in the quickest way that its documentation has: this client by `send_many` and `async for`,",
        "  pika by its asynchronous adapter, aio-pika by gathering publishes and a consumer's callback.",
        "",
        *amqp091.table(figures),
    ]
    return "\n".join([*lines, ""])


def main() -> None:
    run = json.loads(FIGURES.read_text())
    figures = medians(run)
    parts = [page(run, figures)]
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
    PAGE.write_text("\n".join([*parts, page_0_9_1(json.loads(FIGURES_0_9_1.read_text()))]))
    PLOT.write_text(plot(run, 100, figures))
    print(f"{PAGE} and {PLOT.name} are written")


if __name__ == "__main__":
    main()
