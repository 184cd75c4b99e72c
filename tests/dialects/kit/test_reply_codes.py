"""The table of reply codes has the codes of the specifications, and tells what to write and how to read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from amqp10.dialects._kit.reply_codes import (
    CLOSE_CODES_0_10,
    CODES_0_9,
    CODES_0_10,
    CODES_FAST,
    TEXTS_0_9,
    ReplyCodes,
    reply_text,
    split_condition,
)

SPECIFICATION: dict[str, Any] = json.loads((Path(__file__).parents[1] / "v0_10" / "specification.json").read_text())
ENUMS: dict[str, dict[str, int]] = {each["name"]: each.get("enum", {}) for each in SPECIFICATION["domains"]}


@pytest.mark.parametrize(
    ("column", "domain"),
    [(CODES_0_10, "execution.error-code"), (CLOSE_CODES_0_10, "connection.close-code")],
    ids=["session", "connection"],
)
def test_codes_of_0_10(column: ReplyCodes, domain: str) -> None:
    """0-10 has exactly the codes of its specification, less the normal end."""
    assert set(column.conditions) == set(ENUMS[domain].values()) - {200}
    assert set(column.by_condition.values()) <= set(column.conditions)


@pytest.mark.parametrize("column", [CODES_0_9, CODES_FAST], ids=["0-9", "fast"])
def test_names_shared(column: ReplyCodes) -> None:
    """A condition that 0-10 has under its own name has the same code elsewhere, and is read back as itself."""
    names = {f"amqp:{name}": code for name, code in ENUMS["execution.error-code"].items()}
    shared = (
        {"amqp:illegal-state", "amqp:resource-deleted"} & set(column.by_condition) if column is CODES_0_9 else set()
    )
    for condition, code in names.items():
        if condition in column.by_condition and condition not in shared:
            assert column.by_condition[condition] == code
            assert column.conditions[code] == condition


def test_first_row() -> None:
    """A code that several rows have is read as the condition of the first, and the first code of a cell is written."""
    assert (CODES_0_9.by_condition["amqp:link:stolen"], CODES_0_9.conditions[405]) == (405, "amqp:resource-locked")
    assert [CODES_0_9.conditions[code] for code in (406, 531, 542)] == [
        "amqp:precondition-failed",
        *["amqp:invalid-field"] * 2,
    ]
    assert CODES_0_9.by_condition["amqp:invalid-field"] == 406
    assert (CODES_FAST.by_condition["amqp:not-found"], CODES_FAST.conditions[310]) == (404, "amqp:not-found")
    assert CODES_0_10.conditions[506] == "amqp:resource-limit-exceeded"


def test_texts() -> None:
    """Each code of 0-9-1 has the name of the specification as its text."""
    assert set(TEXTS_0_9) == set(CODES_0_9.conditions)
    assert "-" not in TEXTS_0_9.values()
    assert (TEXTS_0_9[406], TEXTS_0_9[542]) == ("PRECONDITION_FAILED", "INVALID_ARGUMENT")


def test_reply_text() -> None:
    """A text is cut after a whole character within 255 octets."""
    assert reply_text("a" + "é" * 200) == "a" + "é" * 127
    assert reply_text("a" * 255) == "a" * 255
    assert reply_text("a\ud800") == "a\\ud800"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("amqp:not-found: gone", ("amqp:not-found", "gone")),
        ("vendor:busy: ", ("vendor:busy", "")),
        ("no: it failed", (None, "no: it failed")),
        ("not a:condition: x", (None, "not a:condition: x")),
        ("amqp:not-found", (None, "amqp:not-found")),
    ],
)
def test_split_condition(text: str, found: tuple[str | None, str]) -> None:
    """Only a word with a colon in it, before another colon and a blank, is a condition."""
    assert split_condition(text) == found
