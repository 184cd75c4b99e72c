"""What distinguishes the dialects of the family: a header, a table of methods, a framing. The engine is the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from .framing import Framing
from .method_table import MethodTable
from .methods import METHODS, ConnectionBlocked, ConnectionUnblocked
from .rare_methods import METHODS_0_9, UNIMPLEMENTED_0_8, ExchangeBound, ExchangeBoundOk
from .tables import DRAFT_TABLES, TABLES, Tables


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
    methods=MethodTable((*METHODS, ExchangeBound, ExchangeBoundOk), TABLES),  # the last two are Qpid's
    tables=TABLES,
    framing=Framing(),
)

V0_9: Final = Variant(
    name="0-9",
    header=b"AMQP\x01\x01\x00\x09",
    version=(0, 9),
    methods=MethodTable((*METHODS, *METHODS_0_9), TABLES),
    tables=TABLES,
    framing=Framing(),
    unexpected=501,
)

_NOT_IN_0_8 = ("message.", "channel.resume", "channel.ping", "channel.pong", "channel.ok")

# Where the draft names no methods they are those of 0-8, which has the same header; what it lacks for confirms and for
# unbinding is here as in 0-9-1, as extensions.
V0_9_DRAFT: Final = Variant(
    name="0-9-draft",
    header=b"AMQP\x01\x01\x09\x01",
    version=(9, 1),
    methods=MethodTable(
        (
            *(each for each in METHODS if each not in (ConnectionBlocked, ConnectionUnblocked)),
            *(each for each in METHODS_0_9 if not each.name.startswith(_NOT_IN_0_8)),
            *UNIMPLEMENTED_0_8,
        ),
        DRAFT_TABLES,
        moved={"connection.close": (10, 60), "connection.close-ok": (10, 61), "connection.redirect": (10, 50)},
        without={
            "basic.consume": ("arguments",),
            "channel.open-ok": ("channel_id",),
            "file.consume": ("filter",),
            "stream.consume": ("filter",),
        },
    ),
    tables=DRAFT_TABLES,
    framing=Framing(cycle=True),
    unexpected=501,
    structured=True,
)
