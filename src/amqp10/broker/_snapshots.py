"""Snapshots of a broker's nodes, as plain values."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from ._queues.stream import Stream

if TYPE_CHECKING:
    from ._queues.queue import Queue
    from ._queues.topic import Subscription, Topic
    from ._routing.exchanges import Exchange


@dataclass(frozen=True, slots=True)
class QueueSnapshot:
    """A queue at one moment.

    Attributes:
        name: its address.
        depth: messages in it, including those that consumers hold unsettled.
        bytes: the encoded size of these messages.
        unsettled: messages that consumers hold.
        consumers, producers: attached links.
        enqueued: messages that ever arrived.
        dequeued: messages that left because they were accepted or sent settled.
        redelivered: how often a message came back from a consumer.
        copied: copies given to browsers.
        rejected, expired, exhausted, overflowed: messages that ended for this reason; `exhausted` ones failed
            `max_delivery_count` times, `overflowed` ones were the oldest of a queue beyond its `x-max-length` or
            `x-max-length-bytes`.
        dead_lettered: how many of these four kinds went to the dead-letter queue; the others are gone.
        duplicates: messages dropped because they had been sent before (`duplicate_ids`).
        temporary: whether it ends with the link that it was created for.
        first_offset: the offset of the oldest message of a stream; None for any other queue.
    """

    name: str
    depth: int
    bytes: int
    unsettled: int
    consumers: int
    producers: int
    enqueued: int
    dequeued: int
    redelivered: int
    copied: int
    rejected: int
    expired: int
    exhausted: int
    overflowed: int
    dead_lettered: int
    duplicates: int
    temporary: bool
    first_offset: int | None


@dataclass(frozen=True, slots=True)
class SubscriptionSnapshot(QueueSnapshot):
    """The queue of a subscription of a topic.

    Attributes:
        subscription: the name of a kept subscription; None: it ends with its link.
        container: the container it is kept for; None: any container, or it is not kept.
        shared: whether several links may take from it.
    """

    subscription: str | None
    container: str | None
    shared: bool


@dataclass(frozen=True, slots=True)
class TopicSnapshot:
    """A topic at one moment.

    Attributes:
        name: its address.
        enqueued: messages that ever arrived.
        unheard: how many of them arrived when nobody subscribed.
        producers: attached links.
        subscriptions: the queues of attached and of kept subscriptions.
        temporary: whether it ends with the link that it was created for.
    """

    name: str
    enqueued: int
    unheard: int
    producers: int
    subscriptions: tuple[SubscriptionSnapshot, ...]
    temporary: bool


@dataclass(frozen=True, slots=True)
class ExchangeSnapshot:
    """An exchange at one moment.

    Attributes:
        name: "" for the default exchange, which every queue is bound to by its name.
        kind: "direct", "fanout", "topic" or "headers".
        durable: whether a store keeps it.
        auto_delete: whether it ends with its last binding.
        internal: whether only exchanges can send to it.
        alternate: the exchange for messages without a matching binding; None: there is no such exchange.
        bindings: a (name of the queue or exchange, binding key) for each binding.
        published: messages that ever arrived.
        unrouted: how many of them had no matching binding.
    """

    name: str
    kind: str
    durable: bool
    auto_delete: bool
    internal: bool
    alternate: str | None
    bindings: tuple[tuple[str, str], ...]
    published: int
    unrouted: int


def exchange_snapshot(exchange: Exchange) -> ExchangeSnapshot:
    """Return a snapshot of an exchange."""
    return ExchangeSnapshot(
        name=exchange.name,
        kind=exchange.kind,
        durable=exchange.durable,
        auto_delete=exchange.auto_delete,
        internal=exchange.internal,
        alternate=exchange.alternate,
        bindings=tuple((to.name, key) for (to, key), same in exchange.bindings.items() for _ in same),
        published=exchange.published,
        unrouted=exchange.unrouted,
    )


def queue_snapshot(queue: Queue) -> QueueSnapshot:
    """Return a snapshot of a queue."""
    return QueueSnapshot(**_of_queue(queue))


def subscription_snapshot(subscription: Subscription) -> SubscriptionSnapshot:
    """Return a snapshot of a subscription."""
    key = subscription.key
    return SubscriptionSnapshot(
        **_of_queue(subscription),
        subscription=key.name if key is not None else None,
        container=key.owner[1] if key is not None and key.owner is not None else None,
        shared=key is not None and key.kind != "own",
    )


def topic_snapshot(topic: Topic) -> TopicSnapshot:
    """Return a snapshot of a topic."""
    return TopicSnapshot(
        name=topic.name,
        enqueued=topic.enqueued,
        unheard=topic.unheard,
        producers=len(topic.producers),
        subscriptions=tuple(subscription_snapshot(subscription) for subscription in topic.subscriptions.values()),
        temporary=topic.temporary,
    )


def _of_queue(queue: Queue) -> dict[str, Any]:
    same = {each.name: getattr(queue, each.name) for each in fields(QueueSnapshot) if each.name != "first_offset"}
    counts = {"consumers": len(queue.consumers), "producers": len(queue.producers)}
    return same | counts | {"first_offset": queue.first if isinstance(queue, Stream) else None}
