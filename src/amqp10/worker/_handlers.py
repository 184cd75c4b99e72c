"""Handlers: the functions to which a worker gives messages."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import anyio

from .._arguments import without_secrets
from .._calls import in_thread
from ..messaging import Message, Outcome

Handler = Callable[[Message], Awaitable[Outcome | None] | Outcome | None]
"""Handles one message. Returns its outcome, or None to accept it."""

BatchHandler = Callable[[list[Message]], Awaitable[Sequence[Outcome | None] | None] | Sequence[Outcome | None] | None]
"""Handles several messages at once. Returns an outcome, or None, for each, or None to accept all."""


class HandlerCall:
    """Calls a handler: a coroutine function in the task of the caller, a plain function in a thread.

    Args:
        function: the handler.
        given: its arguments, in words.
        concurrency: the number of threads that it may use.

    Attributes:
        threads: the limiter of these threads; None for a coroutine function.

    Raises:
        TypeError: `function` is not a function, or does not take these arguments.
    """

    def __init__(self, function: Callable[..., Any], given: tuple[str, ...], concurrency: int) -> None:
        _check_function(function, given)
        self.function: Callable[..., Any] = function
        awaited = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)
        self.threads: anyio.CapacityLimiter | None = None if awaited else anyio.CapacityLimiter(concurrency)

    async def __call__(self, *arguments: Any) -> Any:
        if self.threads is None:
            return await self.function(*arguments)
        return await in_thread(self.function, *arguments, limiter=self.threads)


def _check_function(handler: Any, given: tuple[str, ...]) -> None:
    takes, shown = " and ".join(given), without_secrets(handler)
    if not callable(handler):
        raise TypeError(f"handler must be a function that takes {takes}, such as `async def`, not {shown}")
    try:
        signature = inspect.signature(handler)
    except ValueError:
        return  # a function in C may have no signature
    try:
        signature.bind(*given)
    except TypeError as error:
        count = "one argument" if len(given) == 1 else f"{len(given)} arguments"
        reason = f"handler is called with {count}, {takes}; {shown} takes {signature}"
        raise TypeError(reason) from error
