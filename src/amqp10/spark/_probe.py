"""How the driver finds out that something waits in a queue, without taking it."""

from __future__ import annotations

import time
from contextlib import ExitStack

from anyio.from_thread import BlockingPortal, start_blocking_portal

from ..client import Connection, Receiver
from ..errors import AmqpError, ConnectionLost, Unsupported
from ._connect import PAUSE, connection, only, source
from ._options import Options
from ._receive import drained

WAIT = 0.5
"""Seconds that a look waits for a message, so that an idle query does not ask all the time."""


class Probe:
    """Looks at a queue, over a connection that it keeps, in a thread of its own that answers heartbeats."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._thread = ExitStack()  # never left: it ends with the process
        self._portal: BlockingPortal | None = None
        self._connections = ExitStack()
        self._opened: Connection | None = None

    def something_waits(self, *, now: bool) -> bool:
        """Whether there is a message.

        Args:
            now: the peer is to say it at once; otherwise a moment is waited for one to come.

        Raises:
            ConnectionLost: there was no connection for `connectTimeout` seconds.
            AmqpError: the peer does not let us look.
        """
        began = time.monotonic()
        while True:
            try:
                return self._ask(now)
            except ConnectionLost:
                self._disconnect()
                if time.monotonic() - began >= self._options.connect_timeout:
                    raise
                time.sleep(PAUSE)
            except AmqpError:
                self._disconnect()
                raise

    def _ask(self, now: bool) -> bool:
        if self._portal is None:
            self._portal = self._thread.enter_context(start_blocking_portal("trio"))
        try:
            if self._opened is None or not self._opened.open:
                self._disconnect()
                context = self._portal.wrap_async_context_manager(connection(self._options))
                self._opened = self._connections.enter_context(context)
            return self._portal.call(self._look, self._opened, now)
        except BaseExceptionGroup as group:
            raise only(group) from None

    def _disconnect(self) -> None:
        self._opened = None
        try:
            self._connections.close()
        except Exception:
            pass  # it is lost

    async def _look(self, opened: Connection, now: bool) -> bool:
        queue = source(opened, self._options)
        try:
            async with opened.browser(queue, credit=1) as browser:
                return await self._first(browser, now)
        except Unsupported:
            pass  # it does not browse: one is taken, and given back on leaving
        async with opened.receiver(queue, credit=1) as receiver:
            return await self._first(receiver, now)

    async def _first(self, receiver: Receiver, now: bool) -> bool:
        if now:
            await drained(receiver, self._options.receive_timeout)
            return receiver.buffered > 0
        seen = await receiver.receive_batch(1, max_wait=WAIT)
        for delivery in seen:
            delivery.release()
        return bool(seen)
