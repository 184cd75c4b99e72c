"""The `async with` block that every service of the package shares: entered once, ended by a signal or by `stop`."""

from __future__ import annotations

import signal
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, ExitStack, contextmanager
from types import TracebackType

import anyio

from .errors import LocalProtocolError, Unsupported


@contextmanager
def open_signal_receiver(*signals: signal.Signals) -> Iterator[AsyncIterator[signal.Signals]]:
    """Yield an iterator over the signals that arrive within the block.

    Raises:
        Unsupported: the event loop cannot wait for signals, as asyncio's on Windows.
        RuntimeError, ValueError: this is not the main thread.
    """
    with ExitStack() as stack:
        try:
            received = stack.enter_context(anyio.open_signal_receiver(*signals))
        except NotImplementedError:
            raise Unsupported(
                "asyncio cannot wait for signals on this system: run on trio, or call stop() from a handler of "
                "signal.signal"
            ) from None
        yield received


class ServiceBlock:
    """The `async with` block of a service that other tasks may stop.

    Args:
        noun: the kind of service, in one word, for errors.
        maker: the constructor call, for errors: `Worker(...)`.

    Attributes:
        stopping: set once the service takes no more work.
    """

    def __init__(self, noun: str, maker: str) -> None:
        self.stopping = anyio.Event()
        self._noun = noun
        self._maker = maker
        self._block: AbstractAsyncContextManager[None] | None = None
        self._entered = False  # and not yet left

    async def enter(self, block: AbstractAsyncContextManager[None]) -> None:
        """Begin the service: enter `block`, which runs it until it is left.

        Raises:
            LocalProtocolError: the service was begun before.
        """
        if self._block is not None:
            raise LocalProtocolError(f"a {self._noun} can be entered by `async with` only once; make a new one")
        self._block = block
        await block.__aenter__()
        self._entered = True

    async def leave(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        """End the service: the `__aexit__` of its block."""
        assert self._block is not None
        self._entered = False
        return await self._block.__aexit__(exc_type, exc, traceback)

    async def until_signal(self, signals: tuple[signal.Signals, ...]) -> signal.Signals | None:
        """Wait for one of `signals` (default: SIGINT and SIGTERM); return it, or None if `stopping` is set first.

        Raises:
            LocalProtocolError: the block was not entered, or was left.
            Unsupported, RuntimeError, ValueError: see `open_signal_receiver`.

        Cancelling: only stops the waiting.
        """
        if not self._entered:
            raise LocalProtocolError(
                f"this {self._noun} is not running: enter it by `async with {self._maker} as {self._noun}:`, and call "
                "until_signal() inside the block"
            )
        with open_signal_receiver(*(signals or (signal.SIGINT, signal.SIGTERM))) as received:
            async with anyio.create_task_group() as waiting:

                async def until_stopping() -> None:
                    await self.stopping.wait()
                    waiting.cancel_scope.cancel()

                waiting.start_soon(until_stopping)
                async for number in received:
                    waiting.cancel_scope.cancel()
                    return number
        return None


class Service(ABC):
    """A service of the package, as whoever runs it sees it."""

    _block: ServiceBlock

    async def until_signal(self, *signals: signal.Signals) -> signal.Signals | None:
        """Wait for a signal, SIGINT or SIGTERM unless you name others. Works only in the main thread.

        Leaving the block of the service then drains. A second signal ends the process as usual.

        Returns:
            The signal; None if `stop()` was called before one came.

        Raises:
            LocalProtocolError: the service was not opened by `async with`, or its block was left.
            Unsupported: asyncio cannot wait for signals on Windows; trio can.
            RuntimeError, ValueError: this is not the main thread.

        Cancelling: only stops the waiting.
        """
        number = await self._block.until_signal(signals)
        if number is not None:
            self._log_signal(number)
        return number

    @abstractmethod
    def _log_signal(self, number: signal.Signals) -> None:
        """Log that the service stops because this signal came."""
