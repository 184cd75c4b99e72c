"""A broker of its own process, and the command line in ours."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator

import pytest

from ..kit.processes.commands import Commands, start_broker, stop


@pytest.fixture
def amqp10(capsys: pytest.CaptureFixture[str]) -> Commands:
    return Commands(capsys)


@pytest.fixture
def other_broker() -> Iterator[Callable[..., tuple[subprocess.Popen[str], str]]]:
    """Starts more brokers, each with options of its own; they are stopped when the test ends."""
    started: list[subprocess.Popen[str]] = []

    def start(*options: str) -> tuple[subprocess.Popen[str], str]:
        process, url = start_broker(*options)
        started.append(process)
        return process, url

    yield start
    for process in started:
        if process.poll() is None:
            stop(process)
        else:
            assert process.stdout is not None
            process.stdout.close()


@pytest.fixture(scope="session")
def broker_url() -> Iterator[str]:
    """A broker with the user guest."""
    process, url = start_broker("--user", "guest:guest", "--queue", "ready", "--topic", "news")
    yield url.replace("amqp://", "amqp://guest:guest@")
    stop(process)
