"""The queue of a web application without `async`: one connection for each process of the
server.
"""

import atexit
import os
from contextlib import ExitStack
from threading import Lock

from amqp10 import AmqpError, Message, Reconnect
from amqp10.sync import Connection, Sender

URL = os.environ.get("AMQP10_URL", "amqp://localhost:5672")
_sender: Sender | None = None  # for all threads
_lock = Lock()


def sender() -> Sender:
    """Return the sender of this process. The first request connects, so each worker
    process has its own.
    """
    global _sender
    with _lock:
        if _sender is None:
            with ExitStack() as stack:
                connection = stack.enter_context(Connection(URL, reconnect=Reconnect()))
                _sender = stack.enter_context(connection.sender("web-orders"))
                atexit.register(stack.pop_all().close)
        return _sender


def put(body: bytes) -> int:
    """Put an order into the queue: 202 when the broker has it, 503 when it cannot take it
    in ten seconds.
    """
    try:
        sender().send(
            Message(body, content_type="application/json", durable=True), timeout=10
        )
    except (TimeoutError, AmqpError):
        return 503
    return 202
