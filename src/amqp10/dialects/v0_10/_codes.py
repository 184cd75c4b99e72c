"""Codes of 0-10 and the error conditions of AMQP 1.0 that mean the same."""

from __future__ import annotations

from typing import Final

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
INTERNAL_ERROR: Final = 541

# connection.close-code (0-10 §11.1)
CLOSE_CONDITIONS: Final = {
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


def condition(code: int) -> str:
    """The condition of an execution error."""
    return CONDITIONS.get(code, "amqp:internal-error")


def outcome_of(code: int, text: str | None) -> Rejected | Returned:
    """What a message.reject says of a message that was sent."""
    info = {"reply-code": code}
    if code in (UNROUTABLE, IMMEDIATE):
        return Returned(Error("amqp:no-route" if code == UNROUTABLE else "amqp:no-consumers", text, info))
    said, colon, rest = (text or "").partition(": ")
    if colon and said.startswith("amqp:"):  # our own server's
        return Rejected(Error(said, rest or None, info))
    return Rejected(Error("amqp:precondition-failed", text, info))


def execution_code(error: Error) -> int:
    """The code of a condition."""
    return CODES.get(str(error.condition), INTERNAL_ERROR)


def close_code(error: Error | None) -> int:
    """The code with which a connection is closed."""
    if error is None:
        return 200
    if "framing" in error.condition or "decode" in error.condition:
        return 501
    return 402 if error.condition == "amqp:not-found" else 320
