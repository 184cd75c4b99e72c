"""Cutting a message into fragments while its parts come.

The head of a message is in its first fragment, whole, and says how large the body is. So a body that is sent in parts
can be cut as it comes only if it is one section of data, whose beginning says its size; any other is collected first.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

from ....errors import DecodeError, LocalProtocolError
from ....messaging.sections import DATA, descriptor_at, section_at
from ..wire.fragments import fragments
from .header_names import WHOLE
from .to_head import to_fast

_EMPTY_DATA: Final = bytes((0, 0x53, DATA, 0xA0, 0))


class StreamFragmenter:
    """A message that is sent in parts.

    Args:
        max_octets: octets that a fragment may have.
    """

    def __init__(self, max_octets: int, message_format: int) -> None:
        self._max_octets = max_octets
        self._format = message_format
        self._buffered: list[bytes] = []
        self._examine_at = 0  # octets that must be here before the held parts are examined again
        self._left = 0  # octets of the body still to come
        self.begun: bool = False  # a fragment was sent
        self.size: int = 0  # octets that were given

    def feed(self, part: bytes, more: bool) -> Iterator[tuple[bytes, bool]]:
        """Take the next part; return the fragments to send now, and with each whether more follow.

        Raises:
            LocalProtocolError: the body does not have the size that its first section gave.
        """
        self.size += len(part)
        if self.begun:
            return self._go_on(part, more)
        self._buffered.append(part)
        if more and self.size < self._examine_at:
            return iter(())
        self._examine_at = 2 * self.size  # else a long message in short parts would be joined for each of them
        payload = b"".join(self._buffered)
        self._buffered = [payload]
        if not more:
            head, body = to_fast(payload, time.time(), message_format=self._format, max_octets=self._max_octets)
            return fragments(head.write(), body, self._max_octets)
        return self._begin(payload)

    def _begin(self, payload: bytes) -> Iterator[tuple[bytes, bool]]:
        place = data_at(payload)
        if place is None or self._format:
            return iter(())
        start, at, size = place
        head, _ = to_fast(payload[:start] + _EMPTY_DATA, time.time(), max_octets=self._max_octets)
        if len(payload) - at >= size or head.mime_type == WHOLE or size > 0xFFFF_FFFF:
            return iter(())
        head.body_size = size
        self.begun = True
        self._buffered = []
        self._left = size - (len(payload) - at)
        return ((octets, True) for octets, _ in fragments(head.write(), payload[at:], self._max_octets) if octets)

    def _go_on(self, part: bytes, more: bool) -> Iterator[tuple[bytes, bool]]:
        if len(part) > self._left or (not more and len(part) < self._left):
            raise LocalProtocolError(
                f"the body must have exactly {self._left} more octets as announced, not {len(part)}"
            )
        self._left -= len(part)
        cut = [part[at : at + self._max_octets] for at in range(0, len(part), self._max_octets)] or [b""]
        if more:
            return ((octets, True) for octets in cut if octets)
        return ((octets, number < len(cut)) for number, octets in enumerate(cut, 1))


def data_at(payload: bytes) -> tuple[int, int, int] | None:
    """Return where the first data section begins, where its octets begin, and how many octets it is to have.

    Return None if the beginning of the section has not arrived yet, or if the body is not of data sections.
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
