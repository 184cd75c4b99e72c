"""Brokers that a test kills: this package's own, and real ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from ...interop.brokers import ARTEMIS, NEWEST, STABLE, java, mortal, mortal_rabbitmq, write_trust_store
from .stored_broker import StoredBroker


class Broker(Protocol):
    """One that can be killed."""

    def kill(self) -> None:
        """End it by SIGKILL."""

    def restart(self) -> None:
        """Start it after that, on what it had written."""


class Embedded(StoredBroker):
    """`amqp10 broker --store`, as a process of its own."""

    def restart(self) -> None:
        self.start()


@contextmanager
def start(name: str, certificates: Path, folder: Path) -> Iterator[tuple[Broker, str]]:
    """A broker and its URL."""
    if name.startswith("embedded"):
        broker = Embedded(folder / "store")
        try:
            yield broker, broker.url
        finally:
            broker.kill()
    elif name == "artemis":
        if not (certificates / "clients.p12").exists():
            write_trust_store(certificates, java())
        with mortal(ARTEMIS, certificates) as artemis:
            yield artemis, artemis.server.url()
    else:
        with mortal_rabbitmq(certificates, suite=NEWEST if "newest" in name else STABLE) as rabbitmq:
            yield rabbitmq, rabbitmq.server.url()
