"""Every outcome that a receiver can give, and what a sender sees of it.

Usage: python settlement.py [URL]
"""

import sys

import anyio

from amqp10 import Connection, Message, MessageRejected

URL = sys.argv[1] if len(sys.argv) > 1 else "amqp://localhost:5672"


async def main() -> None:
    async with Connection(URL) as connection, connection.receiver("jobs") as receiver:
        async with connection.sender("jobs") as sender:
            await sender.send_many(Message(f"job {n}") for n in range(3))

        delivery = await receiver.receive()
        delivery.accept()  # done: the broker forgets it

        try:
            # Accept on exit, "failed" on an exception
            with await receiver.receive() as message:
                raise RuntimeError(f"cannot do {message.body}")
        except RuntimeError as error:
            print(error)

        # The one that failed is here again, and its delivery count tells
        for _ in range(2):
            delivery = await receiver.receive()
            print(
                delivery.message.body, "delivery count", delivery.message.delivery_count
            )
            delivery.reject("amqp:decode-error", "nobody can read this")

        async with (
            connection.receiver("refusals", credit=1) as strict,
            connection.sender("refusals") as sender,
        ):
            # On a broker, accepted is the broker's word
            pending = await sender.submit(Message("is this good?"))
            print("the broker says", type(await pending.outcome()).__name__)
            (await strict.receive()).accept()
    print(f"a sender whose peer rejects gets {MessageRejected.__name__}")


anyio.run(main)
