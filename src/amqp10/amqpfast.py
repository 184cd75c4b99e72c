"""AMQP/Fast 0.7: what it has and AMQP 1.0 has no word for.

async with Connection(url, dialect="fast") as connection:
    index = await connection.native.list("orders")
    message = await connection.native.show("orders", index.numbers[0])
"""

from .dialects.fast import Index as Index
from .native.fast import Native as Native

__all__ = ("Index", "Native")
