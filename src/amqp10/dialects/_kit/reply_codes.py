"""The reply codes of the dialects before 1.0, and the error conditions of 1.0 that mean the same.

A row is a condition, and a column a dialect: 0-9-1 (and 0-9, reply codes), 0-10 (execution.error-code, of sessions),
0-10 again (connection.close-code) and AMQP/Fast; `-` stands for no code. The first code of a cell is written for the
condition. A code is read as the condition of the first row that has it. The texts are the names of the codes of 0-9-1.

0-9-1 and 0-9 (§1.3, constants) and 0-10 (domains of §9.1 and §10.1) list their codes. AMQP/Fast lists its codes in a
document that is lost; they are those of the AMQP drafts of its time, and those that its own text names (200, 310, 311,
540, 542). A condition that AMQP 1.0 does not have is named after its code.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

_TABLE: Final = """
amqp:reply-success                  200          -        -      -        REPLY_SUCCESS
amqp:not-delivered                  310          -        -      -        NOT_DELIVERED
amqp:no-route                       312          -        -      312      NO_ROUTE
amqp:no-consumers                   313          -        -      -        NO_CONSUMERS
amqp:connection:forced              320          -        320    320      CONNECTION_FORCED
amqp:link:detach-forced             320          -        -      -        -
amqp:invalid-path                   402          -        -      -        INVALID_PATH
amqp:unauthorized-access            403          403      -      403      ACCESS_REFUSED
amqp:not-found                      404          404      402    404,310  NOT_FOUND
amqp:transaction:unknown-id         -            404      -      -        -
amqp:resource-locked                405          405      -      405      RESOURCE_LOCKED
amqp:link:stolen                    405          -        -      -        -
amqp:precondition-failed            406          406      -      406      PRECONDITION_FAILED
amqp:resource-deleted               404          408      -      408      -
amqp:illegal-state                  503          409      -      409      COMMAND_INVALID
amqp:transaction:rollback           -            409      -      -        -
amqp:connection:framing-error       501          -        501    501      FRAME_ERROR
amqp:frame-size-too-small           501          -        -      -        -
amqp:decode-error                   502          503      501    502      SYNTAX_ERROR
amqp:channel-error                  504          -        -      -        CHANNEL_ERROR
amqp:unexpected-frame               505          -        -      -        UNEXPECTED_FRAME
amqp:resource-limit-exceeded        506          506      -      506      RESOURCE_ERROR
amqp:link:message-size-exceeded     311          506      -      311      CONTENT_TOO_LARGE
amqp:link:transfer-limit-exceeded   506          -        -      -        -
amqp:not-allowed                    530          530      -      530      NOT_ALLOWED
amqp:invalid-field                  406,531,542  531,542  -      531,542  INVALID_ARGUMENT
amqp:not-implemented                540          540      -      540      NOT_IMPLEMENTED
amqp:internal-error                 541          541      -      541      INTERNAL_ERROR
"""


class ReplyCodes(NamedTuple):
    """A column of the table.

    Attributes:
        by_condition: the code that is written for a condition.
        conditions: the condition as which a code is read.
    """

    by_condition: dict[str, int]
    conditions: dict[int, str]


def _column(cells: Iterable[tuple[str, str]]) -> ReplyCodes:
    """Return the column with these cells, each with the condition of its row."""
    column = ReplyCodes({}, {})
    for condition, cell in cells:
        codes = [int(code) for code in cell.split(",") if code != "-"]
        if codes:
            column.by_condition[condition] = codes[0]
        for code in codes:
            column.conditions.setdefault(code, condition)
    return column


_ROWS: Final = [row.split() for row in _TABLE.strip().splitlines()]
CODES_0_9: Final = _column((row[0], row[1]) for row in _ROWS)
CODES_0_10: Final = _column((row[0], row[2]) for row in _ROWS)
CLOSE_CODES_0_10: Final = _column((row[0], row[3]) for row in _ROWS)
CODES_FAST: Final = _column((row[0], row[4]) for row in _ROWS)
_TEXTS: Final = {row[0]: row[5] for row in _ROWS}
TEXTS_0_9: Final = {code: _TEXTS[condition] for code, condition in CODES_0_9.conditions.items()}
"""The text of each code of 0-9-1."""

_MAX_OCTETS: Final = 255


def reply_text(text: str) -> str:
    """Return as much of `text` as fits into a short string, 255 octets, with lone surrogates escaped."""
    return text.encode(errors="backslashreplace")[:_MAX_OCTETS].decode(errors="ignore")


def split_condition(text: str) -> tuple[str | None, str]:
    """Return the condition that a reply text begins with, or None, and the rest of the text."""
    condition, colon, rest = text.partition(": ")
    return (condition, rest) if colon and ":" in condition and " " not in condition else (None, text)
