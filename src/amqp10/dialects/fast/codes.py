"""Reply codes of three digits, and the error conditions that stand for them in AMQP 1.0's words.

    2xx done   3xx the application's concern   4xx may succeed later   5xx will not succeed by itself

The specification lists its codes in a document that is lost; they are those of the AMQP drafts of its time, and those
that its own text names (200, 310, 311, 540, 542). An error whose condition has no code of its own is said as 541, with
the condition before its text.
"""

from __future__ import annotations

from typing import Final

from ...errors import RemoteProtocolError
from ...messaging import Error
from ...types import Symbol

OK: Final = 200
MESSAGE_NOT_FOUND: Final = 310
TOO_LARGE: Final = 311
UNROUTABLE: Final = 312
CONNECTION_FORCED: Final = 320
REFUSED: Final = 403
INTERNAL: Final = 541
BAD_CONTENTS: Final = 542

_CODES: Final = {
    "amqp:link:message-size-exceeded": TOO_LARGE,
    "amqp:no-route": UNROUTABLE,
    "amqp:connection:forced": CONNECTION_FORCED,
    "amqp:unauthorized-access": REFUSED,
    "amqp:not-found": 404,
    "amqp:resource-locked": 405,
    "amqp:precondition-failed": 406,
    "amqp:resource-deleted": 408,
    "amqp:illegal-state": 409,
    "amqp:connection:framing-error": 501,
    "amqp:decode-error": 502,
    "amqp:resource-limit-exceeded": 506,
    "amqp:not-allowed": 530,
    "amqp:invalid-field": 531,
    "amqp:not-implemented": 540,
    "amqp:internal-error": INTERNAL,
}
_CONDITIONS: Final = {code: condition for condition, code in _CODES.items()} | {
    MESSAGE_NOT_FOUND: "amqp:not-found",
    BAD_CONTENTS: "amqp:invalid-field",
}


class BadContents(RemoteProtocolError):
    """A message that does not match its head or its hash; its reply code is 542."""

    def __init__(self, message: str, condition: str = "amqp:invalid-field") -> None:
        super().__init__(message, condition)


def code_of(error: Error | None) -> tuple[int, str]:
    """Return the reply code and the text for `error`; for None, an orderly end, return 200 and no text."""
    if error is None:
        return OK, ""
    code = _CODES.get(str(error.condition))
    text = error.description or ""
    if code is None:
        code, text = INTERNAL, f"{error.condition}: {text}"
    return code, short(text)


def short(text: str) -> str:
    """Return `text` as a short string can hold it: spaces for NUL characters, and at most 255 octets."""
    return text.replace("\0", " ").encode()[:255].decode(errors="ignore")


def error_of(code: int, text: str) -> Error | None:
    """Return the error for a reply code and its text, or None if the code reports success (2xx)."""
    if code // 100 == 2:
        return None
    condition, colon, rest = text.partition(": ")
    if code == INTERNAL and colon and ":" in condition and " " not in condition:
        return Error(Symbol(condition), rest or None, {Symbol("reply-code"): code})
    known = _CONDITIONS.get(code, "amqp:internal-error")
    return Error(Symbol(known), text or None, {Symbol("reply-code"): code})


def code_said(error: Error) -> int:
    """Return the reply code that came with `error`; 541 if the error has no reply code."""
    return int((error.info or {}).get(Symbol("reply-code"), INTERNAL))
