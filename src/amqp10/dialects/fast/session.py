"""A session, as far as it is the same at both ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from ..._machine import Machine
from ...engine import Session, SessionUnmapped
from ...errors import EndpointError, SessionEnded
from .states import SESSION, SessionState, Step

if TYPE_CHECKING:
    from ...engine import SessionTerms
    from ...errors import AmqpError
    from ...messaging import Error
    from .engine import FastEngine


_GONE: Final = frozenset({SessionState.CLOSE_RCVD, SessionState.OVER})


class SessionEndpoint(Session, Machine[SessionState]):
    """See `Session` for the contract. There is no window: what may be sent is the links' business alone.

    Attributes:
        gone: the session is over, so that no operation on it is possible.
        links: the links that are not over.
    """

    noun = "session"
    transitions: ClassVar[dict[tuple[SessionState, Step], SessionState]] = SESSION
    engine: FastEngine

    def __init__(self, engine: FastEngine) -> None:
        self.engine = engine
        self.terms: SessionTerms | None = None
        self.remote: SessionTerms | None = None
        self.state = SessionState.UNOPENED
        self.begun: bool = False
        self.gone: bool = False
        self.strict_window = True
        self.links: dict[Any, None] = {}

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


def session_cause(error: Error | None) -> EndpointError:
    """Return the exception for a session that the peer ended with `error`."""
    return SessionEnded() if error is None else SessionEnded(error.condition, error.description, error.info)
