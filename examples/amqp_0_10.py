"""AMQP 0-10: queues and bindings in its own words, messages in the usual ones, and a
distributed transaction.
"""

import anyio

from amqp10 import Connection, Message, amqp010
from amqp10.broker import Broker


async def main() -> None:
    async with Broker() as broker, Connection(broker.url, dialect="0-10") as connection:
        native = connection.native
        await native.declare_queue("errors", durable=True)
        await native.bind("errors", "amq.topic", "*.error")

        # Each message's subject is its routing key
        async with connection.sender("/exchanges/amq.topic") as sender:
            await sender.send(Message("disk full", subject="db.error"))
            await sender.send(Message("no route", subject="net.error"))
        facts = await native.queue("errors")
        print("errors has", facts.messages if facts else "gone")

        async with connection.receiver("errors", credit=10) as receiver:
            for _ in range(2):
                with await receiver.receive() as message:
                    print(message.body, "came as", message.subject)

            xid = amqp010.Xid(1, b"order 4711", b"this queue")
            async with native.xa() as xa:
                await xa.start(xid)
                async with xa.session.sender("errors") as sender:
                    await sender.send("part of something larger")
                await xa.end(xid)
                await xa.prepare(xid)
                print(
                    "prepared:", [each.global_id.decode() for each in await xa.recover()]
                )
                print("nothing yet:", receiver.buffered)
                await xa.commit(xid)
            with await receiver.receive() as message:
                print(message.body)


anyio.run(main)
