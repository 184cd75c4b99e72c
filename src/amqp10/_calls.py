"""Functions of users, called from tasks of ours: in threads, and with cancellations that nobody asked for."""

from __future__ import annotations

import math
from collections.abc import Callable
from inspect import isawaitable
from typing import Any

import anyio
import anyio.to_thread


async def in_thread(
    function: Callable[..., Any],
    *args: Any,
    limiter: anyio.CapacityLimiter | None = None,
    abandon_on_cancel: bool = False,
) -> Any:
    """Call a plain function in a worker thread. If it returns an awaitable, as `lambda` often does, await that here.

    Args:
        limiter: bounds the number of threads.
        abandon_on_cancel: whether a cancelled call leaves its thread behind.
    """
    # In a list, because trio refuses a bare coroutine from a thread as a mistake.
    [result] = await anyio.to_thread.run_sync(
        lambda: [function(*args)], limiter=limiter, abandon_on_cancel=abandon_on_cancel
    )
    return await result if isawaitable(result) else result


def cancelled_elsewhere(error: BaseException, *, own_task: bool = False) -> RuntimeError | None:
    """Return what to report if `error` is a cancellation, but not of the current task; None for any other error.

    On asyncio, a function that awaits a cancelled task or future raises CancelledError. A task group whose task let it
    pass would end in silence.

    Args:
        own_task: whether only a cancel scope of ours may cancel the current task, so that what `Task.cancel` did, as a
            function may do to its own task, is undone.
    """
    if not isinstance(error, anyio.get_cancelled_exc_class()) or anyio.current_effective_deadline() == -math.inf:
        return None
    import asyncio  # here, so that trio users do not load it

    task = asyncio.current_task()
    while task is not None and task.cancelling():
        if not own_task:
            return None
        task.uncancel()
    failure = RuntimeError("CancelledError was raised, though nobody cancelled the call: what it awaited was cancelled")
    failure.__cause__ = error
    return failure


def said_by(error: BaseException) -> str:
    """Return the text of an error in one line; "" if its own `__str__` raises."""
    try:
        return " ".join(str(error).split())
    except Exception:
        return ""
