"""Send a message that arrives later, on Artemis and ActiveMQ Classic.

Usage: python delayed.py [URL]
"""

import sys
import time

import anyio

from amqp10 import Connection, Message

URL = sys.argv[1] if len(sys.argv) > 1 else "amqp://user:password@localhost:5672"


def in_seconds(message: Message, delay: float) -> Message:
    """Return the message with the time when it may arrive, in ms since 1970."""
    at = round((time.time() + delay) * 1000)
    return message.replace(
        message_annotations=message.message_annotations | {"x-opt-delivery-time": at}
    )


async def main() -> None:
    async with Connection(URL) as connection:
        # Other brokers deliver such a message at once, without a word
        if "DELAYED_DELIVERY" not in connection.offered_capabilities:
            raise SystemExit("this broker does not delay messages")
        queue = connection.profile
        async with connection.sender(queue.target("reminders")) as sender:
            await sender.send(in_seconds(Message("call back", durable=True), 1))
            await sender.send(Message("good morning", durable=True))
        async with connection.receiver(queue.source("reminders")) as receiver:
            for _ in range(2):
                with await receiver.receive() as message:
                    print(message.body)


anyio.run(main)
