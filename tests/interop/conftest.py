"""What the interop tests share: certificates, and the real brokers, each started once for the whole run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from amqp10.broker import Broker

from ..kit.unavailable import unavailable
from ._matrix import Embedded, Peer, embedded_broker, fresh_name
from .brokers import (
    ARTEMIS,
    BROKER_J,
    NEWEST,
    Mortal,
    MortalRabbitMQ,
    Recipe,
    Server,
    Unavailable,
    java,
    serving,
    serving_rabbitmq,
    write_certificates,
    write_trust_store,
)
from .clients import PROGRAMS, PROTONJ2, QPID_CLIENT, Kept, Program

KEPT: list[Mortal | MortalRabbitMQ] = []
"""The real brokers of this process that are to serve until its tests have ended."""


def kept(broker: Mortal | MortalRabbitMQ) -> Iterator[Server]:
    """The broker's server, which is started again if it ends by itself: Broker-J does so at an error of its own."""
    KEPT.append(broker)
    yield broker.server
    KEPT.remove(broker)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Let one broker that ended fail one test, which is run again, and not all that come after it."""
    for broker in KEPT:
        if broker.ended():
            broker.restart()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Say in the report of a test that failed which broker has ended, and why."""
    report = yield
    if report.failed:
        report.sections += [("broker", said) for broker in KEPT if (said := broker.ended())]
    return report


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ca.pem, {server,client}.{pem,key,p12}, and stranger.pem, an authority that signed none of them."""
    folder = tmp_path_factory.mktemp("certificates")
    write_certificates(folder)
    return folder


@pytest.fixture(scope="session")
def proton() -> None:
    """python-qpid-proton is installed; on most machines it is built from source, which needs a C compiler."""
    if find_spec("proton") is None:
        unavailable("python-qpid-proton is not installed")


@pytest.fixture(scope="session")
def artemis(authority: Path) -> Iterator[Server]:
    """Apache Artemis. Ports: amqp (PLAIN, ANONYMOUS), amqps (PLAIN), external (client certificate), scram."""
    yield from running(ARTEMIS, authority)


@pytest.fixture(scope="session")
def broker_j(authority: Path) -> Iterator[Server]:
    """Apache Qpid Broker-J. Ports: amqp and amqps (PLAIN, SCRAM), external (client certificate), anonymous."""
    yield from running(BROKER_J, authority)


@pytest.fixture(scope="session")
def rabbitmq(authority: Path) -> Iterator[Server]:
    """RabbitMQ 4.0. Ports: amqp (PLAIN, ANONYMOUS), amqps (PLAIN, EXTERNAL); queues are to be declared."""
    try:
        with serving_rabbitmq(authority) as broker:
            yield from kept(broker)
    except Unavailable as error:
        unavailable(f"no rabbitmq: {error}")


@pytest.fixture(scope="session")
def rabbitmq_43(authority: Path) -> Iterator[Server]:
    """RabbitMQ 4.3 or a later one, with the same ports."""
    try:
        with serving_rabbitmq(authority, NEWEST) as broker:
            yield from kept(broker)
    except Unavailable as error:
        unavailable(f"no rabbitmq of {NEWEST}: {error}")


@pytest.fixture(scope="session")
def embedded() -> Iterator[Embedded]:
    """The broker of this package, as a process of its own. Ports: amqp (PLAIN, SCRAM, ANONYMOUS)."""
    with embedded_broker() as server:
        yield server


@pytest.fixture(params=["artemis", "broker_j", "rabbitmq", "rabbitmq_43", "embedded"])
def peer(request: pytest.FixtureRequest) -> Peer:
    """Each broker of the interop matrix in turn; what a test notes on it goes into the docs' interop table."""
    server = request.getfixturevalue(request.param)
    said = request.node.user_properties
    said.append(("peer", request.param))
    return Peer(request.param.removesuffix("_43"), server, said, newest=request.param == "rabbitmq_43")


@pytest.fixture(params=["rabbitmq", "embedded"])
async def rabbit_url(request: pytest.FixtureRequest, anyio_backend: str) -> AsyncIterator[str]:
    """RabbitMQ, and an embedded broker that says it were that: its own clients talk to nobody else."""
    if request.param == "rabbitmq":
        yield request.getfixturevalue("rabbitmq").url()
        return
    said = {"product": "RabbitMQ", "version": "4.2.0", "node": "embedded@localhost"}
    async with Broker(users={"user": "secret"}, auto_create=False, properties=said) as broker:
        yield broker.url.replace("//", "//user:secret@")


@pytest.fixture(scope="session", params=[*PROGRAMS, "protonj2"])
def client(request: pytest.FixtureRequest) -> Program | Kept:
    """Each independent client in turn, installed."""
    if request.param == "protonj2":
        found: Kept = request.getfixturevalue("protonj2")
        return found
    program = PROGRAMS[request.param]
    try:
        program.installed()
    except Unavailable as error:
        unavailable(f"no {program.library}: {error}")
    return program


@pytest.fixture(scope="session")
def qpid_client() -> Iterator[Kept]:
    """Qpid's JMS client, in one process; the first word of a task is the version of AMQP."""
    yield from taking_tasks(QPID_CLIENT)


@pytest.fixture(scope="session")
def protonj2() -> Iterator[Kept]:
    """Qpid ProtonJ2, in one process."""
    yield from taking_tasks(PROTONJ2)


def taking_tasks(program: Program) -> Iterator[Kept]:
    """The program until the run ends; skipped if this machine cannot have it."""
    try:
        program.installed()
    except Unavailable as error:
        unavailable(f"no {program.library}: {error}")
    client = Kept(program)
    yield client
    client.stop()


def running(recipe: Recipe, certificates: Path) -> Iterator[Server]:
    """The broker until the run ends; skipped if this machine cannot have it, failed if it does not start."""
    try:
        if not (certificates / "clients.p12").exists():
            write_trust_store(certificates, java())
        with serving(recipe, certificates) as broker:
            yield from kept(broker)
    except Unavailable as error:
        unavailable(f"no {recipe.name}: {error}")


@pytest.fixture
def address() -> str:
    """The name of a queue that no other test uses; the brokers make it when it is first used."""
    return fresh_name()
