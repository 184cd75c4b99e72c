"""Locks that are kept while a block runs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Final

import anyio

from ...errors import AmqpError
from ._errors import MessageLockLost, MessageNotFound, SessionLockLost

_SHORTEST_PAUSE: Final = 0.2
_BLIND_PAUSE: Final = 2.0
"""Seconds between renewals where a new lock seems over: this machine's clock is wrong. Locks last 5 at least."""


async def renewed(
    renew: Callable[[], Awaitable[datetime]],
    until: datetime | None,
    clock: Callable[[], float],
    lost: type[MessageLockLost | SessionLockLost],
    max_time: float | None = None,
    *,
    settled: Callable[[], bool] = lambda: False,
) -> AmqpError | None:
    """Renew a lock each time when half of its time is over; return why it is lost, or None where it is done with.

    Args:
        renew: does it, and returns when the lock will end.
        until: when it ends now; None: that is not known.
        clock: the time in seconds since 1970.
        lost: the error for a lock that ended while it could not be renewed.
        max_time: seconds after which it is not renewed any more.
        settled: whether an outcome was given: the service may take that before a renewal that is on its way.
    """
    stop = anyio.current_time() + max_time if max_time is not None else None
    end = until.timestamp() if until is not None else clock()
    while True:
        left = end - clock()
        await anyio.sleep(max(_SHORTEST_PAUSE, left / 2) if left > 0 else _SHORTEST_PAUSE)
        if settled() or (stop is not None and anyio.current_time() >= stop):
            return None
        try:
            end = (await renew()).timestamp()
        except (MessageLockLost, SessionLockLost, MessageNotFound) as error:
            return None if settled() else error
        except (AmqpError, TimeoutError) as error:  # it is tried again as long as the lock lasts
            if clock() < end:
                continue
            failure = lost(description=f"it could not be renewed: {error}")
            failure.__cause__ = error
            return failure
        if end <= clock():
            await anyio.sleep(_BLIND_PAUSE - _SHORTEST_PAUSE)


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
        MessageLockLost, SessionLockLost: it is lost; the block was cancelled.
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
            except BaseException as error:  # not inside the group, which would put it into another one
                raised = error
        tasks.cancel_scope.cancel()
    if raised is not None:
        raise raised
    if failure is not None and block.cancelled_caught:
        raise failure
