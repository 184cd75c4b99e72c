"""Do the work of each message once, however often the message arrives: an inbox.

Usage: python inbox.py [URL]
"""

import sqlite3
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import anyio
from anyio.to_thread import run_sync

from amqp10 import Connection, Message

URL = sys.argv[1] if len(sys.argv) > 1 else "amqp://localhost:5672"


class Account:
    def __init__(self, path: Path) -> None:
        self.path = path
        with closing(sqlite3.connect(path)) as database, database:
            database.execute("CREATE TABLE IF NOT EXISTS inbox (id TEXT PRIMARY KEY)")
            database.execute("CREATE TABLE IF NOT EXISTS bookings (amount INTEGER)")

    def book(self, message: Message) -> None:
        """Book a payment, unless it is booked: both tables change, or neither."""
        with closing(sqlite3.connect(self.path)) as database, database:
            new = database.execute(
                "INSERT OR IGNORE INTO inbox VALUES (?)", (message.message_id,)
            )
            if new.rowcount == 1:
                database.execute(
                    "INSERT INTO bookings VALUES (?)", (message.body["amount"],)
                )

    def balance(self) -> int:
        with closing(sqlite3.connect(self.path)) as database:
            (sum_,) = database.execute("SELECT SUM(amount) FROM bookings").fetchone()
            return sum_ or 0


async def main(url: str, path: Path) -> None:
    account = Account(path)
    async with Connection(url) as connection:
        async with connection.sender("payments") as sender:
            payment = Message({"amount": 10}, message_id="payment-1", durable=True)
            await sender.send(payment)
            await sender.send(payment)  # by a program that lost the first outcome
        async with connection.receiver("payments") as receiver:
            for _ in range(2):
                with await receiver.receive() as message:  # accepted at the end
                    await run_sync(account.book, message)
                print("the balance is", account.balance())


with tempfile.TemporaryDirectory() as folder:  # a real program keeps its file
    anyio.run(main, URL, Path(folder, "account.db"))
