"""A store whose file cannot grow any more, for real: nothing that was accepted is lost."""

from __future__ import annotations

import sys
from pathlib import Path

import anyio
import pytest

from amqp10 import Connection
from amqp10.broker import Broker

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.capability("nothing lost")]

SENDER = """
import resource, sys
import anyio
from amqp10 import AmqpError, Connection, Message
from amqp10.broker import Broker

resource.setrlimit(resource.RLIMIT_FSIZE, (150_000, 150_000))

async def main():
    accepted = 0
    async with Broker(store=sys.argv[1], close_timeout=0.1) as broker:
        try:
            with anyio.fail_after(60):
                async with Connection(broker.url, dialect=sys.argv[2]) as connection, connection.sender("q") as sender:
                    while True:
                        await sender.send(Message(f"{accepted} ".encode() + bytes(5000), durable=True))
                        accepted += 1
        except AmqpError as error:
            print(type(error).__name__)
        try:
            async with Connection(broker.url, dialect=sys.argv[2]):
                pass
        except AmqpError as error:
            print("the store takes no changes" in str(error))
    print(accepted)

anyio.run(main)
"""


@pytest.fixture
def anyio_backend() -> str:
    """Another process has the loop that counts."""
    return "trio"


@pytest.mark.parametrize("dialect", ["1.0", "0-9-1"])
async def test_no_room(dialect: str, tmp_path: Path) -> None:
    """Who sends is cut off, who comes is told why; the next broker has all that was accepted, in order."""
    path = tmp_path / "broker.db"
    with anyio.fail_after(60):
        done = await anyio.run_process([sys.executable, "-c", SENDER, str(path), dialect], check=False)
    log = done.stderr.decode()
    assert done.returncode == 0, log
    error, told, accepted = done.stdout.decode().split()
    assert (error, told) == ("ConnectionLost", "True")
    assert "the store takes nothing, connections are cut" in log
    async with Broker(store=path) as broker:
        assert broker.queue("q").depth >= int(accepted) > 0
        async with Connection(broker.url) as connection, connection.receiver("q") as receiver:
            for number in range(int(accepted)):
                with await receiver.receive() as message:
                    assert bytes(message.body).startswith(f"{number} ".encode())
