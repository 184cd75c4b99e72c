"""Server side of version negotiation: the first eight bytes choose the dialect (§2.2)."""

from __future__ import annotations

from ._dialect import HEADER_SIZE, Dialect, dialects


class Negotiation:
    """Collects the first eight bytes of a connection and names the dialect.

    `dialect` is set once they are known and we speak it; `refusal` once they are known and we do not: write it,
    then close (§2.2 "the peer's own supported header, then close"). `received` has every byte so far, to be given to
    the engine; a first byte that cannot begin any header is refused at once, without waiting for eight.
    """

    def __init__(self) -> None:
        self.received = b""
        self.dialect: Dialect | None = None
        self.refusal: bytes | None = None

    def receive_data(self, data: bytes) -> bool:
        """Take bytes; True when the choice is made."""
        self.received += data
        start = self.received[:HEADER_SIZE]
        spoken = dialects()
        if not any(header.startswith(start) for one in spoken for header in one.headers):
            self.refusal = spoken[0].headers[0]
        elif len(start) == HEADER_SIZE:
            self.dialect = next(one for one in spoken if start in one.headers)
        return self.dialect is not None or self.refusal is not None
