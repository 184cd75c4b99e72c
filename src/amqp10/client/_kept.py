"""One link's part of a `DeliveryStore`: told by senders and receivers, and asked when a link is attached first."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal

from ..messaging import TransactionalState
from ._delivery import Delivery, SentDelivery
from ._store import DeliveryStore, LinkKey

if TYPE_CHECKING:
    from ..engine import IncomingDelivery, OutgoingDelivery
    from ..messaging import DeliveryState


class KeptDeliveries:
    """What is unsettled of one link, in a store."""

    def __init__(self, store: DeliveryStore, container_id: str, name: str, role: Literal["sender", "receiver"]) -> None:
        self._store = store
        self._key = LinkKey(container_id, name, role)

    # What an earlier connection left

    @property
    def left(self) -> bool:
        """Whether anything is unsettled."""
        return bool(self._store.load(self._key))

    def sent(self) -> list[SentDelivery]:
        """Messages whose outcome is not known; the peer may have had all of each."""
        unbound: Any = None  # to a link, until it is attached
        deliveries = []
        for each in self._store.load(self._key):
            delivery = SentDelivery(unbound, each.tag, each.payload, False, each.message_format)
            delivery.past = 2
            deliveries.append(delivery)
        return deliveries

    def received(self) -> list[Delivery]:
        """Deliveries that were given an outcome of which it is not known whether the sender has it."""
        unbound: Any = None
        deliveries = []
        for each in self._store.load(self._key):
            delivery = Delivery(unbound, unbound, each.tag, b"", False)
            delivery.state = each.outcome
            deliveries.append(delivery)
        return deliveries

    # What happens

    def submitted(self, delivery: OutgoingDelivery) -> None:
        """A message is on its way."""
        if not delivery.local_settled:
            self._store.add(self._key, delivery.tag, delivery.payload, delivery.message_format)

    def given(self, delivery: IncomingDelivery, outcome: DeliveryState) -> None:
        """An outcome is to be told, and waits for the sender to settle."""
        if not delivery.local_settled and not isinstance(outcome, TransactionalState):
            self._store.outcome(self._key, delivery.tag, outcome)  # type: ignore[arg-type]

    def settled(self, deliveries: Iterable[OutgoingDelivery | IncomingDelivery]) -> None:
        """Those of these that are settled are over."""
        self._store.settled(self._key, [each.tag for each in deliveries if each.local_settled or each.remote_settled])

    def given_up(self, deliveries: Iterable[IncomingDelivery]) -> None:
        """The sender knows nothing of these any more."""
        self._store.settled(self._key, [each.tag for each in deliveries])

    def end(self) -> None:
        """The link is closed for good."""
        self._store.end(self._key)
