"""Services for links that do not lead to the broker's own queues and topics."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..engine import Link, LinkSession


class LinkService(ABC):
    """Serves certain links of one connection, and is their owner."""

    @abstractmethod
    def attach(self, link: Link) -> bool:
        """Attach a link if it is for this service; return whether it is.

        Raises:
            Refused: the link is for this service, but cannot be attached.
        """

    def has_entity(self, path: str) -> bool:
        """Return whether there is what a token is put for; `path` is in lower case, and "" is all of it."""
        return True

    def destination(self, link: Link) -> str | None:
        """Return the destination of a link that this service does not serve; None: the target that it names."""
        return None

    @abstractmethod
    def __len__(self) -> int:
        """Return how many links are attached."""

    @property
    @abstractmethod
    def links(self) -> Iterable[Link]:
        """The attached links."""

    @abstractmethod
    def ready(self, session: LinkSession | None = None) -> None:
        """Send answers that wait, because a session's window or the output has room again; None: any session's."""

    @abstractmethod
    def end(self, link: Link) -> bool:
        """Remove a link that ended; return whether it was one of this service."""
