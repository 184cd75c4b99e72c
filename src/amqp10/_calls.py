"""Functions of users, called from tasks of ours: in threads, with cancellations of their own, and in groups."""

from __future__ import annotations

import math
from collections.abc import Callable
from inspect import isawaitable
from types import TracebackType
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


class FirstError:
    """A block in each of several tasks: the first error of any of them ends all, and is raised alone in the end.

    Errors that several tasks raise in one pass of the loop would leave their task group in an `ExceptionGroup`.
    """

    def __init__(self) -> None:
        self._error: Exception | None = None
        self._scope: anyio.CancelScope | None = None

    def ends(self, scope: anyio.CancelScope) -> None:
        """Cancel this scope, that of the task group, at the first error."""
        self._scope = scope

    def __enter__(self) -> None: ...

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        if not isinstance(exc, Exception) or self._scope is None:
            return False
        self._error = self._error or exc
        self._scope.cancel()
        return True

    def throw(self) -> None:
        """Raise the first error, if there was one; to be called behind the task group."""
        if self._error is not None:
            raise self._error


def one_line(error: BaseException) -> str:
    """Return the text of an error in one line; "" if its own `__str__` raises."""
    try:
        return " ".join(str(error).split())
    except Exception:
        return ""


def only(error: BaseException) -> BaseException:
    """Return the only exception of a group, however deeply nested; return any other exception unchanged."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


class Ungrouped:
    """A block that raises the only exception of a group in place of the group, with its own cause and context."""

    def __enter__(self) -> None: ...

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(exc, BaseExceptionGroup) and (error := only(exc)) is not exc:
            context = error.__context__
            try:
                raise error  # `from None` would remove its cause
            finally:
                error.__context__ = context
