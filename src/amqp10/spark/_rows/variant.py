"""VARIANT columns: values that keep their types. Spark stores each as two binaries, value and metadata."""

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
    """Return whether a column of this Arrow type is a VARIANT; no other column is a struct."""
    return bool(pa.types.is_struct(kind))


def variant_from_json(spelled: str) -> dict[str, bytes]:
    """Return the variant of a JSON text, as the struct that Arrow wants.

    Raises:
        DecodeError: the text is not JSON, or larger than a variant can be.
    """
    try:
        value, metadata = VariantUtils.parse_json(spelled)
    except Exception as error:  # Spark has a class of its own for one that is too large
        raise DecodeError(f"the body cannot be a VARIANT: {error}") from None
    return {"value": value, "metadata": metadata}


def variant_to_amqp(parts: dict[str, bytes]) -> Any:
    """Return the value of a variant, as None, bool, int, float, str, bytes, datetime, list or dict.

    Raises:
        ValueError: lists and dicts are nested too deeply.
    """
    try:
        return _amqp(VariantUtils.to_python(parts["value"], parts["metadata"]))
    except RecursionError:
        raise ValueError("the VARIANT is nested too deeply") from None


def _amqp(value: Any) -> Any:
    match value:
        case Decimal():
            # A number of JSON: with a point it was a double. Brokers do not support AMQP decimals.
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
    """A column of maps as variants, filled with NULL up to the row of the next map, as the other columns are."""

    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values: list[dict[str, bytes] | None] = []

    def put(self, row: int, entries: dict[Any, Any]) -> None:
        self._values.extend([None] * (row - len(self._values)))
        self._values.append(variant_from_json(to_json(entries)))

    def array(self, rows: int, kind: pa.DataType) -> pa.Array:
        self._values.extend([None] * (rows - len(self._values)))
        return pa.array(self._values, kind)
