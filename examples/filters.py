"""Receive only what a filter lets pass. Usage: python filters.py [URL]"""

import sys

import anyio

from amqp10 import (
    ApplicationPropertiesFilter,
    Connection,
    FilterNotApplied,
    Message,
    Selector,
    Source,
    StreamOffset,
)

URL = sys.argv[1] if len(sys.argv) > 1 else "amqp://localhost:5672"


async def main() -> None:
    async with Connection(URL) as connection:
        async with connection.sender("shipments") as sender:
            for number, region in enumerate(["us", "eu", "us", "eu"]):
                properties = {"number": number, "region": region, "weight": number * 10}
                await sender.send(Message(number, application_properties=properties))

        # A condition in SQL; values go in by name and are quoted.
        selector = Selector("region = :region AND weight > :least", region="eu", least=5)
        async with connection.receiver(
            Source("shipments", filters=[selector])
        ) as receiver:
            bodies = []
            for delivery in await receiver.receive_batch(2, max_wait=5):
                bodies.append(delivery.message.body)
                delivery.accept()
            print("two for eu:", bodies)

        # A filter without a language: fields and their values.
        source = Source(
            "shipments",
            filters=[ApplicationPropertiesFilter({"region": "us", "number": 2})],
        )
        async with connection.receiver(source) as receiver:
            with await receiver.receive() as message:
                print("by fields:", [message.body])

        # What the peer does not apply is an error, before a message comes.
        try:
            async with connection.receiver(
                Source("shipments", filters=[StreamOffset("first")])
            ):
                pass
        except FilterNotApplied as error:
            print("not applied:", *error.filters)


anyio.run(main)
