"""AMQP 0-9-1, as RabbitMQ speaks it: queues and bindings in its own words, messages in
the usual ones.
"""

import anyio

from amqp10 import Connection, Message, MessageReleased
from amqp10.broker import Broker


async def main() -> None:
    # With RabbitMQ: "amqp://guest:guest@localhost".
    async with Broker() as broker, Connection(broker.url, dialect="0-9-1") as connection:
        native = connection.native
        await native.declare_queue("errors", arguments={"x-max-length": 1000})
        await native.bind("errors", "amq.topic", "*.error")

        # Each message's subject is its routing key
        async with connection.sender("/exchanges/amq.topic") as sender:
            # Returns when the server has confirmed it
            await sender.send(Message(b"disk full", subject="db.error"))
            await sender.send(Message(b"no route", subject="net.error"))
            try:
                await sender.send(Message(b"all is well", subject="db.info"))
            except MessageReleased:
                print("nobody wants db.info")

        async with connection.receiver("errors", credit=10) as receiver:
            async with connection.transaction() as transaction:
                delivery = await receiver.receive()
                print(delivery.message.body.decode(), "came as", delivery.message.subject)
                delivery.accept(transaction=transaction)
            delivery = await receiver.receive()
            # Where the queue sends what is rejected; this one sends it nowhere
            delivery.reject()

        facts = await native.queue("errors")
        print("errors has", facts.messages if facts is not None else "gone")


anyio.run(main)
