"""One link's part of a `DeliveryStore`: told by senders and receivers, and asked when a link is attached first."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

from ...messaging import TransactionalState
from .store import DeliveryStore, LinkKey, StoredDelivery

if TYPE_CHECKING:
    from ...engine import IncomingDelivery, OutgoingDelivery
    from ...messaging import DeliveryState


class LinkStore:
    """What is unsettled of one link, in a store."""

    def __init__(self, store: DeliveryStore, container_id: str, name: str, role: Literal["sender", "receiver"]) -> None:
        self._store = store
        self._key = LinkKey(container_id, name, role)

    # What an earlier connection left

    @property
    def left(self) -> bool:
        """Whether anything is unsettled."""
        return bool(self._store.load(self._key))

    def load(self) -> list[StoredDelivery]:
        """Return what is unsettled."""
        return list(self._store.load(self._key))

    # What happens

    def submitted(self, delivery: OutgoingDelivery) -> None:
        """Record a message that is on its way."""
        if not delivery.local_settled:
            self._store.add(self._key, delivery.tag, delivery.payload, delivery.message_format)

    def given(self, delivery: IncomingDelivery, outcome: DeliveryState) -> None:
        """Record an outcome that waits for the sender to settle."""
        if not delivery.local_settled and not isinstance(outcome, TransactionalState):
            self._store.outcome(self._key, delivery.tag, outcome)  # type: ignore[arg-type]

    def settled(self, deliveries: Iterable[OutgoingDelivery | IncomingDelivery]) -> None:
        """Forget those of these that are settled."""
        self._store.settled(self._key, [each.tag for each in deliveries if each.local_settled or each.remote_settled])

    def given_up(self, deliveries: Iterable[IncomingDelivery]) -> None:
        """Forget these, which the sender no longer knows."""
        self._store.settled(self._key, [each.tag for each in deliveries])

    def end(self) -> None:
        """Forget the link: it is closed for good."""
        self._store.end(self._key)
