"""Reply codes, and the error conditions that stand for them (0-9-1 §1.3)."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from ...errors import AmqpError, EndpointError, RemoteProtocolError
from ...messaging import Error
from ...types import Symbol

# code: (its name, the condition of AMQP 1.0 that says the same)
REPLY_CODES: Final = {
    200: ("REPLY_SUCCESS", "amqp:reply-success"),
    310: ("NOT_DELIVERED", "amqp:not-delivered"),
    311: ("CONTENT_TOO_LARGE", "amqp:link:message-size-exceeded"),
    312: ("NO_ROUTE", "amqp:no-route"),
    313: ("NO_CONSUMERS", "amqp:no-consumers"),
    320: ("CONNECTION_FORCED", "amqp:connection:forced"),
    402: ("INVALID_PATH", "amqp:invalid-path"),
    403: ("ACCESS_REFUSED", "amqp:unauthorized-access"),
    404: ("NOT_FOUND", "amqp:not-found"),
    405: ("RESOURCE_LOCKED", "amqp:resource-locked"),
    406: ("PRECONDITION_FAILED", "amqp:precondition-failed"),
    501: ("FRAME_ERROR", "amqp:connection:framing-error"),
    502: ("SYNTAX_ERROR", "amqp:decode-error"),
    503: ("COMMAND_INVALID", "amqp:illegal-state"),
    504: ("CHANNEL_ERROR", "amqp:channel-error"),
    505: ("UNEXPECTED_FRAME", "amqp:unexpected-frame"),
    506: ("RESOURCE_ERROR", "amqp:resource-limit-exceeded"),
    530: ("NOT_ALLOWED", "amqp:not-allowed"),
    531: ("INVALID_ARGUMENT", "amqp:invalid-field"),
    540: ("NOT_IMPLEMENTED", "amqp:not-implemented"),
    541: ("INTERNAL_ERROR", "amqp:internal-error"),
    542: ("INVALID_ARGUMENT", "amqp:invalid-field"),
}
_BY_CONDITION: Final = {condition: code for code, (_, condition) in REPLY_CODES.items()} | {
    "amqp:resource-deleted": 404,
    "amqp:invalid-field": 406,
    "amqp:frame-size-too-small": 501,
    "amqp:link:transfer-limit-exceeded": 506,
    "amqp:link:detach-forced": 320,
    "amqp:link:stolen": 405,
}
NO_FRAME: Final = 0
"""Stands for what is no frame at all: nothing more is sent then, no reply code either (§4.2.3)."""
# The codes with which a channel may be closed; the others close the connection.
SOFT: Final = frozenset((310, 311, 312, 313, 403, 404, 405, 406))


class Fault(RemoteProtocolError):
    """The peer broke a rule whose price is the connection, or the channel if `soft`.

    `code` is what it is told; `NO_FRAME`: nothing, the transport ends without a word.
    """

    def __init__(self, code: int, text: str, method: tuple[int, int] = (0, 0), *, soft: bool = False) -> None:
        super().__init__(text, condition_of(code))
        self.code = code
        self.method = method
        self.soft = soft

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), soft=self.soft), (self.code, str(self), self.method)


def condition_of(code: int) -> str:
    """The condition that a reply code stands for."""
    if code == NO_FRAME:
        return "amqp:connection:framing-error"
    return REPLY_CODES[code][1] if code in REPLY_CODES else f"amqp:reply-{code}"


def code_of(condition: str | None, default: int = 541) -> int:
    """The reply code that says a condition."""
    return _BY_CONDITION.get(str(condition), default)


def text_of(error: Error, code: int = 0) -> str:
    """The reply text of an error, at most 255 octets; `code` where it is a finer one than the condition's."""
    code = code or code_of(error.condition)
    name = REPLY_CODES[code][0] if code in REPLY_CODES else f"REPLY_{code}"
    text = f"{name} - {error.description}" if error.description else name
    return text.encode()[:255].decode(errors="ignore")


def as_error(code: int, text: str, class_id: int = 0, method_id: int = 0) -> Error:
    """What a peer says with a reply code, as an error of AMQP 1.0; the code itself is in its info."""
    info = {Symbol("reply-code"): code}
    if class_id or method_id:
        info |= {Symbol("class-id"): class_id, Symbol("method-id"): method_id}
    return Error(condition_of(code), text or None, info)


def as_exception(kind: type[EndpointError], error: Error) -> AmqpError:
    """The same, to be raised."""
    return kind(error.condition, error.description, error.info)
