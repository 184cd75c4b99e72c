"""Parsers of option values. Spark passes them all as strings."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, get_args

from .._json import parse_json
from ..engine import dialect_names
from ..net import parse_url


def choice(kind: Any) -> Callable[[str], str]:
    choices = get_args(kind)

    def parse(text: str) -> str:
        if text.lower() not in choices:
            raise ValueError(f"must be one of {', '.join(choices)}, not {text!r}")
        return text.lower()

    return parse


def boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(f"must be true or false, not {text!r}")
    return text.lower() == "true"


def at_least(least: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if number < least:
            raise ValueError(f"must be a whole number, {least} or more, not {text!r}")
        return number

    return parse


def seconds(text: str) -> float:
    try:
        number = float(text.strip().removesuffix("s"))
    except ValueError:
        number = -1.0
    if not 0 < number < 1e9:
        raise ValueError(f"must be a number of seconds, such as 60 or 60s, not {text!r}")
    return number


def function_name(text: str) -> str:
    module, colon, name = text.partition(":")
    if not (colon and all(each.isidentifier() for each in (*module.split("."), *name.split(".")))):
        raise ValueError(f"must be MODULE:FUNCTION, such as shop.telemetry:begin, not {text!r}")
    return text


def urls(text: str) -> tuple[str, ...]:
    found = tuple(each.strip() for each in text.split(",") if each.strip())
    if not found:
        raise ValueError("must be a URL such as amqp://host:port, or several with commas between them")
    for url in found:
        parse_url(url)  # whose errors never quote a password
    return found


def directory(text: str) -> str:
    path = text.removeprefix("file://") if text.startswith("file:///") else text.removeprefix("file:")
    if "://" in path or not path.startswith("/"):
        raise ValueError(
            f"must be the absolute path of a directory that the driver and all executors see, not {text!r}; "
            "object stores do not work: they cannot create a file only if it does not exist"
        )
    return path.rstrip("/") or "/"


def dialect_name(text: str) -> str:
    names = (*dialect_names(), "auto")
    if text not in names:
        raise ValueError(f"must be one of {', '.join(names)}, not {text!r}")
    return text


def json_strings(text: str) -> tuple[str, ...]:
    try:
        value = parse_json(text)
    except ValueError as error:
        raise ValueError(f'must be a JSON array of strings, such as ["queue"]: {error}, in {text!r:.80}') from None
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise ValueError(f'must be a JSON array of strings, such as ["queue"], not {text!r:.80}')
    return tuple(value)


def json_object(text: str) -> dict[str, Any]:
    try:
        value = parse_json(text)
    except ValueError as error:
        raise ValueError(f"must be a JSON object: {error}, in {text!r:.80}") from None
    if not isinstance(value, dict):
        raise ValueError(f"must be a JSON object, not {text!r:.80}")
    return value


def offsets(text: str) -> str | dict[str, int | str]:
    """Parse `earliest`, `latest`, or a JSON object from partition to offset or one of these words."""
    if text.lower() in ("earliest", "latest"):
        return text.lower()
    wanted = ValueError(
        f'must be earliest, latest, or a JSON object of partitions and offsets such as {{"orders": 17}}, not {text!r}'
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
    """Parse offsets, except `earliest`: no read can end there."""
    found = offsets(text)
    if found == "earliest" or (isinstance(found, dict) and "earliest" in found.values()):
        raise ValueError(
            f"must be latest, or a JSON object of partitions and offsets, not {text!r}: no read can end at the earliest"
        )
    return found


def moment(text: str) -> datetime:
    """Parse milliseconds since 1970, as in Kafka's option, or ISO 8601."""
    try:
        if text.isdecimal():
            return datetime.fromtimestamp(int(text) / 1000, UTC)
        found = datetime.fromisoformat(text)
    except (ValueError, OverflowError, OSError):
        found = None
    if found is None or found.tzinfo is None:
        raise ValueError(
            f"must be milliseconds since 1970, or a time with its zone such as 2026-01-31T06:00:00Z, not {text!r}"
        )
    return found


def nonempty(text: str) -> str:
    if not text:
        raise ValueError("must not be empty")
    return text
