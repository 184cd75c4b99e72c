"""What a broker tells of its nodes: snapshots, plain values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._queue import Queue
    from ._topic import Topic


@dataclass(frozen=True, slots=True)
class QueueFacts:
    """A queue (or one subscription of a topic) at one moment.

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
        temporary: it ends with the link that it was made for.
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
    temporary: bool


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """A topic at one moment.

    Attributes:
        name: its address.
        enqueued: messages that came so far.
        unheard: how many of them came when nobody subscribed.
        producers: links that are attached.
        subscriptions: the queues of those who subscribe now.
        temporary: it ends with the link that it was made for.
    """

    name: str
    enqueued: int
    unheard: int
    producers: int
    subscriptions: tuple[QueueFacts, ...]
    temporary: bool


def queue_facts(queue: Queue) -> QueueFacts:
    """The facts of a queue now."""
    return QueueFacts(
        name=queue.name,
        depth=queue.depth,
        bytes=queue.bytes,
        unsettled=queue.unsettled,
        consumers=len(queue.consumers),
        producers=len(queue.producers),
        enqueued=queue.enqueued,
        dequeued=queue.dequeued,
        redelivered=queue.redelivered,
        copied=queue.copied,
        rejected=queue.rejected,
        expired=queue.expired,
        exhausted=queue.exhausted,
        dead_lettered=queue.dead_lettered,
        temporary=queue.temporary,
    )


def topic_facts(topic: Topic) -> TopicFacts:
    """The facts of a topic now."""
    return TopicFacts(
        name=topic.name,
        enqueued=topic.enqueued,
        unheard=topic.unheard,
        producers=len(topic.producers),
        subscriptions=tuple(queue_facts(subscription) for subscription in topic.subscriptions.values()),
        temporary=topic.temporary,
    )
