"""The neutral peer again, and on it a log: messages with offsets, read from where a receiver says.

    python benchmarks/log_counterpart.py          as counterpart.py

A source `log.SIZE.COUNT` has COUNT messages of SIZE octets, whose annotation `x-stream-offset` is 0, 1, 2, ...; the
filter `rabbitmq:stream-offset-spec` says where to begin: an offset, "first" or "last". Sources `q.SIZE.COUNT` are
queues as ever.
"""

from __future__ import annotations

import asyncio
import struct

import counterpart
from counterpart import Counterpart, Session, Spring, Template, fields


class LogTemplate(Template):
    """The transfer of a message with an offset, which is the delivery-id and where the log was entered together."""

    def __init__(self, channel: int, handle: int, size: int, start: int) -> None:
        super().__init__(channel, handle, True, size)
        self.start = start
        self.first = -1
        key = b"\xa3\x0fx-stream-offset"
        annotations = b"\x00\x53\x72\xc1" + bytes((1 + len(key) + 9, 2)) + key + b"\x80"
        settled, data = self.tail[:2], self.tail[2:]
        self.middle, self.end = settled + annotations, data
        grown = len(annotations) + 8
        self.head = struct.pack(">I", int.from_bytes(self.head[:4], "big") + grown) + self.head[4:]

    def block(self, first: int, count: int) -> bytes:
        if self.first < 0:
            self.first = first
        pieces: list[bytes] = []
        for identity in range(first, first + count):
            octets = (identity & 0xFFFF_FFFF).to_bytes(4, "big")
            offset = (self.start + identity - self.first).to_bytes(8, "big")
            pieces += (self.head, octets, b"\xa0\x04", octets, self.middle, offset, self.end)
        return b"".join(pieces)


class LogCounterpart(Counterpart):
    def attach(self, channel: int, encoded: list[bytes]) -> None:
        super().attach(channel, encoded)
        session, handle = self.sessions[channel], counterpart.number(encoded, 1)
        spring = session.springs.get(handle)
        if spring is None:
            return
        source = encoded[5]
        address = fields(source, 0)[0]
        text = address[2 if address[0] == 0xA1 else 5 :].decode()
        if text.startswith("log."):
            enter(session, handle, channel, text, source)


def enter(session: Session, handle: int, channel: int, address: str, source: bytes) -> None:
    """Have a link begin where its filter says."""
    _, size, count = address.split(".")
    start = 0
    at = source.rfind(b"rabbitmq:stream-offset-spec")
    if at >= 0:
        value = source[at + len(b"rabbitmq:stream-offset-spec") :]
        if value[:1] == b"\x80":
            start = int.from_bytes(value[1:9], "big")
        elif value[:1] == b"\x53":
            start = value[1]
        elif value[2:6] == b"last":
            start = int(count) - 1
    session.springs[handle] = Spring(LogTemplate(channel, handle, int(size), start), max(0, int(count) - start))


if __name__ == "__main__":
    counterpart.Counterpart = LogCounterpart  # type: ignore[misc]
    asyncio.run(counterpart.main())
