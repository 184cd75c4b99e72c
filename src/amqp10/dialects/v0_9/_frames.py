"""Frames: type, channel, size, payload, and an octet that ends them (0-9-1 §4.2.3); the draft has one octet more.

The 8-octet header of the draft has `cycle` behind the type, of which it never says what it is for: sent as 0, and
ignored when it comes. Everything else about frames is the same.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from ._codes import NO_FRAME, Fault
from ._runs import read_confirms
from ._structured import Content

if TYPE_CHECKING:
    from ._runs import Alike, Messages

METHOD: Final = 1
HEADER: Final = 2
BODY: Final = 3
OOB_METHOD: Final = 4
OOB_HEADER: Final = 5
OOB_BODY: Final = 6
TRACE: Final = 7
HEARTBEAT: Final = 8

END: Final = b"\xce"
LEAST_FRAME: Final = 4096
FIRST_FRAMES: Final = 16_384
"""The largest frame that is taken before the login is over: 4096 by the specification, but tokens may be larger."""


class Framing:
    """How frames look in one dialect.

    Args:
        cycle: the draft's 8-octet header.

    Attributes:
        overhead: octets of a frame that are not payload.
    """

    def __init__(self, *, cycle: bool = False) -> None:
        layout = ">BxHI" if cycle else ">BHI"
        self.head = struct.Struct(layout)
        # The head of a content header's frame, and class, weight and body size in it.
        self.content = struct.Struct(layout + "HHQ")
        self.overhead = self.head.size + 1
        self.types = range(1, 9) if cycle else (METHOD, HEADER, BODY, HEARTBEAT)
        self.heartbeat = self.frame(HEARTBEAT, 0, b"")

    def frame(self, kind: int, channel: int, payload: bytes) -> bytes:
        return self.head.pack(kind, channel, len(payload)) + payload + END

    def message(
        self,
        channel: int,
        class_id: int,
        properties: bytes,
        body: bytes,
        room: int,
        children: Sequence[Content] = (),
    ) -> bytes:
        """Header and body frames of one message.

        Args:
            properties: flags and values.
            room: the largest payload that the peer takes in a frame, octets.
            children: contents within it, of which only the draft has a notion.
        """
        size = len(body)
        head = self.content.pack(HEADER, channel, 12 + len(properties), class_id, len(children), size)
        if children:
            inner = [
                self.message(channel, class_id, each.properties, each.body, room, each.children) for each in children
            ]
            return b"".join((head, properties, END, *inner, *self._bodies(channel, body, room)))
        if size <= room:  # benchmarks/amqp091.py
            if not size:
                return b"".join((head, properties, END))
            return b"".join((head, properties, END, self.head.pack(BODY, channel, size), body, END))
        return b"".join((head, properties, END, *self._bodies(channel, body, room)))

    def _bodies(self, channel: int, body: bytes, room: int) -> Iterator[bytes]:
        for at in range(0, len(body), room):
            part = body[at : at + room]
            yield from (self.head.pack(BODY, channel, len(part)), part, END)


class FrameReader:
    """Cuts what the peer writes into frames.

    Attributes:
        limit: the largest frame that is taken, octets of payload.
    """

    def __init__(self, framing: Framing, limit: int) -> None:
        self._framing = framing
        self.limit = limit
        self._data = b""
        self._begin = self._at = 0  # of the frame that was given last, and behind it
        self._waiting: list[bytes] = []  # behind `_data`, not enough of it yet
        self._needed = 0
        self._size = 0

    def feed(self, data: bytes) -> None:
        self._waiting.append(data)
        self._size += len(data)

    @property
    def within_frame(self) -> bool:
        """What was fed last brought neither a whole frame nor the beginning of one."""
        return bool(self._waiting)

    def take(self, size: int) -> bytes | None:
        """The next octets, whatever they are; None while there are not so many."""
        data = self._joined()
        if len(data) < size:
            return None
        self._data = data[size:]
        self._size -= size
        return data[:size]

    def starts_with(self, octets: bytes) -> bool:
        """What comes next may be, or is, these octets."""
        begin = self._joined()[: len(octets)]
        return octets.startswith(begin) and bool(begin)

    def _joined(self) -> bytes:
        if self._waiting:
            self._data = b"".join((self._data, *self._waiting)) if self._data else b"".join(self._waiting)
            self._waiting.clear()
        return self._data

    def frames(self) -> Iterator[tuple[int, int, bytes]]:
        """Type, channel and payload of each frame that is here whole.

        Raises:
            Fault: it is no frame, or larger than we take.
        """
        if self._size < self._needed:
            return
        data = self._joined()
        framing = self._framing
        unpack, width = framing.head.unpack_from, framing.head.size
        at = self._at = 0
        have = len(data)
        self._needed = 0
        try:
            while have - at >= width:
                kind, channel, size = unpack(data, at)
                if size > self.limit or kind not in framing.types:
                    self._refuse(kind, size)
                start = at + width
                stop = start + size
                if stop >= have:
                    self._needed = stop + 1 - at
                    break
                if data[stop] != 0xCE:
                    raise Fault(NO_FRAME, f"a frame ends with 0x{data[stop]:02x}, not with 0xce")
                self._begin, self._at = at, stop + 1
                yield kind, channel, data[start:stop]
                at = self._at
        finally:
            self._data = data[self._at :]
            self._size = have - self._at
            self._at = 0

    def run(self, look: Messages, most: int, largest: int) -> Alike | None:
        """Whole messages that look so, from the frame on that was given last: `most` of them, or as many as there are.
        No frame of theirs is larger than `largest`, octets of payload.

        They are taken, that frame among them; none of them is given again.
        """
        found, end = look.read(self._data, self._begin, most, min(largest, self.limit))
        if found is not None:
            self._at = end
        return found

    def confirms(self, channel: int) -> list[int]:
        """Numbers of publishes that are confirmed one by one, from the frame on that was given last; so taken."""
        found, end = read_confirms(self._framing, self._data, self._begin, channel)
        if found:
            self._at = end
        return found

    def _refuse(self, kind: int, size: int) -> None:
        if kind not in self._framing.types:
            raise Fault(NO_FRAME, f"a frame of the type {kind}, which there is not")
        raise Fault(501, f"a frame of {size} octets; this side takes {self.limit}")
