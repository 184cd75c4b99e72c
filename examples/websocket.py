"""A broker that answers AMQP and WebSockets at one port, and a client at each.

Usage: python websocket.py
"""

import anyio

from amqp10 import Connection, HandshakeRefused, WebSocket
from amqp10.broker import Broker


async def main() -> None:
    async with Broker(websocket=True) as broker:
        async with (
            Connection(broker.websocket_url) as one,
            Connection(broker.url) as other,
            one.sender("news") as sender,
            other.receiver("news") as receiver,
        ):
            await sender.send("over a WebSocket")
            with await receiver.receive() as message:
                print(message.body)
        try:
            # As a browser would say it
            page = WebSocket(headers={"Origin": "https://somewhere.example"})
            async with Connection(broker.websocket_url, websocket=page):
                pass
        except HandshakeRefused as error:
            print("a page from anywhere:", error.status)


anyio.run(main)
