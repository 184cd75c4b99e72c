"""A link, as far as it is the same at both ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final, Protocol

from ..._machine import Machine
from ...engine import LinkEnded
from .._kit.links import PlainLink
from .._kit.parents import EventSession
from .states import LINK, LinkState, Step

if TYPE_CHECKING:
    from ...engine import LinkTerms
    from ...errors import AmqpError
    from .session import EndpointEngine, SessionLink


_ATTACHED: Final = frozenset({LinkState.ATTACHED, LinkState.CLIENT_CLOSED})
_ENDED: Final = frozenset({LinkState.CLIENT_CLOSED, LinkState.OVER})


class EndpointSession(EventSession, Protocol):
    """The session of a link, as both ends of it see it."""

    @property
    def engine(self) -> EndpointEngine: ...

    @property
    def links(self) -> dict[SessionLink, None]: ...


class LinkEndpoint(PlainLink, Machine[LinkState]):
    """See `Link` for the contract."""

    noun = "link"
    transitions: ClassVar[dict[tuple[LinkState, Step], LinkState]] = LINK
    session: EndpointSession
    attached: bool
    ended: bool
    terms: LinkTerms | None

    def __init__(self, session: EndpointSession, name: str) -> None:
        self.session = session
        self.engine: EndpointEngine = session.engine
        self.state = LinkState.ATTACHING
        self._name = name
        session.links[self] = None

    def entered(self, state: LinkState) -> None:
        self.attached = state in _ATTACHED
        self.ended = state in _ENDED

    def mark_detached(self) -> None:
        """Send nothing more on the link, because its handle, its channel or the connection is closed by this side."""
        if self.may(Step.DETACH):
            self.advance(Step.DETACH)

    def session_ends(self) -> None:
        """Write what has to be written before the session ends; a server's links have nothing."""

    def over(self, closed: bool, cause: AmqpError | None) -> None:
        """End the link, and emit `LinkEnded` the first time."""
        had_ended = self.ended
        self.advance(Step.END_LINK)
        self.session.links.pop(self, None)
        if not had_ended:
            self.engine.emit(LinkEnded(self, closed, cause))
