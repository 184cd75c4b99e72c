"""What a broker tells of its nodes: snapshots, plain values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ._queues.stream import Stream

if TYPE_CHECKING:
    from ._queues.queue import Queue
    from ._queues.topic import Subscription, Topic
    from ._routing.exchanges import Exchange


@dataclass(frozen=True, slots=True)
class QueueFacts:
    """A queue at one moment.

    Attributes:
        name: its address.
        depth: messages held, those that consumers hold unsettled included.
        bytes: their encoded size.
        unsettled: messages that consumers hold.
        consumers, producers: links that are attached.
        enqueued: messages that came so far.
        dequeued: messages that left by being accepted, or by being sent settled.
        redelivered: times that a message came back from a consumer.
        copied: copies given to browsers.
        rejected, expired, exhausted: messages that ended so; `exhausted` ones had failed `max_delivery_count` times.
        dead_lettered: how many of these three went to the dead-letter queue.
        duplicates: messages that were dropped, for their senders had sent them before (`duplicate_ids`).
        temporary: it ends with the link that it was made for.
        first_offset: of a stream, the offset of the first message that it still has; None for any other queue.
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
    dead_lettered: int
    duplicates: int
    temporary: bool
    first_offset: int | None


@dataclass(frozen=True, slots=True)
class SubscriptionFacts(QueueFacts):
    """The queue of one subscription of a topic.

    Attributes:
        subscription: the name that it is kept under; None for one that just ends with its link.
        container: the container that it is kept for; None for all, or if it is not kept.
        shared: several links may take from it.
    """

    subscription: str | None
    container: str | None
    shared: bool


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """A topic at one moment.

    Attributes:
        name: its address.
        enqueued: messages that came so far.
        unheard: how many of them came when nobody subscribed.
        producers: links that are attached.
        subscriptions: the queues of those who subscribe now, and of subscriptions that are kept.
        temporary: it ends with the link that it was made for.
    """

    name: str
    enqueued: int
    unheard: int
    producers: int
    subscriptions: tuple[SubscriptionFacts, ...]
    temporary: bool


@dataclass(frozen=True, slots=True)
class ExchangeFacts:
    """An exchange at one moment.

    Attributes:
        name: "" for the default exchange, whose bindings are the names of all queues.
        kind: "direct", "fanout", "topic" or "headers".
        durable: it survives the broker, where there is a store.
        auto_delete: it ends with its last binding.
        internal: messages come to it from exchanges only.
        alternate: the exchange for what this one has no binding for; None for none.
        bindings: what is bound, and with which keys: (name of the queue or exchange, binding key).
        published: messages that came so far.
        unrouted: of these, messages that went nowhere.
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


def exchange_facts(exchange: Exchange) -> ExchangeFacts:
    """Return the facts of an exchange now."""
    return ExchangeFacts(
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


def queue_facts(queue: Queue) -> QueueFacts:
    """Return the facts of a queue now."""
    return QueueFacts(**_of_queue(queue))


def subscription_facts(subscription: Subscription) -> SubscriptionFacts:
    """Return the facts of a subscription now."""
    key = subscription.key
    return SubscriptionFacts(
        **_of_queue(subscription),
        subscription=key.name if key is not None else None,
        container=key.owner[1] if key is not None and key.owner is not None else None,
        shared=key is not None and key.kind != "own",
    )


def topic_facts(topic: Topic) -> TopicFacts:
    """Return the facts of a topic now."""
    return TopicFacts(
        name=topic.name,
        enqueued=topic.enqueued,
        unheard=topic.unheard,
        producers=len(topic.producers),
        subscriptions=tuple(subscription_facts(subscription) for subscription in topic.subscriptions.values()),
        temporary=topic.temporary,
    )


def _of_queue(queue: Queue) -> dict[str, Any]:
    return {
        "name": queue.name,
        "depth": queue.depth,
        "bytes": queue.bytes,
        "unsettled": queue.unsettled,
        "consumers": len(queue.consumers),
        "producers": len(queue.producers),
        "enqueued": queue.enqueued,
        "dequeued": queue.dequeued,
        "redelivered": queue.redelivered,
        "copied": queue.copied,
        "rejected": queue.rejected,
        "expired": queue.expired,
        "exhausted": queue.exhausted,
        "dead_lettered": queue.dead_lettered,
        "duplicates": queue.duplicates,
        "temporary": queue.temporary,
        "first_offset": queue.first if isinstance(queue, Stream) else None,
    }
