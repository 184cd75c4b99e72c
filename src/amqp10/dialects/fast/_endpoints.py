"""Sessions and links, as far as they are the same at both ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...engine import Link, LinkEnded, Session, SessionUnmapped
from ...errors import EndpointError, LinkDetached, LocalProtocolError, SessionEnded

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...engine import LinkTerms, SessionTerms
    from ...errors import AmqpError
    from ...messaging import Error
    from ._engine import FastEngine


class FastSession(Session):
    """See `Session` for the contract. There is no window: what may be sent is the links' business alone."""

    engine: FastEngine

    def __init__(self, engine: FastEngine) -> None:
        self.engine = engine
        self.terms: SessionTerms | None = None
        self.remote: SessionTerms | None = None
        self.begun = False
        self.strict_window = True
        self.context: Any = None
        self.links: dict[Any, None] = {}
        self._gone = False

    @property
    def sendable(self) -> bool:
        return self.begun

    @property
    def gone(self) -> bool:
        """It is over, and nothing can be done on it any more."""
        return self._gone

    def mute(self) -> None:
        """The connection closes: nothing may be written on this session any more."""
        self.begun = False
        for link in self.links:
            link.attached = False

    def over(self, cause: AmqpError | None) -> None:
        """The session is over, for its own reason or its connection's."""
        if self._gone:
            return
        self._gone = True
        self.begun = False
        for link in list(self.links):
            link.over(False, cause)
        self.engine.emit(SessionUnmapped(self, cause))


class FastLink(Link):
    """See `Link` for the contract.

    Attributes:
        gone: it is over, told or about to be told.
    """

    session: FastSession

    def __init__(self, session: FastSession, name: str) -> None:
        self.session = session
        self.engine = session.engine
        self.terms: LinkTerms | None = None
        self.remote: LinkTerms | None = None
        self.attached = False
        self.properties: Mapping[Any, Any] = {}
        self.incomplete = False
        self.context: Any = None
        self.gone = False
        self._name = name
        session.links[self] = None

    @property
    def name(self) -> str:
        return self._name

    def check_attached(self) -> None:
        """Raise unless it is attached."""
        if not self.attached:
            raise LocalProtocolError(f"the link {self._name!r} is not attached")

    def over(self, closed: bool, cause: AmqpError | None) -> None:
        """It has ended; told once."""
        self.attached = False
        self.session.links.pop(self, None)
        if not self.gone:
            self.gone = True
            self.engine.emit(LinkEnded(self, closed, cause))


def link_cause(error: Error | None) -> EndpointError:
    """The peer ended a link, and why."""
    return LinkDetached() if error is None else LinkDetached(error.condition, error.description, error.info)


def session_cause(error: Error | None) -> EndpointError:
    """The peer ended a session, and why."""
    return SessionEnded() if error is None else SessionEnded(error.condition, error.description, error.info)
