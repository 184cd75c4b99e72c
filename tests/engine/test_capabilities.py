"""What dialects can do: in shared words, on a page that is up to date, and refused before a byte is written."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from amqp10 import Connection, Message, Source, Unsupported
from amqp10.broker import Broker
from amqp10.engine import CAPABILITIES, dialect_names, dialects

pytestmark = pytest.mark.capability("older dialects")

ROOT = Path(__file__).resolve().parents[2]


def test_shared_words() -> None:
    """Every capability that a dialect declares is one that all know; the names are those of the dialects."""
    for each in dialects():
        assert each.capabilities <= CAPABILITIES.keys(), each.name
    assert [each.name for each in dialects()] == dialect_names()


def test_page() -> None:
    """The table in the documentation says what the dialects declare."""
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "dialects.py", "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.anyio
@pytest.mark.parametrize("name", dialect_names())
async def test_outcomes(name: str) -> None:
    """An outcome that the dialect lacks raises, and the delivery can still be settled."""
    async with Broker() as broker, Connection(broker.url, dialect=name) as connection:
        async with connection.sender("orders") as sender:
            await sender.send_many([Message("1"), Message("2")])
        async with connection.receiver("orders", credit=2) as receiver:
            for outcome in ("rejected", "modified"):
                delivery = await receiver.receive()
                act = delivery.reject if outcome == "rejected" else delivery.modify
                if outcome in connection.capabilities:
                    act()
                    assert delivery.state is not None
                else:
                    with pytest.raises(Unsupported, match=outcome):
                        act()
                    assert delivery.state is None
                    delivery.accept()


@pytest.mark.anyio
@pytest.mark.parametrize("name", dialect_names())
async def test_termini(name: str) -> None:
    """Sources and modes that the dialect lacks are refused before the link is attached."""
    async with Broker() as broker, Connection(broker.url, dialect=name) as connection:
        asked = {
            "browse": connection.receiver(Source("orders", distribution_mode="copy")),
            "durable-subscriptions": connection.receiver(Source("topic.t", durable="configuration"), name="sub"),
            "settle-second": connection.receiver("orders", receiver_settle_mode="second"),
            "dynamic": connection.receiver(dynamic=True),
        }
        for capability, receiver in asked.items():
            if capability not in connection.capabilities:
                with pytest.raises(Unsupported):
                    await receiver.__aenter__()
            else:
                async with receiver:
                    assert receiver.open
