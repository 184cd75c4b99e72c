"""A step of a pipeline: price the orders of one queue, in batches, into the next.
README.md says how to run it.
"""

import math
import os
import signal

import anyio

from amqp10 import (
    Connection,
    Error,
    Message,
    Outcome,
    Reconnect,
    Rejected,
    Worker,
    from_environment,
)
from amqp10.worker import worker_from_environment

SOURCE = os.environ.get("STEP_SOURCE", "orders-new")
TARGET = os.environ.get("STEP_TARGET", "orders-priced")
PRICES = {"tea": 3, "cake": 5}


def priced(message: Message) -> Message | None:
    """Return the order with its total; None if there is no price."""
    order = message.body
    if order["item"] not in PRICES:
        return None
    total = PRICES[order["item"]] * order["count"]
    # The same message-id in each step: a later one can tell an order that comes twice.
    return Message(order | {"total": total}, message_id=message.message_id, durable=True)


async def step() -> None:
    """Work until SIGTERM or SIGINT."""
    urls, settings = from_environment()
    # Both the first connection and later ones wait for the broker; a killed step frees
    # its orders at once.
    settings = {
        "reconnect": Reconnect(first_attempts=math.inf, resume_timeout=0),
        **settings,
    }
    async with (
        Connection(urls, **settings) as connection,
        connection.sender(TARGET) as sender,
    ):

        async def price(messages: list[Message]) -> list[Outcome | None]:
            results = [priced(each) for each in messages]
            # All are with the broker before any of the batch is accepted. A cut in
            # between doubles, and loses nothing.
            await sender.send_many(each for each in results if each is not None)
            no_price = Rejected(Error("amqp:not-found", "no price for the item"))
            return [no_price if each is None else None for each in results]

        async with Worker(
            connection,
            SOURCE,
            price,
            batch_size=100,
            max_wait=0.05,
            **worker_from_environment(),
        ) as worker:
            await worker.until_signal()


async def end_at_sigterm(scope: anyio.CancelScope) -> None:
    """Cancel the wait for the broker. Process 1 of a container ignores a signal that
    nobody handles. Once the worker runs, it handles this one.
    """
    with anyio.open_signal_receiver(signal.SIGTERM) as signals:
        async for _ in signals:
            scope.cancel()


async def main() -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(end_at_sigterm, tasks.cancel_scope)
        await step()
        tasks.cancel_scope.cancel()


if __name__ == "__main__":
    anyio.run(main)
