"""Checks of arguments that several calls share."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from .._arguments import without_secrets


def check_time(name: str, value: object) -> None:
    """Check that `value` is a datetime with a time zone, so that it means the same instant everywhere.

    Raises:
        TypeError: `value` is not a datetime.
        ValueError: `value` has no time zone.
    """
    if not isinstance(value, datetime):
        raise TypeError(
            f"{name} must be a datetime with a time zone, such as datetime.now(UTC) + timedelta(hours=1), not "
            f"{without_secrets(value)}"
        )
    if value.tzinfo is None:
        raise ValueError(f"{name} must have a time zone, unlike {without_secrets(value)}; datetime.now(UTC) has one")


def check_text(name: str, value: object) -> None:
    """Check that `value` is text that UTF-8 can encode.

    Raises:
        TypeError: `value` is not a str.
        ValueError: `value` is empty or has lone surrogates, which UTF-8 cannot encode.
    """
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a str, not {without_secrets(value)}")
    if not value:
        raise ValueError(f"{name} must not be empty")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(
            f"{name} must not have lone surrogates, which UTF-8 cannot encode, unlike {without_secrets(value)}"
        ) from None


def numbers_of(arguments: Iterable[int | Iterable[int]]) -> list[int]:
    """Return the sequence numbers in `arguments`; an argument is one number or a list of numbers.

    Raises:
        TypeError: a sequence number is not an int.
        ValueError: a sequence number does not fit in 64 bits.
    """
    numbers: list[int] = []
    for each in arguments:
        numbers += [each] if isinstance(each, int | str) or not isinstance(each, Iterable) else each
    for number in numbers:
        if not isinstance(number, int):
            raise TypeError(
                f"a sequence number must be an int, such as delivery.sequence_number, not {without_secrets(number)}"
            )
        if not -1 << 63 <= number < 1 << 63:
            raise ValueError(f"a sequence number must fit in 64 bits, unlike {number}")
    return numbers


def partition_id(value: str | int) -> str:
    """Return `value`, the id of a partition or its number, as an id.

    Raises:
        TypeError: `value` is neither a str nor an int.
        ValueError: `value` is empty or negative.
    """
    rule = "partition must be an id such as '0', or its number, not"
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise TypeError(f"{rule} {without_secrets(value)}: hub.properties() lists all ids")
    if value == "" or (isinstance(value, int) and value < 0):
        raise ValueError(f"{rule} {value!r}: hub.properties() lists all ids")
    return str(value)
