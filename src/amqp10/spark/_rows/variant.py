"""VARIANT columns: values with their types, which strings lose. Spark has them as two binaries, value and metadata."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyspark.sql.variant_utils import VariantUtils

from ...errors import DecodeError
from ...types import ULong
from .text import to_json


def is_variant(kind: pa.DataType) -> bool:
    """Whether a column of this Arrow type is one; no other column is a struct."""
    return bool(pa.types.is_struct(kind))


def variant_from_json(spelled: str) -> dict[str, bytes]:
    """The variant of a JSON text, as Arrow takes it.

    Raises:
        DecodeError: it is not JSON.
    """
    try:
        value, metadata = VariantUtils.parse_json(spelled)
    except Exception as error:  # of Spark's own class if it is too large
        raise DecodeError(f"the body is no JSON that a VARIANT can have: {error}") from None
    return {"value": value, "metadata": metadata}


def variant_to_amqp(parts: dict[str, bytes]) -> Any:
    """What a variant stands for: None, bool, int, float, str, bytes, datetime, list or dict."""
    return _amqp(VariantUtils.to_python(parts["value"], parts["metadata"]))


def _amqp(value: Any) -> Any:
    match value:
        case Decimal():
            # JSON's numbers: one with a point was a double. Brokers have no decimals.
            return ULong(value) if value.as_tuple().exponent == 0 and 0 <= value < 2**64 else float(value)
        case datetime():
            return value if value.tzinfo is not None else value.isoformat()
        case date():
            return value.isoformat()
        case list():
            return [_amqp(each) for each in value]
        case dict():
            return {key: _amqp(each) for key, each in value.items()}
        case _:
            return value


class Variants:
    """A column of maps as variants, filled up as the others are."""

    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values: list[dict[str, bytes] | None] = []

    def put(self, row: int, entries: dict[Any, Any]) -> None:
        self._values.extend([None] * (row - len(self._values)))
        self._values.append(variant_from_json(to_json(entries)))

    def array(self, rows: int, kind: pa.DataType) -> pa.Array:
        self._values.extend([None] * (rows - len(self._values)))
        return pa.array(self._values, kind)
