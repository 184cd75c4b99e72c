"""Locks that are renewed while a block runs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Final

import anyio

from ...errors import AmqpError
from ._errors import MessageLockLost, MessageNotFound, SessionLockLost

_MIN_PAUSE: Final = 0.2
_BLIND_PAUSE: Final = 2.0
"""Seconds between renewals while the clock here is wrong: even a new lock is over by it, or lasts longer than any."""
_MAX_LOCK: Final = 300.0
"""The most seconds that a lock lasts; the fewest are 5."""


async def renewed(
    renew: Callable[[], Awaitable[datetime]],
    until: datetime | None,
    clock: Callable[[], float],
    lost: type[MessageLockLost | SessionLockLost],
    max_time: float | None = None,
    *,
    settled: Callable[[], bool] = lambda: False,
) -> AmqpError | None:
    """Renew a lock each time half of its remaining time has passed; return why it was lost, or None at the end.

    Args:
        renew: renews the lock, and returns when it will end.
        until: when the lock ends now; None: unknown.
        clock: the time in seconds since 1970.
        lost: the class of error for a lock that expired because it could not be renewed.
        max_time: seconds after which the lock is no longer renewed.
        settled: whether the message was settled: the service may handle that before a renewal in flight.
    """
    stop = anyio.current_time() + max_time if max_time is not None else None
    end = until.timestamp() if until is not None else clock()
    while True:
        left = end - clock()
        pause = left / 2 if left <= _MAX_LOCK else _BLIND_PAUSE
        await anyio.sleep(max(_MIN_PAUSE, pause))
        if settled() or (stop is not None and anyio.current_time() >= stop):
            return None
        try:
            end = (await renew()).timestamp()
        except (MessageLockLost, SessionLockLost, MessageNotFound) as error:
            return None if settled() else error
        except (AmqpError, TimeoutError) as error:  # try again as long as the lock lasts
            if clock() < end:
                continue
            failure = lost(description=f"it could not be renewed: {error}")
            failure.__cause__ = error
            return failure
        if end <= clock():
            await anyio.sleep(_BLIND_PAUSE - _MIN_PAUSE)


@asynccontextmanager
async def kept(
    renew: Callable[[], Awaitable[datetime]],
    until: datetime | None,
    clock: Callable[[], float],
    lost: type[MessageLockLost | SessionLockLost],
    max_time: float | None,
    *,
    settled: Callable[[], bool] = lambda: False,
) -> AsyncIterator[None]:
    """Renew a lock while the block runs; end the block if it is lost. The arguments are those of `renewed`.

    Raises:
        MessageLockLost, SessionLockLost: the lock was lost, and the block cancelled.
    """
    failure: AmqpError | None = None
    raised: BaseException | None = None

    async def keep() -> None:
        nonlocal failure
        failure = await renewed(renew, until, clock, lost, max_time, settled=settled)
        if failure is not None:
            block.cancel()

    async with anyio.create_task_group() as tasks:
        with anyio.CancelScope() as block:
            tasks.start_soon(keep)
            try:
                yield
            except anyio.get_cancelled_exc_class():
                raise
            except BaseException as error:  # not within the group, which would wrap it in an ExceptionGroup
                raised = error
        tasks.cancel_scope.cancel()
    if raised is not None:
        raise raised
    if failure is not None and block.cancelled_caught:
        raise failure
