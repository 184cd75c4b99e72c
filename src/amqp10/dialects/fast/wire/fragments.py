"""Messages and their fragments: cut for sending, put together when they come in."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from ....errors import DecodeError, RemoteProtocolError
from ..codes import BadContents
from .commands import MessageHead


def read_head(content: bytes) -> tuple[MessageHead, bytes]:
    """Split the first fragment into the head and the octets of the body that follow the head.

    Raises:
        RemoteProtocolError: the head is incomplete or malformed.
    """
    try:
        head, at = MessageHead.read(content, 0, len(content))
    except DecodeError as error:
        raise RemoteProtocolError(f"the head of a message: {error}", "amqp:decode-error") from None
    return head, content[at:]


def body_hash(body: bytes) -> str:
    """Return the content-hash of handle-prepare for a body: its SHA-1 in hexadecimal."""
    return hashlib.sha1(body, usedforsecurity=False).hexdigest()


class Assembly:
    """A message that is coming in.

    Attributes:
        head: its head.
        size: octets of its body that arrived.
        parts: these octets, in order, except for those added with `keep` False.
        content_hash: the SHA-1 that its body is to have; "" for any.
        kept: a part arrived before the connection was lost; it may be of another message with the same head.
    """

    kept = False

    def __init__(self, head: MessageHead, content_hash: str = "") -> None:
        self.head = head
        self.size: int = 0
        self.content_hash = content_hash
        self.parts: list[bytes] = []

    @property
    def weight(self) -> int:
        """Return roughly how many octets of memory the parts take; small parts take more than their size."""
        return self.size + 64 * len(self.parts)

    def add(self, part: bytes, *, keep: bool = True) -> None:
        """Take the next octets of the body; with `keep` False count them only, because the caller keeps them.

        Raises:
            BadContents: the body is longer than the head says.
        """
        self.size += len(part)
        if self.size > self.head.body_size:
            raise BadContents(
                f"a body is {self.size - self.head.body_size} octets longer than the announced {self.head.body_size}"
            )
        if part and keep:
            self.parts.append(part)

    def check(self) -> None:
        """Raise `BadContents` if the body ended early."""
        if self.size != self.head.body_size:
            raise BadContents(f"a body of {self.head.body_size} octets ended after {self.size}")

    def body(self) -> bytes:
        """Return the whole body; its last octets must have arrived.

        Raises:
            BadContents: the body is incomplete, or does not match its hash.
        """
        self.check()
        parts = self.parts
        body = parts[0] if len(parts) == 1 else b"".join(parts)
        if self.content_hash and body_hash(body) != self.content_hash.lower():
            raise BadContents("a body does not match its hash")
        return body


def fragments(front: bytes, body: bytes, max_octets: int) -> Iterator[tuple[bytes, bool]]:
    """Yield the octets of each fragment of a message, in order, and whether more fragments follow.

    Args:
        front: the head, and perhaps the beginning of the body; the first fragment holds all of it.
        max_octets: octets that a fragment may have.
    """
    at = max_octets - len(front)
    yield front + body[:at], len(body) > at
    while at < len(body):
        yield body[at : at + max_octets], len(body) > at + max_octets
        at += max_octets
