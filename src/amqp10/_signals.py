"""Waiting for the signals that end a service."""

from __future__ import annotations

import signal

import anyio


async def until_signal(stopping: anyio.Event, signals: tuple[signal.Signals, ...]) -> signal.Signals | None:
    """Wait for a signal, SIGINT and SIGTERM unless others are named; None: `stopping` was set before one came.

    Raises:
        RuntimeError, ValueError: this is not the main thread.

    Cancelling: only stops the waiting.
    """
    with anyio.open_signal_receiver(*(signals or (signal.SIGINT, signal.SIGTERM))) as received:
        async with anyio.create_task_group() as waiting:

            async def until_stopping() -> None:
                await stopping.wait()
                waiting.cancel_scope.cancel()

            waiting.start_soon(until_stopping)
            async for number in received:
                waiting.cancel_scope.cancel()
                return number
    return None
