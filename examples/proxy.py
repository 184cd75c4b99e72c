"""A connection through an HTTP proxy, a small one that is here too. Usage: python proxy.py [URL]"""

import sys
from functools import partial

import trio

from amqp10 import Connection


async def pass_on(source: trio.SocketStream, sink: trio.SocketStream) -> None:
    async for data in source:
        await sink.send_all(data)
    await sink.send_eof()


async def tunnel(client: trio.SocketStream) -> None:
    """What any proxy does with CONNECT: open a connection, say 200, and pass bytes both ways."""
    request = await client.receive_some()
    method, target, _ = request.split(b" ", 2)
    host, _, port = target.decode().rpartition(":")
    print(method.decode())
    server = await trio.open_tcp_stream(host, int(port))
    await client.send_all(b"HTTP/1.1 200 Connection established\r\n\r\n")
    async with server, trio.open_nursery() as nursery:
        nursery.start_soon(pass_on, client, server)
        nursery.start_soon(pass_on, server, client)


async def main(url: str) -> None:
    async with trio.open_nursery() as nursery:
        serve = partial(trio.serve_tcp, tunnel, 0, host="127.0.0.1")
        listeners = await nursery.start(serve)
        port = listeners[0].socket.getsockname()[1]
        proxy = f"http://127.0.0.1:{port}"
        async with Connection(url, proxy=proxy) as connection, connection.sender("q") as sender:
            await sender.send("through the proxy")
            print("sent")
        nursery.cancel_scope.cancel()


trio.run(main, sys.argv[1] if len(sys.argv) > 1 else "amqp://guest:guest@localhost")
