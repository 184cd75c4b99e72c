"""Codes of 0-10 and the error conditions of AMQP 1.0 that mean the same."""

from __future__ import annotations

from typing import Any, Final

from ...messaging import Error, Rejected, Returned

# session.execution-error-code (0-10 §11.2) -> condition (§2.8.15 ff.)
CONDITIONS: Final = {
    403: "amqp:unauthorized-access",
    404: "amqp:not-found",
    405: "amqp:resource-locked",
    406: "amqp:precondition-failed",
    408: "amqp:resource-deleted",
    409: "amqp:illegal-state",
    503: "amqp:decode-error",
    506: "amqp:resource-limit-exceeded",
    530: "amqp:not-allowed",
    531: "amqp:invalid-field",
    540: "amqp:not-implemented",
    541: "amqp:internal-error",
    542: "amqp:invalid-field",
}
CODES: Final = {condition: code for code, condition in reversed(CONDITIONS.items()) if code != 542} | {
    "amqp:link:message-size-exceeded": 506,
    "amqp:transaction:rollback": 409,
    "amqp:transaction:unknown-id": 404,
}
COMMAND_INVALID: Final = 503
ILLEGAL_ARGUMENT: Final = 531
BLANK_NAME: Final = 542  # "invalid-argument"
INTERNAL_ERROR: Final = 541

# connection.close-code (0-10 §11.1)
CLOSE_CONDITIONS: Final[dict[int, str | None]] = {
    200: None,
    320: "amqp:connection:forced",
    402: "amqp:not-found",
    501: "amqp:connection:framing-error",
}

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
    return CONDITIONS.get(code, "amqp:internal-error")


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
    return (prefix + (error.description or "")).encode()[:255].decode(errors="ignore")


def error_from(text: str | None, default: str, info: dict[Any, Any] | None = None) -> Error:
    """Read the text of a rejection, written by `reject_text` or another program, as an error."""
    name, colon, description = (text or "").partition(": ")
    if colon and name.startswith("amqp:") and " " not in name:
        return Error(name, description or None, info)
    return Error(default, text, info)


def execution_code(error: Error) -> int:
    """Return the execution error code for the condition of `error`."""
    return CODES.get(str(error.condition), INTERNAL_ERROR)


def close_code(error: Error | None) -> int:
    """Return the code to close a connection with."""
    if error is None:
        return 200
    if "framing" in error.condition or "decode" in error.condition:
        return 501
    return 402 if error.condition == "amqp:not-found" else 320
