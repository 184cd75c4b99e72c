"""The other end of the 0-9-1 benchmark: sink for publishers, source for consumers. It shares no code with a client.

Prints its port as JSON, then one line for each connection that has ended: what it saw. Publishes are confirmed once a
read, with one basic.ack for all of them. The queue `q.SIZE.TOTAL` has so many messages of that size; no more are out
without an ack than the consumer's prefetch allows.
"""

from __future__ import annotations

import asyncio
import json
import struct

HEAD = struct.Struct(">BHI")
MECHANISMS = b"\0\0\0\5PLAIN" + b"\0\0\0\5en_US"


def table(fields: dict[bytes, bytes]) -> bytes:
    """A field table; the values with their type octets."""
    body = b"".join(bytes((len(name),)) + name + value for name, value in fields.items())
    return struct.pack(">I", len(body)) + body


CAPABILITIES = dict.fromkeys((b"publisher_confirms", b"basic.nack", b"per_consumer_qos"), b"t\x01")
PROPERTIES = table({b"product": b"S\0\0\0\5bench", b"capabilities": b"F" + table(CAPABILITIES)})


class Peer(asyncio.Protocol):
    """One connection."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.data = b""
        self.begun = False
        self.out: list[bytes] = []
        self.seen = {"published": 0, "acked": 0, "delivered": 0}
        self.confirming = False
        self.confirmed = 0
        self.prefetch = 0
        self.consumer: tuple[int, bytes] | None = None
        self.block = b""
        self.total = 0

    def connection_lost(self, exc: Exception | None) -> None:
        print(json.dumps(self.seen), flush=True)

    def method(self, channel: int, payload: bytes) -> None:
        self.out.append(HEAD.pack(1, channel, len(payload)) + payload + b"\xce")

    def data_received(self, data: bytes) -> None:
        self.data = data = self.data + data if self.data else data
        at, size = 0, len(data)
        if not self.begun:
            if size < 8:
                return
            self.begun = True
            at = 8
            self.method(0, b"\0\x0a\0\x0a\0\x09" + PROPERTIES + MECHANISMS)
        channel = 1
        while size - at >= 7:
            kind, channel, length = HEAD.unpack_from(data, at)
            end = at + 8 + length
            if end > size:
                break
            if kind == 1:
                self.handle(channel, data[at + 7 : at + 11], data, at + 11)
            at = end
        self.data = data[at:]
        if self.confirming and self.seen["published"] > self.confirmed:
            self.confirmed = self.seen["published"]
            self.method(channel, b"\0\x3c\0\x50" + struct.pack(">QB", self.confirmed, 1))
        self.deliver()
        if self.out:
            self.transport.write(b"".join(self.out))
            self.out.clear()

    def handle(self, channel: int, code: bytes, data: bytes, at: int) -> None:
        if code == b"\0\x3c\0\x28":
            self.seen["published"] += 1
        elif code == b"\0\x3c\0\x50":
            number, multiple = struct.unpack_from(">QB", data, at)
            self.seen["acked"] = number if multiple else self.seen["acked"] + 1
        elif code in ANSWERS:
            self.method(channel, ANSWERS[code])
            if code == b"\0\x55\0\x0a":
                self.confirming = True
        elif code == b"\0\x32\0\x0a":
            name = data[at + 3 : at + 3 + data[at + 2]]
            self.method(channel, b"\0\x32\0\x0b" + bytes((len(name),)) + name + bytes(8))
        elif code == b"\0\x3c\0\x0a":
            (self.prefetch,) = struct.unpack_from(">H", data, at + 4)
            self.method(channel, b"\0\x3c\0\x0b")
        elif code == b"\0\x3c\0\x14":
            self.consume(channel, data, at + 2)
        elif code == b"\0\x3c\0\x1e":
            tag = data[at : at + 1 + data[at]]
            self.consumer = None
            self.method(channel, b"\0\x3c\0\x1f" + tag)

    def consume(self, channel: int, data: bytes, at: int) -> None:
        queue = data[at + 1 : at + 1 + data[at]]
        at += 1 + len(queue)
        tag = data[at : at + 1 + data[at]]
        self.consumer = channel, tag if len(tag) > 1 else b"\1c"
        self.method(channel, b"\0\x3c\0\x15" + self.consumer[1])
        _, size, total = queue.split(b".")
        self.total = int(total)
        header = b"\0\x3c\0\0" + struct.pack(">QH", int(size), 0)
        body = b"x" * int(size)
        self.block = (
            HEAD.pack(2, channel, len(header)) + header + b"\xce" + HEAD.pack(3, channel, len(body)) + body + b"\xce"
        )
        self.route = b"\0" + b"\0" + bytes((len(queue),)) + queue

    def deliver(self) -> None:
        if self.consumer is None:
            return
        channel, tag = self.consumer
        seen = self.seen
        most = min(self.total, seen["acked"] + self.prefetch if self.prefetch else self.total)
        for number in range(seen["delivered"] + 1, most + 1):
            payload = b"\0\x3c\0\x3c" + tag + struct.pack(">Q", number) + self.route
            self.out.append(HEAD.pack(1, channel, len(payload)) + payload + b"\xce" + self.block)
        seen["delivered"] = max(seen["delivered"], most)


ANSWERS = {
    b"\0\x0a\0\x0b": b"\0\x0a\0\x1e" + struct.pack(">HIH", 100, 131072, 0),
    b"\0\x0a\0\x28": b"\0\x0a\0\x29\0",
    b"\0\x0a\0\x32": b"\0\x0a\0\x33",
    b"\0\x14\0\x0a": b"\0\x14\0\x0b\0\0\0\0",
    b"\0\x14\0\x28": b"\0\x14\0\x29",
    b"\0\x28\0\x0a": b"\0\x28\0\x0b",
    b"\0\x55\0\x0a": b"\0\x55\0\x0b",
}


async def main() -> None:
    """Listen until ended."""
    server = await asyncio.get_running_loop().create_server(Peer, "127.0.0.1", 0)
    print(json.dumps({"port": server.sockets[0].getsockname()[1]}), flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
