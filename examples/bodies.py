"""What becomes of a body on its way. Usage: python bodies.py [URL]"""

import json
import sys

import anyio

from amqp10 import Connection, Message

URL = sys.argv[1] if len(sys.argv) > 1 else "amqp://localhost:5672"


async def main() -> None:
    async with Connection(URL) as connection, connection.sender("bodies") as sender:
        for body in ("text", b"octets", {"id": 7, "paid": True}, [1, 2.5, None]):
            await sender.send(Message(body))
        order = json.dumps({"id": 7}).encode()  # bytes, which every client can read
        await sender.send(Message(order, content_type="application/json"))

        async with connection.receiver("bodies") as receiver:
            for _ in range(5):
                with await receiver.receive() as message:
                    if message.content_type == "application/json":
                        print("JSON", json.loads(message.body))
                    else:
                        print(type(message.body).__name__, message.body)


anyio.run(main)
