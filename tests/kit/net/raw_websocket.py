"""WebSocket frames by hand (RFC 6455 §5.2): the other end, which shares no line with what is tested."""

from __future__ import annotations

import struct

from anyio.abc import ByteStream

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10


def frame(
    opcode: int, payload: bytes = b"", *, fin: bool = True, mask: bytes = b"", rsv: int = 0, length: int | None = None
) -> bytes:
    """One frame; masked if a mask is given. `length` is what the header says, if it is not the payload's."""
    length = len(payload) if length is None else length
    masked = 0x80 if mask else 0
    first = (0x80 if fin else 0) | rsv << 4 | opcode
    if length < 126:
        header = struct.pack("!BB", first, masked | length)
    elif length < 65536:
        header = struct.pack("!BBH", first, masked | 126, length)
    else:
        header = struct.pack("!BBQ", first, masked | 127, length)
    return header + mask + cover(payload, mask)


def cover(payload: bytes, mask: bytes) -> bytes:
    """Mask, or unmask."""
    return bytes(byte ^ mask[at % 4] for at, byte in enumerate(payload)) if mask else payload


def close_frame(code: int | None = 1000, reason: bytes = b"", mask: bytes = b"") -> bytes:
    return frame(CLOSE, b"" if code is None else struct.pack("!H", code) + reason, mask=mask)


class RawPeer:
    """Reads frames off a stream.

    Attributes:
        masked: whether the last frame was.
    """

    def __init__(self, stream: ByteStream) -> None:
        self.stream = stream
        self.masked = False
        self._read = b""

    async def take(self, size: int) -> bytes:
        while len(self._read) < size:
            self._read += await self.stream.receive()
        data, self._read = self._read[:size], self._read[size:]
        return data

    async def frame(self) -> tuple[int, bool, bytes]:
        """The next frame: opcode, fin, payload."""
        first, second = await self.take(2)
        length = second & 0x7F
        if length == 126:
            (length,) = struct.unpack("!H", await self.take(2))
        elif length == 127:
            (length,) = struct.unpack("!Q", await self.take(8))
        self.masked = bool(second & 0x80)
        mask = await self.take(4) if self.masked else b""
        assert not first & 0x70, "a reserved bit is set"
        return first & 15, bool(first & 0x80), cover(await self.take(length), mask)

    async def head(self) -> str:
        """The head of an HTTP message."""
        while b"\r\n\r\n" not in self._read:
            self._read += await self.stream.receive()
        head, _, self._read = self._read.partition(b"\r\n\r\n")
        return head.decode("latin-1")
