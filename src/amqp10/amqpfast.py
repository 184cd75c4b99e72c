"""What AMQP/Fast 0.7 has and AMQP 1.0 lacks: listing the messages of a queue, and showing one.

async with Connection(url, dialect="fast") as connection:
    index = await connection.native.list("orders")
    message = await connection.native.show("orders", index.numbers[0])

Of a connection whose dialect a setting names, `native(connection)` returns `connection.native` with its type.
"""

from __future__ import annotations

import typing

from .dialects.fast import Index as Index
from .native import typed
from .native.fast import Native as Native

if typing.TYPE_CHECKING:
    from .client import Connection

__all__ = ("Index", "Native", "native")


def native(connection: Connection) -> Native:
    """Return `connection.native`, with its methods known to type checkers and editors.

    Raises:
        Unsupported: the connection speaks another dialect than AMQP/Fast.
    """
    return typed.native_of(connection, Native, "fast")


def __dir__() -> tuple[str, ...]:
    return __all__
