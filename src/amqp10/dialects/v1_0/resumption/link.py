"""What both ends of a link do to resume it: take deliveries over, and compare the two unsettled maps (§2.6.13)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from ....engine import LinkIncomplete
from ..parents import LinkCore

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ....messaging import DeliveryState


class Resumption(ABC):
    """The deliveries of earlier attachments of a link, until it is known what becomes of each.

    A link makes one with an attach that has an unsettled map, which may be empty, and drops it when nothing is left to
    be said. A link that never resumes has none.

    Attributes:
        link: the link that resumes.
    """

    def __init__(self, link: LinkCore) -> None:
        self.link: LinkCore = link
        self._numbers: list[tuple[dict[int, Any], int]] = []  # of deliveries in earlier attachments: table and number
        self._reduced_reported = False

    @abstractmethod
    def states_of(self, deliveries: Sequence[Any]) -> Iterable[tuple[bytes, DeliveryState | None]]:
        """Return the state of each delivery for our unsettled map, by tag."""

    def take_over(self, deliveries: Sequence[Any]) -> None:
        """Make deliveries part of this attachment.

        Dispositions for their earlier delivery-ids are valid until the peer has attached, but not on another
        connection.
        """
        for delivery in deliveries:
            entry = earlier_entry(self.link, delivery)
            if entry is not None:
                self._numbers.append(entry)
                if delivery.link.session.engine is not self.link.session.engine:
                    self.drop_numbers()
        self.adopt(deliveries)

    def drop_numbers(self) -> None:
        """Ignore further dispositions for the delivery-ids of earlier attachments."""
        for table, number in self._numbers:
            table.pop(number, None)
        self._numbers.clear()

    @abstractmethod
    def adopt(self, deliveries: Sequence[Any]) -> None:
        """Enter the deliveries of an earlier attachment into the link."""

    def compare(self) -> None:
        """Find out what became of the deliveries that were taken over: both attaches are exchanged."""
        ours, theirs = self.link.terms, self.link.remote
        assert ours is not None
        assert theirs is not None
        if theirs.unsettled is not None and (ours.incomplete_unsettled or theirs.incomplete_unsettled):
            self.link.become_incomplete()
        self.reconcile(theirs.unsettled)
        self.check_reduced()

    @abstractmethod
    def reconcile(self, theirs: Mapping[bytes, DeliveryState | None] | None) -> None:
        """Decide on each delivery that was taken over, by the peer's map; None: the peer does not resume."""

    @property
    @abstractmethod
    def reduced(self) -> bool:
        """Return whether all deliveries that an incomplete link could resume are settled."""

    def check_reduced(self) -> None:
        """Tell the owner, once, that an incomplete link has nothing left to resume. Call it after each settlement."""
        link = self.link
        if link.incomplete and link.attached and not self._reduced_reported and self.reduced:
            self._reduced_reported = True
            link.session.engine.emit(LinkIncomplete(link))


def earlier_entry(link: LinkCore, delivery: Any) -> tuple[dict[int, Any], int] | None:
    """Return where an earlier attachment of `link` has `delivery`: the table of its session, and the delivery-id."""
    before, number = delivery.link, delivery.delivery_id
    if not isinstance(before, LinkCore) or number is None:
        return None
    return (before.session.outgoing if link.is_sender else before.session.incoming), number
