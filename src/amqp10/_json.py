"""JSON from outside: files, options, lines, tokens and bodies of messages."""

from __future__ import annotations

import json
from typing import Any


def parse_json(text: str | bytes) -> Any:
    """Return the value of a JSON text. Use it in place of `json.loads`, which raises RecursionError for deep nesting.

    Raises:
        ValueError: `text` is not JSON (a JSONDecodeError), or it is nested too deeply.
    """
    try:
        return json.loads(text)  # noqa: TID251
    except RecursionError:
        raise ValueError("nested too deeply") from None
