"""AMQP values as text, and back where that is possible: for columns of strings, and bodies as JSON."""

from __future__ import annotations

import base64
import json
import math
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from ...types import Described, Map, Symbol, Timestamp


def to_text(value: Any) -> str | None:
    """Return the text of a map's value: strings unchanged, other values as in JSON, without quotes."""
    if isinstance(value, str):
        return str(value)
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool):
        return int.__repr__(value)
    plain = _plain(value)
    return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)


def to_json(value: Any) -> str:
    """Return a value as JSON. Types that JSON lacks become strings: binary in base64, timestamps in ISO 8601."""
    return json.dumps(_plain(value), ensure_ascii=False)


def _plain(value: Any) -> Any:
    match value:
        case None | bool():
            return value
        case str():
            return str(value)
        case Timestamp():
            return int(value)
        case int():
            return int(value)
        case float():
            return float(value) if math.isfinite(value) else repr(float(value))
        case bytes():
            return base64.b64encode(value).decode()
        case datetime():
            return value.astimezone(UTC).isoformat()
        case dict():
            return {_key(key): _plain(item) for key, item in value.items()}
        case Map():
            return {_key(key): _plain(item) for key, item in value.pairs}
        case Described():
            return _plain(value.value)
        case UUID():
            return str(value)
        case _ if hasattr(value, "__iter__"):
            return [_plain(item) for item in value]
        case _:
            return str(value)


def _key(key: Any) -> str:
    return to_text(key) or ""


# Message-ids as JMS over AMQP spells them, so that they are the same when they are written again.
def id_text(value: int | UUID | bytes | str | None) -> str | None:
    """Return a message-id as text: a string unchanged unless it begins like another type, others after their type."""
    if value is None:
        return None
    if isinstance(value, str):
        return f"AMQP_STRING:{value}" if value.startswith("AMQP_") else str(value)
    if isinstance(value, UUID):
        return f"AMQP_UUID:{value}"
    if isinstance(value, bytes):
        return f"AMQP_BINARY:{value.hex().upper()}"
    return f"AMQP_ULONG:{int(value)}"


def id_value(spelled: str) -> int | UUID | bytes | str:
    """Return the message-id that `id_text` turned into this text.

    Raises:
        ValueError: the text after the type is not a value of that type.
    """
    if not spelled.startswith("AMQP_"):
        return spelled
    kind, _, rest = spelled.partition(":")
    match kind:
        case "AMQP_STRING":
            return rest
        case "AMQP_UUID":
            return UUID(rest)
        case "AMQP_BINARY":
            return bytes.fromhex(rest)
        case "AMQP_ULONG":
            return int(rest)
        case _:
            return spelled


def symbol(value: str | None) -> Symbol | None:
    """Return the symbol of a text, or None for None."""
    return None if value is None else Symbol(value)
