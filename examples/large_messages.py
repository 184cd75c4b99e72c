"""Send and receive messages that need not fit in memory.

Usage: python large_messages.py [URL]
"""

import hashlib
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import anyio

from amqp10 import Connection, Message, Receiver, Sender

URL = sys.argv[1] if len(sys.argv) > 1 else "amqp://localhost:5672"


async def frames() -> AsyncIterator[bytes]:
    """Data that is made while it is sent."""
    for n in range(50):
        yield n.to_bytes(4, "big") * 25_000
        await anyio.sleep(0.001)


async def send(sender: Sender, file: Path) -> None:
    seen = hashlib.sha256()
    async with sender.stream(
        Message(subject="chunk by chunk", content_type="video/mp4")
    ) as body:
        async for frame in frames():
            seen.update(frame)
            await body.send(frame)  # waits while the broker takes no more
        body.message.footer["x-opt-sha256"] = seen.hexdigest()  # known only now
    await sender.send_stream(Message(subject="a file"), file)


async def receive(receiver: Receiver, folder: Path) -> None:
    for _ in range(2):
        delivery = await receiver.receive()  # the head is here, the body still comes in
        message = delivery.message
        if message.subject == "a file":
            size = await delivery.save(folder / "copy")
            print(message.subject, size, "bytes")
        else:
            seen = hashlib.sha256()
            async for chunk in delivery.iter_body():
                seen.update(chunk)
            print(
                message.subject,
                "whole"
                if seen.hexdigest() == message.footer["x-opt-sha256"]
                else "damaged",
            )
        delivery.accept()


async def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = folder / "original"
        file.write_bytes(bytes(3_000_000))
        async with Connection(URL) as connection:
            async with connection.sender("videos") as sender:
                await send(sender, file)
            async with connection.receiver("videos", stream=True) as receiver:
                await receive(receiver, folder)
        print(
            "the copy is",
            "equal"
            if (folder / "copy").read_bytes() == file.read_bytes()
            else "another one",
        )


anyio.run(main)
