"""AMQPLAIN: what PLAIN says, as a field table without its length; php-amqplib and py-amqp choose it first."""

from __future__ import annotations

from typing import Final

from ..wire.tables import TABLES, octets_of

AMQPLAIN: Final = "AMQPLAIN"
PLAIN: Final = "PLAIN"


def with_amqplain(offered: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of mechanisms, with AMQPLAIN for servers that have PLAIN."""
    return (*offered, AMQPLAIN) if PLAIN in offered else offered


def plain_of(response: bytes) -> bytes:
    """Return the response of PLAIN that says what `response` of AMQPLAIN says.

    Raises:
        DecodeError: it is no field table.
    """
    table, _ = TABLES.read(len(response).to_bytes(4, "big") + response, 0)
    credentials = (table.get("LOGIN"), table.get("PASSWORD"))
    return b"\0" + b"\0".join(octets_of(each) if isinstance(each, str) else b"" for each in credentials)
