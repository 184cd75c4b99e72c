"""What distinguishes the dialects of the family: a header, a table of methods, a framing. The engine is the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ._frames import Framing
from ._methods import METHODS, MethodTable
from ._table import TABLES, Tables


@dataclass(frozen=True, slots=True)
class Variant:
    """One dialect of the family.

    Attributes:
        name: as users know it.
        header: the protocol header.
        version: major and minor, as connection.start says them.
        unexpected: the reply code for a frame in the middle of content: 505 is 0-9-1's.
        structured: content may have children (weight), and frames of the draft's types may come.
    """

    name: str
    header: bytes
    version: tuple[int, int]
    methods: MethodTable
    tables: Tables
    framing: Framing
    unexpected: int = 505
    structured: bool = False


V0_9_1: Final = Variant(
    name="0-9-1",
    header=b"AMQP\x00\x00\x09\x01",
    version=(0, 9),
    methods=MethodTable(METHODS, TABLES),
    tables=TABLES,
    framing=Framing(),
)
