"""Standard streams that are full, closed, or not read any longer: an exit code that tells, and nothing lost."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from ..kit.processes.commands import Commands

pytestmark = pytest.mark.capability("command line")

TOTAL = 600
ENVIRONMENT = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}  # a limit of files would cut those files, too


@pytest.fixture
def address() -> str:
    """A queue that no other test uses."""
    return f"streams-{uuid.uuid4().hex[:12]}"


def end_of(
    *arguments: str, closed: int | None = None, limit: int | None = None, unbuffered: bool = False, output: Path
) -> tuple[int, str]:
    """Run a command: its code and its errors.

    Args:
        closed: the stream that the process has not.
        limit: the most bytes of a file.
        unbuffered: whether Python does not buffer the output, as in many containers.
        output: where its output goes.
    """

    def prepare() -> None:
        if closed is not None:
            os.close(closed)
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    with output.open("wb") as file:
        done = subprocess.run(
            [sys.executable, "-m", "amqp10", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.PIPE,
            env=ENVIRONMENT | {"PYTHONUNBUFFERED": "1" * unbuffered},
            preexec_fn=prepare,
            timeout=120,
            check=False,
        )
    return done.returncode, done.stderr.decode()


def fill(amqp10: Commands, url: str, address: str) -> list[str]:
    """Have messages in the queue: their bodies."""
    bodies = [f"{n} {'x' * 20}" for n in range(TOTAL)]
    assert amqp10("send", url, address, *bodies).code == 0
    return bodies


@pytest.mark.parametrize("unbuffered", [False, True])
@pytest.mark.parametrize("form", ["text", "json", "body"])
def test_a_full_disk(
    amqp10: Commands, broker_url: str, address: str, tmp_path: Path, form: str, unbuffered: bool
) -> None:
    """What was not written goes back; the error says that some of it may be written, and is the only one."""
    bodies = fill(amqp10, broker_url, address)
    command = ("receive", broker_url, address, "--format", form, "--credit", "500")
    code, err = end_of(*command, limit=1000, unbuffered=unbuffered, output=tmp_path / "out")
    assert code == 1
    assert err.startswith("amqp10: OS error: ")
    assert "went back to the queue, and some may be in the output, too" in err
    assert len(err.splitlines()) == 1
    assert amqp10("browse", broker_url, address).out.splitlines() == bodies


@pytest.mark.parametrize("unbuffered", [False, True])
def test_a_large_message_on_a_full_disk(
    amqp10: Commands, broker_url: str, address: str, tmp_path: Path, unbuffered: bool
) -> None:
    """A part of a message is not the message."""
    assert amqp10("send", broker_url, address, "x" * 100_000).code == 0
    command = ("receive", broker_url, address, "--format", "body", "--count", "1")
    code, err = end_of(*command, limit=10_000, unbuffered=unbuffered, output=tmp_path / "out")
    assert (code, "1 message went back" in err) == (1, True)
    assert amqp10("browse", broker_url, address).out == "x" * 100_000 + "\n"


def test_no_output(amqp10: Commands, broker_url: str, address: str, tmp_path: Path) -> None:
    """Without a standard output no message is taken."""
    bodies = fill(amqp10, broker_url, address)
    code, err = end_of("receive", broker_url, address, "--wait", "0", closed=1, output=tmp_path / "out")
    assert (code, "standard output is closed" in err) == (1, True)
    assert amqp10("browse", broker_url, address).out.splitlines() == bodies


@pytest.mark.parametrize("arguments", [("send", "amqp://127.0.0.1:1", "q"), ("hash-password",)])
def test_no_input(arguments: tuple[str, ...], tmp_path: Path) -> None:
    """Without a standard input there is nothing to send, which once passed for a success."""
    code, err = end_of(*arguments, closed=0, output=tmp_path / "out")
    assert (code, "standard input is closed" in err) == (2, True)


def test_no_reader(amqp10: Commands, broker_url: str, address: str) -> None:
    """A command whose output nobody reads any longer ends quietly, and as if by the signal SIGPIPE."""
    fill(amqp10, broker_url, address)
    process = subprocess.Popen(
        [sys.executable, "-m", "amqp10", "receive", broker_url, address], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert (process.wait(120), process.stderr.read()) == (141, b"")
    process.stderr.close()
    assert len(amqp10("browse", broker_url, address).out.splitlines()) == TOTAL


def test_nobody_hears_the_error(tmp_path: Path) -> None:
    """The code tells of a failure also where standard error cannot be written."""
    full = tmp_path / "full"
    full.write_bytes(b"")
    command = f"{sys.executable} -m amqp10 check amqp://127.0.0.1:1 2>{full}"
    done = subprocess.run(
        command, shell=True, stdout=subprocess.DEVNULL, check=False, timeout=120, env=ENVIRONMENT, preexec_fn=no_room
    )
    assert done.returncode == 3


def no_room() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
