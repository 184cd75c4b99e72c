"""The emulator of Service Bus and Event Hubs, as Microsoft's SDKs for Java, JavaScript, Go and Rust drive it.

That for Rust is compiled from 400 crates, which takes minutes: it runs in `make nightly`, or with `AMQP10_RUST=1`.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import anyio
import pytest

from amqp10 import TLS
from amqp10.broker import Broker, TokenRules
from amqp10.broker.azure import (
    EMULATOR_RULE,
    AzureConfig,
    EventHubConfig,
    QueueConfig,
    Rule,
    SqlRuleFilter,
    SubscriptionConfig,
    TopicConfig,
    connection_string,
)
from amqp10.testing import CertificateAuthority

from ..kit.counts import COMPILE_RUST
from ..kit.unavailable import unavailable
from .brokers import Unavailable
from .clients import (
    AZURE_EVENTHUBS_JAVA,
    AZURE_EVENTHUBS_JS,
    AZURE_GO,
    AZURE_RUST,
    AZURE_SERVICEBUS_JAVA,
    AZURE_SERVICEBUS_JS,
    Program,
)
from .clients._programs import COMPILE_SECONDS

pytestmark = [
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.capability("Service Bus emulator"),
]

CONFIG = AzureConfig(
    [
        *("settled", "scheduled", "unknown", "batched", "renewed", "processed", "described", "annotated"),
        *(
            f"{name}.{commits}"
            for name in ("sent", "outcomes", "later", "deferred", "from", "to")
            for commits in ("true", "false")
        ),
        QueueConfig("sessions", requires_session=True),
        QueueConfig("lost", lock_duration=1.0),
    ],
    [TopicConfig("events", [SubscriptionConfig("red", rules=[Rule("red", SqlRuleFilter("color = 'red'"))])])],
    event_hubs=[EventHubConfig(*each) for each in (("telemetry", 4), ("readings", 8), ("keyed", 4))],
)
JAVA = {
    "settle": "complete, abandon, defer, dead-letter with a reason; a deferred message by its number",
    "sessions": "a session by its id has its messages in order and its state; the next free one is another",
    "schedule": "a scheduled message is peeked, and can be cancelled",
    "described": "properties that are durations, times and URIs come as they were sent",
    "annotations": "delivery annotations of a sender come with its message",
    "send-and-commit": "messages sent in a transaction, in a batch too, are there when it is committed, all at once",
    "send-and-roll-back": "messages sent in a transaction that is rolled back never are",
    "settle-and-commit": "four outcomes in a transaction count when it is committed, and not before",
    "settle-and-roll-back": "outcomes of a transaction that is rolled back do not count: the messages stay locked",
    "schedule-and-commit": "messages scheduled in a transaction have numbers at once, and are there after the commit",
    "schedule-and-roll-back": "messages scheduled in a transaction that is rolled back never are; numbers go on",
    "deferred-and-commit": "four outcomes of deferred messages in a transaction count when it is committed",
    "deferred-and-roll-back": "outcomes of deferred messages that are rolled back do not count: these stay locked",
    "across-and-commit": "a message completed in one queue and another sent to a second one, in one transaction",
    "across-and-roll-back": "neither of the two, when that is rolled back",
    "transaction-over": "a message for a transaction that is over is not taken",
}
JAVASCRIPT = {
    "settle": JAVA["settle"],
    "batch": "each message of a batch comes by itself, in order",
    "renew": "a renewed lock ends later",
    "sessions": JAVA["sessions"] + "; one that is locked is refused",
    "schedule": JAVA["schedule"],
    "subscribe": "a subscription gets what its rules let pass; rules are added, listed and removed",
    "processor": "a handler gets messages and completes them",
    "missing": "an entity that is not there is said to be missing",
    "administer": "queues, topics, subscriptions and rules by the administration client",
}
JAVASCRIPT_HUBS = {
    "properties": "an event hub and its partitions are told of",
    "event": "an event comes with all that was said of it, and with its number, offset and time",
    "batch": "the events of a batch come one by one, in order",
    "positions": "events are read from a sequence number, from behind it, from behind an offset, from a time",
    "keys": "events of one key are in one partition, in order, for who reads all partitions",
    "latest": "a reader begins with the next event to come",
    "last": "a reader that asks for it hears of the last event",
    "owner": "a reader of a higher owner level takes the partition of another one",
    "buffered": "a producer that gathers events tells of all that was sent",
    "missing": "an event hub that is not there is said to be missing",
}

JAVA_HUBS = {
    "properties": JAVASCRIPT_HUBS["properties"],
    "event": JAVASCRIPT_HUBS["event"],
    "batch": JAVASCRIPT_HUBS["batch"],
    "positions": JAVASCRIPT_HUBS["positions"],
    "keys": JAVASCRIPT_HUBS["keys"],
    "last": JAVASCRIPT_HUBS["last"],
    "owner": JAVASCRIPT_HUBS["owner"],
    "missing": JAVASCRIPT_HUBS["missing"],
}

GO = {
    "settle": JAVA["settle"],
    "batch": JAVASCRIPT["batch"],
    "renew": JAVASCRIPT["renew"],
    "lose": "a message whose lock is lost can be neither completed nor renewed, and the error says so",
    "sessions": JAVA["sessions"] + "; they are listed",
    "schedule": JAVA["schedule"],
    "subscribe": "a subscription gets what its rules let pass",
    "missing": JAVASCRIPT["missing"],
    "hub-properties": "an event hub and its partitions are told of",
    "hub-positions": "events are read from the first, from a sequence number, from behind an offset",
    "hub-keys": "events of one key are in one partition, in order",
    "hub-owner": "a reader of a higher owner level takes the partition of another one",
}

RUST = {
    "properties": JAVASCRIPT_HUBS["properties"],
    "event": JAVASCRIPT_HUBS["event"],
    "positions": JAVASCRIPT_HUBS["positions"],
    "keys": "events of one key are in one partition",
    "owner": JAVASCRIPT_HUBS["owner"],
    "missing": JAVASCRIPT_HUBS["missing"],
}


async def drive(program: Program, behaviors: list[str], folder: Path, seconds: float = 120) -> dict[str, str]:
    """Run a program, and return what went wrong with each behavior; "" for nothing."""
    authority = CertificateAuthority(folder)
    files = authority.server("localhost")
    rules = TokenRules([EMULATOR_RULE], required=True)
    async with Broker(azure=CONFIG, tokens=rules) as broker:
        tls = TLS(certificate=files.certificate, key=files.key)
        async with broker.azure.administration("localhost", 0, tls=tls) as url:
            words = [connection_string(broker.url)]
            if program is AZURE_SERVICEBUS_JS:
                words.append(connection_string(url.replace("https://", "amqps://")))
            with anyio.fail_after(seconds):
                said = await program.run(*words, *behaviors, environment={"NODE_EXTRA_CA_CERTS": str(authority.ca)})
    return {each["behavior"]: each["error"] for each in said}


def run(program: Program, behaviors: list[str], folder: Path, seconds: float = 120) -> dict[str, str]:
    try:
        program.installed()
    except Unavailable as error:
        unavailable(f"no {program.library}: {error}")
    return anyio.run(partial(drive, program, behaviors, folder, seconds), backend="trio")


def selected(request: pytest.FixtureRequest, fixture: str) -> list[str]:
    """Return the behaviors of tests that are to run."""
    return [
        str(item.callspec.params["behavior"])
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.module is request.module and fixture in item.fixturenames
    ]


@pytest.fixture(scope="module")
def java(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """How each behavior went in Java."""
    return run(AZURE_SERVICEBUS_JAVA, selected(request, "java"), tmp_path_factory.mktemp("java"))


@pytest.fixture(scope="module")
def javascript(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """How each behavior went in JavaScript."""
    return run(AZURE_SERVICEBUS_JS, selected(request, "javascript"), tmp_path_factory.mktemp("javascript"))


@pytest.fixture(scope="module")
def javascript_hubs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """How each behavior went in JavaScript, with Event Hubs."""
    return run(AZURE_EVENTHUBS_JS, selected(request, "javascript_hubs"), tmp_path_factory.mktemp("javascript"))


@pytest.fixture(scope="module")
def java_hubs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """How each behavior went in Java, with Event Hubs."""
    return run(AZURE_EVENTHUBS_JAVA, selected(request, "java_hubs"), tmp_path_factory.mktemp("java"))


@pytest.fixture(scope="module")
def go(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """How each behavior went in Go."""
    return run(AZURE_GO, selected(request, "go"), tmp_path_factory.mktemp("go"))


@pytest.fixture(scope="module")
def rust(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """How each behavior went in Rust.

    Now and then this SDK waits for ever once it has ended a session: each behavior has its own process, and five tries.
    """
    ended: dict[str, str] = {}
    for behavior in selected(request, "rust"):
        for _ in range(5):
            try:
                ended |= run(AZURE_RUST, [behavior], tmp_path_factory.mktemp("rust"), 20)
                break
            except TimeoutError:
                ended[behavior] = "no answer in 20 s, five times"
    return ended


@pytest.mark.parametrize("behavior", JAVA)
def test_java(behavior: str, java: dict[str, str]) -> None:
    """What the SDK for Java does and sees; JAVA says what that is."""
    assert java[behavior] == ""


@pytest.mark.parametrize("behavior", JAVASCRIPT)
def test_javascript(behavior: str, javascript: dict[str, str]) -> None:
    """What the SDK for JavaScript does and sees; JAVASCRIPT says what that is."""
    assert javascript[behavior] == ""


@pytest.mark.parametrize("behavior", JAVASCRIPT_HUBS)
def test_javascript_hubs(behavior: str, javascript_hubs: dict[str, str]) -> None:
    """What the SDK for Event Hubs in JavaScript does and sees; JAVASCRIPT_HUBS says what that is."""
    assert javascript_hubs[behavior] == ""


@pytest.mark.parametrize("behavior", JAVA_HUBS)
def test_java_hubs(behavior: str, java_hubs: dict[str, str]) -> None:
    """What the SDK for Event Hubs in Java does and sees; JAVA_HUBS says what that is."""
    assert java_hubs[behavior] == ""


@pytest.mark.parametrize("behavior", GO)
def test_go(behavior: str, go: dict[str, str]) -> None:
    """What the SDKs for Go do and see; GO says what that is."""
    assert go[behavior] == ""


@pytest.mark.nightly
@pytest.mark.skipif(not COMPILE_RUST, reason="compiles for minutes: `make nightly` does it, or AMQP10_RUST=1")
@pytest.mark.timeout(COMPILE_SECONDS + 60)
@pytest.mark.parametrize("behavior", RUST)
def test_rust(behavior: str, rust: dict[str, str]) -> None:
    """What the SDK for Event Hubs in Rust does and sees; RUST says what that is."""
    assert rust[behavior] == ""
