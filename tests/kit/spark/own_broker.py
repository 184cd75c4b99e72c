"""The embedded broker in a process of its own, for Spark to talk to."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session")
def broker_url() -> Iterator[str]:
    """The embedded broker, with a user guest."""
    process = subprocess.Popen(
        [sys.executable, "-m", "amqp10", "broker", "--port", "0", "--user", "guest:guest", "--duplicate-ids", "1000"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    yield process.stdout.readline().split()[3].replace("amqp://", "amqp://guest:guest@")
    process.terminate()
    process.wait(30)
    process.stdout.close()
