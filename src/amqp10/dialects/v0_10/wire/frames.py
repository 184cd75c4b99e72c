"""Frames, segments and assemblies (0-10 §3.2 "Network protocol": frames have a head of 12 octets, and no end mark).

An assembly is a control, or a command with its content: up to three segments, command, header and body, each cut into
frames. The reader joins frames to assemblies; the writers cut assemblies into frames.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from ....errors import RemoteProtocolError
from ..._kit.buffered_reader import BufferedReader

PROTOCOL_HEADER: Final = b"AMQP\x01\x01\x00\x0a"
HEAD_SIZE: Final = 12
MIN_MAX_FRAME_SIZE: Final = 4096
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
"""The size, in octets, up to which a control, or a command and its header segment, may come in many frames."""
MAX_EARLY: Final = 1 << 16
"""Octets of incomplete assemblies that may be held before the login is over."""
MAX_OPEN: Final = 1024
"""The number of incomplete assemblies, one per channel and track, that may be held."""
MAX_AT_ONCE: Final = 4
"""The size of all incomplete assemblies together is limited to this multiple of the largest message taken."""
FRAME_WEIGHT: Final = 64
"""The overhead, in octets, of holding a frame."""

_HEAD = Struct(">BBHBBHI")
_read_head = _HEAD.unpack_from


class Assembly:
    """A control, or a command with its content.

    Attributes:
        kind: `CONTROL` or `COMMAND`.
        front: the octets of the control or of the command.
        header: the octets of the header segment; None without one.
        body: the frames of the body segment; None without one.
        excess: the assembly is larger than the limit, and its rest is dropped.
    """

    __slots__ = ("body", "channel", "excess", "front", "header", "kind", "size")

    def __init__(self, channel: int, kind: int, front: bytes) -> None:
        self.channel: int = channel
        self.kind: int = kind
        self.front: bytes = front
        self.header: bytes | None = None
        self.body: list[bytes] | None = None
        self.size: int = len(front)
        self.excess: bool = False

    @property
    def payload(self) -> bytes:
        """The body, b"" without one."""
        parts = self.body
        if not parts:
            return b""
        return parts[0] if len(parts) == 1 else b"".join(parts)


class _Part:
    """An assembly that is not complete: the frames of its segments.

    Attributes:
        segment: the type of the last segment.
        continues: the last segment is not complete.
        weight: octets that the frames occupy, overhead included.
        given: the assembly was already returned, as too large; its further frames are dropped.
    """

    __slots__ = ("channel", "continues", "frames", "given", "segment", "size", "weight")

    def __init__(self, channel: int) -> None:
        self.channel = channel
        self.frames: dict[int, list[bytes]] = {}
        self.segment = COMMAND
        self.continues = True
        self.size = self.weight = 0
        self.given = False

    def assembly(self) -> Assembly:
        """Return the assembly, as far as it is here."""
        frames = self.frames
        kind = COMMAND if COMMAND in frames else CONTROL
        assembly = Assembly(self.channel, kind, b"".join(frames[kind]))
        if HEADER in frames:
            assembly.header = b"".join(frames[HEADER])
        assembly.body = frames.get(BODY)
        assembly.size = self.size
        assembly.excess = self.given
        return assembly


class FrameReader(BufferedReader):
    """Cuts the bytes it is fed into frames, and joins the frames to assemblies.

    Attributes:
        max_frame_size: the largest frame taken, bytes; may be changed between frames.
        most_in_part: bytes of incomplete assemblies that may be held, overhead included; None: the default, a multiple
            of `max_size`.
        max_size: the largest message taken, bytes; None: any. A larger one is returned as soon as its size is known,
            with `excess` set, and the rest of it is dropped.
        partial: bytes of incomplete assemblies, overhead included.
    """

    def __init__(self, max_frame_size: int = MAX_FRAME_SIZE, max_size: int | None = None) -> None:
        super().__init__()
        self.max_frame_size = max_frame_size
        self.max_size = max_size
        self.most_in_part: int | None = None
        self.partial: int = 0
        self._open: dict[tuple[int, int], _Part] = {}

    def next(self) -> Assembly | None:
        """Return the next complete assembly; None while it is not complete.

        Raises:
            RemoteProtocolError: a frame is malformed, out of place, or exceeds a limit.
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
        """Add a frame to its assembly, and return the assembly if the frame completes it or makes it too large."""
        key = channel, track
        part = self._open.get(key)
        if flags & FIRST_SEGMENT and flags & FIRST_FRAME:
            if part is not None or kind > COMMAND:
                raise RemoteProtocolError("an assembly begins within another, or with content")
            if len(self._open) >= MAX_OPEN:
                raise RemoteProtocolError(f"more than {MAX_OPEN} incomplete commands", "amqp:resource-limit-exceeded")
            part = self._open[key] = _Part(channel)
        elif part is None:
            raise RemoteProtocolError("a frame that continues nothing")
        elif part.continues != (not flags & FIRST_FRAME) or (
            kind != part.segment if part.continues else kind <= max(part.segment, COMMAND)
        ):
            raise RemoteProtocolError("a frame that does not continue what came before it on its channel")
        part.segment, part.continues = kind, not flags & LAST_FRAME
        whole = flags & LAST_FRAME and flags & LAST_SEGMENT
        if whole:
            del self._open[key]
        if part.given:
            return None
        part.frames.setdefault(kind, []).append(payload)
        part.size += len(payload)
        part.weight += len(payload) + FRAME_WEIGHT
        self.partial += len(payload) + FRAME_WEIGHT
        self._check(part)
        if not (whole or part.given):
            return None
        assembly = part.assembly()
        self.partial -= part.weight
        part.frames.clear()
        return assembly

    def _check(self, part: _Part) -> None:
        """Check the limits on incomplete assemblies; mark `part` if it is larger than the largest message taken."""
        if self.most_in_part is not None and self.partial > self.most_in_part:
            raise RemoteProtocolError(
                f"more than {self.most_in_part} bytes of incomplete commands before the login is over",
                "amqp:resource-limit-exceeded",
            )
        if part.segment != BODY and part.size > MAX_FRONT:
            raise RemoteProtocolError(f"a command of more than {MAX_FRONT} bytes", "amqp:resource-limit-exceeded")
        if self.max_size is None:
            return
        part.given = part.size > self.max_size
        if self.partial > MAX_AT_ONCE * max(self.max_size, MAX_FRONT):
            raise RemoteProtocolError("too many bytes of incomplete commands", "amqp:resource-limit-exceeded")

    def _bad_head(self, flags: int, kind: int, size: int) -> RemoteProtocolError:
        if size >= HEAD_SIZE and size > self.max_frame_size:
            return RemoteProtocolError(f"a frame of {size} bytes exceeds the limit of {self.max_frame_size}")
        return RemoteProtocolError(f"an invalid frame header: flags 0x{flags:02x}, type {kind}, size {size}")


def encode_control(channel: int, payload: bytes) -> bytes:
    """Return the frame of a control; ours all fit the smallest frame size that a peer may ask for."""
    return _HEAD.pack(WHOLE, CONTROL, HEAD_SIZE + len(payload), 0, 0, channel, 0) + payload


def encode_segment(channel: int, kind: int, flags: int, payload: bytes, max_payload: int) -> list[bytes]:
    """Return heads and payloads of a segment's frames, each with at most `max_payload` octets of payload.

    Args:
        flags: the place of the segment in its assembly: `FIRST_SEGMENT`, `LAST_SEGMENT`, both or 0.
    """
    size = len(payload)
    track = int(kind != CONTROL)
    if size <= max_payload:
        return [_HEAD.pack(flags | 3, kind, HEAD_SIZE + size, 0, track, channel, 0), payload]
    frames: list[bytes] = []
    for at in range(0, size, max_payload):
        part = payload[at : at + max_payload]
        place = (FIRST_FRAME if at == 0 else 0) | (LAST_FRAME if at + max_payload >= size else 0)
        frames += (_HEAD.pack(flags | place, kind, HEAD_SIZE + len(part), 0, track, channel, 0), part)
    return frames


def encode_command(channel: int, front: bytes, header: bytes | None, body: bytes | None, max_payload: int) -> bytes:
    """Return all frames of a command."""
    if header is None and body is None:
        return b"".join(encode_segment(channel, COMMAND, FIRST_SEGMENT | LAST_SEGMENT, front, max_payload))
    frames = encode_segment(channel, COMMAND, FIRST_SEGMENT, front, max_payload)
    if header is not None:
        frames += encode_segment(channel, HEADER, 0 if body is not None else LAST_SEGMENT, header, max_payload)
    if body is not None:
        frames += encode_segment(channel, BODY, LAST_SEGMENT, body, max_payload)
    return b"".join(frames)
