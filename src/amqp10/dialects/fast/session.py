"""A session, as far as it is the same at both ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final, Protocol

from ..._machine import Machine
from ...engine import Session, SessionUnmapped
from .._kit.parents import Batcher, EventEngine
from .states import SESSION, SessionState, Step

if TYPE_CHECKING:
    from ...engine import OutgoingDelivery, SenderLink, SessionTerms
    from ...errors import AmqpError
    from .wire.command_table import Command


class EndpointEngine(EventEngine, Protocol):
    """The engine, as sessions and links see it.

    Attributes:
        frame_max: the largest command, and the largest fragment, that the peer takes.
        close_sent: this side has sent its connection-close.
        partial: octets of incomplete messages that came.
    """

    frame_max: int
    close_sent: bool
    partial: int

    def write(self, command: Command, content: bytes = b"") -> None:
        """Queue a command."""

    def report_outcome(self, link: SenderLink, delivery: OutgoingDelivery) -> None:
        """Emit that an outcome came; successive outcomes of one link share one event."""

    def report_credit(self, link: SenderLink) -> None:
        """Emit that the credit of a link changed, once in each batch of events."""

    def flush_later(self, batcher: Batcher) -> None:
        """Call `flush` of `batcher` before the next output."""

    def flush(self) -> None:
        """Call `flush` of all that wait for the next output."""

    def count_partial(self, change: int) -> bool:
        """Count octets of incomplete messages; return whether there is room for them."""


class SessionLink(Protocol):
    """A link, as its session sees it."""

    @property
    def name(self) -> str: ...

    @property
    def is_sender(self) -> bool: ...

    def mark_detached(self) -> None: ...

    def session_ends(self) -> None: ...

    def over(self, closed: bool, cause: AmqpError | None) -> None: ...


_GONE: Final = frozenset({SessionState.CLOSE_RCVD, SessionState.OVER})


class SessionEndpoint(Session, Machine[SessionState]):
    """See `Session` for the contract. There is no window: what may be sent is the links' business alone.

    Attributes:
        gone: the session is over, so that no operation on it is possible.
        links: the links that are not over.
    """

    noun = "session"
    transitions: ClassVar[dict[tuple[SessionState, Step], SessionState]] = SESSION
    engine: EndpointEngine

    def __init__(self, engine: EndpointEngine) -> None:
        self.engine = engine
        self.terms: SessionTerms | None = None
        self.remote: SessionTerms | None = None
        self.state = SessionState.UNOPENED
        self.begun: bool = False
        self.gone: bool = False
        self.strict_window = True
        self.links: dict[SessionLink, None] = {}

    @property
    def sendable(self) -> bool:
        return self.begun

    def entered(self, state: SessionState) -> None:
        self.gone = state in _GONE
        # Outcomes are still sent after the close of the client, on a session that was begun.
        self.begun = state is SessionState.OPENED or (state is SessionState.CLOSE_RCVD and self.begun)

    def connection_closes(self) -> None:
        """Stop writing on this session and its links, because the connection closes."""
        if self.may(Step.SEND_CLOSE):
            self.advance(Step.SEND_CLOSE)
        for link in self.links:
            link.mark_detached()

    def over(self, cause: AmqpError | None) -> None:
        """End the session and its links; `cause` may be the session's own or the connection's."""
        was_gone = self.gone
        self.advance(Step.FINISH)
        if was_gone:
            return
        for link in list(self.links):
            link.over(False, cause)
        self.engine.emit(SessionUnmapped(self, cause))
