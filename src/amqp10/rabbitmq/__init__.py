"""RabbitMQ 4 over AMQP 1.0: its addresses, and its queues, exchanges and bindings by management.

async with management(connection) as rabbit:
    await rabbit.declare_queue("orders", "quorum", delivery_limit=5)
    await rabbit.bind("events", queue="orders", key="order.*")
async with connection.sender(exchange_address("events", "order.created")) as sender: ...
"""

from ._addresses import exchange_address as exchange_address
from ._addresses import queue_address as queue_address
from ._arguments import ExchangeType as ExchangeType
from ._arguments import Overflow as Overflow
from ._arguments import QueueArguments as QueueArguments
from ._arguments import QueueType as QueueType
from ._management import Binding as Binding
from ._management import Management as Management
from ._management import QueueInfo as QueueInfo
from ._management import management as management

__all__ = (
    "Binding",
    "ExchangeType",
    "Management",
    "Overflow",
    "QueueArguments",
    "QueueInfo",
    "QueueType",
    "exchange_address",
    "management",
    "queue_address",
)


def __dir__() -> tuple[str, ...]:
    return __all__
