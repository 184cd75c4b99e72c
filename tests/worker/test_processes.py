"""`amqp10 work` as a process: stopped by a signal it finishes what it began."""

from __future__ import annotations

import json
import signal
import socket
from collections import Counter
from datetime import datetime
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from amqp10 import Message
from amqp10.azure import ServiceBus
from amqp10.broker import Broker, TokenRules
from amqp10.broker.azure import (
    EMULATOR_RULE,
    AzureConfig,
    QueueConfig,
    SubscriptionConfig,
    TopicConfig,
    connection_string,
)

from ..kit.processes.free_ports import free_ports
from ..kit.worker.processes import HANDLERS, fill, lines_of, start

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("anyio_backend", ["trio"]),  # the programs choose their own,
    pytest.mark.capability("workers"),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(HANDLERS)
    return tmp_path


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.slow
async def test_a_signal_before_its_broker_is_there(folder: Path, number: signal.Signals, backend: str) -> None:
    """It ends in an orderly way while it waits for the first connection; the exit code says why."""

    def work() -> tuple[int, str]:
        with socket.create_server(("127.0.0.1", 0)) as away:
            url = f"amqp://127.0.0.1:{away.getsockname()[1]}"
            with start(folder, "shop:orders", url, "orders", "--backend", backend) as process:
                away.accept()[0].close()  # it has tried to connect
                process.send_signal(number)
                _, log = process.communicate(timeout=60)
        return process.returncode, log

    code, log = await anyio.to_thread.run_sync(work)
    assert code == 128 + number, log
    assert "Traceback" not in log


@pytest.mark.parametrize(("number", "backend"), [(signal.SIGTERM, "asyncio"), (signal.SIGINT, "trio")])
@pytest.mark.slow
async def test_drains_on_a_signal(folder: Path, number: signal.Signals, backend: str) -> None:
    """What runs ends and is accepted; the rest is in the queue, with no attempt counted; the exit code says why."""
    async with Broker() as broker:
        await fill(broker, 20)
        arguments = ("shop:slow", broker.url, "orders", "--concurrency", "3", "--backend", backend)
        with start(folder, *arguments) as process:

            def work() -> list[str]:
                lines = lines_of(process)
                said = [next(lines) for _ in range(3)]
                process.send_signal(number)
                assert process.stderr is not None
                log = ""
                while f"{number.name}: no more messages are taken; handlers: 3, held for a retry: 0" not in log:
                    line = process.stderr.readline()
                    assert line, f"it ended, and said {log!r}"
                    log += line
                (folder / "go").touch()  # the handlers may end
                return said + list(lines)

            said = await anyio.to_thread.run_sync(work)
        assert process.returncode == 128 + number
        assert Counter(line.split()[0] for line in said) == {"begun": 3, "ended": 3}
        assert broker.queue("orders").depth == 17
        async with broker.connect() as connection, connection.browser("orders") as browser:
            assert {each.message.delivery_count async for each in browser} == {0}


@pytest.mark.slow
async def test_plain_function(folder: Path) -> None:
    async with Broker() as broker:
        await fill(broker, 3)
        with start(folder, "shop:plain", broker.url, "orders", "--quiet") as process:
            lines = lines_of(process)
            said = await anyio.to_thread.run_sync(lambda: sorted(next(lines) for _ in range(3)))
            process.terminate()
            await anyio.to_thread.run_sync(process.wait)
            assert process.stderr is not None
            assert process.stderr.read() == ""
        assert said == ["plain 0\n", "plain 1\n", "plain 2\n"]


@pytest.mark.slow
@pytest.mark.parametrize("by_variable", [False, True])
async def test_sessions(folder: Path, by_variable: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions of Service Bus, each in its order; a queue and a subscription; a signal ends it."""
    config = AzureConfig(
        [QueueConfig("steps", requires_session=True)],
        [TopicConfig("events", [SubscriptionConfig("all", requires_session=True)])],
    )
    address, target = ("events/Subscriptions/all", "events") if by_variable else ("steps", "steps")
    async with Broker(azure=config, tokens=TokenRules([EMULATOR_RULE])) as broker:
        async with ServiceBus(connection_string(broker.url)) as bus, bus.sender(target) as sender:
            await sender.send_many(Message(number, group_id=name) for number in range(5) for name in "abc")
        # The key has characters that a URL would have to escape.
        url = broker.url.replace("//", f"//{EMULATOR_RULE.name}@")
        monkeypatch.setenv("AMQP10_PASSWORD", EMULATOR_RULE.key)
        options = ["--idle-time", "0.1"]
        if by_variable:
            monkeypatch.setenv("AMQP10_WORK_SESSIONS", "2")
        else:
            options += ["--sessions", "2"]
        with start(folder, "shop:step", url, address, "--quiet", *options) as process:
            lines = lines_of(process)
            said = await anyio.to_thread.run_sync(lambda: [next(lines).split() for _ in range(15)])
            process.terminate()
            await anyio.to_thread.run_sync(process.wait)
            assert process.stderr is not None
            assert process.stderr.read() == ""
        assert process.returncode == 128 + signal.SIGTERM
    for name in "abc":
        assert [number for session, number in said if session == name] == list("01234")


@pytest.mark.slow
async def test_log_as_json(folder: Path) -> None:
    """Each line is an object, a failed handler's too: the message, the attempt, and the exception with its place."""
    async with Broker(queues=["dead-letter"]) as broker:
        async with broker.connect() as connection, connection.sender("orders") as sender:
            await sender.send(Message("x", message_id="m"))
        with start(folder, "shop:wrong", broker.url, "orders", "--log-format", "json", "--attempts", "1") as process:
            while not broker.queue("dead-letter").depth:  # noqa: ASYNC110
                await anyio.sleep(0.01)
            process.terminate()
            _, errors = await anyio.to_thread.run_sync(process.communicate)
    lines = [json.loads(line) for line in errors.splitlines()]
    [failed] = [line for line in lines if line.get("amqp_event") == "message_dead_lettered"]
    assert (failed["level"], failed["logger"], failed["amqp_message_id"]) == ("ERROR", "amqp10.worker", "m")
    assert (failed["exception"]["type"], failed["exception"]["message"]) == ("builtins.ValueError", "no such thing")
    assert "shop.py" in failed["exception"]["traceback"]
    assert datetime.fromisoformat(failed["time"]).tzinfo is not None


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["shop"], "is not MODULE:NAME"),
        (["nothing:here"], "there is no module 'nothing'"),
        (["shop:nothing"], "has no attribute 'nothing'"),
        (["shop:number"], "is not a function"),
        (["shop:orders", "--key", "a", "--batch", "3"], "without batch_size="),
        (["shop:step", "--sessions", "2", "--key", "a"], "--key excludes --sessions"),
        (["shop:step", "--session-time", "2"], "--session-time needs --sessions"),
        (["shop:step", "--sessions", "2"], "Service Bus needs a rule and its key"),
        (["shop:orders", "--prefetch", "4294967296"], "prefetch must be in 1..4294967295, not 4294967296"),
        (["shop:orders", "--delay", "500"], "--delay: must be no more than --max-delay, which is 300.0 s, not 500.0 s"),
        (["shop:nothing_taken"], "handler is called with one argument, the message"),
    ],
)
@pytest.mark.slow
async def test_wrong_usage(folder: Path, arguments: list[str], words: str) -> None:
    """It is said before the broker is asked: there is none here."""
    [port] = free_ports(1)
    with start(folder, arguments[0], f"amqp://localhost:{port}", "orders", *arguments[1:]) as process:
        _, errors = await anyio.to_thread.run_sync(process.communicate)
    assert process.returncode == 2
    assert words in " ".join(errors.split())
