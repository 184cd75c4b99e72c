"""What comes in, in portions of any size, until it is read: what readers of frames and commands have in common."""

from __future__ import annotations


class BufferedReader:
    """Keeps octets that were not read yet. A subclass reads them from `_data`, on from `_at`.

    Octets are joined once they may complete a frame, not portion by portion.
    """

    def __init__(self) -> None:
        self._data = b""
        self._at = 0
        self._more: list[bytes] = []  # octets that do not yet complete the frame that `_data` ends in
        self._missing = 0  # octets that must come before it makes sense to look again

    @property
    def within_frame(self) -> bool:
        """Return whether the octets fed last were only the middle of a frame."""
        return bool(self._more)

    def feed(self, data: bytes) -> None:
        """Take octets, in any portions."""
        if not self._more and self._at == len(self._data):
            self._data, self._at, self._missing = bytes(data), 0, 0
            return
        self._more.append(bytes(data))
        self._missing -= len(data)
        if self._missing <= 0:
            self._data = b"".join((self._data[self._at :], *self._more))
            self._at = 0
            self._more.clear()

    def _wait(self, missing: int) -> None:
        """Look again when `missing` more octets are here."""
        if not self._more:
            self._missing = missing
            # Do not keep what was read only because the rest is in the same buffer.
            self._data, self._at = self._data[self._at :], 0

    def protocol_header(self) -> bytes | None:
        """Return the eight octets of a protocol header "AMQP"; None while some of them are missing.

        What cannot become a header is returned at once, short as it is, so that nobody waits for the rest.
        """
        start = self._data[self._at : self._at + 8]
        if len(start) < 8 and (not start or b"AMQP"[: len(start)] == start[:4]):
            self._wait(1)
            return None
        self._at += len(start)
        return start
