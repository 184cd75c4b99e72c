"""`messaging/_filters/selectors.py`: values that go into a condition can be nothing but values."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from amqp10.messaging import Selector, SqlFilter, selector_literal


@pytest.mark.parametrize(
    ("value", "literal"),
    [
        ("eu", "'eu'"),
        ("it's", "'it''s'"),
        ("'' OR TRUE --", "''''' OR TRUE --'"),
        ("", "''"),
        (True, "TRUE"),
        (False, "FALSE"),
        (0, "0"),
        (-5, "(-5)"),
        (2**63 - 1, "9223372036854775807"),
        (-(2**63), "(-9223372036854775808)"),
        (1.5, "1.5"),
        (-0.25, "(-0.25)"),
        (1e300, "1.0E300"),
        (1.5e-9, "1.5E-9"),
        (datetime(2024, 2, 29, 12, 34, 56, 789000, tzinfo=UTC), "1709210096789"),
        (["a", "b'c"], "('a', 'b''c')"),
        (("a",), "('a')"),
    ],
)
def test_literals(value: Any, literal: str) -> None:
    """A value is written so that every parser reads that value back."""
    assert selector_literal(value) == literal


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (None, TypeError),
        (b"x", TypeError),
        (Decimal("1.5"), TypeError),
        ({"a": 1}, TypeError),
        (2**63, ValueError),
        (-(2**63) - 1, ValueError),
        (float("nan"), ValueError),
        (float("-inf"), ValueError),
        ([], ValueError),
        ([None], TypeError),
        (datetime(2024, 2, 29), ValueError),
    ],
)
def test_values_without_a_literal(value: Any, error: type[Exception]) -> None:
    """What a condition cannot say is refused, not guessed."""
    with pytest.raises(error):
        selector_literal(value)


@pytest.mark.parametrize("kind", [Selector, SqlFilter])
def test_parameters(kind: Any) -> None:
    """`:name` stands for a value, but not within quotes; one name can stand in several places."""
    bound = kind("a = :x AND b <> ':x' AND \":x\" IN :list OR c = :x", x="O'Neill", list=["u", "v"])
    assert bound.value == "a = 'O''Neill' AND b <> ':x' AND \":x\" IN ('u', 'v') OR c = 'O''Neill'"
    assert kind("name = :name", name="n").value == "name = 'n'"
    assert kind("a = 'it''s :x' AND b = :x", x=1).value == "a = 'it''s :x' AND b = 1"


def test_without_values_the_text_is_as_it_is() -> None:
    """Nobody's colons are touched who did not ask for it."""
    assert Selector("a = :x").value == "a = :x"


def test_names_and_values_must_fit() -> None:
    """A parameter without a value and a value without a parameter are both mistakes."""
    with pytest.raises(ValueError, match=":y was given no value"):
        Selector("a = :x AND b = :y", x=1)
    with pytest.raises(ValueError, match="does not use :y"):
        Selector("a = :x", x=1, y=2)
    with pytest.raises(ValueError, match="does not use :x"):
        Selector("a = ':x'", x=1)


def test_what_a_parameter_says_is_no_parameter() -> None:
    """A value is not searched for parameters: what came from outside cannot ask for another value."""
    assert Selector("a = :x AND b = :y", x=":y", y="secret").value == "a = ':y' AND b = 'secret'"
