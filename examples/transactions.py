"""Move messages from one queue to another, each in a transaction.

Usage: python transactions.py [URL]
"""

import sys

import anyio

from amqp10 import Connection

URL = sys.argv[1] if len(sys.argv) > 1 else "amqp://localhost:5672"


async def main() -> None:
    async with Connection(URL) as connection:
        async with connection.sender("txn-in") as sender:
            await sender.send_many(["1", "2", "three"])

        async with (
            connection.receiver("txn-in", credit=1) as receiver,
            connection.sender("txn-out") as sender,
        ):
            for _ in range(4):
                delivery = await receiver.receive()
                if delivery.message.delivery_count > 0:
                    print(delivery.message.body, "failed before: a dead letter")
                    delivery.reject()  # else it would come for ever
                    continue
                try:
                    async with connection.transaction() as transaction:
                        delivery.accept(transaction=transaction)
                        await sender.send(
                            int(delivery.message.body) ** 2, transaction=transaction
                        )
                # Rolled back: nothing was sent, and the message comes again
                except ValueError as error:
                    print(error)

        async with connection.receiver("txn-out") as receiver:
            for _ in range(2):
                with await receiver.receive() as message:
                    print(message.body)


anyio.run(main)
