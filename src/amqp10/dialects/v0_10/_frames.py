"""Frames, segments and assemblies (0-10 §3.2 "Network protocol": frames of 12 octets of head, and no end mark).

An assembly is a control, or a command with what belongs to it: up to three segments, command, header and body, each
cut into frames. The reader joins them, the writers cut them.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from ...errors import RemoteProtocolError

PROTOCOL_HEADER: Final = b"AMQP\x01\x01\x00\x0a"
HEAD_SIZE: Final = 12
MIN_FRAME_SIZE: Final = 4096
MAX_FRAME_SIZE: Final = 65_535

# Segment types
CONTROL: Final = 0
COMMAND: Final = 1
HEADER: Final = 2
BODY: Final = 3

# Flags
FIRST_SEGMENT: Final = 8
LAST_SEGMENT: Final = 4
FIRST_FRAME: Final = 2
LAST_FRAME: Final = 1
WHOLE: Final = 15

MAX_FRONT: Final = 1 << 24
"""Octets that a control, or a command and its header segment, may have when they come in many frames."""
MOST_EARLY: Final = 1 << 16
"""Octets that may be here in part before the login is over."""
MOST_OPEN: Final = 1024
"""Assemblies, one a channel and track, that may be here in part."""
MOST_AT_ONCE: Final = 4
"""All that is here in part may be so many times as large as the largest message that is taken."""
FRAME_WEIGHT: Final = 64
"""Octets that keeping a frame costs besides its own."""

_HEAD = Struct(">BBHBBHI")
_read_head = _HEAD.unpack_from


class Assembly:
    """A control, or a command with its segments.

    Attributes:
        kind: `CONTROL` or `COMMAND`.
        front: the octets of the control or of the command.
        header: the octets of the header segment; None without one.
        body: the frames of the body segment; None without one.
        excess: it is larger than is taken, and not here as a whole.
    """

    __slots__ = ("body", "channel", "excess", "front", "header", "kind", "size")

    def __init__(self, channel: int, kind: int, front: bytes) -> None:
        self.channel = channel
        self.kind = kind
        self.front = front
        self.header: bytes | None = None
        self.body: list[bytes] | None = None
        self.size = len(front)
        self.excess = False

    @property
    def payload(self) -> bytes:
        """The body, b"" without one."""
        parts = self.body
        if not parts:
            return b""
        return parts[0] if len(parts) == 1 else b"".join(parts)


class _Part:
    """An assembly that is not whole: its segments in frames.

    Attributes:
        segment: the type of the last one.
        goes_on: it is not whole.
        weight: octets that it takes up here.
        given: the assembly was given already, as one that is too large; what comes of it is dropped.
    """

    __slots__ = ("channel", "frames", "given", "goes_on", "segment", "size", "weight")

    def __init__(self, channel: int) -> None:
        self.channel = channel
        self.frames: dict[int, list[bytes]] = {}
        self.segment = COMMAND
        self.goes_on = True
        self.size = self.weight = 0
        self.given = False

    def assembly(self) -> Assembly:
        """What is here of it."""
        frames = self.frames
        kind = COMMAND if COMMAND in frames else CONTROL
        assembly = Assembly(self.channel, kind, b"".join(frames[kind]))
        if HEADER in frames:
            assembly.header = b"".join(frames[HEADER])
        assembly.body = frames.get(BODY)
        assembly.size = self.size
        assembly.excess = self.given
        return assembly


class FrameReader:
    """Cuts what is fed into frames, and joins these to assemblies.

    Attributes:
        max_frame_size: the largest frame taken, bytes; may be changed between frames.
        most_in_part: bytes of all that may be here in part, with what keeping it costs; None for the usual, which is
            a multiple of `max_size`.
        max_size: the largest message taken, bytes; None for any. A larger one is given as soon as that is known, marked
            as such, and the rest of it dropped.
    """

    def __init__(self, max_frame_size: int = MAX_FRAME_SIZE, max_size: int | None = None) -> None:
        self.max_frame_size = max_frame_size
        self.max_size = max_size
        self.most_in_part: int | None = None
        self._weight = 0  # of all assemblies that are not whole
        self._data = b""
        self._at = 0
        self._more: list[bytes] = []  # fed while `_data` ends in a part of a frame that they do not complete
        self._missing = 0
        self._open: dict[tuple[int, int], _Part] = {}

    @property
    def within_frame(self) -> bool:
        """What was fed last brought neither a whole frame nor the beginning of one."""
        return bool(self._more)

    def feed(self, data: bytes) -> None:
        """Take bytes, in any portions."""
        if not self._more and self._at == len(self._data):
            self._data, self._at, self._missing = bytes(data), 0, 0
            return
        self._more.append(bytes(data))
        self._missing -= len(data)
        if self._missing <= 0:
            self._data = b"".join((self._data[self._at :], *self._more))
            self._at = 0
            self._more.clear()

    def protocol_header(self) -> bytes | None:
        """The eight octets that open a connection, None while they are not all there.

        What cannot become a header is given at once, short as it is.
        """
        start = self._data[self._at : self._at + 8]
        if len(start) < 8 and (not start or b"AMQP"[: len(start)] == start[:4]):
            self._wait(1)
            return None
        self._at += len(start)
        return start

    def next(self) -> Assembly | None:
        """The next whole assembly, None while it is not all there.

        Raises:
            RemoteProtocolError: a frame that cannot be, or not here, or above a limit.
        """
        while True:
            data, at = self._data, self._at
            left = len(data) - at
            if left < HEAD_SIZE:
                self._wait(HEAD_SIZE - left)
                return None
            flags, kind, size, _, track, channel, _ = _read_head(data, at)
            if size < HEAD_SIZE or size > self.max_frame_size or flags > WHOLE or kind > BODY:
                raise self._bad_head(flags, kind, size)
            if left < size:
                self._wait(size - left)
                return None
            self._at = at + size
            payload = data[at + HEAD_SIZE : at + size]
            track &= 0xF
            if flags == WHOLE and kind <= COMMAND and (channel, track) not in self._open:
                return Assembly(channel, kind, payload)
            assembly = self._join(flags, kind, channel, track, payload)
            if assembly is not None:
                return assembly

    def _join(self, flags: int, kind: int, channel: int, track: int, payload: bytes) -> Assembly | None:
        """Add a frame to what it belongs to; the assembly that it completes."""
        key = channel, track
        part = self._open.get(key)
        if flags & FIRST_SEGMENT and flags & FIRST_FRAME:
            if part is not None or kind > COMMAND:
                raise RemoteProtocolError("an assembly begins within another, or with content")
            if len(self._open) >= MOST_OPEN:
                raise RemoteProtocolError(f"{MOST_OPEN} commands in part", "amqp:resource-limit-exceeded")
            part = self._open[key] = _Part(channel)
        elif part is None:
            raise RemoteProtocolError("a frame that continues nothing")
        elif part.goes_on != (not flags & FIRST_FRAME) or (
            kind != part.segment if part.goes_on else kind <= max(part.segment, COMMAND)
        ):
            raise RemoteProtocolError("a frame that does not continue what came before it on its channel")
        part.segment, part.goes_on = kind, not flags & LAST_FRAME
        whole = flags & LAST_FRAME and flags & LAST_SEGMENT
        if whole:
            del self._open[key]
        if part.given:
            return None
        part.frames.setdefault(kind, []).append(payload)
        part.size += len(payload)
        part.weight += len(payload) + FRAME_WEIGHT
        self._weight += len(payload) + FRAME_WEIGHT
        self._check(part)
        if not (whole or part.given):
            return None
        assembly = part.assembly()
        self._weight -= part.weight
        part.frames.clear()
        return assembly

    def _check(self, part: _Part) -> None:
        """See that it does not become too large."""
        if self.most_in_part is not None and self._weight > self.most_in_part:
            raise RemoteProtocolError(
                f"more than {self.most_in_part} bytes in part before the login is over", "amqp:resource-limit-exceeded"
            )
        if part.segment != BODY and part.size > MAX_FRONT:
            raise RemoteProtocolError(f"a command of more than {MAX_FRONT} bytes", "amqp:resource-limit-exceeded")
        if self.max_size is None:
            return
        part.given = part.size > self.max_size
        if self._weight > MOST_AT_ONCE * max(self.max_size, MAX_FRONT):
            raise RemoteProtocolError("too much that is not whole", "amqp:resource-limit-exceeded")

    def _wait(self, missing: int) -> None:
        if not self._more:
            self._missing = missing
            # Until there is more, the frames that were taken are not to be kept along with what is left.
            self._data, self._at = self._data[self._at :], 0

    def _bad_head(self, flags: int, kind: int, size: int) -> RemoteProtocolError:
        if size >= HEAD_SIZE and size > self.max_frame_size:
            return RemoteProtocolError(f"a frame of {size} bytes; at most {self.max_frame_size} are taken")
        return RemoteProtocolError(f"a frame head that cannot be: flags 0x{flags:02x}, type {kind}, size {size}")


def encode_control(channel: int, payload: bytes) -> bytes:
    """The frame of a control; none of ours is longer than the smallest frame that a peer may ask for."""
    return _HEAD.pack(WHOLE, CONTROL, HEAD_SIZE + len(payload), 0, 0, channel, 0) + payload


def encode_segment(channel: int, kind: int, flags: int, payload: bytes, room: int) -> list[bytes]:
    """The frames of a segment, each with at most `room` octets of payload; `flags` say where the segment is."""
    size = len(payload)
    track = int(kind != CONTROL)
    if size <= room:
        return [_HEAD.pack(flags | 3, kind, HEAD_SIZE + size, 0, track, channel, 0), payload]
    frames: list[bytes] = []
    for at in range(0, size, room):
        part = payload[at : at + room]
        place = (FIRST_FRAME if at == 0 else 0) | (LAST_FRAME if at + room >= size else 0)
        frames += (_HEAD.pack(flags | place, kind, HEAD_SIZE + len(part), 0, track, channel, 0), part)
    return frames


def encode_command(channel: int, front: bytes, header: bytes | None, body: bytes | None, room: int) -> bytes:
    """All frames of a command."""
    if header is None and body is None:
        return b"".join(encode_segment(channel, COMMAND, FIRST_SEGMENT | LAST_SEGMENT, front, room))
    frames = encode_segment(channel, COMMAND, FIRST_SEGMENT, front, room)
    if header is not None:
        frames += encode_segment(channel, HEADER, 0 if body is not None else LAST_SEGMENT, header, room)
    if body is not None:
        frames += encode_segment(channel, BODY, LAST_SEGMENT, body, room)
    return b"".join(frames)
