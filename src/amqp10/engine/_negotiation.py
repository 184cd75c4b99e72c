"""Server side of version negotiation: the first octets of a connection choose the dialect (§2.2).

All AMQPs but one begin with eight octets, "AMQP" and four that name the version; AMQP/Fast begins with two. A client
that begins with anything else gets the header that we expect, of the family that the client seems to belong to:

    AMQP 1.0    "the peer MUST send a valid protocol header"      that of 1.0, with SASL
    AMQP 0-x    "the server MUST write a valid protocol header"   that of 0-9-1
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ._dialect import Dialect, dialects

# After "AMQP", 0-8 to 0-10 have the protocol's class and instance, both 1; 0-9-1 has two zeros.
_OLD_FAMILY: Final = (b"AMQP\1\1", b"AMQP\0\0")


class Negotiation:
    """Collects the first octets of a connection and names the dialect.

    `dialect` is set once the octets name a dialect that we speak. `refusal` is set once they cannot: write it, then
    close (§2.2 "the peer's own supported header, then close"). `received` has every octet so far, to be given to the
    engine. An octet that does not belong to any header is refused at once, without waiting for more.

    Args:
        spoken: the dialects that we speak, the preferred one first; None for all.
    """

    def __init__(self, spoken: Sequence[Dialect] | None = None) -> None:
        self._spoken = dialects() if spoken is None else spoken
        self.received: bytes = b""
        self.dialect: Dialect | None = None
        self.refusal: bytes | None = None

    def receive_data(self, data: bytes) -> bool:
        """Take octets, and return whether the choice is made."""
        self.received += data
        spoken = self._spoken
        headers = {header: one for one in spoken for header in one.headers}
        for header, one in headers.items():
            if self.received.startswith(header) or (one.later and _is_later(self.received, header)):
                self.dialect = one
                return True
        if any(header.startswith(self.received) for header in headers):
            return False
        self.refusal = _refusal(self.received, spoken)
        return True


def _is_later(received: bytes, header: bytes) -> bool:
    """Return whether the bytes begin with the header of a later version."""
    *same, version = header
    return received[: len(same)] == bytes(same) and received[len(same) : len(header)] > bytes((version,))


def _refusal(received: bytes, spoken: Sequence[Dialect]) -> bytes:
    """Return the header to answer with."""
    if received.startswith(_OLD_FAMILY):
        for one in spoken:
            if one.headers[0].startswith(b"AMQP\0\0"):
                return one.headers[0]
    return spoken[0].headers[0]
