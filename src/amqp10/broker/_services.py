"""What serves links that do not lead to queues and topics of the broker's own kind."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..engine import Link, Session


class LinkService(ABC):
    """Serves the links of one connection that are for it; it is their owner."""

    @abstractmethod
    def attach(self, link: Link) -> bool:
        """Attach a link if it is for this service; return whether it is.

        Raises:
            Refused: it is, and cannot be attached.
        """

    def destination(self, link: Link) -> str | None:
        """Return where the messages of a link go that this service does not own; None: to the target that it names."""
        return None

    @abstractmethod
    def __len__(self) -> int:
        """Return how many links are attached."""

    @property
    @abstractmethod
    def links(self) -> Iterable[Link]:
        """Those that are attached."""

    @abstractmethod
    def ready(self, session: Session | None = None) -> None:
        """Go on: the window of a session, or the output, has room again."""

    @abstractmethod
    def check_rights(self) -> None:
        """End the links that are not allowed any more: a token has ended."""

    @abstractmethod
    def end(self, link: Link) -> bool:
        """Remove a link that has ended; return whether it was one of them."""
