"""How sessions and links end, and what a call gets that comes too late.

A session or link is over for one of three reasons, and each has its error, for the calls that wait and for those that
come later alike:

    its owner closed it         anyio.ClosedResourceError
    the peer ended it           SessionEnded, LinkDetached, ConnectionClosed, with the peer's words
    something above it died     ConnectionLost, RemoteProtocolError, ...: the cause itself
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

import anyio

from ..errors import AmqpError, LocalProtocolError

if TYPE_CHECKING:
    from ._connection import Connection


def fresh(cause: AmqpError) -> AmqpError:
    """A copy of a cause: several tasks raise it, and each needs a traceback, a context and notes of its own."""
    error = copy.copy(cause)
    error.__cause__ = cause.__cause__
    if hasattr(cause, "__notes__"):
        error.__notes__ = list(cause.__notes__)
    return error


def only(error: BaseException) -> BaseException:
    """The one cause that a group of one stands for."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def busy(action: str) -> anyio.BusyResourceError:
    """Return the error of a call that another task is in already: anyio's own words would add "this resource"."""
    error = anyio.BusyResourceError(action)
    error.args = (f"another task is already {action}",)
    return error


class Endpoint:
    """The life of one session or link: not yet there, open, over.

    Attributes:
        connection: the connection that it is of.
        open: it can be used now.
    """

    # _over: it is over for the engine too, nothing more will come. _closed: its owner closed it, or is closing it.
    # _cause: why it is over; None for an orderly end of our own.
    # _interrupted: it was lost, for `_loss`, and will be restored or be over (`_recovery`).

    connection: Connection
    _kind: ClassVar[str] = "endpoint"

    def __init__(self) -> None:
        self.open = False
        self._over = False
        self._closed = False
        self._cause: AmqpError | None = None
        self._entered = False
        self._asking = False  # our begin or attach is out, and the answer is not here
        self._interrupted = False
        self._loss: AmqpError | None = None
        self._generation = 0  # how often it was interrupted
        self._failures = 0  # restorations in a row that failed, or did not last
        self._refusals = 0  # those of them that failed, since `_lost_at`
        self._lost_at = self._restored_at = 0.0
        self._change: anyio.Event | None = None

    def __repr__(self) -> str:
        if self._closed:
            state = "closed"
        elif self._over:
            state = f"over: {self._cause}" if self._cause is not None else "over"
        elif self._interrupted:
            state = "interrupted"
        else:
            state = "open" if self.open else "not open yet"
        return f"<{type(self).__name__} {self._described()}: {state}>"

    def _described(self) -> str:
        """Name it for people, without secrets."""
        return f"on {self.connection._where}"

    def _gone(self) -> Exception:
        """The error of a call that needs the endpoint and cannot have it."""
        if self._closed:
            return anyio.ClosedResourceError(f"the {self._kind} was closed here")
        if self._over:
            return self._lost()
        if self._interrupted and self._loss is not None:
            return fresh(self._loss)
        return LocalProtocolError(f"the {self._kind} is not open yet: it is opened by `async with`")

    def _lost(self) -> AmqpError | anyio.ClosedResourceError:
        """The error of what is lost with an endpoint that is over."""
        if self._cause is not None:
            return fresh(self._cause)
        return anyio.ClosedResourceError(f"the {self._kind} was closed here")

    def _enter(self) -> None:
        """Note that `async with` opens the endpoint; it can be opened once."""
        if self._entered:
            raise LocalProtocolError(f"a {self._kind} is opened by `async with` once; make a new one")
        self._entered = True

    def _on_ended(self, error: AmqpError | None) -> None:
        """The engine says that it is over."""
        self._end_for_good(error)

    def _end_for_good(self, error: AmqpError | None) -> None:
        self.open = self._interrupted = False
        self._over = True
        self._cause = error
        self._changed()

    def _interrupt(self, error: AmqpError | None) -> None:
        """It is lost, and will be restored."""
        self.open = self._asking = False
        self._interrupted = True
        self._loss = error
        self._generation += 1
        self._changed()

    async def _ready(self) -> None:
        """Wait while it is being restored."""
        if self._interrupted:
            await self._until(lambda: not self._interrupted)

    def _changed(self) -> None:
        """Let those who wait in `until` look again."""
        event, self._change = self._change, None
        if event is not None:
            event.set()

    async def _until(self, condition: Callable[[], bool]) -> None:
        """Wait for what happens rarely: attached, detached, drained, everything settled."""
        while not condition():
            if self._change is None:
                self._change = anyio.Event()
            await self._change.wait()
