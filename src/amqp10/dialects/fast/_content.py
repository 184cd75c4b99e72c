"""Messages and their fragments: cut for sending, put together when they come in.

The head of a message is in its first fragment, whole, and says how large the body is. So a body that is sent in parts
can be cut as it comes only if it is one section of data, whose beginning says its size; any other is collected first.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from typing import Final

from ...errors import DecodeError, LocalProtocolError, RemoteProtocolError
from ...messaging._layout import DATA, descriptor_at, section_at
from ._codes import BadContents
from ._commands import MessageHead
from ._mapping import WHOLE, to_fast

_EMPTY_DATA: Final = bytes((0, 0x53, DATA, 0xA0, 0))


def read_head(content: bytes) -> tuple[MessageHead, bytes]:
    """The head that begins the first fragment, and what of the body follows it.

    Raises:
        RemoteProtocolError: it is not whole, or malformed.
    """
    try:
        head, at = MessageHead.read(content, 0, len(content))
    except DecodeError as error:
        raise RemoteProtocolError(f"the head of a message: {error}", "amqp:decode-error") from None
    return head, content[at:]


def body_hash(body: bytes) -> str:
    """What handle-prepare says of a body: its SHA-1, as text."""
    return hashlib.sha1(body, usedforsecurity=False).hexdigest()


class Assembly:
    """A message that is coming in.

    Attributes:
        head: its head.
        size: octets of its body that came; `parts` are they.
        content_hash: the SHA-1 that its body is to have; "" for any.
        kept: some of it came before the connection was lost; it may be of another message with the same head.
    """

    kept = False

    def __init__(self, head: MessageHead, content_hash: str = "") -> None:
        self.head = head
        self.size = 0
        self.content_hash = content_hash
        self.parts: list[bytes] = []

    @property
    def weight(self) -> int:
        """Octets that it takes here, about: in small parts it is more than what came."""
        return self.size + 64 * len(self.parts)

    def add(self, part: bytes, *, keep: bool = True) -> None:
        """The next octets of the body; with `keep` False someone else has them.

        Raises:
            BadContents: there are more than its head says.
        """
        self.size += len(part)
        if self.size > self.head.body_size:
            raise BadContents(f"a body of {self.head.body_size} octets has {self.size - self.head.body_size} more")
        if part and keep:
            self.parts.append(part)

    def check(self) -> None:
        """Raise `BadContents` if the body ended early."""
        if self.size != self.head.body_size:
            raise BadContents(f"a body of {self.head.body_size} octets ended after {self.size}")

    def body(self) -> bytes:
        """The body, which is whole now.

        Raises:
            BadContents: it is not, or not what its hash says.
        """
        self.check()
        parts = self.parts
        body = parts[0] if len(parts) == 1 else b"".join(parts)
        if self.content_hash and body_hash(body) != self.content_hash.lower():
            raise BadContents("a body is not what its hash says")
        return body


def fragments(front: bytes, body: bytes, room: int) -> Iterator[tuple[bytes, bool]]:
    """What is sent of a message, in order: the octets of each fragment, and whether more follow.

    Args:
        front: the head, and perhaps the beginning of the body; it is in the first fragment, whole.
        room: octets that a fragment may have.
    """
    at = room - len(front)
    yield front + body[:at], len(body) > at
    while at < len(body):
        yield body[at : at + room], len(body) > at + room
        at += room


class Outflow:
    """A message that is sent in parts.

    Args:
        room: octets that a fragment may have.
    """

    def __init__(self, room: int, message_format: int) -> None:
        self._room = room
        self._format = message_format
        self._held: list[bytes] = []
        self._look_at = 0  # octets that are to be here when what is held is looked at again
        self._left = 0  # octets of the body still to come
        self.begun = False  # something of it was sent
        self.size = 0  # octets that were given

    def feed(self, part: bytes, more: bool) -> Iterator[tuple[bytes, bool]]:
        """Take the next part; what is to be sent now.

        Raises:
            LocalProtocolError: the body is not what its first section said.
        """
        self.size += len(part)
        if self.begun:
            return self._go_on(part, more)
        self._held.append(part)
        if more and self.size < self._look_at:
            return iter(())
        self._look_at = 2 * self.size  # else a long message in short parts would be joined for each of them
        payload = b"".join(self._held)
        self._held = [payload]
        if not more:
            head, body = to_fast(payload, time.time(), message_format=self._format, room=self._room)
            return fragments(head.write(), body, self._room)
        return self._begin(payload)

    def _begin(self, payload: bytes) -> Iterator[tuple[bytes, bool]]:
        place = data_at(payload)
        if place is None or self._format:
            return iter(())
        start, at, size = place
        head, _ = to_fast(payload[:start] + _EMPTY_DATA, time.time(), room=self._room)
        if len(payload) - at >= size or head.mime_type == WHOLE or size > 0xFFFF_FFFF:
            return iter(())
        head.body_size = size
        self.begun = True
        self._held = []
        self._left = size - (len(payload) - at)
        return ((octets, True) for octets, _ in fragments(head.write(), payload[at:], self._room) if octets)

    def _go_on(self, part: bytes, more: bool) -> Iterator[tuple[bytes, bool]]:
        if len(part) > self._left or (not more and len(part) < self._left):
            raise LocalProtocolError(
                f"the body was to have {self._left} octets more, and nothing after them; here are {len(part)}"
            )
        self._left -= len(part)
        cut = [part[at : at + self._room] for at in range(0, len(part), self._room)] or [b""]
        if more:
            return ((octets, True) for octets in cut if octets)
        return ((octets, number < len(cut)) for number, octets in enumerate(cut, 1))


def data_at(payload: bytes) -> tuple[int, int, int] | None:
    """The first section of data: where it begins, where its octets do, and how many they are to be.

    None if it is not here yet, or the body is none of data.
    """
    at = 0
    try:
        while True:
            code, value_at = descriptor_at(payload, at)
            if code == DATA:
                width = {0xA0: 1, 0xB0: 4}[payload[value_at]]
                start = value_at + 1 + width
                if len(payload) < start:
                    return None
                return at, start, int.from_bytes(payload[value_at + 1 : start], "big")
            if code > DATA:
                return None
            _, _, at = section_at(payload, at)
    except (DecodeError, IndexError, KeyError):
        return None
