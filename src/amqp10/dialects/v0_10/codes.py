"""Codes of 0-10 and the error conditions of AMQP 1.0 that mean the same."""

from __future__ import annotations

from typing import Any, Final

from ...messaging import Error, Rejected, Returned
from .._kit.reply_codes import CLOSE_CODES_0_10, CODES_0_10, reply_text, split_condition


class ErrorCode:
    """The codes of execution.error-code (0-10 §10.1), by the specification's names."""

    NOT_FOUND: Final = 404
    PRECONDITION_FAILED: Final = 406
    ILLEGAL_STATE: Final = 409
    COMMAND_INVALID: Final = 503
    RESOURCE_LIMIT_EXCEEDED: Final = 506
    NOT_ALLOWED: Final = 530
    ILLEGAL_ARGUMENT: Final = 531
    NOT_IMPLEMENTED: Final = 540
    INTERNAL_ERROR: Final = 541
    INVALID_ARGUMENT: Final = 542


# connection.close-code (0-10 §9.1)
NORMAL: Final = 200
CONNECTION_FORCED: Final = 320

# session.detach-code
UNKNOWN_IDS: Final = 4
DETACH_REASONS: Final = {
    1: ("amqp:resource-locked", "the session is attached elsewhere"),
    2: ("amqp:not-allowed", "the channel is in use by another session"),
    3: ("amqp:illegal-state", "the session is not attached"),
    UNKNOWN_IDS: ("amqp:session:unknown-ids", "the session's command ids are not known"),
}

# message.reject-code
UNSPECIFIED: Final = 0
UNROUTABLE: Final = 1
IMMEDIATE: Final = 2

# dtx.xa-status
XA_OK: Final = 0
XA_ROLLED_BACK: Final = 1
XA_TIMED_OUT: Final = 2
XA_READ_ONLY: Final = 7

INFINITE: Final = 0xFFFF_FFFF
"""The value of message.flow that grants any amount (0-10 §10.2 "flow")."""

SERVERS_REJECT: Final = "amqp:precondition-failed"
CLIENTS_REJECT: Final = "amqp:not-allowed"
"""The condition of a rejection whose text does not name one, by the side that rejects."""


class SessionFault(Exception):
    """The peer's command can not be done; that ends its session (0-10 §10.1 "exception")."""

    def __init__(self, code: int, description: str) -> None:
        super().__init__(description)
        self.code = code
        self.description = description


def condition(code: int) -> str:
    """Return the condition of AMQP 1.0 for the execution error `code`."""
    return CODES_0_10.conditions.get(code, "amqp:internal-error")


def outcome_of(code: int, text: str | None) -> Rejected | Returned:
    """Return the outcome of a message that the peer rejected with `code` and `text`."""
    info = {"reply-code": code}
    if code in (UNROUTABLE, IMMEDIATE):
        return Returned(Error("amqp:no-route" if code == UNROUTABLE else "amqp:no-consumers", text, info))
    return Rejected(error_from(text, SERVERS_REJECT, info))


def reject_text(error: Error | None, default: str) -> str:
    """Return the text of a message.reject for `error`: its description, after the condition unless that is `default`.

    Args:
        error: the reason; None gives an empty text.
        default: the condition that the reader assumes for a text that does not name one.
    """
    if error is None:
        return ""
    prefix = "" if error.condition == default else f"{error.condition}: "
    return reply_text(prefix + (error.description or ""))


def error_from(text: str | None, default: str, info: dict[Any, Any] | None = None) -> Error:
    """Read the text of a rejection, written by `reject_text` or another program, as an error."""
    name, description = split_condition(text or "")
    return Error(default, text, info) if name is None else Error(name, description or None, info)


def execution_code(error: Error) -> int:
    """Return the execution error code for the condition of `error`."""
    return CODES_0_10.by_condition.get(str(error.condition), ErrorCode.INTERNAL_ERROR)


def close_code(error: Error | None) -> int:
    """Return the code to close a connection with."""
    if error is None:
        return NORMAL
    return CLOSE_CODES_0_10.by_condition.get(str(error.condition), CONNECTION_FORCED)


def close_condition(code: int) -> str | None:
    """Return the condition for the code with which the peer closed the connection; None for a normal end."""
    return None if code == NORMAL else CLOSE_CODES_0_10.conditions.get(code, "amqp:internal-error")
