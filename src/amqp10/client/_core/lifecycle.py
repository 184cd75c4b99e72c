"""The life cycle of connections, sessions and links, and the errors of calls after their end.

A session or link ends for one of three reasons. Each has its error, for calls that wait at the end and for calls that
come later:

    its owner closed it         anyio.ClosedResourceError
    the peer ended it           SessionEnded, LinkDetached, ConnectionClosed, with the peer's words
    something above it died     ConnectionLost, RemoteProtocolError, ...: the cause itself
"""

from __future__ import annotations

from collections.abc import Callable

import anyio

from ...errors import AmqpError, LocalProtocolError
from .._errors import fresh


class Lifecycle:
    """The life of one connection, session or link: not yet there, open, over. The base of their cores.

    not yet open    none of the flags; `enter` sets `entered`
    opening         `awaiting_peer`
    open            `open`
    lost            `interrupted`, set by `interrupt`; then opening and open again, or over
    over            `over`, set by `end_for_good`; only a link whose attach the peer refused or redirected is reset,
                    before anybody has the link (`ClientLink.attach`)
    closed          `closed`, with any of the others: the owner closed it

    Attributes:
        kind: "connection", "session", "sender" or "receiver".
        open: the endpoint can be used now.
        entered: `async with` has opened it.
        awaiting_peer: our begin or attach was sent, and its answer has not arrived.
        interrupted: the endpoint was lost because of `loss`, and `Recovery` will restore or end it.
        generation: how many times it was interrupted.
        over: the endpoint has ended in the engine, too; no further event will arrive.
        closed: the owner has closed it or is closing it.
        cause: why it ended; None if the owner closed it.
        change: set when tasks in `until` shall check their condition again.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.open: bool = False
        self.entered: bool = False
        self.awaiting_peer: bool = False
        self.interrupted: bool = False
        self.loss: AmqpError | None = None
        self.generation: int = 0
        self.over: bool = False
        self.closed: bool = False
        self.cause: AmqpError | None = None
        self.change: anyio.Event | None = None

    def described(self) -> str:
        """Return a description for people, without secrets."""
        return self.kind

    def state(self) -> str:
        """Return the state as a word, for people."""
        if self.closed:
            return "closed"
        if self.over:
            return f"over: {self.cause}" if self.cause is not None else "over"
        if self.interrupted:
            return "interrupted"
        return "open" if self.open else "not open yet"

    def gone(self) -> Exception:
        """Return the error of a call that needs the endpoint while it is not open."""
        if self.closed:
            return anyio.ClosedResourceError(f"the {self.kind} was closed here")
        if self.over:
            return self.lost()
        if self.interrupted and self.loss is not None:
            return fresh(self.loss)
        return LocalProtocolError(f"the {self.kind} is not open yet: open it with `async with`")

    def lost(self) -> AmqpError | anyio.ClosedResourceError:
        """Return the error of work that was lost with an ended endpoint."""
        if self.cause is not None:
            return fresh(self.cause)
        return anyio.ClosedResourceError(f"the {self.kind} was closed here")

    def enter(self) -> None:
        """Record that `async with` opens the endpoint; that can be done once, in the connection's event loop."""
        self.check_loop()
        if self.entered:
            raise LocalProtocolError(f"a {self.kind} can be opened by `async with` only once; make a new one")
        self.entered = True

    def end_for_good(self, error: AmqpError | None) -> None:
        """End the endpoint; it will not be restored."""
        self.open = self.interrupted = False
        self.over = True
        self.cause = error
        self.changed()

    def interrupt(self, error: AmqpError | None) -> None:
        """Record a loss; the endpoint will be restored."""
        self.open = self.awaiting_peer = False
        self.interrupted = True
        self.loss = error
        self.generation += 1
        self.changed()

    async def ready(self) -> None:
        """Wait while the endpoint is being restored."""
        if self.interrupted:
            await self.until(lambda: not self.interrupted)

    def changed(self) -> None:
        """Let tasks that wait in `until` check their condition again."""
        event, self.change = self.change, None
        if event is not None:
            event.set()

    def check_loop(self) -> None:
        """Refuse to wait in another event loop than the connection's, where a waiting task would never be woken.

        Raises:
            LocalProtocolError: this is another event loop.
        """

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition that changes rarely: attached, detached, drained, everything settled."""
        while not condition():
            self.check_loop()
            if self.change is None:
                self.change = anyio.Event()
            await self.change.wait()
