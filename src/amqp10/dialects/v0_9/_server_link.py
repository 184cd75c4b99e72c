"""What a server's links share: each stands for a consumer, for all publishes of a channel, or for its transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...engine import Link, LinkAttached, LinkTerms
from ...errors import LocalProtocolError
from ...messaging import Error

if TYPE_CHECKING:
    from ._engine import V09Engine
    from ._server_session import ServerSession


class ServerLink(Link):
    """A link that the client's methods made; the owner answers it."""

    session: ServerSession

    def __init__(self, session: ServerSession, remote: LinkTerms) -> None:
        self.session = session
        self.terms: LinkTerms | None = None
        self.remote: LinkTerms = remote
        self.attached = False
        self.properties: Any = {}
        self.incomplete = False
        self.context: Any = None

    @property
    def engine(self) -> V09Engine:
        return self.session.connection.engine

    @property
    def name(self) -> str:
        return self.remote.name

    @property
    def settled_by_sender(self) -> bool:
        return self.remote.settle_mode == "settled"

    def announce(self) -> None:
        """Tell the owner of it; nothing else happens on the channel until there is an answer."""
        self.session.hold(self)
        self.engine.emit(LinkAttached(self))

    def attach(self, terms: LinkTerms, *, resuming: Any = None) -> None:
        if self.terms is not None:
            raise LocalProtocolError(f"the link {self.name!r} does not wait for an answer")
        self.terms = terms
        if self not in self.session.links():
            return  # the channel ended while the answer was on its way
        self.attached = True
        self.begin()

    def begin(self) -> None:
        """It stands."""

    def refuse(self, error: Error) -> None:
        raise LocalProtocolError(f"the link {self.name!r} cannot be refused")

    def suspended(self) -> list[Any]:
        return []
