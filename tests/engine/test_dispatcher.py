"""A class's table of handlers: its own rows, those of its bases, and what a subclass overrides."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from amqp10.engine import Dispatcher, Handlers


class Base(Dispatcher):
    handlers: ClassVar[Handlers] = {int: "take_number", str: "take_text"}

    def take_number(self, number: int) -> Any:
        return "number", number

    def take_text(self, text: str) -> Any:
        return "text", text


class Derived(Base):
    handlers: ClassVar[Handlers] = {bytes: "take_octets", str: "take_octets"}

    def take_number(self, number: int) -> Any:
        return "own number", number

    def take_octets(self, octets: Any) -> Any:
        return "octets", octets


@pytest.mark.parametrize(
    ("made", "value", "taken"),
    [
        (Base(), 1, "number"),
        (Base(), "a", "text"),
        (Derived(), 1, "own number"),
        (Derived(), "a", "octets"),
        (Derived(), b"a", "octets"),
    ],
)
def test_table(made: Base, value: Any, taken: str) -> None:
    """A row of a subclass counts before the base's, and a row of the base calls the method of the subclass."""
    assert made.by_type[type(value)](made, value) == (taken, value)


def test_only_what_is_in_the_table() -> None:
    """The base does not get the rows of its subclass."""
    assert set(Base.by_type) == {int, str}


def test_unknown_name() -> None:
    """A row that names no method is an error when the class is made, not when something is received."""
    with pytest.raises(AttributeError, match="take_nothing"):
        type("Wrong", (Base,), {"handlers": {float: "take_nothing"}})
