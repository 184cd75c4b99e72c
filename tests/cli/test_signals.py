"""Commands as processes of their own, ended by a signal in the middle of their work: nothing is lost by it."""

from __future__ import annotations

import fcntl
import itertools
import os
import signal
import subprocess
import sys
import termios
import time
import uuid
from array import array
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread

import anyio
import anyio.from_thread
import pytest

from amqp10 import Connection
from amqp10.testing import Close, FaultProxy, ScriptedPeer

pytestmark = pytest.mark.capability("orderly leaving")

SIGNALS = [signal.SIGINT, signal.SIGTERM]
TOTAL = 3000
CLOSE_TIMEOUT = 200.0  # of a connection: who sits it out has not ended at once
PATIENT = f"?close_timeout={CLOSE_TIMEOUT}"

Process = subprocess.Popen[bytes]
Run = Callable[..., Process]


@pytest.fixture
def run() -> Iterator[Run]:
    """Starts commands; what is left of them when the test ends is killed."""
    started: list[Process] = []

    def start(*arguments: str) -> Process:
        process = subprocess.Popen(
            [sys.executable, "-m", "amqp10", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONUNBUFFERED": ""},
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            assert pipe is not None
            with suppress(BrokenPipeError):
                pipe.close()


@pytest.fixture
def address() -> str:
    """A queue that no other test uses."""
    return f"signals-{uuid.uuid4().hex[:12]}"


def fill(url: str, address: str, bodies: list[str]) -> None:
    """Have these in the queue."""

    async def main() -> None:
        async with Connection(url) as connection, connection.sender(address) as sender:
            assert await sender.send_many(bodies) == len(bodies)

    anyio.run(main, backend="trio")


def rest(url: str, address: str) -> list[tuple[str, int]]:
    """What is in the queue: each body and how many attempts failed."""

    async def main() -> list[tuple[str, int]]:
        async with Connection(url) as connection, connection.browser(address) as browser:
            return [(each.message.body, each.message.delivery_count) async for each in browser]

    return anyio.run(main, backend="trio")


def lines(process: Process, count: int) -> list[str]:
    """So many lines of its output."""
    assert process.stdout is not None
    return [process.stdout.readline().decode().rstrip("\n") for _ in range(count)]


def end(process: Process, number: signal.Signals, seconds: float = 60) -> tuple[list[str], str]:
    """Signal it; what it still writes until it ends, and its errors. It must say by its code what ended it."""
    assert process.stdout is not None
    assert process.stderr is not None
    process.send_signal(number)
    out, err = process.stdout.read(), process.stderr.read()
    assert process.wait(seconds) == 128 + number, err.decode()
    return out.decode().splitlines(), err.decode()


# Receiving


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("seen", [1, 700])
def test_receive_in_full_flow(run: Run, broker_url: str, address: str, number: signal.Signals, seen: int) -> None:
    """What was printed is accepted, and what was not is in the queue, in order, without a failed attempt."""
    bodies = [f"message {n}" for n in range(TOTAL)]
    fill(broker_url, address, bodies)
    process = run("receive", broker_url, address)
    printed = lines(process, seen)
    last, err = end(process, number)
    printed += last
    assert printed == bodies[: len(printed)]
    assert rest(broker_url, address) == [(body, 0) for body in bodies[len(printed) :]]
    assert "Traceback" not in err


@pytest.mark.parametrize("number", SIGNALS)
def test_receive_that_waits(run: Run, broker_url: str, address: str, number: signal.Signals) -> None:
    """One that has nothing to print ends at once, and leaves nothing at the broker."""
    fill(broker_url, address, ["only"])
    process = run("receive", broker_url + PATIENT, address)
    assert lines(process, 1) == ["only"]
    began = time.monotonic()
    assert end(process, number) == ([], "")
    assert time.monotonic() - began < CLOSE_TIMEOUT
    fill(broker_url, address, ["next"])
    assert rest(broker_url, address) == [("next", 0)]


def test_receive_into_a_pipe_that_nobody_reads(run: Run, broker_url: str, address: str) -> None:
    """It is not held up for ever: it ends in bounded time, and gives back what it could not write."""
    bodies = [f"{n} {'x' * 10_000}" for n in range(100)]
    fill(broker_url, address, bodies)
    process = run("receive", broker_url, address)
    printed = lines(process, 1)
    assert process.stdout is not None
    held = array("i", [0])
    while held[0] < 50_000:  # until the pipe is nearly full: another line does not fit
        fcntl.ioctl(process.stdout, termios.FIONREAD, held)
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 128 + signal.SIGTERM
    *whole, last = process.stdout.read().decode().splitlines()  # the last line may be cut
    printed += [*whole, last] if last in bodies else whole
    left = [body for body, _ in rest(broker_url, address)]
    assert len(left) > 50
    assert set(printed) | set(left) == set(bodies)
    assert left == bodies[-len(left) :]


@pytest.mark.parametrize("number", SIGNALS)
def test_browse(run: Run, broker_url: str, address: str, number: signal.Signals) -> None:
    """Everything stays where it was."""
    bodies = [f"{n} {'x' * 2000}" for n in range(500)]
    fill(broker_url, address, bodies)
    process = run("browse", broker_url, address)
    seen = lines(process, 3)
    last, _ = end(process, number)
    assert seen + last == bodies[: len(seen + last)]
    assert rest(broker_url, address) == [(body, 0) for body in bodies]


# Sending


@pytest.mark.parametrize("number", SIGNALS)
def test_send_that_waits_for_lines(run: Run, broker_url: str, address: str, number: signal.Signals) -> None:
    """Lines go as they come, and one that never comes holds nothing up."""
    process = run("send", broker_url, address)
    assert process.stdin is not None
    process.stdin.write("one\ntwö\nnot yet a li".encode())
    process.stdin.flush()
    receiver = run("receive", broker_url, address, "--count", "2")
    assert lines(receiver, 2) == ["one", "twö"]
    assert receiver.wait(60) == 0
    process.send_signal(number)
    assert process.wait(60) == 128 + number
    assert rest(broker_url, address) == []


@pytest.mark.parametrize("number", SIGNALS)
def test_send_of_a_pipe_that_nobody_writes_to(
    run: Run, broker_url: str, address: str, tmp_path: Path, number: signal.Signals
) -> None:
    """A file may be a pipe, which is read when it has a writer; until then it holds nothing up."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    process = run("send", broker_url, address, "first", "--file", str(pipe))
    receiver = run("receive", broker_url, address, "--count", "1")
    assert lines(receiver, 1) == ["first"]
    assert receiver.wait(60) == 0
    end(process, number)


@pytest.mark.parametrize("number", SIGNALS)
def test_send_in_full_flow(run: Run, broker_url: str, address: str, number: signal.Signals) -> None:
    """The queue has the lines up to some point, each once: what was in flight has arrived, and no more is sent."""
    process = run("send", broker_url, address)
    assert process.stdin is not None
    pipe = process.stdin

    def write() -> None:
        with suppress(BrokenPipeError):
            for n in itertools.count():
                pipe.write(b"%d\n" % n)

    writer = Thread(target=write)
    writer.start()
    receiver = run("receive", broker_url, address, "--count", "200")
    assert lines(receiver, 200) == [str(n) for n in range(200)]
    assert receiver.wait(60) == 0
    assert writer.is_alive()
    process.send_signal(number)
    assert process.wait(60) == 128 + number
    writer.join()
    left = [int(body) for body, _ in rest(broker_url, address)]
    assert left == list(range(200, 200 + len(left)))


def test_send_to_a_broker_that_falls_silent(run: Run, address: str) -> None:
    """What has no outcome in time is told of, because it may have arrived."""
    broker = run("broker", "--port", "0")
    assert broker.stdout is not None
    url = broker.stdout.readline().decode().split()[3]
    with (
        anyio.from_thread.start_blocking_portal() as portal,
        portal.wrap_async_context_manager(FaultProxy(url)) as proxy,
    ):
        process = run("send", f"{proxy.url}?close_timeout=1", address)
        assert process.stdin is not None
        assert process.stderr is not None
        for line, count in (("one", 1), ("two", 2)):
            process.stdin.write(f"{line}\n".encode())
            process.stdin.flush()
            while len(rest(url, address)) < count:
                time.sleep(0.01)
            portal.call(proxy.stall, "down")  # perhaps with the outcome of the first line
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 1
        assert process.stderr.read().endswith(b" had no outcome in time, and may be at the broker or not\n")


# The broker


@pytest.mark.parametrize("number", SIGNALS)
def test_the_broker(run: Run, number: signal.Signals) -> None:
    """Its clients are told with a close, and one that does not answer holds it up no longer than its close timeout."""
    process = run("broker", "--port", "0")
    assert process.stdout is not None
    url = process.stdout.readline().decode().split()[3]

    async def main() -> None:
        async with await anyio.connect_tcp("127.0.0.1", int(url.rpartition(":")[2])) as stream:
            peer = ScriptedPeer.over(stream)
            await peer.open_connection()
            process.send_signal(number)
            await peer.expect(Close)

    anyio.run(main, backend="trio")
    assert process.wait(60) == 128 + number


# A peer that has fallen silent


@pytest.mark.parametrize("number", SIGNALS)
def test_a_second_signal_ends_it_at_once(run: Run, address: str, number: signal.Signals) -> None:
    """A broker that stands still is waited for, as long as closing may take; who does not want that signals again."""
    broker = run("broker", "--port", "0")
    assert broker.stdout is not None
    url = broker.stdout.readline().decode().split()[3]
    fill(url, address, ["only"])
    process = run("receive", url + PATIENT, address)
    assert lines(process, 1) == ["only"]
    broker.send_signal(signal.SIGSTOP)
    began = time.monotonic()
    process.send_signal(number)
    time.sleep(0.5)
    assert process.poll() is None
    while process.poll() is None:  # one that comes before the first has been heard is one with it
        process.send_signal(number)
        time.sleep(0.05)
    assert process.returncode in (-number, 128 + number)
    assert time.monotonic() - began < CLOSE_TIMEOUT


@pytest.mark.slow
def test_a_broker_that_stands_still(run: Run, address: str) -> None:
    """One signal is enough: it takes the close timeout, once."""
    broker = run("broker", "--port", "0")
    assert broker.stdout is not None
    url = broker.stdout.readline().decode().split()[3]
    fill(url, address, ["only"])
    process = run("receive", f"{url}?close_timeout=15", address)
    assert lines(process, 1) == ["only"]
    broker.send_signal(signal.SIGSTOP)
    began = time.monotonic()
    end(process, signal.SIGTERM)
    assert 14 < time.monotonic() - began < 30


def test_an_interrupt_while_it_is_loaded() -> None:
    """Ctrl-C that comes before the command begins ends it without a traceback, too."""
    program = """if True:
        import os, signal, sys
        import amqp10.cli

        class Interrupting:
            def find_spec(self, name, path, target=None):
                if name == "amqp10.cli._main":
                    os.kill(os.getpid(), signal.SIGINT)

        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.meta_path.insert(0, Interrupting())
        amqp10.cli.main(["--version"])
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (128 + signal.SIGINT, "", "")
