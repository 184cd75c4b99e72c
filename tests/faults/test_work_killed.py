"""`amqp10 work` is killed again and again: each message is handled, or a dead letter with its reason."""

from __future__ import annotations

import signal
import subprocess
from collections import Counter
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from amqp10.broker import Broker

from ..kit.worker.processes import HANDLERS, fill, lines_of, start

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("anyio_backend", ["trio"]),  # the programs choose their own
    pytest.mark.capability("workers"),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(HANDLERS)
    return tmp_path


@pytest.mark.slow
async def test_killed(folder: Path) -> None:
    """Four SIGKILLs while handlers fail at random: each message is handled or a dead letter, with its reason."""
    total, kills = 600, 4
    handled: Counter[int] = Counter()
    arguments = ["--concurrency", "8", "--attempts", "30", "--dead-letters", "dead", "--quiet"]
    async with Broker() as broker:
        await fill(broker, total)
        for kill in range(kills + 1):
            with start(folder, "shop:orders", broker.url, "orders", *arguments) as process:

                def work(process: subprocess.Popen[str] = process, until: int = total * (kill + 1) // 7) -> None:
                    for line in lines_of(process):
                        handled[int(line)] += 1
                        if len(handled) >= until:
                            process.kill()

                async with anyio.create_task_group() as tasks:
                    if kill < kills:
                        await anyio.to_thread.run_sync(work)
                    else:
                        tasks.start_soon(anyio.to_thread.run_sync, lambda: work(until=total + 1))
                        while broker.queue("orders").depth:  # noqa: ASYNC110
                            await anyio.sleep(0.01)
                        process.terminate()
                assert process.stderr is not None
                errors = process.stderr.read()
                assert "Traceback" not in errors.replace("amqp10.worker._policy.DeadLetter", ""), errors
            assert process.returncode == (-signal.SIGKILL if kill < kills else 128 + signal.SIGTERM)
        dead = set()
        async with broker.connect() as connection, connection.browser("dead") as browser:
            async for delivery in browser:
                annotations = delivery.message.message_annotations
                assert annotations["x-opt-dead-letter-description"] == "sevens are not sold"
                dead.add(delivery.message.body)
    sevens = {number for number in range(total) if number % 50 == 7}
    assert dead == sevens
    assert handled.keys() == set(range(total)) - sevens
