"""What AMQP 0-10 has and AMQP 1.0 lacks: queues, exchanges, bindings, and distributed transactions.

async with Connection(url, dialect="0-10") as connection:
    native = connection.native
    await native.declare_queue("orders", durable=True)
    await native.bind("orders", "amq.topic", "order.#")
    async with native.xa() as xa:
        await xa.start(xid)

Of a connection whose dialect a setting names, `native(connection)` returns `connection.native` with its type.
"""

from __future__ import annotations

import typing

from .dialects.v0_10 import Xid as Xid
from .native import typed
from .native.amqp_0_10 import Native as Native
from .native.topology import ExchangeType as ExchangeType
from .native.xa import XA as XA
from .native.xa import XAStatus as XAStatus

if typing.TYPE_CHECKING:
    from .client import Connection

__all__ = ("XA", "ExchangeType", "Native", "XAStatus", "Xid", "native")


def native(connection: Connection) -> Native:
    """Return `connection.native`, with its methods known to type checkers and editors.

    Raises:
        Unsupported: the connection speaks another dialect than 0-10.
    """
    return typed.native_of(connection, Native, "0-10")


def __dir__() -> tuple[str, ...]:
    return __all__
