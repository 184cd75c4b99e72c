"""What all links of this dialect share. 0-10 has no links: a link is a destination, and what this side knows of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, ClassVar, Protocol

from ..._machine import Machine
from ...engine import LinkAttached, LinkEnded, LinkTerms
from ...errors import AmqpError, LinkDetached
from ...messaging import Error
from .._kit.causes import as_exception
from .._kit.links import PlainLink, Unresumed
from .._kit.parents import EventSession
from .command_ids import CommandOwner
from .states import LINK, LinkState, Step

_ATTACHED = frozenset({LinkState.ATTACHED, LinkState.CANCELLED})
_DETACHED = frozenset({LinkState.DETACHING, LinkState.OVER})


class EndpointSession(EventSession, Protocol):
    """The session of a link, as both ends of it see it."""

    def forget(self, link: LinkEndpoint) -> None:
        """Forget a link that is over."""

    def settle_events(self) -> None:
        """Tell the outcomes and settlements that were gathered."""


class LinkEndpoint(PlainLink, CommandOwner, Machine[LinkState]):
    """One end of a link.

    Attributes:
        detached: this side has asked for the end of the link, or the link is over.
    """

    noun = "link"
    transitions: ClassVar[dict[tuple[LinkState, Step], LinkState]] = LINK
    session: EndpointSession
    attached: bool
    ended: bool
    remote: LinkTerms | None
    terms: LinkTerms | None

    def __init__(self, session: EndpointSession, name: str) -> None:
        self.session = session
        self._name = name
        self.state = LinkState.ATTACHING
        self.detached: bool = False
        self._unresumed = Unresumed(None)

    def entered(self, state: LinkState) -> None:
        self.attached = state in _ATTACHED
        self.detached = state in _DETACHED
        self.ended = state is LinkState.OVER

    @property
    def settled_by_sender(self) -> bool:
        return self.terms is not None and self.terms.settle_mode == "settled"

    def carry_over(self, resuming: Iterable[Any] | None) -> None:
        """Keep the deliveries that the owner wants to resume; `mark_attached` tells that their outcome is unknown."""
        self._unresumed = Unresumed(resuming)

    def mark_attached(self, remote: LinkTerms) -> None:
        """Tell that the link is attached, with the terms `remote`."""
        if self.ended:
            return  # it was detached meanwhile
        self.remote = replace(remote, unsettled=None)
        self.advance(Step.ATTACH)
        self.session.engine.emit(LinkAttached(self))
        self._unresumed.report(self)

    def attach_failed(self, error: Error) -> None:
        """End the link, for it can not be attached."""
        self.end(True, as_exception(LinkDetached, error))

    def detach(self, *, closed: bool = True, error: Error | None = None) -> None:
        """End the link. With an error a server ends the session: 0-10 can not tell the peer that one link ended."""
        if self.detached:
            return
        self.advance(Step.DETACH)
        if error is not None:
            self.session.end(error)
        else:
            self.end(closed, None)

    def _gone(self, closed: bool) -> None:
        self.end(closed, None)

    def over(self, error: AmqpError | None) -> None:
        """End the link, for its session is over."""
        self.end(False, error)

    def end(self, closed: bool, error: AmqpError | None) -> None:
        """Tell once that the link is over."""
        if not self.ended:
            self.advance(Step.END_LINK)
            self.session.forget(self)
            self.session.settle_events()  # outcomes come before the end of their link
            self.session.engine.emit(LinkEnded(self, closed, error))
