"""How sessions and links end, and what a call gets that comes too late.

A session or link is over for one of three reasons, and each has its error, for the calls that wait and for those that
come later alike:

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

    not yet there   none of the flags; `enter` sets `entered`
    on its way      `awaiting_peer`
    open            `open`
    lost            `interrupted`, by `interrupt`; then on its way and open again, or over
    over            `over`, by `end_for_good`; only a link whose attach the peer refused or redirected takes it back,
                    before anybody has the link (`ClientLink.attach`)
    closed          `closed`, with any of the others: the owner left it

    Attributes:
        kind: "connection", "session", "sender" or "receiver".
        open: it can be used now.
        entered: `async with` has opened it.
        awaiting_peer: our begin or attach is out, and the answer is not here.
        interrupted: it was lost, for `loss`, and will be restored or be over (`Recovery`).
        generation: how often it was interrupted.
        over: it is over for the engine too, nothing more will come.
        closed: its owner closed it, or is closing it.
        cause: why it is over; None for an orderly end of our own.
        change: set when those who wait in `until` are to look again.
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
        """Name it for people, without secrets."""
        return self.kind

    def state(self) -> str:
        """Say in a word how far it has come."""
        if self.closed:
            return "closed"
        if self.over:
            return f"over: {self.cause}" if self.cause is not None else "over"
        if self.interrupted:
            return "interrupted"
        return "open" if self.open else "not open yet"

    def gone(self) -> Exception:
        """Return the error of a call that needs the endpoint and cannot have it."""
        if self.closed:
            return anyio.ClosedResourceError(f"the {self.kind} was closed here")
        if self.over:
            return self.lost()
        if self.interrupted and self.loss is not None:
            return fresh(self.loss)
        return LocalProtocolError(f"the {self.kind} is not open yet: it is opened by `async with`")

    def lost(self) -> AmqpError | anyio.ClosedResourceError:
        """Return the error of what is lost with an endpoint that is over."""
        if self.cause is not None:
            return fresh(self.cause)
        return anyio.ClosedResourceError(f"the {self.kind} was closed here")

    def enter(self) -> None:
        """Note that `async with` opens the endpoint; it can be opened once, and in the connection's event loop."""
        self.check_loop()
        if self.entered:
            raise LocalProtocolError(f"a {self.kind} is opened by `async with` once; make a new one")
        self.entered = True

    def end_for_good(self, error: AmqpError | None) -> None:
        """End: it does not come back."""
        self.open = self.interrupted = False
        self.over = True
        self.cause = error
        self.changed()

    def interrupt(self, error: AmqpError | None) -> None:
        """Record a loss, after which it will be restored."""
        self.open = self.awaiting_peer = False
        self.interrupted = True
        self.loss = error
        self.generation += 1
        self.changed()

    async def ready(self) -> None:
        """Wait while it is being restored."""
        if self.interrupted:
            await self.until(lambda: not self.interrupted)

    def changed(self) -> None:
        """Let those who wait in `until` look again."""
        event, self.change = self.change, None
        if event is not None:
            event.set()

    def check_loop(self) -> None:
        """Refuse to wait in another event loop than the connection's, where nobody would wake who waits.

        Raises:
            LocalProtocolError: this is another one.
        """

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for what happens rarely: attached, detached, drained, everything settled."""
        while not condition():
            self.check_loop()
            if self.change is None:
                self.change = anyio.Event()
            await self.change.wait()
