"""A broker from a file, and a program that knows it from the environment.

Usage: python configuration.py
"""

import os
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio

from amqp10 import Connection, Message, Worker, from_environment
from amqp10.broker import Broker, read_config
from amqp10.worker import worker_from_environment

BROKER = """
port = 0

[users.shop]
password_file = "shop.password"
permissions."/" = {configure = "", write = "^orders$", read = "^orders$"}

[queues.orders]
x-max-length = 1000
"""


async def main(folder: Path) -> None:
    (folder / "broker.toml").write_text(BROKER)
    (folder / "shop.password").write_text("secret\n")
    async with Broker(**read_config(folder / "broker.toml")) as broker:
        # What a platform sets.
        os.environ["AMQP10_URL"] = (
            broker.url.replace("//", "//shop@") + "?idle_timeout=30"
        )
        os.environ["AMQP10_PASSWORD_FILE"] = str(folder / "shop.password")
        os.environ["AMQP10_RECONNECT"] = "true"
        os.environ["AMQP10_WORK_CONCURRENCY"] = "3"
        await serve()


async def serve() -> None:
    done = anyio.Event()

    async def handle(message: Message) -> None:
        print("order", message.body)
        done.set()

    urls, settings = from_environment()
    async with Connection(urls, **settings) as connection:
        async with connection.sender("orders") as sender:
            await sender.send(1)
        async with Worker(
            connection, "orders", handle, **worker_from_environment()
        ) as worker:
            await done.wait()
            print(worker.concurrency, "at a time")


with TemporaryDirectory() as name:
    anyio.run(main, Path(name))
