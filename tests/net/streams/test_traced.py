"""The trace on the logger `amqp10.frames`."""

from __future__ import annotations

import logging
import os
import subprocess
import sys

import anyio
import pytest

from amqp10 import Connection, Message, ScramSha256
from amqp10.broker import Broker
from amqp10.engine import dialect_names
from amqp10.net import Pump

pytestmark = [pytest.mark.anyio, pytest.mark.capability("frame trace")]


def lines_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was traced."""
    return [record.getMessage() for record in caplog.records if record.name == "amqp10.frames"]


async def test_connection_and_broker(caplog: pytest.LogCaptureFixture) -> None:
    """At DEBUG both ends say the same frames, from header to close, and no secret."""
    with caplog.at_level(logging.DEBUG, "amqp10.frames"):
        async with Broker(users={"user": "hunter2"}) as broker:
            async with Connection(broker.url, sasl=ScramSha256("user", "hunter2")) as connection:
                async with connection.sender("orders") as sender:
                    await sender.send("attack at dawn")
    lines = lines_of(caplog)
    assert not [line for line in lines if "hunter2" in line or "dawn" in line]
    client = [line.removeprefix(f"{broker.url} ") for line in lines if line.startswith(f"{broker.url} ")]
    server = [line.split(" ", 2)[2] for line in lines if line.startswith("broker ")]
    assert client[:2] == ["> header SASL", "< header SASL"]
    assert [line for line in client if "Transfer(handle=0" in line]
    sent = [line[2:] for line in client if line.startswith("> ") and line != "> closed"]
    taken = [line[2:] for line in server if line.startswith("< ") and "< ended" not in line]
    assert sent == taken
    assert any(line.startswith("[0] Close(") for line in sent)


async def test_bodies(caplog: pytest.LogCaptureFixture) -> None:
    """Below DEBUG the beginning of bodies is shown, too."""
    with caplog.at_level(5, "amqp10.frames"):
        async with Broker() as broker, broker.connect() as connection, connection.sender("orders") as sender:
            await sender.send("attack at dawn")
    assert [line for line in lines_of(caplog) if "attack at dawn" in line]


@pytest.mark.parametrize("anonymous", [False, True])
@pytest.mark.parametrize("dialect", dialect_names())
async def test_no_tokens(caplog: pytest.LogCaptureFixture, dialect: str, anonymous: bool) -> None:
    """L9: bodies to and from `$cbs` are shown in no dialect, by a named link or not, in one frame or many."""
    with caplog.at_level(5, "amqp10.frames"):
        async with Broker() as broker, Connection(broker.url, dialect=dialect, max_frame_size=4096) as connection:
            async with (
                connection.receiver("$cbs") as receiver,
                connection.sender(None if anonymous else "$cbs") as sender,
            ):
                for body in ("SharedAccess", b"SharedAccess" * 1000, ["SharedAccess"]):
                    await sender.send(Message(body, to="$cbs", application_properties={"operation": "put-token"}))
                    (await receiver.receive()).accept()
            async with connection.sender("q") as sender:
                await sender.send(b"attack at dawn")
    assert [line for line in lines_of(caplog) if "attack at dawn" in line]
    assert [line for line in lines_of(caplog) if "<secret>" in line]
    assert not [line for line in lines_of(caplog) if "Shared" in line]


async def test_off(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """By default nothing stands between the pump and its stream, and nothing is logged."""
    streams = []
    run = Pump.run

    async def spy(self: Pump) -> None:
        streams.append(type(self._stream).__name__)
        await run(self)

    monkeypatch.delenv("AMQP10_TRACE", raising=False)
    monkeypatch.setattr(Pump, "run", spy)
    with caplog.at_level(logging.INFO, "amqp10.frames"):
        async with Broker() as broker, broker.connect():
            pass
    assert len(streams) == 2
    assert "TracedStream" not in streams
    assert lines_of(caplog) == []


@pytest.mark.parametrize(("value", "frames", "body"), [("1", True, False), ("bodies", True, True), ("0", False, False)])
@pytest.mark.parametrize("anyio_backend", ["trio"])
@pytest.mark.slow
async def test_environment(value: str, frames: bool, body: bool) -> None:
    """AMQP10_TRACE writes lines to standard error, without any set-up by the program."""
    async with Broker() as broker:
        program = f"import anyio, amqp10; anyio.run(amqp10.send, {broker.url!r}, 'orders', 'attack at dawn')"
        done = await anyio.run_process(
            [sys.executable, "-c", program], env={**os.environ, "AMQP10_TRACE": value}, stderr=subprocess.PIPE
        )
    said = done.stderr.decode()
    assert ("Open(" in said) is frames
    assert ("attack at dawn" in said) is body
