"""A connection through an HTTP proxy, a small one that is here too.

Usage: python proxy.py [URL]
"""

import sys

import anyio
from anyio.abc import SocketAttribute, SocketStream

from amqp10 import Connection


async def pass_on(source: SocketStream, sink: SocketStream) -> None:
    async for data in source:
        await sink.send(data)
    await sink.send_eof()


async def tunnel(client: SocketStream) -> None:
    """What any proxy does with CONNECT: open a connection, say 200, and pass bytes both
    ways.
    """
    request = await client.receive()
    method, target, _ = request.split(b" ", 2)
    host, _, port = target.decode().rpartition(":")
    print(method.decode())
    async with (
        client,
        await anyio.connect_tcp(host, int(port)) as server,
        anyio.create_task_group() as tasks,
    ):
        await client.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
        tasks.start_soon(pass_on, client, server)
        tasks.start_soon(pass_on, server, client)


async def main(url: str) -> None:
    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(listener.serve, tunnel)
        proxy = f"http://127.0.0.1:{listener.extra(SocketAttribute.local_port)}"
        async with (
            Connection(url, proxy=proxy) as connection,
            connection.sender("q") as sender,
        ):
            await sender.send("through the proxy")
            print("sent")
        tasks.cancel_scope.cancel()


anyio.run(main, sys.argv[1] if len(sys.argv) > 1 else "amqp://localhost:5672")
