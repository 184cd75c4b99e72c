"""AMQP/Fast 0.7: what it has and AMQP 1.0 has no word for.

async with Connection(url, dialect="fast") as connection:
    native = amqpfast.native(connection)  # which is connection.native, for editors and type checkers
    index = await native.list("orders")
    message = await native.show("orders", index.numbers[0])
"""

from .dialects.fast import Index as Index
from .native.fast import Native as Native
from .native.fast import native as native

__all__ = ("Index", "Native", "native")
