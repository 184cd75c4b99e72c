"""What AMQP/Fast 0.7 has and AMQP 1.0 lacks: listing the messages of a queue, and showing one.

async with Connection(url, dialect="fast") as connection:
    index = await connection.native.list("orders")
    message = await connection.native.show("orders", index.numbers[0])

Of a connection whose dialect a setting names, `native(connection)` returns `connection.native` with its type.
"""

from .dialects.fast import Index as Index
from .native.fast import Native as Native
from .native.fast import native as native

__all__ = ("Index", "Native", "native")


def __dir__() -> tuple[str, ...]:
    return __all__
