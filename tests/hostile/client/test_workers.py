"""A worker whose server breaks the protocol while several of its tasks wait: one error, not a group of errors."""

from __future__ import annotations

import re

import anyio
import pytest
from anyio.abc import ByteStream

from amqp10 import Connection, Message, RemoteProtocolError, Retries, Worker
from amqp10.broker.internals import memory_streams

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory, pytest.mark.capability("hostile peers")]

WAITING = 3
NO_FRAME = bytes.fromhex("00000000 02000000")
"""Its size is less than that of its own header."""
ATTACH = re.compile(rb"\x00\x53\x12(?:\xc0..|\xd0.{8})\xa1(.)", re.DOTALL)


def frame(body: str) -> bytes:
    data = bytes.fromhex(body)
    return (len(data) + 8).to_bytes(4, "big") + bytes.fromhex("02000000") + data


def attach(name: bytes, handle: int, *, sends: bool) -> bytes:
    """The server's answer to an attach: name, handle, role, no settle modes, source, target, and its first count."""
    role, count = ("42", "404043") if sends else ("41", "404040")
    fields = f"a1{len(name):02x}{name.hex()} 52{handle:02x} {role} 4040 00532845 00532945 {count}"
    return frame(f"005312 c0{len(bytes.fromhex(fields)) + 1:02x}0a {fields}")


def transfer(number: int) -> bytes:
    """A message on handle 1 whose header says that 9 attempts failed; its body is null."""
    return frame(f"005314 c00a05 5201 52{number:02x} a001{number:02x} 43 42 005370 c00705 40404040 5209 005377 40")


async def serve(stream: ByteStream) -> None:
    """Deliver messages that were tried too often; once all dead letters wait for their outcomes, send no AMQP."""
    said = b""

    async def heard(pattern: bytes, times: int = 1) -> None:
        nonlocal said
        while len(re.findall(pattern, said, re.DOTALL)) < times:
            said += await stream.receive()

    await heard(b"AMQP")
    await stream.send(b"AMQP\x00\x01\x00\x00" + frame("005310 c00401 a10173"))
    await heard(rb"\x00\x53\x11")
    await stream.send(frame("005311 c00904 600000 43 5264 5264"))
    for handle in range(2):
        await heard(ATTACH.pattern, handle + 1)
        match = list(ATTACH.finditer(said))[handle]
        name = said[match.end() : match.end() + match[1][0]]
        await stream.send(attach(name, handle, sends=handle == 1))
    await stream.send(frame("005313 c00b07 43 5264 43 5264 43 43 5264"))
    await stream.send(b"".join(transfer(number) for number in range(WAITING)))
    await heard(rb"\x00\x53\x14", WAITING)
    await stream.send(NO_FRAME)


async def test_dead_letters_that_wait() -> None:
    here, there = memory_streams()

    async def handle(message: Message) -> None:
        raise AssertionError(message)

    connection = Connection.over(here, secure=True, sasl=False, close_timeout=0.2)
    retries = Retries(attempts=2)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve, there)
        with pytest.raises(RemoteProtocolError), anyio.fail_after(60):
            async with connection, Worker(connection, "q", handle, retries=retries, dead_letters="dead"):
                await anyio.sleep_forever()
