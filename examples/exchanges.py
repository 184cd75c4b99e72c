"""Exchanges of the embedded broker, from AMQP 1.0: one message, a copy for each queue
that is bound for it.
"""

import anyio

from amqp10 import Connection, Message, MessageReleased
from amqp10.broker import Broker

BINDINGS = [("logs", "*.error", "errors"), ("logs", "#", "everything")]


async def main() -> None:
    async with (
        Broker(exchanges={"logs": "topic"}, bindings=BINDINGS) as broker,
        Connection(broker.url) as connection,
    ):
        # Each message says where it goes: exchange and routing key
        async with connection.sender(None) as sender:
            await sender.send(Message("disk full", to="/exchanges/logs/db.error"))
            await sender.send(Message("all is well", to="/exchanges/logs/db.info"))
        for queue in ("errors", "everything"):
            print(queue, "has", broker.queue(queue).depth)
        async with connection.receiver("/queues/errors") as receiver:
            with await receiver.receive() as message:
                annotations = message.message_annotations
                print(
                    message.body,
                    "came by",
                    annotations["x-exchange"],
                    "with",
                    annotations["x-routing-key"],
                )
        try:
            async with connection.sender("/exchanges/amq.direct/nobody") as sender:
                await sender.send("for whom?")
        except MessageReleased:
            print("no queue is bound for that")


anyio.run(main)
