"""The frames of a WebSocket that carry bytes (RFC 6455 §5.2): all of AMQP goes in them, so they are made and read here.

wsproto copies each payload five times to send it and four to read it. It still has all other frames: control,
fragments of messages, whatever breaks the protocol. benchmarks/run.py --transport websocket, 64 KiB.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final

Buffer = bytes | memoryview

MESSAGE_SIZE: Final = 32_768
"""Bytes of one message: HTTP servers tend to refuse messages of more than 64 KiB, and AMQP does not mind the cuts."""

BINARY: Final = 0x82
"""The first octet of a binary message that is one frame."""

# Sending

_XOR: Final = [bytes(left ^ right for left in range(256)) for right in range(256)]


def mask_plainly(data: Buffer, key: bytes) -> Buffer:
    """XOR with the key, over and over (§5.3): an octet of it at a time, which is the quickest without a compiler."""
    masked = bytearray(data)
    for at, octet in enumerate(key):
        masked[at::4] = masked[at::4].translate(_XOR[octet])
    return memoryview(masked)


mask: Callable[[Buffer, bytes], Buffer]
try:
    from websockets.speedups import apply_mask as mask  # the same in C: 1 µs for 64 KiB, where the other takes 50
except ImportError:
    mask = mask_plainly


def cut(rest: deque[memoryview], size: int) -> list[memoryview]:
    """Take so many bytes off the front of buffers, or all there are."""
    taken = []
    while rest and size:
        piece, left = rest[0][:size], rest[0][size:]
        taken.append(piece)
        size -= len(piece)
        if left:
            rest[0] = left
        else:
            rest.popleft()
    return taken


def frames(buffers: Sequence[memoryview], masked: bool) -> list[Buffer]:
    """Buffers as messages of `MESSAGE_SIZE`, each in one frame; nothing is joined, only a client's bytes are copied."""
    rest = deque(buffers)
    out: list[Buffer] = []
    while pieces := cut(rest, MESSAGE_SIZE):
        header = _header(sum(map(len, pieces)), masked)
        if not masked:
            out += (header, *pieces)
            continue
        key = os.urandom(4)  # nobody can foresee it, and no two frames have the same
        out.append(header + key)
        for piece in pieces:
            out.append(mask(piece, key))
            at = len(piece) & 3
            key = key[at:] + key[:at]
    return out


def _header(size: int, masked: bool) -> bytes:
    flag = 0x80 if masked else 0
    if size < 126:
        return bytes((BINARY, flag | size))
    if size < 1 << 16:
        return bytes((BINARY, flag | 126)) + size.to_bytes(2, "big")
    return bytes((BINARY, flag | 127)) + size.to_bytes(8, "big")


# Receiving


class FrameCutter:
    """Parts what comes into bytes of whole binary messages, unmasked, and anything else.

    Args:
        masked: the peer is a client.
    """

    def __init__(self, masked: bool) -> None:
        self._masked = masked
        self._head = b""  # of a frame, not whole yet
        self._left = 0  # of the payload of the frame that is under way
        self._plain = False  # it is a binary message
        self._key = b""  # of it, turned to the next byte
        self._fragments = False  # a message of several frames is under way
        self._given_up = False  # what comes is no frame: it and all after it is somebody else's to judge

    def cut(self, data: bytes) -> Iterator[tuple[bool, Buffer]]:
        """Parts in order: whether it is bytes of a binary message, and these, or the octets of frames as they came."""
        if self._head:
            data, self._head = self._head + data, b""
        view = memoryview(data)
        at, end = 0, len(data)
        while at < end:
            if self._given_up:
                yield False, view[at:]
                return
            if not self._left:
                start = self._open(view, at)
                if start is None:
                    self._head = data[at:]
                    return
                if not self._plain:
                    yield False, view[at:start]
                at = start
            part = view[at : at + self._left]
            if part:
                at += len(part)
                self._left -= len(part)
                yield self._plain, self._unmask(part) if self._plain and self._masked else part

    def _open(self, view: memoryview, at: int) -> int | None:
        """Read the header there; where the payload begins, None if the header is not whole."""
        have = len(view) - at
        if have < 2:
            return None
        first, second = view[at], view[at + 1]
        length, wide = second & 0x7F, 0
        if length > 125:
            wide = 2 if length == 126 else 8
        code = first & 0x0F
        if first & 0x70 or code not in _CODES or bool(second & 0x80) is not self._masked or (code > 7 and length > 125):
            self._given_up, self._plain = True, False
            return at
        start = at + 2 + wide + (4 if self._masked else 0)
        if start > len(view):
            return None
        if wide:
            length = int.from_bytes(view[at + 2 : at + 2 + wide], "big")
            if length < (126 if wide == 2 else 1 << 16) or length >> 63:
                self._given_up, self._plain = True, False
                return at
        self._left = length
        self._plain = first == BINARY and not self._fragments
        self._key = bytes(view[start - 4 : start]) if self._masked else b""
        if code < 8:
            self._fragments = not first & 0x80
        return start

    def _unmask(self, part: memoryview) -> Buffer:
        at, key = len(part) & 3, self._key
        self._key = key[at:] + key[:at]
        return mask(part, key)


_CODES: Final = frozenset((0, 1, 2, 8, 9, 10))
