"""SASLprep (RFC 4013): the one form in which user names and passwords are compared."""

from __future__ import annotations

import stringprep
import unicodedata

_PROHIBITED = (
    stringprep.in_table_c12,
    stringprep.in_table_c21_c22,
    stringprep.in_table_c3,
    stringprep.in_table_c4,
    stringprep.in_table_c5,
    stringprep.in_table_c6,
    stringprep.in_table_c7,
    stringprep.in_table_c8,
    stringprep.in_table_c9,
)


def prepare(text: str) -> str:
    """The prepared form; ASCII without control characters stays as it is.

    Raises:
        ValueError: it has characters that no login may have; the message does not quote it.
    """
    if text.isascii() and text.isprintable():
        return text
    mapped = "".join(
        " " if stringprep.in_table_c12(char) else char for char in text if not stringprep.in_table_b1(char)
    )
    form = unicodedata.normalize("NFKC", mapped)
    if any(prohibited(char) for char in form for prohibited in _PROHIBITED):
        raise ValueError("a user name or password has a character that SASLprep prohibits")
    if any(map(stringprep.in_table_d1, form)) and (
        any(map(stringprep.in_table_d2, form))
        or not (stringprep.in_table_d1(form[0]) and stringprep.in_table_d1(form[-1]))
    ):
        raise ValueError("a user name or password mixes directions of writing")
    return form
