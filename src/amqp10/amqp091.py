"""What AMQP 0-9-1 has and AMQP 1.0 lacks: exchanges, queues, bindings, and more.

async with Connection(url, dialect="0-9-1") as connection:
    native = connection.native
    await native.declare_queue("orders", durable=True)
    await native.bind("orders", "amq.topic", "order.#")

Of a connection whose dialect a setting names, `native(connection)` returns `connection.native` with its type.
"""

from __future__ import annotations

import typing

from .native import typed
from .native.amqp_0_9_1 import Native as Native
from .native.topology import ExchangeType as ExchangeType

if typing.TYPE_CHECKING:
    from .client import Connection

__all__ = ("ExchangeType", "Native", "native")


def native(connection: Connection) -> Native:
    """Return `connection.native`, with its methods known to type checkers and editors.

    Raises:
        Unsupported: the connection speaks another dialect than 0-9-1 or its relatives.
    """
    return typed.native_of(connection, Native, "0-9-1, 0-9 and 0-9-draft")


def __dir__() -> tuple[str, ...]:
    return __all__
