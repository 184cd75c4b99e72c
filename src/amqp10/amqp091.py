"""What AMQP 0-9-1 has and AMQP 1.0 lacks: exchanges, queues, bindings, and more.

async with Connection(url, dialect="0-9-1") as connection:
    native = connection.native
    await native.declare_queue("orders", durable=True)
    await native.bind("orders", "amq.topic", "order.#")

Of a connection whose dialect a setting names, `native(connection)` returns `connection.native` with its type.
"""

from .native.amqp_0_9_1 import Native as Native
from .native.amqp_0_9_1 import native as native
from .native.topology import ExchangeType as ExchangeType

__all__ = ("ExchangeType", "Native", "native")


def __dir__() -> tuple[str, ...]:
    return __all__
