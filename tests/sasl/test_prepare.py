"""SASLprep, by the examples of RFC 4013."""

from __future__ import annotations

import pytest

from amqp10.sasl import prepare
from amqp10.sasl._prepare import MAX_CHARACTERS, encode


@pytest.mark.parametrize(
    ("text", "prepared"),
    [
        ("I\u00adX", "IX"),
        ("user", "user"),
        ("USER", "USER"),
        ("\u00aa", "a"),
        ("\u2168", "IX"),
        ("pass word", "pass word"),
        ("a\u00a0b", "a b"),
        ("\u00fcber", "\u00fcber"),
        ("u\u0308ber", "\u00fcber"),
        ("\u0627\u0644", "\u0627\u0644"),
        ("\U0001f600", "\U0001f600"),  # unknown to Unicode 3.2: a query lets it through
        ("", ""),
    ],
)
def test_forms(text: str, prepared: str) -> None:
    """The examples of RFC 4013 section 3, spaces, compositions, and characters newer than its Unicode."""
    assert prepare(text) == prepared


@pytest.mark.parametrize("text", ["\u0007", "\u0627\u0031", "a\u0627", "\ud800", "\ue000", "\u2028", "\ufffc", "a\x00"])
def test_prohibited(text: str) -> None:
    """Control characters, surrogates, private use, and mixed directions are refused."""
    with pytest.raises(ValueError, match="user name or password"):
        prepare(text)


def test_too_long() -> None:
    """Accents without end are refused before they are put in order; ASCII of any length is a token, and passes."""
    accents = "\u0301\u0316" * (MAX_CHARACTERS // 2)
    assert len(prepare(accents)) == MAX_CHARACTERS
    with pytest.raises(ValueError, match="at most 1024 characters, not 1025"):
        prepare(accents + "a")
    assert prepare("t" * 65_536) == "t" * 65_536


@pytest.mark.parametrize("secret", ["hunter\x002", "hunter\ud8002"])
def test_nothing_is_quoted(secret: str) -> None:
    """Neither refusal keeps the text: not in its words, not in its arguments, not in a cause."""
    for refuse in (prepare, encode):
        with pytest.raises(ValueError, match="a ") as caught:
            refuse(secret)
        error: BaseException | None = caught.value
        while error is not None:
            assert "hunter" not in repr(error)
            assert "hunter" not in repr(vars(error))
            error = error.__cause__ or error.__context__
