"""Each message once, through lost connections and restarts of this program.

Usage: python exactly_once.py [URL]
"""

import sys
import tempfile
from pathlib import Path

import anyio

from amqp10 import Connection, Message, Reconnect, SQLiteDeliveryStore

URL = sys.argv[1] if len(sys.argv) > 1 else "amqp://localhost:5672"


async def main(url: str, path: Path) -> None:
    with SQLiteDeliveryStore(path) as store:
        async with Connection(
            url, container_id="shop-1", reconnect=Reconnect(), delivery_store=store
        ) as connection:
            async with connection.sender(
                "exactly-once", name="out", receiver_settle_mode="second"
            ) as sender:
                # Sent by the last run, which did not hear what became of it
                for left in sender.recovered:
                    print(
                        "left:", Message.decode(left.payload).body, await left.outcome()
                    )
                for number in range(3):
                    await sender.send(Message(number, durable=True))
            async with connection.receiver(
                "exactly-once", name="in", receiver_settle_mode="second"
            ) as receiver:
                for _ in range(3):
                    delivery = await receiver.receive()
                    print("got", delivery.message.body)
                    delivery.accept()
                    # The broker has settled, too: it will not come again
                    await delivery.wait_settled()


with tempfile.TemporaryDirectory() as folder:  # a real program keeps its file
    anyio.run(main, URL, Path(folder, "deliveries.db"))
