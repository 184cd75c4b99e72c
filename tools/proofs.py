"""Write docs/reference/proofs.md: which tests prove which capability.

The tests say it themselves: `pytest.mark.capability("credit")` on a module, a class or a function. The titles, pages
and examples stand here. This reads the source of the tests, without running anything. `--check` writes nothing and
fails if the page is not what the tests say, if a capability has no test, or if a mark names none.
"""

from __future__ import annotations

import argparse
import ast
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests"
PAGE = ROOT / "docs" / "reference" / "proofs.md"

INTRODUCTION = """\
# Proofs

This page lists what `amqp10` can do, where that is explained, and which tests prove it. Every test runs in `make test`.
The page is generated from marks in the tests by `python tools/proofs.py`.

A file in **bold** runs against each broker of this project: Apache Artemis, Qpid Broker-J, RabbitMQ and the embedded
broker. [Interop](interop.md) has the answers, broker by broker. [Conformance](conformance.md) has the clauses of the
specifications, each with its test.
"""


class Capability(NamedTuple):
    """A line of the page."""

    title: str
    page: str
    """The page that explains it, beneath docs/."""
    example: str = ""
    """A file beneath examples/."""


CAPABILITIES = {
    "send and receive": Capability("Send and receive", "start/first-steps.md", "hello.py"),
    "many in flight": Capability("Many messages in flight", "start/first-steps.md", "many.py"),
    "outcomes": Capability("Every outcome and settle mode", "build/settlement.md", "settlement.py"),
    "credit": Capability("Credit by hand, drain", "build/credit.md", "credit.py"),
    "large messages": Capability("Large messages, in parts", "build/large-messages.md", "large_messages.py"),
    "filters": Capability("Selectors and other filters", "build/filters.md", "filters.py"),
    "streams": Capability("Streams, read from any offset", "build/streams.md", "streams.py"),
    "subscriptions": Capability("Subscriptions, browsers, priorities", "build/subscriptions.md", "subscriptions.py"),
    "dynamic and anonymous nodes": Capability("Dynamic and anonymous nodes", "embedded/index.md", "nodes.py"),
    "requests and replies": Capability("Requests and replies", "build/request-reply.md", "request_reply.py"),
    "transactions": Capability("Transactions", "build/transactions.md", "transactions.py"),
    "workers": Capability("Workers: retries, dead letters", "build/worker.md", "worker.py"),
    "without async": Capability("The client without `await`", "build/sync.md", "sync/orders.py"),
    "reconnect": Capability("Reconnect, several hosts", "operate/reconnect.md", "reconnect.py"),
    "link resume": Capability("Links that resume", "operate/reconnect.md"),
    "exactly once": Capability("Exactly once, over restarts", "build/exactly-once.md", "exactly_once.py"),
    "nothing lost": Capability("Nothing lost when brokers die", "build/testing.md"),
    "cancellation": Capability("Cancellation at every checkpoint", "concepts/settlement-and-flow.md"),
    "orderly leaving": Capability("An orderly end, with one deadline", "concepts/settlement-and-flow.md"),
    "types": Capability("All AMQP types, without loss", "reference/types.md"),
    "TLS": Capability("TLS", "operate/tls.md", "tls.py"),
    "WebSocket": Capability("WebSockets and proxies", "operate/websocket-and-proxies.md", "websocket.py"),
    "login": Capability("SASL: PLAIN, EXTERNAL, SCRAM, OAuth", "operate/sasl.md", "tls.py"),
    "configuration": Capability(
        "Settings from URL, environment, files", "operate/configuration.md", "configuration.py"
    ),
    "tokens": Capability("Tokens that renew", "operate/tokens.md", "tokens.py"),
    "hostile peers": Capability("Hostile peers, bounded memory", "concepts/threat-model.md", "scripted_peer.py"),
    "broker profiles": Capability("Broker profiles", "brokers/index.md", "profiles.py"),
    "RabbitMQ management": Capability("RabbitMQ's queues and exchanges", "brokers/rabbitmq.md", "rabbitmq/topology.py"),
    "Service Bus client": Capability("Azure Service Bus", "brokers/service-bus.md", "service_bus_client.py"),
    "Event Hubs client": Capability("Azure Event Hubs", "brokers/event-hubs.md", "event_hub_client.py"),
    "Event Hubs processor": Capability(
        "Azure Event Hubs, shared among processes", "brokers/event-hubs.md", "event_processor.py"
    ),
    "Service Bus emulator": Capability("An emulator of Service Bus", "embedded/azure.md"),
    "Event Hubs emulator": Capability("An emulator of Event Hubs", "embedded/azure.md", "event_hubs.py"),
    "health": Capability("Health, logs, Prometheus", "operate/health.md", "health.py"),
    "OpenTelemetry": Capability("OpenTelemetry", "operate/opentelemetry.md", "telemetry.py"),
    "frame trace": Capability("Frame traces", "operate/tracing.md", "tracing.py"),
    "embedded broker": Capability("The embedded broker", "embedded/index.md", "embedded_broker.py"),
    "broker store": Capability("The embedded broker with a store", "embedded/durable-broker.md", "durable_broker.py"),
    "users and permissions": Capability(
        "Users and permissions", "embedded/users-and-permissions.md", "users_and_permissions.py"
    ),
    "bridge": Capability("The bridge between brokers", "operate/bridge.md", "bridge.py"),
    "Spark": Capability("Apache Spark", "spark/index.md", "spark/flights.py"),
    "older dialects": Capability("Every AMQP before 1.0", "older/index.md", "dialects.py"),
    "AMQP 0-9-1": Capability("AMQP 0-9-1, 0-9", "older/amqp-0-9-1.md", "amqp_0_9_1.py"),
    "AMQP 0-10": Capability("AMQP 0-10", "older/amqp-0-10.md", "amqp_0_10.py"),
    "AMQP/Fast": Capability("AMQP/Fast 0.7", "older/amqp-fast.md", "amqp_fast.py"),
    "test kit": Capability("Test kit and pytest plugin", "build/testing.md", "scripted_peer.py"),
    "command line": Capability("Command line", "reference/cli.md"),
    "speed": Capability("Speed, held to a budget", "concepts/speed.md"),
    "compiled part": Capability("The compiled part", "operate/compiled.md"),
}


def marks(path: Path) -> tuple[set[str], bool]:
    """Return the capabilities that a file of tests names, and whether it asks every broker."""
    named: set[str] = set()
    every_broker = False
    text = path.read_text(encoding="utf-8")
    if "mark.capability" not in text and "mark.matrix" not in text:
        return named, every_broker
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Call(ast.Attribute(ast.Attribute(ast.Name("pytest"), "mark"), "capability"), [name]):
                named.add(ast.literal_eval(name))
            case ast.Call(ast.Attribute(ast.Attribute(ast.Name("pytest"), "mark"), "matrix")):
                every_broker = True
    return named, every_broker


def proofs() -> dict[str, list[str]]:
    """Return the files that prove each capability, in the order of the page.

    Raises:
        ValueError: a mark names no capability, or a capability has no test.
    """
    found: dict[str, list[str]] = {each: [] for each in CAPABILITIES}
    for path in sorted(TESTS.rglob("test_*.py")):
        named, every_broker = marks(path)
        shown = f"`{path.relative_to(TESTS).as_posix()}`"
        for each in sorted(named):
            if each not in found:
                raise ValueError(f"{path.relative_to(ROOT)} names {each!r}, which tools/proofs.py does not know")
            found[each].append(f"**{shown}**" if every_broker else shown)
    if unproved := [each for each, files in found.items() if not files]:
        raise ValueError(f"no test has the mark of {unproved}")
    return found


def render() -> str:
    """Return the page."""
    lines = [INTRODUCTION, "| capability | example | tests, beneath `tests/` |", "|---|---|---|"]
    for key, files in proofs().items():
        capability = CAPABILITIES[key]
        example = f"`{capability.example}`" if capability.example else ""
        lines.append(f"| [{capability.title}](../{capability.page}) | {example} | {', '.join(files)} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Write the page, or compare it with the tests."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--check", action="store_true", help="write nothing, fail if the page is not what the tests say"
    )
    arguments = parser.parse_args()
    try:
        text = render()
    except ValueError as problem:
        print(problem, file=sys.stderr)
        return 1
    if not arguments.check:
        PAGE.write_text(text, encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
        print(f"{PAGE.relative_to(ROOT)} is out of date: run `python tools/proofs.py`", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
