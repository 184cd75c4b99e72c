"""Decodes a message while it arrives: first the head, then the body piece by piece, then the footer (§3.2).

    feed(part), feed(part) ──> read_head() ──> message ──> read(), read() ──> read() is None and `finished`

Only the current part is held, and the sections that can be decoded only whole, up to `MAX_HELD` bytes: the head, the
footer, and a body that is not data.
"""

from __future__ import annotations

from typing import Final

from ..errors import DecodeError
from ._fields import MAPS
from ._message import Message
from ._outcomes import Received
from ._section_index import AMQP_SEQUENCE, AMQP_VALUE, DATA, FOOTER, NAMES, SectionSpan, descriptor_at, misplaced

MAX_HELD: Final = 1 << 20
"""The limit, in bytes, of what is held until a head, footer, or body of one value is whole."""

_WIDTHS: Final = {0x4: 0, 0x5: 1, 0x6: 2, 0x7: 4, 0x8: 8, 0x9: 16}


class StreamDecoder:
    """Takes the payload of one message in parts of any size, and returns its body in pieces.

    Call `read_head` until it returns True, then `read` until `finished`. When one of them has nothing, `feed` the next
    part, or call `end`. A `DecodeError` is final.

    Attributes:
        message: once `read_head` returned True, the sections before the body, with the whole body if it is not data.
            The footer is added when the body was read.
        finished: everything was read.
        has_data: the body has only data sections, or no section at all, so that `read` returns it.
    """

    def __init__(self, limit: int = MAX_HELD) -> None:
        self.message: Message = Message()
        self.finished: bool = False
        self.has_data: bool = True
        self._limit = limit
        self._opened = False  # the head is read
        self._data = b""
        self._at = 0
        self._more: list[bytes] = []  # parts to append to `_data`, whose section is incomplete
        self._missing = 0  # bytes missing from that section
        self._size = 0  # total bytes fed
        self._base = 0  # bytes of the message before `_data`
        self._ended = False
        self._last = 0  # the code of the current section
        self._left = 0  # bytes left to read of a data section
        self._number = -1  # of the current section, from 0
        self._section = 0  # where the current section begins in the message

    def feed(self, part: bytes) -> None:
        """Take the next part of the payload."""
        self._size += len(part)
        if self._opened and self._at == len(self._data):
            self._base += self._at
            self._data, self._at = part, 0
            return
        self._more.append(part)
        self._missing -= len(part)
        if self._missing <= 0:
            self._join()

    def end(self) -> None:
        """Record the end of the payload."""
        self._ended = True
        self._join()

    def _join(self) -> None:
        if self._more:
            self._data = b"".join((self._data, *self._more))
            self._more.clear()

    @property
    def received(self) -> Received:
        """How far the message was read, as the state with which a receiver resumes a delivery (§3.4.1)."""
        return Received(max(0, self._number), self._base + self._at - self._section)

    # The head

    def read_head(self) -> bool:
        """Return whether all sections before the body have arrived, so that `message` is complete.

        Raises:
            DecodeError: a section is malformed, or too long to hold.
        """
        if not self.has_data:
            return self._read_value()
        while (place := self._place()) is not None:
            code, _, end = place
            if code in (DATA, FOOTER):
                break
            if code in (AMQP_VALUE, AMQP_SEQUENCE):
                self.has_data = False
                return self._read_value()
            if end > len(self._data):
                self._wait(end, end)
                return False
            self._begin(place)
            self._at = end
        else:
            if not self._ended:
                self._wait(len(self._data) + 1, self._size)
                return False
            self._check_end()
            if not self._size:
                raise DecodeError("an empty payload is not a message")
        head, self._data = self._data[: self._at], self._data[self._at :]
        self._base, self._at = self._base + self._at, 0
        if head:
            self.message = Message.decode(head)
        self._opened = True
        return True

    def _read_value(self) -> bool:
        """Read a body that is not data, which can only be decoded whole; return whether all of it has arrived."""
        if not self._ended:
            self._wait(self._limit, self._size)
            return False
        self.message = Message.decode(self._data)
        self._at = len(self._data)
        self.finished = self._opened = True
        return True

    # The body

    def read(self) -> bytes | None:
        """Return the next piece of the body: what has arrived of one data section.

        None means that the next part must be fed, or, if `finished`, that everything was read.

        Raises:
            DecodeError: the message is malformed.
        """
        while not self._left:
            place = self._place()
            if place is None:
                self.finished = self._ended
                self._check_end()
                return None
            code, value_at, end = place
            if code == FOOTER:
                if end > len(self._data):
                    self._wait(end, end - self._at)
                    return None
                self._begin(place)
                self.message.footer = MAPS[FOOTER].read(self._data, (self._at, value_at, end))
                self._at = end
            elif self._data[value_at] == 0xA0 or self._data[value_at] == 0xB0:
                self._begin(place)
                self._at = value_at + (2 if self._data[value_at] == 0xA0 else 5)
                self._left = end - self._at
            else:
                raise DecodeError(f"a section of {NAMES[code]} holds a value of type 0x{self._data[value_at]:02x}")
        data, at = self._data, self._at
        piece = data[at : at + self._left]  # without a copy if the part is all body
        if not piece:
            self._check_end()
            return None
        self._at = at + len(piece)
        self._left -= len(piece)
        return piece

    # Sections

    def _place(self) -> SectionSpan | None:
        """Return the code of the next section and the bounds of its value; None until they are known.

        The end may lie beyond the arrived bytes. An amqp-value or amqp-sequence is not scanned.
        """
        data, at = self._data, self._at
        have = len(data)
        try:
            if have == at or have < at + _descriptor_size(data, at):
                return None
            code, value_at = descriptor_at(data, at)
            if code < self._last or (code == self._last and code != DATA):
                raise misplaced(self._last, code)
            if code in (AMQP_VALUE, AMQP_SEQUENCE):
                if self._last == DATA:
                    raise misplaced(self._last, code)
                return code, value_at, have
            kind = data[value_at] >> 4
            if kind in (0xA, 0xC):
                return code, value_at, value_at + 2 + data[value_at + 1]
            if kind in (0xB, 0xD):
                size = data[value_at + 1 : value_at + 5]
                return (code, value_at, value_at + 5 + int.from_bytes(size, "big")) if len(size) == 4 else None
            return code, value_at, value_at + 1 + _WIDTHS[kind]
        except IndexError:
            return None
        except KeyError:
            raise DecodeError(f"the section {NAMES[code]} holds a value of type 0x{data[value_at]:02x}") from None

    def _begin(self, place: SectionSpan) -> None:
        self._last = place[0]
        self._number += 1
        self._section = self._base + self._at

    def _wait(self, end: int, held: int) -> None:
        """Record that reading needs `end` bytes in `_data`; refuse if `held`, the bytes to hold, exceeds the limit."""
        if self._ended:
            raise DecodeError("the message ends within a section")
        if held > self._limit:
            raise DecodeError(
                f"a message cannot be streamed if {held} bytes of it must be read together: the limit is {self._limit}"
            )
        if not self._more:
            self._missing = end - len(self._data)

    def _check_end(self) -> None:
        """Check that everything was read, if the payload has ended."""
        if self._ended and (self._left or self._at < len(self._data)):
            raise DecodeError("the message ends within a section")


def _descriptor_size(data: bytes, at: int) -> int:
    """Return the length of the descriptor at `at` with the 0 before it, or of the bytes that show it to be invalid."""
    if data[at]:
        return 1
    kind = data[at + 1]
    if kind == 0x53:
        return 3
    if kind == 0x80:
        return 10
    if kind == 0xA3:
        return 3 + data[at + 2]
    if kind == 0xB3:
        size = int.from_bytes(data[at + 2 : at + 6].ljust(4, b"\0"), "big")
        return 6 + min(size, 255)
    return 2
