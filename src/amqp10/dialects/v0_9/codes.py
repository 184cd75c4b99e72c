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
"""In place of a reply code for octets that are not a frame: nothing more is sent then, not even a close (§4.2.3)."""
# The codes with which a channel may be closed; the others close the connection.
SOFT: Final = frozenset((310, 311, 312, 313, 403, 404, 405, 406))


class Fault(RemoteProtocolError):
    """The peer broke a rule, which ends the connection, or only the channel if `soft`.

    `code` is the reply code for the peer. With `NO_FRAME` the peer is told nothing, and the transport ends.
    """

    def __init__(self, code: int, text: str, method: tuple[int, int] = (0, 0), *, soft: bool = False) -> None:
        super().__init__(text, condition_of(code))
        self.code = code
        self.method = method
        self.soft = soft

    def plain(self) -> RemoteProtocolError:
        """Return it as the owner is told: reply codes are between the two peers."""
        return RemoteProtocolError(str(self), self.condition)

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), soft=self.soft), (self.code, str(self), self.method)


def condition_of(code: int) -> str:
    """Return the condition that a reply code stands for."""
    if code == NO_FRAME:
        return "amqp:connection:framing-error"
    return REPLY_CODES[code][1] if code in REPLY_CODES else f"amqp:reply-{code}"


def code_of(condition: str | None, default: int = 541) -> int:
    """Return the reply code for a condition; `default` if no code stands for it."""
    return _BY_CONDITION.get(str(condition), default)


def text_of(error: Error, code: int = 0) -> str:
    """Return the reply text of an error, at most 255 octets. `code`: a finer code than that of the condition."""
    code = code or code_of(error.condition)
    name = REPLY_CODES[code][0] if code in REPLY_CODES else f"REPLY_{code}"
    text = f"{name} - {error.description}" if error.description else name
    return text.encode()[:255].decode(errors="ignore")


def as_error(code: int, text: str, class_id: int = 0, method_id: int = 0) -> Error:
    """Return a peer's reply code and text as an error of AMQP 1.0, with the code itself in its info."""
    info = {Symbol("reply-code"): code}
    if class_id or method_id:
        info |= {Symbol("class-id"): class_id, Symbol("method-id"): method_id}
    return Error(condition_of(code), text or None, info)


def as_exception(kind: type[EndpointError], error: Error) -> AmqpError:
    """Return `error` as an exception of the type `kind`."""
    return kind(error.condition, error.description, error.info)


def text_of_fault(fault: Fault) -> str:
    """Return the reply text for a fault of the peer."""
    return text_of(Error(fault.condition, str(fault)))


def unknown_method(payload: bytes) -> Fault:
    """Return the fault for a method that the dialect does not have, or that nobody implements."""
    code = int.from_bytes(payload[:2], "big"), int.from_bytes(payload[2:4], "big")
    return Fault(540, f"there is no method {code[1]} of class {code[0]}", code)
