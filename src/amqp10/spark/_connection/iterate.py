"""Turns a coroutine into the generator that Spark reads from: the coroutine runs in a thread of its own, on trio.

Heartbeats go on however long Spark waits between two rows. Spark closes the generator early when it needs no more rows
or kills the task: the coroutine is then cancelled, and has closed its connection when the generator is closed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

import anyio
from anyio.from_thread import start_blocking_portal

from ..._calls import Ungrouped

T = TypeVar("T")
MAX_AHEAD = 2
"""Items that are produced before Spark asks for them."""


def iterate_in_thread(produce: Callable[[Callable[[T], Awaitable[None]]], Awaitable[None]]) -> Iterator[T]:
    """Run `produce` in a thread, and yield each item that it passes to its argument, a coroutine function.

    Raises:
        Exception: what `produce` raises, after all its items; a group of one exception is raised as that exception.
    """
    send, receive = anyio.create_memory_object_stream[T](MAX_AHEAD)

    async def run() -> None:
        async with send:
            await produce(send.send)

    with start_blocking_portal("trio") as portal:
        running = portal.start_task_soon(run)
        try:
            while True:
                try:
                    item = portal.call(receive.receive)
                except anyio.EndOfStream:
                    break
                yield item
            with Ungrouped():
                running.result()
        finally:
            running.cancel()
            portal.call(receive.aclose)  # in the portal's thread, where `produce` may be waiting to send
