"""One step of a pipeline: take an order, price it, pass it on.

Usage: python pipeline.py [URL]
"""

import sys

import anyio

from amqp10 import Connection, DeadLetter, Message, Reconnect, Worker

URL = sys.argv[1] if len(sys.argv) > 1 else "amqp://localhost:5672"
PRICES = {"tea": 3, "cake": 5}


async def main() -> None:
    async with (
        Connection(URL, reconnect=Reconnect()) as connection,
        connection.sender("orders-priced") as priced,
    ):

        async def price(message: Message) -> None:
            order = message.body
            if order["item"] not in PRICES:
                raise DeadLetter(f"no price for {order['item']}")
            total = PRICES[order["item"]] * order["count"]
            # The same message-id in each step: a later one can tell an order that comes
            # twice.
            await priced.send(
                Message(
                    order | {"total": total}, message_id=message.message_id, durable=True
                )
            )

        async with connection.sender("orders-new") as sender:
            for number, item in enumerate(["tea", "cake", "coal"]):
                await sender.send(
                    Message(
                        {"item": item, "count": 2},
                        message_id=f"order-{number}",
                        durable=True,
                    )
                )
        async with (
            Worker(
                connection,
                "orders-new",
                price,
                concurrency=10,
                dead_letters="orders-dead",
            ),
            connection.receiver("orders-priced") as receiver,
        ):
            for _ in range(2):
                with await receiver.receive() as message:
                    print(message.message_id, message.body["item"], message.body["total"])
        async with connection.receiver("orders-dead") as receiver:
            with await receiver.receive() as message:
                print(
                    message.message_id,
                    message.message_annotations["x-opt-dead-letter-description"],
                )


anyio.run(main)
