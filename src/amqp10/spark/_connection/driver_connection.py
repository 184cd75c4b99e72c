"""The driver's connection: kept between Spark's calls, in a thread of its own that answers heartbeats."""

from __future__ import annotations

import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import ExitStack
from typing import Any, Concatenate, ParamSpec, TypeVar

import anyio
from anyio.from_thread import BlockingPortal

from ..._calls import Ungrouped
from ...client import Connection
from ...errors import AmqpError, ConnectionLost
from .._options import Options
from .connect import RETRY_SECONDS, connection

P = ParamSpec("P")
T = TypeVar("T")


class DriverConnection:
    """Runs coroutines on a connection that is opened when it is needed, and again after a loss.

    Spark kills the process that holds this object; the connection ends with the process.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self._portal: BlockingPortal | None = None
        self._connections = ExitStack()
        self._opened: Connection | None = None

    def __reduce__(self) -> tuple[type[DriverConnection], tuple[Options]]:
        return DriverConnection, (self._options,)  # Spark pickles readers to its tasks: nothing that is open goes along

    def call(self, function: Callable[Concatenate[Connection, P], Awaitable[T]], *args: P.args, **_: P.kwargs) -> T:
        """Run the coroutine function with the connection and these arguments, and return its result.

        Raises:
            ConnectionLost: there was no connection for `connectTimeout` seconds.
            AmqpError: whatever the function raises.
        """
        began = time.monotonic()
        while True:
            try:
                return self._call(function, *args)
            except ConnectionLost:
                self.close()
                if time.monotonic() - began >= self._options.connect_timeout:
                    raise
                time.sleep(RETRY_SECONDS)
            except AmqpError:
                self.close()
                raise

    def _call(self, function: Callable[..., Awaitable[T]], *args: Any) -> T:
        if self._portal is None:
            self._portal = _portal()
        with Ungrouped():
            if self._opened is None or not self._opened.open:
                self.close()
                context = self._portal.wrap_async_context_manager(connection(self._options))
                self._opened = self._connections.enter_context(context)
            return self._portal.call(function, self._opened, *args)

    def close(self) -> None:
        """Close the connection, if there is one; the next call opens another."""
        self._opened = None
        try:
            self._connections.close()
        except Exception:
            pass  # the connection is lost already


def _portal() -> BlockingPortal:
    """Start a daemon thread that runs trio, and return the portal into it; the thread ends with the process."""
    started: Future[BlockingPortal] = Future()

    async def serve() -> None:
        async with BlockingPortal() as portal:
            started.set_result(portal)
            await portal.sleep_until_stopped()

    threading.Thread(target=anyio.run, args=(serve,), kwargs={"backend": "trio"}, name="amqp10", daemon=True).start()
    return started.result()
