"""What a server's links share: each stands for a consumer, for all publishes of a channel, or for its transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....engine import LinkAttached, LinkTerms
from ....errors import LocalProtocolError
from ....messaging import Error
from ..link import LinkEndpoint
from ..states import Step

if TYPE_CHECKING:
    from ..engine import V09Engine
    from .parents import ServerLinkSession


class ServerLink(LinkEndpoint):
    """A link that the client's methods made; the owner answers it."""

    session: ServerLinkSession
    terms: LinkTerms | None

    def __init__(self, session: ServerLinkSession, remote: LinkTerms) -> None:
        self.session = session
        self._name = remote.name
        self.remote: LinkTerms = remote

    @property
    def engine(self) -> V09Engine:
        return self.session.connection.engine

    @property
    def settled_by_sender(self) -> bool:
        return self.remote.settle_mode == "settled"

    def announce(self) -> None:
        """Tell the owner of the link; nothing else happens on the channel until the owner answers."""
        self.session.channel.hold(self)
        self.engine.emit(LinkAttached(self))

    def attach(self, terms: LinkTerms, *, resuming: Any = None) -> None:
        if self.take_answer(terms):  # the channel may have ended while the answer was on its way
            self.advance(Step.ATTACH)
            self.begin()

    def begin(self) -> None:
        """Begin to use the link, because the owner has accepted it."""

    def refuse(self, error: Error) -> None:
        raise LocalProtocolError(f"the link {self._name!r} cannot be refused")
