"""JSON from outside: files, options, lines, tokens and bodies of messages."""

from __future__ import annotations

import json
import math
from typing import Any


def parse_json(text: str | bytes, *, finite: bool = False) -> Any:
    """Return the value of a JSON text. Use it in place of `json.loads`, which raises RecursionError for deep nesting.

    A byte order mark before the text, which some editors write, is ignored (RFC 8259 section 8.1).

    Args:
        finite: refuse NaN and Infinity, which Python takes and JSON lacks, and numbers that a float has no room for.

    Raises:
        ValueError: `text` is not JSON (a JSONDecodeError), or it is nested too deeply.
    """
    if isinstance(text, str):
        text = text.removeprefix("\ufeff")
    try:
        if finite:
            return json.loads(text, parse_float=_finite, parse_constant=_finite)  # noqa: TID251
        return json.loads(text)  # noqa: TID251
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text:.40} is no number of JSON that a double can hold")
    return number
