"""Topics: every subscriber has a queue of its own, and each message goes into all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from .._log import attempt
from .node import Node
from .queue import UNLIMITED, Queue, QueueSettings

if TYPE_CHECKING:
    from ...messaging import Error
    from .message import QueuedMessage
    from .node import Limits, QueueConsumer
    from .selection import Filtering

MakeSubscription = Callable[["Topic"], "Subscription"]
EndSubscription = Callable[["Subscription"], None]


Owner = tuple[str | None, str]
"""The authenticated user, or None, and the container-id."""
Kind = Literal["own", "shared", "volatile"]


@dataclass(frozen=True, slots=True)
class SubscriptionKey:
    """Identifies a subscription.

    Attributes:
        owner: None for a global one.
        name: the name without the part that distinguishes the links of a shared one.
        kind: "own": for one link; "shared" and "volatile": for several, durable and not durable.
    """

    owner: Owner | None
    name: str
    kind: Kind


class Subscription(Queue):
    """The queue of a subscriber of a topic, or of several who share it; it ends with its last link.

    A lasting one stays until `end` is called; see `_retained.subscriptions`. It has no address: nobody else can send to
    it or receive from it.

    Attributes:
        filtering: the test for its messages; None: it takes all.
        lasting: whether it outlives its links.
        key: identifies a retained subscription; None for any other.
    """

    filtering: Filtering | None = None
    lasting = False
    key: SubscriptionKey | None = None

    def __init__(self, name: str, settings: QueueSettings, topic: Topic, ended: EndSubscription) -> None:
        super().__init__(name, settings, temporary=True)
        self.topic = topic
        self._ended = ended

    def takes(self, entry: QueuedMessage, known: dict[str, Any]) -> bool:
        """Return whether a message is for it; `known` has what other filters have read of the message."""
        filtering = self.filtering
        if filtering is None:
            return True
        passes = filtering.passes_known
        return filtering.passes(entry) if passes is None else passes(entry, known)

    def remove_consumer(self, consumer: QueueConsumer) -> None:
        super().remove_consumer(consumer)
        if not self.lasting:
            self._ended(self)

    def end(self) -> None:
        """End the subscription, and drop its messages."""
        self.deleted = True
        self._ended(self)

    def _regulate(self) -> None:
        # The topic has the producers, and their credit depends on all of its subscriptions.
        topic = self.topic
        if topic.rationing or self.free < self.limits.credit * (len(topic.producers) + 1):
            topic.rationing = True
            topic.touch()


class Topic(Node):
    """Copies each message to the current subscriptions; without any the message is lost, as usual for topics.

    A lasting subscription takes messages while it has no link. A topic is full while one of its subscriptions is,
    because nothing is dropped: producers then go at the pace of the slowest subscriber.

    Attributes:
        subscriptions: by name, in order of subscribing.
        enqueued: messages that ever arrived.
        unheard: how many of them arrived when nobody subscribed.
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
        self._selective = False  # some subscription has or had a filter

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
        """Return the queue of a new subscriber."""
        subscription = self._make_subscription(self)
        subscription.lasting, subscription.temporary = lasting, not lasting
        subscription.filtering = filtering
        self._selective |= filtering is not None
        self.subscriptions[subscription.name] = subscription
        # The credit of producers does not account for this queue yet.
        self.rationing = True
        self.touch()
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """Remove a subscription, and drop its messages."""
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
        # Each queue changes its own entry (position, attempts); they share the bytes.
        for subscription in subscriptions[1:]:
            subscription.put(entry.copy())
        subscriptions[0].put(entry)

    put = insert  # it refuses nothing

    def delete(self, error: Error) -> None:
        self.deleted = True
        for subscription in list(self.subscriptions.values()):
            attempt(f"a subscription of {self.name!r}", subscription.delete, error)
        self.subscriptions.clear()
        self._end_links((), error)
