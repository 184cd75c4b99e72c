"""Frames as they are written: type, channel, size, payload, and an octet that ends them (0-9-1 §4.2.3).

The draft's header of 8 octets has `cycle` behind the type, but the draft never says what it is for: it is sent as 0,
and ignored when it comes. Everything else about frames is the same.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Final

from .draft import Content

METHOD: Final = 1
HEADER: Final = 2
BODY: Final = 3
OOB_METHOD: Final = 4
OOB_HEADER: Final = 5
OOB_BODY: Final = 6
TRACE: Final = 7
HEARTBEAT: Final = 8

END: Final = b"\xce"
FRAME_MIN_SIZE: Final = 4096
FIRST_FRAMES: Final = 16_384
"""The largest frame that is taken before the login is over: 4096 by the specification, but tokens may be larger."""


class Framing:
    """The layout of frames in one dialect.

    Args:
        cycle: whether the header is the draft's, of 8 octets.

    Attributes:
        overhead: octets of a frame that are not payload.
    """

    def __init__(self, *, cycle: bool = False) -> None:
        layout = ">BxHI" if cycle else ">BHI"
        self.head: struct.Struct = struct.Struct(layout)
        # The head of a content header's frame, and class, weight and body size in it.
        self.content: struct.Struct = struct.Struct(layout + "HHQ")
        self.overhead: int = self.head.size + 1
        self.types: Sequence[int] = range(1, 9) if cycle else (METHOD, HEADER, BODY, HEARTBEAT)
        self.heartbeat: bytes = self.frame(HEARTBEAT, 0, b"")

    def frame(self, kind: int, channel: int, payload: bytes) -> bytes:
        return self.head.pack(kind, channel, len(payload)) + payload + END

    def message(
        self,
        channel: int,
        class_id: int,
        properties: bytes,
        body: bytes,
        max_payload: int,
        children: Sequence[Content] = (),
    ) -> bytes:
        """Return the header and body frames of one message.

        Args:
            properties: flags and values.
            max_payload: the largest payload that the peer takes in a frame, octets.
            children: the contents within it, which only the draft has.
        """
        size = len(body)
        head = self.content.pack(HEADER, channel, 12 + len(properties), class_id, len(children), size)
        if children:
            inner = [
                self.message(channel, class_id, each.properties, each.body, max_payload, each.children)
                for each in children
            ]
            return b"".join((head, properties, END, *inner, *self._bodies(channel, body, max_payload)))
        if size <= max_payload:  # benchmarks/amqp091.py
            if not size:
                return b"".join((head, properties, END))
            return b"".join((head, properties, END, self.head.pack(BODY, channel, size), body, END))
        return b"".join((head, properties, END, *self._bodies(channel, body, max_payload)))

    def _bodies(self, channel: int, body: bytes, max_payload: int) -> Iterator[bytes]:
        for at in range(0, len(body), max_payload):
            part = body[at : at + max_payload]
            yield from (self.head.pack(BODY, channel, len(part)), part, END)
