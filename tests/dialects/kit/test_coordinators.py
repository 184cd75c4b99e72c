"""The coordinators that clients of the dialects before 1.0 are themselves."""

from __future__ import annotations

from typing import Any

import pytest

from amqp10.engine import LinkAttached, LinkTerms, SenderLink, SessionBegun
from amqp10.errors import LocalProtocolError
from amqp10.messaging import (
    AmqpValue,
    Coordinator,
    Declare,
    Declared,
    Discharge,
    Message,
    Rejected,
    Source,
    Target,
    TransactionalState,
)
from amqp10.testing import EnginePair

pytestmark = [pytest.mark.capability("transactions"), pytest.mark.parametrize("dialect", ["0-9-1", "0-10", "fast"])]


class Client:
    """A client with a link to its coordinator, and one that sends."""

    def __init__(self, dialect: str) -> None:
        self.pair = EnginePair(dialect=dialect)
        self.pair.open()
        session = self.pair.client.begin()
        self.coordinator = session.attach_sender(LinkTerms("c", Source(), Coordinator()))
        self.sender = session.attach_sender(LinkTerms("s", Source(), Target(None)))
        self.run()
        assert self.coordinator.attached
        assert self.sender.attached

    def run(self) -> None:
        """Carry all bytes; the server takes every session and link."""
        while events := self.pair.take("server"):
            for event in events:
                if isinstance(event, SessionBegun):
                    event.session.begin()
                elif isinstance(event, LinkAttached) and event.link.remote is not None:
                    event.link.attach(event.link.remote)

    def ask(self, body: Declare | Discharge) -> Any:
        """Return the coordinator's answer to `body`."""
        delivery = self.coordinator.send(Message(AmqpValue(body)).encode())
        self.run()
        return delivery.remote_state

    def send(self, txn_id: bytes) -> None:
        """Send a message in a transaction."""
        assert isinstance(self.sender, SenderLink)
        self.sender.send(Message(b"body", to="q").encode(), state=TransactionalState(txn_id))


def test_distributed_transactions(dialect: str) -> None:
    """A declare for a global transaction is refused: it would be a local one."""
    answer = Client(dialect).ask(Declare(global_id=b"global"))
    assert isinstance(answer, Rejected)
    assert answer.error is not None
    assert answer.error.condition == "amqp:not-implemented"


def test_unknown_transactions(dialect: str) -> None:
    """What is not declared, or no longer open, cannot be discharged, and nothing can be sent in it."""
    client = Client(dialect)
    declared = client.ask(Declare())
    assert isinstance(declared, Declared)
    client.send(declared.txn_id)
    client.ask(Discharge(declared.txn_id, fail=True))
    for txn_id in (declared.txn_id, b"other"):
        answer = client.ask(Discharge(txn_id))
        assert isinstance(answer, Rejected)
        assert answer.error is not None
        assert answer.error.condition == "amqp:transaction:unknown-id"
        with pytest.raises(LocalProtocolError, match="not open"):
            client.send(txn_id)


def test_the_link_ends(dialect: str) -> None:
    """The end of the link that declared a transaction rolls it back (§4.1)."""
    client = Client(dialect)
    declared = client.ask(Declare())
    client.coordinator.detach()
    client.run()
    with pytest.raises(LocalProtocolError, match="not open"):
        client.send(declared.txn_id)
