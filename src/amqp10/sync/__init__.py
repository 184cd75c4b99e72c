"""The client without `await`: for scripts, notebooks, Django, Flask, and threads.

    with Connection("amqp://localhost:5672") as connection:
        with connection.sender("orders") as sender:
            sender.send(Message("hello"))

Every object has the methods of the asynchronous one, by the same names: what is a coroutine there waits here, `async
with` is `with`, and `async for` is `for`. Whatever waits has the parameter `timeout`: seconds after which it raises
TimeoutError; what becomes of the work then is said at "Timeout:" of each method. All objects may be used by several
threads at the same time.

The event loop runs in a thread of its own for each connection; the classes are made from the asynchronous ones by
tools/make_sync.py. What does not wait, such as `Message`, `Reconnect` and the errors, is imported from `amqp10`.
"""

from ._facades import BodyWriter as BodyWriter
from ._facades import Browser as Browser
from ._facades import Connection as Connection
from ._facades import Delivery as Delivery
from ._facades import Management as Management
from ._facades import RabbitManagement as RabbitManagement
from ._facades import Receiver as Receiver
from ._facades import Request as Request
from ._facades import Requester as Requester
from ._facades import Responder as Responder
from ._facades import Sender as Sender
from ._facades import SentDelivery as SentDelivery
from ._facades import Session as Session
from ._facades import Transaction as Transaction
from ._functions import rabbit_management as rabbit_management
from ._functions import receive as receive
from ._functions import send as send

__all__ = (
    "BodyWriter",
    "Browser",
    "Connection",
    "Delivery",
    "Management",
    "RabbitManagement",
    "Receiver",
    "Request",
    "Requester",
    "Responder",
    "Sender",
    "SentDelivery",
    "Session",
    "Transaction",
    "rabbit_management",
    "receive",
    "send",
)


def __dir__() -> tuple[str, ...]:
    return __all__
