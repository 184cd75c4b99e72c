"""A broker with a store: what is durable is there for the next one on the file.

Usage: python durable_broker.py
"""

import tempfile
from pathlib import Path

import anyio

from amqp10 import Message
from amqp10.broker import Broker


async def main(store: Path) -> None:
    async with (
        Broker(store=store) as broker,
        broker.connect() as connection,
        connection.sender("orders") as sender,
    ):
        # Returns when it is on the disk
        await sender.send(Message("durable", durable=True))
        await sender.send(Message("not durable"))
    async with (
        Broker(store=store) as broker,
        broker.connect() as connection,
        connection.receiver("orders") as receiver,
    ):
        delivery = await receiver.receive()
        delivery.accept()
        print("kept:", delivery.message.body)
    async with Broker(store=store) as broker:
        print("left:", broker.queue("orders").depth)


with tempfile.TemporaryDirectory() as folder:
    anyio.run(main, Path(folder, "broker.db"))
