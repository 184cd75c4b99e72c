"""The list of message numbers in handle-index: "5,9,15-40,80"; the specification's own example has dots for commas."""

from __future__ import annotations

import re
from typing import Final

from ....errors import RemoteProtocolError

MAX_NUMBERS: Final = 100_000
_ITEM: Final = re.compile(rb"(\d{1,10})(?:-(\d{1,10}))?")


def read_numbers(listed: bytes) -> list[int]:
    """Return the message numbers in a list.

    Raises:
        RemoteProtocolError: the list is malformed, or has more than `MAX_NUMBERS` numbers.
    """
    numbers: list[int] = []
    for item in listed.replace(b".", b",").split(b",") if listed else []:
        match = _ITEM.fullmatch(item.strip())
        if match is None:
            raise RemoteProtocolError(f"{item[:40]!r} in a list of message numbers", "amqp:decode-error")
        first = int(match[1])
        last = int(match[2] or first)
        if last - first + len(numbers) >= MAX_NUMBERS or last < first:
            raise RemoteProtocolError(f"a list of message numbers from {first} to {last}", "amqp:decode-error")
        numbers += range(first, last + 1)
    return numbers
