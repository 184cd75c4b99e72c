"""What the client remembers of links beyond a connection, and if it is to, beyond the process (§2.6.13).

A sender's delivery is unsettled from before its transfer is written until both sides have settled it; a receiver's in
receiver-settle-mode "second" from before its outcome is written until the sender has settled. Attaching the link
again with these deliveries shows what became of each: nothing is lost, and nothing comes twice.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self

from ..._arguments import checked

if TYPE_CHECKING:
    from ...messaging import Outcome


@checked
@dataclass(frozen=True, slots=True)
class LinkKey:
    """What names one end of a link in all its attachments (§2.6.1).

    Attributes:
        container_id: this side's container; it has to be the same in the next process.
        name: the link's.
        role: which end this is.
    """

    container_id: str
    name: str
    role: Literal["sender", "receiver"]


@dataclass(slots=True, eq=False)
class StoredDelivery:
    """A delivery that is not settled.

    Attributes:
        tag: its delivery-tag.
        payload: the encoded message; of a receiver's nothing.
        message_format: 0 for a standard AMQP message (§3.2).
        outcome: what this receiver gave; None on a sender.
    """

    tag: bytes
    payload: bytes = b""
    message_format: int = 0
    outcome: Outcome | None = None


class DeliveryStore(ABC):
    """Keeps the unsettled deliveries of links, for their next attachment.

    The client reports each change to the store at once. It awaits `commit` before it writes frames that depend on the
    change. One store may serve several connections, whose links differ in container or name.
    """

    @abstractmethod
    def load(self, link: LinkKey) -> list[StoredDelivery]:
        """Return what is unsettled of a link, in order; its next attachment resumes with this."""

    @abstractmethod
    def add(self, link: LinkKey, tag: bytes, payload: bytes, message_format: int) -> None:
        """Record a sender's message that is about to be written."""

    @abstractmethod
    def outcome(self, link: LinkKey, tag: bytes, outcome: Outcome) -> None:
        """Record a receiver's outcome that is about to be written; the last one for a tag counts.

        Raises:
            EncodeError: it cannot be encoded, so neither kept nor written; what was there before stays.
        """

    @abstractmethod
    def settled(self, link: LinkKey, tags: Iterable[bytes]) -> None:
        """Forget these, which are settled. Unknown tags are left alone."""

    @abstractmethod
    def end(self, link: LinkKey) -> None:
        """Forget a link that is closed for good, and all that was unsettled with it (§2.6.6)."""

    @abstractmethod
    async def commit(self) -> None:
        """Return when all that was told before this call is as safe as this store makes it.

        Raises:
            StoreError: it is not; nothing may be written that relies on it.

        Cancelling: what was told stays told, and is committed with the next call at the latest.
        """

    @abstractmethod
    def close(self) -> None:
        """Commit the rest and let go of what is open; for when no connection uses the store any more."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class MemoryDeliveryStore(DeliveryStore):
    """For connections that come one after the other in one process; all is forgotten with it."""

    def __init__(self) -> None:
        self._links: dict[LinkKey, dict[bytes, StoredDelivery]] = {}

    def __repr__(self) -> str:
        return f"<MemoryDeliveryStore of {len(self._links)} links>"

    def load(self, link: LinkKey) -> list[StoredDelivery]:
        return list(self._links.get(link, {}).values())

    def add(self, link: LinkKey, tag: bytes, payload: bytes, message_format: int) -> None:
        self._put(link, StoredDelivery(tag, payload, message_format))

    def outcome(self, link: LinkKey, tag: bytes, outcome: Outcome) -> None:
        self._put(link, StoredDelivery(tag, outcome=outcome))

    def settled(self, link: LinkKey, tags: Iterable[bytes]) -> None:
        deliveries = self._links.get(link)
        if deliveries is not None:
            for tag in tags:
                delivery = deliveries.pop(tag, None)
                if delivery is not None:
                    self._removed(delivery)

    def end(self, link: LinkKey) -> None:
        for delivery in self._links.pop(link, {}).values():
            self._removed(delivery)

    async def commit(self) -> None:
        """Memory is as safe as it gets.

        Cancelling: there is no checkpoint.
        """

    def close(self) -> None:
        """Do nothing: nothing is open."""

    def _put(self, link: LinkKey, delivery: StoredDelivery) -> None:
        deliveries = self._links.setdefault(link, {})
        before = deliveries.get(delivery.tag)
        if before is not None:
            self._removed(before)
        deliveries[delivery.tag] = delivery
        self._added(link, delivery)

    def _added(self, link: LinkKey, delivery: StoredDelivery) -> None:
        """Note a delivery that is to be remembered."""

    def _removed(self, delivery: StoredDelivery) -> None:
        """Note one that is to be forgotten."""
