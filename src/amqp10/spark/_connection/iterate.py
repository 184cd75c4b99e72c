"""From a coroutine to the generator that Spark reads from: the coroutine runs in a thread of its own, on trio.

Spark pulls when it likes, and heartbeats go on meanwhile. The generator closes early when Spark needs no more rows or
kills the task: the coroutine is cancelled then, and has left its connection when the generator is closed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

import anyio
from anyio.from_thread import start_blocking_portal

from .connect import single_cause

T = TypeVar("T")
MAX_AHEAD = 2
"""Items that are made before they are asked for."""


def iterate_in_thread(produce: Callable[[Callable[[T], Awaitable[None]]], Awaitable[None]]) -> Iterator[T]:
    """What a coroutine emits, as it comes; `produce` is given the coroutine function that emits.

    Raises:
        Exception: what the coroutine raises, after all that it has emitted; one cause comes as itself.
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
            try:
                running.result()
            except BaseExceptionGroup as group:
                raise single_cause(group) from None
        finally:
            running.cancel()
            portal.call(receive.aclose)  # in the portal's thread, where who sends may wait
