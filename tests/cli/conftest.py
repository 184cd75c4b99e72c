"""A broker of its own process, and the command line in ours."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from amqp10.cli._main import run


@dataclass
class Result:
    """How a command ended, and what it wrote."""

    code: int
    out: str
    err: str


class Commands:
    """Runs commands in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: str) -> Result:
        code = run(list(arguments))
        captured = self._capsys.readouterr()
        return Result(code, captured.out, captured.err)


@pytest.fixture
def amqp10(capsys: pytest.CaptureFixture[str]) -> Commands:
    return Commands(capsys)


def start_broker(*options: str) -> tuple[subprocess.Popen[str], str]:
    """`amqp10 broker` on a free port, and its URL."""
    process = subprocess.Popen(
        [sys.executable, "-m", "amqp10", "broker", "--port", "0", *options], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith("amqp10 broker on "), line
    return process, line.split()[3]


def stop(process: subprocess.Popen[str]) -> int:
    process.terminate()
    code = process.wait(30)
    assert process.stdout is not None
    process.stdout.close()
    return code


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
