"""A topic: every subscriber has a queue of its own, and a message goes into all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from .._log import attempt
from .node import Node
from .queue import UNLIMITED, Queue

if TYPE_CHECKING:
    from ...messaging import Error
    from .message import QueuedMessage
    from .node import Consumer, Limits
    from .selection import Filtering

MakeSubscription = Callable[["Topic"], "Subscription"]
EndSubscription = Callable[["Subscription"], None]


Owner = tuple[str | None, str]
"""Who authenticated, None for nobody, and the container's id."""
Kind = Literal["own", "shared", "volatile"]


@dataclass(frozen=True, slots=True)
class SubscriptionKey:
    """What names a subscription.

    Attributes:
        owner: None for a global one.
        name: its own name, without what a link of a shared one adds to it.
        kind: "own": one link; "shared" and "volatile": durable and not durable, for several.
    """

    owner: Owner | None
    name: str
    kind: Kind


class Subscription(Queue):
    """The queue of one subscriber of a topic, or of several who share it; it ends with the last link of them.

    A lasting one stays until `end` is called; see `_retained.subscriptions`.

    It is not an address: nobody else sends to it or reads from it.

    Attributes:
        filtering: which messages come into it; None for all.
        lasting: it outlives its links.
        key: by what it is found again; None for one that is not.
    """

    filtering: Filtering | None = None
    lasting = False
    key: SubscriptionKey | None = None

    def __init__(self, name: str, topic: Topic, ended: EndSubscription, **settings: Any) -> None:
        super().__init__(name, temporary=True, **settings)
        self.topic = topic
        self._ended = ended

    def takes(self, entry: QueuedMessage, known: dict[str, Any]) -> bool:
        """Return whether a message is for it; `known` is what the filters of others have read of it."""
        filtering = self.filtering
        if filtering is None:
            return True
        passes = filtering.passes_known
        return filtering.passes(entry) if passes is None else passes(entry, known)

    def remove_consumer(self, consumer: Consumer) -> None:
        super().remove_consumer(consumer)
        if not self.lasting:
            self._ended(self)

    def end(self) -> None:
        """End the subscription, and drop what is in it."""
        self.deleted = True
        self._ended(self)

    def _regulate(self) -> None:
        # The producers are the topic's, and what they may send depends on all of its subscriptions.
        topic = self.topic
        if topic.rationing or self.free < self.limits.credit * (len(topic.producers) + 1):
            topic.rationing = True
            topic.touch()


class Topic(Node):
    """Messages are copied to those who subscribe at the time; with no subscriber they go nowhere, as topics do.

    A lasting subscription takes them in while nobody consumes from it.

    A topic is full while one of its subscriptions is, for nothing is dropped: the producers then go at the pace of
    the slowest subscriber.

    Attributes:
        subscriptions: by name, in order of subscribing.
        enqueued: messages that came.
        unheard: of these, messages that came when nobody subscribed.
    """

    def __init__(
        self,
        name: str,
        *,
        limits: Limits,
        touch: Callable[[Node], None],
        make_subscription: MakeSubscription,
        temporary: bool = False,
    ) -> None:
        super().__init__(name, limits=limits, touch=touch, temporary=temporary)
        self.subscriptions: dict[str, Subscription] = {}
        self.unheard: int = 0
        self._make_subscription = make_subscription
        self._selective = False  # some subscription has, or had, a filter

    @property
    def free(self) -> int:
        limits = self.limits
        if limits.bytes is not None and self.reserved_bytes >= limits.bytes:
            return 0
        free = min((subscription.free for subscription in self.subscriptions.values()), default=UNLIMITED)
        return free - self.reserved

    @property
    def awaited(self) -> bool:
        return all(subscription.awaited for subscription in self.subscriptions.values())

    def subscribe(self, filtering: Filtering | None = None, *, lasting: bool = False) -> Subscription:
        """Make the queue of a new subscriber."""
        subscription = self._make_subscription(self)
        subscription.lasting, subscription.temporary = lasting, not lasting
        subscription.filtering = filtering
        self._selective |= filtering is not None
        self.subscriptions[subscription.name] = subscription
        # Producers hold credit for a topic without this queue.
        self.rationing = True
        self.touch()
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """Remove a subscription, and drop what it did not take."""
        self.subscriptions.pop(subscription.name, None)
        if self.rationing:
            self.touch()

    def insert(self, entry: QueuedMessage) -> None:
        self.enqueued += 1
        subscriptions = list(self.subscriptions.values())
        if not subscriptions:
            self.unheard += 1
            return
        if self._selective:
            known: dict[str, Any] = {}
            subscriptions = [each for each in subscriptions if each.takes(entry, known)]
            if not subscriptions:
                return
        # Each queue changes its own entry (position, attempts); the bytes are one.
        for subscription in subscriptions[1:]:
            subscription.put(entry.copy())
        subscriptions[0].put(entry)

    put = insert  # it refuses nothing

    def run(self) -> None:
        self._touched = False
        if not self.deleted:
            self._regulate()

    def delete(self, error: Error) -> None:
        self.deleted = True
        for subscription in list(self.subscriptions.values()):
            attempt(f"a subscription of {self.name!r}", subscription.delete, error)
        self.subscriptions.clear()
        for producer in list(self.producers):
            attempt(f"a producer for {self.name!r}", producer.node_deleted, error)
        self.producers.clear()
