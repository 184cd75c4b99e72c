"""What AMQP 0-9-1 has and AMQP 1.0 has no word for: exchanges, queues, bindings, and a few things more.

async with Connection(url, dialect="0-9-1") as connection:
    await connection.native.declare_queue("orders", durable=True)
    await connection.native.bind("orders", "amq.topic", "order.#")
"""

from ._native import ExchangeType as ExchangeType
from ._native import Native as Native

__all__ = ("ExchangeType", "Native")
