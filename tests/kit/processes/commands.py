"""The command line in this process, and a broker of its own process."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass

import pytest

from ..inside.cli import run


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
