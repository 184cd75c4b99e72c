"""SASLprep (RFC 4013): the form in which user names and passwords are compared."""

from __future__ import annotations

import stringprep
from typing import Final
from unicodedata import ucd_3_2_0

MAX_CHARACTERS: Final = 1024
"""The longest text that is not plain ASCII. Normalizing n accents of one letter takes n * n steps.

RFC 4616 §2 asks for 255 octets."""

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
    """Return the prepared form of `text`; ASCII without control characters stays unchanged.

    Characters newer than Unicode 3.2, such as an emoji, are allowed, as in a "query" of RFC 3454.

    Raises:
        ValueError: `text` is too long, or SASLprep prohibits a character; the message does not quote `text`.
    """
    if text.isascii() and text.isprintable():
        return text
    if len(text) > MAX_CHARACTERS:
        raise ValueError(
            f"a user name or password that is not plain ASCII must have at most {MAX_CHARACTERS} characters, "
            f"not {len(text)}"
        )
    mapped = "".join(
        " " if stringprep.in_table_c12(char) else char for char in text if not stringprep.in_table_b1(char)
    )
    form = ucd_3_2_0.normalize("NFKC", mapped)
    if any(prohibited(char) for char in form for prohibited in _PROHIBITED):
        raise ValueError(
            "a user name or password must not have characters that SASLprep prohibits, such as control characters"
        )
    if any(map(stringprep.in_table_d1, form)) and (
        any(map(stringprep.in_table_d2, form))
        or not (stringprep.in_table_d1(form[0]) and stringprep.in_table_d1(form[-1]))
    ):
        raise ValueError("a user name or password must not mix directions of writing")
    return form


def encode(text: str) -> bytes:
    """Encode `text` as UTF-8, which must have no NUL, since no mechanism can carry one.

    Raises:
        ValueError: `text` has a NUL or a surrogate; neither the message nor its cause quotes it.
    """
    # The error of `str.encode` would keep the whole text, which may be a password.
    if any(char == "\0" or "\ud800" <= char <= "\udfff" for char in text):
        raise ValueError("a user name or password must not have NUL or lone surrogates")
    return text.encode()
