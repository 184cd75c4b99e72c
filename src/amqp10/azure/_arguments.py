"""Checks of arguments that several calls take."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime


def check_time(name: str, value: object) -> None:
    """Check that an argument is a time that means the same everywhere.

    Raises:
        TypeError: it is no datetime.
        ValueError: it has no time zone.
    """
    if not isinstance(value, datetime):
        raise TypeError(
            f"{name} must be a datetime with a time zone, such as datetime.now(UTC) + timedelta(hours=1), not {value!r}"
        )
    if value.tzinfo is None:
        raise ValueError(f"{name} must have a time zone, unlike {value!r}; datetime.now(UTC) has one")


def check_text(name: str, value: object) -> None:
    """Check that an argument is text that can be kept and sent.

    Raises:
        TypeError: it is no str.
        ValueError: it is empty, or has lone surrogates, which UTF-8 does not have.
    """
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a str, not {value!r:.200}")
    if not value:
        raise ValueError(f"{name} must not be empty")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(
            f"{name} must not have lone surrogates, which UTF-8 cannot encode, unlike {value!r:.200}"
        ) from None


def check_seconds(name: str, value: object) -> None:
    """Check that an argument is a number of seconds.

    Raises:
        TypeError: it is of another type.
    """
    if not isinstance(value, int | float):
        raise TypeError(f"{name} must be a number of seconds, not {value!r}; timedelta.total_seconds() returns one")


def numbers_of(arguments: Iterable[int | Iterable[int]]) -> list[int]:
    """Return sequence numbers that are given one by one, or as lists.

    Raises:
        TypeError: one of them is no int.
        ValueError: one of them has more than 64 bits.
    """
    numbers: list[int] = []
    for each in arguments:
        numbers += [each] if isinstance(each, int | str) or not isinstance(each, Iterable) else each
    for number in numbers:
        if not isinstance(number, int):
            raise TypeError(f"a sequence number must be an int, such as delivery.sequence_number, not {number!r}")
        if not -1 << 63 <= number < 1 << 63:
            raise ValueError(f"a sequence number must fit in 64 bits, unlike {number}")
    return numbers


def partition_id(value: str | int) -> str:
    """Return the id of a partition, which may be given as its number.

    Raises:
        TypeError: it is neither str nor int.
        ValueError: it is empty, or less than 0.
    """
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise TypeError(
            f"partition must be an id such as '0', or its number, not {value!r}: hub.properties() lists all ids"
        )
    if value == "" or (isinstance(value, int) and value < 0):
        raise ValueError(
            f"partition must be an id such as '0', or its number, not {value!r}: hub.properties() lists all ids"
        )
    return str(value)
