"""What the texts of options mean. Spark hands all values over as strings."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, get_args

from ..engine import dialect_names
from ..net import parse_url


def choice(kind: Any) -> Callable[[str], str]:
    choices = get_args(kind)

    def parse(text: str) -> str:
        if text.lower() not in choices:
            raise ValueError(f"one of {', '.join(choices)} is wanted, not {text!r}")
        return text.lower()

    return parse


def boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(f"true or false is wanted, not {text!r}")
    return text.lower() == "true"


def at_least(least: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if number < least:
            raise ValueError(f"a whole number from {least} is wanted, not {text!r}")
        return number

    return parse


def seconds(text: str) -> float:
    try:
        number = float(text.strip().removesuffix("s"))
    except ValueError:
        number = -1.0
    if not 0 < number < 1e9:
        raise ValueError(f"a number of seconds is wanted, such as 60 or 60s, not {text!r}")
    return number


def urls(text: str) -> tuple[str, ...]:
    found = tuple(each.strip() for each in text.split(",") if each.strip())
    if not found:
        raise ValueError("a URL is wanted, amqp://host:port")
    for url in found:
        parse_url(url)  # whose errors never quote a password
    return found


def directory(text: str) -> str:
    path = text.removeprefix("file://") if text.startswith("file:///") else text.removeprefix("file:")
    if "://" in path or not path.startswith("/"):
        raise ValueError(
            f"an absolute path of a directory that the driver and all executors see is wanted, not {text!r}; "
            "object stores cannot create a file only if it is not there"
        )
    return path.rstrip("/") or "/"


def dialect_name(text: str) -> str:
    names = (*dialect_names(), "auto")
    if text not in names:
        raise ValueError(f"one of {', '.join(names)} is wanted, not {text!r}")
    return text


def json_strings(text: str) -> tuple[str, ...]:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise ValueError('a JSON array of strings is wanted, such as ["queue"]')
    return tuple(value)


def json_object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise ValueError("a JSON object is wanted")
    return value


def offsets(text: str) -> str | dict[str, int | str]:
    """`earliest`, `latest`, or a JSON object: partition to offset, or to one of these words."""
    if text.lower() in ("earliest", "latest"):
        return text.lower()
    wanted = ValueError(
        'earliest, latest, or a JSON object of partitions and offsets is wanted, such as {"orders": 17}'
    )
    try:
        value = json_object(text)
    except ValueError:
        raise wanted from None
    for each in value.values():
        if isinstance(each, bool) or not (each in ("earliest", "latest") or (isinstance(each, int) and each >= 0)):
            raise wanted
    return value


def ending_offsets(text: str) -> str | dict[str, int | str]:
    """The same but for `earliest`, where nothing ends."""
    found = offsets(text)
    if found == "earliest" or (isinstance(found, dict) and "earliest" in found.values()):
        raise ValueError("latest, or a JSON object of partitions and offsets is wanted: nothing ends at the earliest")
    return found


def moment(text: str) -> datetime:
    """Milliseconds since 1970, as Kafka's option has them, or ISO 8601."""
    try:
        if text.isdecimal():
            return datetime.fromtimestamp(int(text) / 1000, UTC)
        found = datetime.fromisoformat(text)
    except (ValueError, OverflowError, OSError):
        found = None
    if found is None or found.tzinfo is None:
        raise ValueError(
            "milliseconds since 1970 are wanted, or a moment with its time zone such as 2026-01-31T06:00:00Z, "
            f"not {text!r}"
        )
    return found


def nonempty(text: str) -> str:
    if not text:
        raise ValueError("it is empty")
    return text
