"""RabbitMQ's own Java client for AMQP 1.0 against the embedded broker; and RabbitMQ, to know that the test is right."""

from __future__ import annotations

from typing import Any

import pytest

from ..kit.unavailable import unavailable
from ._matrix import fresh_name
from .brokers import Unavailable
from .clients import RABBITMQ_JAVA, Program

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    # It says nothing about our event loop: one backend is enough.
    pytest.mark.parametrize("anyio_backend", ["trio"]),
]


@pytest.fixture(scope="module")
def java_client() -> Program:
    """The client, installed."""
    try:
        RABBITMQ_JAVA.installed()
    except Unavailable as error:
        unavailable(f"no {RABBITMQ_JAVA.library}: {error}")
    return RABBITMQ_JAVA


async def test_topology(rabbit_url: str, java_client: Program) -> None:
    """It declares, binds with arguments, sends, looks, receives, unbinds, purges, conflicts and deletes."""
    steps: list[tuple[str, Any]] = [
        *[("published", "ACCEPTED")] * 3,
        ("type", "QUORUM"),
        ("messages", 3),
        *[("received", f"message {number}") for number in range(3)],
        ("unbound", "RELEASED"),
        ("direct", "ACCEPTED"),
        ("purged", 1),
        ("otherwise", "refused"),
        ("deleted", "gone"),
    ]
    said = await java_client.run("topology", rabbit_url, f"{fresh_name()} /x", 3)
    assert [step for each in said for step in each.items()] == steps
