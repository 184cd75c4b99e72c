"""Send a message if, and only if, a change of the database is made: an outbox.

Usage: python outbox.py [URL]
"""

import sqlite3
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import anyio
from anyio.to_thread import run_sync

from amqp10 import Connection, Message, Sender

URL = sys.argv[1] if len(sys.argv) > 1 else "amqp://localhost:5672"


class Shop:
    def __init__(self, path: Path) -> None:
        self.path = path
        with closing(sqlite3.connect(path)) as database, database:
            database.execute("CREATE TABLE IF NOT EXISTS orders (item TEXT)")
            database.execute(
                "CREATE TABLE IF NOT EXISTS outbox "
                "(id INTEGER PRIMARY KEY AUTOINCREMENT, body TEXT)"
            )

    def order(self, item: str) -> None:
        """Take an order, and put its message into the outbox: both or neither."""
        with closing(sqlite3.connect(self.path)) as database, database:
            database.execute("INSERT INTO orders VALUES (?)", (item,))
            database.execute("INSERT INTO outbox (body) VALUES (?)", (item,))

    def unsent(self) -> list[tuple[int, str]]:
        with closing(sqlite3.connect(self.path)) as database:
            return database.execute(
                "SELECT id, body FROM outbox ORDER BY id LIMIT 100"
            ).fetchall()

    def sent(self, last: int) -> None:
        with closing(sqlite3.connect(self.path)) as database, database:
            database.execute("DELETE FROM outbox WHERE id <= ?", (last,))


async def relay(shop: Shop, sender: Sender) -> None:
    """Send what is in the outbox, and delete it when the broker has accepted it."""
    while rows := await run_sync(shop.unsent):
        await sender.send_many(
            Message(body, message_id=f"order-{number}", durable=True)
            for number, body in rows
        )
        await run_sync(shop.sent, rows[-1][0])


async def main(url: str, path: Path) -> None:
    shop = Shop(path)
    shop.order("tea")
    shop.order("cake")
    async with Connection(url) as connection:
        async with connection.sender("outbox-orders") as sender:
            await relay(shop, sender)  # a service does so once a second
        async with connection.receiver("outbox-orders") as receiver:
            for _ in range(2):
                with await receiver.receive() as message:
                    print(message.message_id, "is", message.body)


with tempfile.TemporaryDirectory() as folder:  # a real program keeps its file
    anyio.run(main, URL, Path(folder, "shop.db"))
