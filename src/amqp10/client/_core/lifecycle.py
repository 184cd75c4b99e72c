"""The life cycle of connections, sessions and links, and the errors of calls after their end.

A session or link ends for one of three reasons. Each has its error, for calls that wait at the end and for calls that
come later:

    its owner closed it         anyio.ClosedResourceError
    the peer ended it           SessionEnded, LinkDetached, ConnectionClosed, with the peer's words
    something above it died     ConnectionLost, RemoteProtocolError, ...: the cause itself
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

import anyio

from ..._machine import Machine
from ...errors import AmqpError, LocalProtocolError
from .._errors import fresh
from .states import LIFECYCLE, State, Step

_CLOSED_HERE = {State.ABANDONED, State.CLOSING, State.CLOSING_INTERRUPTED, State.CLOSING_RESTORED, State.CLOSED}


class Lifecycle(Machine[State]):
    """The life of one connection, session or link: the base of their cores.

    Attributes:
        kind: "connection", "session", "sender" or "receiver".
        open: it can be used now.
        established: sessions or links can be begun on it: it is open, or it was restored to finish its work.
        interrupted: it was lost because of `loss`, and `Recovery` will restore or end it.
        closed: the owner has closed it or is closing it.
        over: it has ended; what the peer may still answer changes nothing here.
        generation: how many times it was interrupted.
        cause: why it ended; None if the owner closed it.
        awaiting_peer: our begin or attach was sent, and its answer has not arrived.
        change: set when tasks in `until` shall check their condition again.
    """

    noun = "connection, session or link"
    transitions: ClassVar[Mapping[tuple[State, Step], State]] = LIFECYCLE

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.state = State.NEW
        self.entered(State.NEW)
        self.loss: AmqpError | None = None
        self.generation: int = 0
        self.cause: AmqpError | None = None
        self.awaiting_peer: bool = False
        self.change: anyio.Event | None = None

    def entered(self, state: State) -> None:
        self.open: bool = state is State.OPEN
        self.established: bool = state in (State.OPEN, State.CLOSING_RESTORED)
        self.interrupted: bool = state in (State.INTERRUPTED, State.CLOSING_INTERRUPTED)
        self.closed: bool = state in _CLOSED_HERE
        self.over: bool = state in (State.ENDED, State.CLOSED)

    def described(self) -> str:
        """Return a description for people, without secrets."""
        return self.kind

    def state_in_words(self) -> str:
        """Return the state for people."""
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
        if self.state is not State.NEW:
            raise LocalProtocolError(f"a {self.kind} can be opened by `async with` only once; make a new one")
        self.advance(Step.ENTER)

    def end_for_good(self, error: AmqpError | None) -> None:
        """End the endpoint; it will not be restored. The first end counts: later ones change nothing."""
        if self.over:
            return
        self.cause = error
        self.advance(Step.END)
        self.changed()

    def interrupt(self, error: AmqpError | None) -> None:
        """Record a loss; the endpoint will be restored. After its end this changes nothing."""
        if self.over:
            return
        self.awaiting_peer = False
        self.loss = error
        self.generation += 1
        self.advance(Step.LOSE)
        self.changed()

    def retry(self) -> None:
        """Open a link anew whose attach the peer refused or redirected; nobody has it yet."""
        self.cause = None
        self.advance(Step.RETRY)

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
