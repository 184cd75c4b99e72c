"""Reply codes and conditions: the table of `dialects.md`, both ways."""

from __future__ import annotations

import pytest

from amqp10.dialects.fast.codes import code_of, error_of, reply_code_of
from amqp10.messaging import Error
from amqp10.types import Symbol

BOTH_WAYS = {
    311: "amqp:link:message-size-exceeded",
    312: "amqp:no-route",
    320: "amqp:connection:forced",
    403: "amqp:unauthorized-access",
    404: "amqp:not-found",
    405: "amqp:resource-locked",
    406: "amqp:precondition-failed",
    408: "amqp:resource-deleted",
    409: "amqp:illegal-state",
    501: "amqp:connection:framing-error",
    502: "amqp:decode-error",
    506: "amqp:resource-limit-exceeded",
    530: "amqp:not-allowed",
    531: "amqp:invalid-field",
    540: "amqp:not-implemented",
    541: "amqp:internal-error",
}


@pytest.mark.parametrize("code", BOTH_WAYS)
def test_both_ways(code: int) -> None:
    """Each end understands what the other sends."""
    said = Error(Symbol(BOTH_WAYS[code]), "why")
    assert code_of(said) == (code, "why")
    heard = error_of(code, "why")
    assert heard == Error(said.condition, "why", {"reply-code": code})
    assert reply_code_of(heard) == code


@pytest.mark.parametrize(
    ("code", "condition"), [(310, "amqp:not-found"), (542, "amqp:invalid-field"), (599, "amqp:internal-error")]
)
def test_heard_only(code: int, condition: str) -> None:
    """Codes that share a condition with another, and one that nobody knows."""
    assert error_of(code, "") == Error(Symbol(condition), None, {"reply-code": code})


@pytest.mark.parametrize("code", [200, 299])
def test_done(code: int) -> None:
    """All of 2xx is no error, and no error is 200."""
    assert error_of(code, "OK") is None
    assert code_of(None) == (200, "")


def test_a_condition_without_a_code() -> None:
    """Is said before the text of a 541, and comes out as it was; a text that only looks so stays one."""
    said = Error(Symbol("amqp:transaction:rollback"), "no: it failed")
    assert code_of(said) == (541, "amqp:transaction:rollback: no: it failed")
    assert error_of(*code_of(said)) == Error(said.condition, said.description, {"reply-code": 541})
    for text in ("no: it failed", "one two:three: it failed"):
        assert error_of(541, text) == Error(Symbol("amqp:internal-error"), text, {"reply-code": 541})


def test_a_text_too_long() -> None:
    """Is cut where a character ends, and has no NUL, which short strings may not have."""
    code, text = code_of(Error(Symbol("amqp:not-found"), "\0" + "é" * 200))
    assert (code, text) == (404, " " + "é" * 127)
