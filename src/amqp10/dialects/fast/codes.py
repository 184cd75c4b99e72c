"""Reply codes of three digits, and the error conditions that stand for them in AMQP 1.0's words.

    2xx done   3xx the application's concern   4xx may succeed later   5xx will not succeed by itself

`_kit.reply_codes` has the table. An error whose condition has no code of its own is sent as 541, with the condition
before its text.
"""

from __future__ import annotations

from typing import Final

from ...errors import RemoteProtocolError
from ...messaging import Error
from ...types import Symbol
from .._kit.reply_codes import CODES_FAST, reply_text, split_condition

OK: Final = 200
MESSAGE_NOT_FOUND: Final = 310
UNROUTABLE: Final = 312
REFUSED: Final = 403
INTERNAL: Final = 541
BAD_CONTENTS: Final = 542


class BadContents(RemoteProtocolError):
    """A message that does not match its head or its hash; its reply code is 542."""

    def __init__(self, message: str, condition: str = "amqp:invalid-field") -> None:
        super().__init__(message, condition)


def code_of(error: Error | None) -> tuple[int, str]:
    """Return the reply code and the text for `error`; for None, an orderly end, return 200 and no text."""
    if error is None:
        return OK, ""
    code = CODES_FAST.by_condition.get(str(error.condition))
    text = error.description or ""
    if code is None:
        code, text = INTERNAL, f"{error.condition}: {text}"
    return code, short(text)


def short(text: str) -> str:
    """Return `text` as a short string can hold it: spaces for NUL characters, and at most 255 octets."""
    return reply_text(text.replace("\0", " "))


def error_of(code: int, text: str) -> Error | None:
    """Return the error for a reply code and its text, or None if the code reports success (2xx)."""
    if code // 100 == 2:
        return None
    condition, rest = split_condition(text)
    if code == INTERNAL and condition is not None:
        return Error(Symbol(condition), rest or None, {Symbol("reply-code"): code})
    known = CODES_FAST.conditions.get(code, "amqp:internal-error")
    return Error(Symbol(known), text or None, {Symbol("reply-code"): code})


def reply_code_of(error: Error) -> int:
    """Return the reply code that came with `error`; 541 if the error has no reply code."""
    return int((error.info or {}).get(Symbol("reply-code"), INTERNAL))
