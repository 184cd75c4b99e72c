"""AMQP/Fast: the same program as in any dialect, what it cannot say, and what only it
can.
"""

import anyio

from amqp10 import Connection, Message, Unsupported
from amqp10.broker import Broker


async def main() -> None:
    async with Broker() as broker, Connection(broker.url, dialect="fast") as connection:
        async with connection.sender("orders") as sender:
            for number in range(1, 4):
                await sender.send(Message(f"order {number}", message_id=f"id-{number}"))

        # Only AMQP/Fast: messages by numbers, looked at in any order, left where they
        # are.
        index = await connection.native.list("orders")
        print("listed:", *index.numbers)
        for number in reversed(index.numbers):
            message = await connection.native.show("orders", number)
            print(number, "is", message.message_id, "with", message.body)

        async with (
            connection.receiver("orders") as receiver,
            connection.sender("done") as done,
        ):
            async with connection.transaction() as transaction:
                delivery = await receiver.receive()
                delivery.accept(transaction=transaction)
                await done.send(delivery.message, transaction=transaction)
            print("done as a whole:", delivery.message.body)
            delivery = await receiver.receive()
            try:
                delivery.reject()
            except Unsupported as reason:
                print("no:", reason)
            delivery.release()


anyio.run(main)
