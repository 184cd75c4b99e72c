"""Converts a message to a JSON object and back, with the specification's field names and AMQP types.

`{"body": ..., "subject": "s", "message_id": 7, "application_properties": {"n": 1}, "ttl": 1.5}`; a type that JSON lacks
is an object with one key that begins with a dollar sign: `{"$binary": "<base64>"}`, `{"$uuid": "…"}`,
`{"$timestamp": "<ISO 8601>"}`, `{"$symbol": "…"}`, `{"$decimal": "…"}`, `{"$map": [[key, value], …]}`,
`{"$described": [descriptor, value]}`, `{"$array": [type, […]]}`, `{"$uint": 5}`, and so on for `$char` and each numeric
type other than long and double.
"""

from __future__ import annotations

import base64
import json
import math
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from .._json import parse_json
from ..errors import EncodeError
from ..messaging import AmqpSequence, AmqpValue, Data, Message
from ..types import (
    Array,
    Byte,
    Char,
    Decimal32,
    Decimal64,
    Described,
    Float,
    Int,
    Map,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
)

FIELDS = (
    "durable",
    "priority",
    "ttl",
    "first_acquirer",
    "delivery_count",
    "delivery_annotations",
    "message_annotations",
    "message_id",
    "user_id",
    "to",
    "subject",
    "reply_to",
    "correlation_id",
    "content_type",
    "content_encoding",
    "absolute_expiry_time",
    "creation_time",
    "group_id",
    "group_sequence",
    "reply_to_group_id",
    "application_properties",
    "footer",
)
# Scalar types that differ from JSON's.
SCALARS: dict[type[Any], str] = {
    one: f"${one.__name__.lower()}" for one in (Byte, UByte, Short, UShort, Int, UInt, ULong, Timestamp, Float, Char)
}
DECIMALS: dict[type[Any], str] = {Decimal32: "$decimal32", Decimal64: "$decimal64", Decimal: "$decimal"}
READERS: dict[str, type[Any]] = {name: one for table in (SCALARS, DECIMALS) for one, name in table.items()}
_DEFAULTS = {"durable": False, "priority": 4, "first_acquirer": False, "delivery_count": 0}


def to_json(message: Message) -> str:
    """Return the message as one line of JSON, without fields that have their default value.

    Characters that could control or confuse a terminal are escaped, which does not change the JSON value.
    """
    form: dict[str, Any] = {}
    for name in FIELDS:
        value = getattr(message, name)
        if value is None or value == {} or value == _DEFAULTS.get(name):
            continue
        form[name] = plain(value)
    form["body"] = plain(message.body)
    text = json.dumps(form, ensure_ascii=False, allow_nan=False)
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else json.dumps(char)[1:-1] for char in text)


def from_json(line: str) -> Message:
    """Return the message described by a line of JSON.

    Raises:
        EncodeError: `line` is not JSON, not an object, or has an unknown field or a number without room in a double.
    """
    try:
        form = parse_json(line, finite=True)
        if isinstance(form, dict):
            form = {name: rich(value) for name, value in form.items()}
    except EncodeError:
        raise  # valid JSON, but not a valid AMQP value
    except ValueError as error:
        reason = f"{error.msg} at character {error.pos + 1}" if isinstance(error, json.JSONDecodeError) else str(error)
        raise EncodeError(f"not JSON: {reason}") from None
    except RecursionError:
        raise EncodeError("the JSON is nested too deeply") from None
    if not isinstance(form, dict):
        raise EncodeError("a message must be a JSON object with the fields of a message, 'body' among them")
    fields = form
    body = fields.pop("body", None)
    unknown = sorted(set(fields) - set(FIELDS))
    if unknown:
        raise EncodeError(
            f"a message has no field {unknown[0]!r}: an object has the fields of a message, its 'body' among them "
            "(lines that are themselves the bodies are sent by --lines --content-type application/json)"
        )
    if isinstance(fields.get("ttl"), int | float):
        try:
            fields["ttl"] = timedelta(seconds=fields["ttl"])
        except (ValueError, OverflowError):
            raise EncodeError(f"ttl: {fields['ttl']} seconds are not a valid time-to-live") from None
    for name in ("content_type", "content_encoding"):
        if isinstance(fields.get(name), str):
            fields[name] = Symbol(fields[name])
    return Message(body, **fields)


def plain(value: Any) -> Any:
    """Convert an AMQP value to JSON."""
    name = SCALARS.get(type(value))
    if name is not None and name != "$float":
        return {name: str(value) if name == "$char" else int(value)}
    match value:
        case None | bool():
            return value
        case Symbol():
            return {"$symbol": str(value)}
        case str():
            return str(value)
        case int():
            return int(value)
        case float():
            number = float(value) if math.isfinite(value) else repr(float(value))
            return {"$float": number} if name else number if math.isfinite(value) else {"$double": number}
        case bytes():
            return {"$binary": base64.b64encode(value).decode()}
        case UUID():
            return {"$uuid": str(value)}
        case datetime():
            return {"$timestamp": value.isoformat()}
        case timedelta():
            return value.total_seconds()
        case Decimal():
            return {DECIMALS.get(type(value), "$decimal"): str(value)}
        case Array() if not value.descriptors:
            return {"$array": [value.type, [plain(item) for item in value]]}
        case list() | tuple():
            return [plain(item) for item in value]
        case dict():
            if all(isinstance(key, str) and not key.startswith("$") for key in value):
                return {str(key): plain(item) for key, item in value.items()}
            return {"$map": [[plain(key), plain(item)] for key, item in value.items()]}
        case Map():
            return {"$map": [[plain(key), plain(item)] for key, item in value.pairs]}
        case Described():
            return {"$described": [plain(value.descriptor), plain(value.value)]}
        case AmqpValue():
            return {"$value": plain(value.value)}
        case Data():
            return {"$data": [base64.b64encode(part).decode() for part in value]}
        case AmqpSequence():
            return {"$sequence": [plain(list(part)) for part in value]}
        case _:
            return repr(value)


def rich(value: Any) -> Any:
    """Convert JSON back to AMQP values."""
    if isinstance(value, list):
        return [rich(item) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        ((key, inner),) = value.items()
        try:
            if key in READERS and not (key == "$timestamp" and isinstance(inner, str)):
                return READERS[key](float(inner) if key == "$float" else inner)
            match key:
                case "$symbol":
                    return Symbol(inner)
                case "$binary":
                    return base64.b64decode(inner, validate=True)
                case "$uuid":
                    return UUID(inner)
                case "$timestamp":
                    return datetime.fromisoformat(inner)
                case "$array":
                    return Array(inner[0], [rich(item) for item in inner[1]])
                case "$double":
                    return float(inner)
                case "$map":
                    return Map([(rich(k), rich(v)) for k, v in inner])
                case "$described":
                    return Described(rich(inner[0]), rich(inner[1]))
                case "$value":
                    return AmqpValue(rich(inner))
                case "$data":
                    return Data(*(base64.b64decode(part, validate=True) for part in inner))
                case "$sequence":
                    return AmqpSequence(*(rich(part) for part in inner))
        except (ValueError, TypeError, ArithmeticError, AttributeError, LookupError) as error:
            raise EncodeError(f"{key}: {error}") from None
    return {key: rich(item) for key, item in value.items()}
