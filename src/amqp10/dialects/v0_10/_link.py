"""What all links of this dialect share. 0-10 has none: a link is a destination, and what this side knows of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...engine import DeliveriesUnresumed, Link, LinkAttached, LinkEnded, LinkTerms
from ...errors import AmqpError, LinkDetached, LocalProtocolError
from ...messaging import Error
from ._ledger import CommandOwner

if TYPE_CHECKING:
    from ._session import SessionEndpoint


def detached(error: Error) -> LinkDetached:
    """An error as what ends a link."""
    return LinkDetached(str(error.condition), error.description, error.info)


class LinkEndpoint(Link, CommandOwner):
    """One end of a link."""

    session: SessionEndpoint
    incomplete = False

    def __init__(self, session: SessionEndpoint, name: str) -> None:
        self.session = session
        self._name = name
        self.terms: LinkTerms | None = None
        self.remote: LinkTerms | None = None
        self.attached = False
        self.properties: Any = {}
        self.context: Any = None
        self.detach_sent = False
        self._ended = False
        self._orphans: list[Any] = []  # deliveries of an earlier attachment, which nobody resumes

    @property
    def name(self) -> str:
        return self._name

    @property
    def ended(self) -> bool:
        return self._ended

    @property
    def settled_by_sender(self) -> bool:
        return self.terms is not None and self.terms.settle_mode == "settled"

    def take_orphans(self, resuming: Iterable[Any] | None) -> None:
        """Deliveries that were to be resumed: what became of them is not to be known here."""
        self._orphans = [each for each in resuming or () if not each.local_settled]

    def attach(self, terms: LinkTerms, *, resuming: Iterable[Any] | None = None) -> None:
        raise LocalProtocolError(f"the link {self._name!r} does not wait for an answer")

    def refuse(self, error: Error) -> None:
        raise LocalProtocolError(f"the link {self._name!r} does not wait for an answer")

    def stand(self, remote: LinkTerms) -> None:
        """It is attached."""
        self.remote = replace(remote, unsettled=None)
        self.attached = not self.detach_sent and not self._ended
        self.session.engine.emit(LinkAttached(self))
        if self._orphans:
            orphans, self._orphans = self._orphans, []
            for delivery in orphans:
                delivery.link = self
            self.session.engine.emit(DeliveriesUnresumed(self, orphans))

    def turn_down(self, error: Error) -> None:
        """It can not be attached."""
        self.end(True, detached(error))

    def over(self, error: AmqpError | None) -> None:
        """The session is over."""
        self.end(False, error)

    def end(self, closed: bool, error: AmqpError | None) -> None:
        """Tell that it is over, once."""
        self.attached = False
        if not self._ended:
            self._ended = True
            self.session.forget(self)
            self.session.settle_events()  # outcomes come before the end of their link
            self.session.engine.emit(LinkEnded(self, closed, error))
