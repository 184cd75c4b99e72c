"""The brokers that the interop matrix asks, behind one face.

A test of the matrix takes the fixture `peer`, names its row by `@pytest.mark.matrix("row")`, and either shows that the
feature works or asserts the error that a user sees where the broker does not have it, and says so by `peer.lacks(...)`.
`tools/interop.py` runs them and writes docs/reference/interop.md from what they said.
"""

from __future__ import annotations

import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal, Protocol

from amqp10 import Connection, EndpointError, LinkDetached, SessionEnded
from amqp10.rabbitmq import management, queue_address

from ..kit.processes.programs import started

STOP_SECONDS = 20


class Serving(Protocol):
    """What the matrix wants of a running broker: see `brokers.Server`."""

    def url(self, port: str = ..., user: str | None = ..., password: str = ...) -> str: ...


@dataclass(frozen=True)
class Embedded:
    """The broker of this package, run by its command line as a process of its own."""

    port: int

    def url(self, port: str = "amqp", user: str | None = "user", password: str = "secret") -> str:
        login = "" if user is None else f"{user}:{password}@"
        return f"{'ws' if port == 'ws' else 'amqp'}://{login}localhost:{self.port}"


@dataclass(frozen=True)
class Peer:
    """One of the brokers.

    Attributes:
        name: "artemis", "broker_j", "rabbitmq" or "embedded".
        server: the process.
        said: (key, value) pairs that go into the test's report.
        newest: of RabbitMQ, 4.3 or later, and not 4.0.
    """

    name: str
    server: Serving
    said: list[tuple[str, object]] = field(default_factory=list)
    newest: bool = False

    def url(self, port: str = "amqp", user: str | None = "user", password: str = "secret") -> str:
        """The URL of one of its ports, with credentials unless `user` is None."""
        return self.server.url(port, user, password)

    async def queue(self, connection: Connection, kind: Literal["classic", "quorum"] = "classic") -> str:
        """The address of a new queue, made where the broker makes none on first use; `kind` is RabbitMQ's."""
        name = fresh_name()
        if self.name == "rabbitmq":
            async with management(connection) as rabbit:
                await rabbit.declare_queue(name, kind)
            return queue_address(name)
        return name

    @property
    def refused(self) -> type[EndpointError]:
        """What a refused link raises: RabbitMQ 4.0 ends the whole session."""
        return SessionEnded if self.name == "rabbitmq" and not self.newest else LinkDetached

    def lacks(self, what: str) -> None:
        """Note that the broker does not have the feature, once the test has asserted what a user sees."""
        self.said.append(("lacks", what))

    def note(self, what: str) -> None:
        """Note in what way it differs, in a few words."""
        self.said.append(("note", what))


@contextmanager
def embedded_broker(*more: str) -> Iterator[Embedded]:
    """Run the embedded broker as users do, until the block is left.

    Args:
        more: options of `amqp10 broker`.
    """
    options = ["--port", "0", "--user", "user:secret", "--anonymous", "--websocket", "--duplicate-ids", "5000", *more]
    command = [sys.executable, "-m", "amqp10", "broker", *options]
    with started(command, limit=None, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert "amqp10 broker on " in line, f"the embedded broker says {line!r}"
            url = line.split("amqp10 broker on ")[1].split()[0]
            yield Embedded(int(url.rpartition(":")[2]))
        finally:
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()


def fresh_name() -> str:
    """A name that no other test uses."""
    return f"queue-{secrets.token_hex(6)}"
