"""The arguments of queues: keyword arguments here, `x-` arguments there (https://www.rabbitmq.com/docs/queues)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from math import ceil
from typing import Any, Final, Literal, TypedDict

from .._arguments import check_range

QueueType = Literal["classic", "quorum", "stream"]
"""The types of queues of RabbitMQ."""
ExchangeType = Literal["direct", "fanout", "topic", "headers", "x-local-random", "x-delayed-message"] | str
"""The types of exchanges of RabbitMQ; plugins may add others."""
Overflow = Literal["drop-head", "reject-publish", "reject-publish-dlx"]
"""What a full queue drops or rejects."""


class QueueArguments(TypedDict, total=False):
    """The keyword arguments of `declare_queue` that become `x-` arguments, with the queue types that have them."""

    max_length: int  # messages [classic, quorum]
    max_length_bytes: int  # [all]
    overflow: Overflow  # when the queue is full [classic, quorum]
    message_ttl: timedelta  # [classic, quorum]
    expires: timedelta  # deletes the queue after this time without use [classic, quorum]
    dead_letter_exchange: str  # [classic, quorum]
    dead_letter_routing_key: str  # [classic, quorum]
    dead_letter_strategy: Literal[
        "at-most-once", "at-least-once"
    ]  # the latter needs overflow "reject-publish" [quorum]
    single_active_consumer: bool  # [classic, quorum]
    max_priority: int  # 1..255 [classic]
    delivery_limit: int  # failed deliveries before a message is dead-lettered, -1 for no limit [quorum]
    initial_group_size: int  # replicas [quorum, stream]
    target_group_size: int  # replicas to maintain [quorum]
    leader_locator: Literal["client-local", "balanced"]  # [all]
    max_age: timedelta  # whole seconds [stream]
    max_segment_size_bytes: int  # [stream]
    filter_size: int  # bytes of a chunk's filter, 16..255 [stream]


def _on(name: str, *types: str) -> dict[str, str]:
    return dict.fromkeys(types, name)


# RabbitMQ's name of each argument, by the queue types that have it.
_NAMES: Final = {
    "max_length": _on("x-max-length", "classic", "quorum"),
    "max_length_bytes": _on("x-max-length-bytes", "classic", "quorum", "stream"),
    "overflow": _on("x-overflow", "classic", "quorum"),
    "message_ttl": _on("x-message-ttl", "classic", "quorum"),
    "expires": _on("x-expires", "classic", "quorum"),
    "dead_letter_exchange": _on("x-dead-letter-exchange", "classic", "quorum"),
    "dead_letter_routing_key": _on("x-dead-letter-routing-key", "classic", "quorum"),
    "dead_letter_strategy": _on("x-dead-letter-strategy", "quorum"),
    "single_active_consumer": _on("x-single-active-consumer", "classic", "quorum"),
    "max_priority": _on("x-max-priority", "classic"),
    "delivery_limit": _on("x-delivery-limit", "quorum"),
    "initial_group_size": _on("x-quorum-initial-group-size", "quorum") | _on("x-initial-cluster-size", "stream"),
    "target_group_size": _on("x-quorum-target-group-size", "quorum"),
    "leader_locator": _on("x-queue-leader-locator", "classic", "quorum", "stream"),
    "max_age": _on("x-max-age", "stream"),
    "max_segment_size_bytes": _on("x-stream-max-segment-size-bytes", "stream"),
    "filter_size": _on("x-stream-filter-size-bytes", "stream"),
}


_PRIORITIES: Final = (
    "; a quorum queue has priorities without it: "
    "32 from RabbitMQ 4.3 on, and before that two, one up to 4 and one above"
)


def queue_arguments(queue_type: QueueType, given: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Return the `x-` arguments of a queue.

    Args:
        given: arguments of `QueueArguments`.
        more: arguments by RabbitMQ's names, which override those in `given`.

    Raises:
        TypeError: an argument in `given` does not exist.
        ValueError: a queue of this type does not have an argument in `given`, or the argument is negative.
    """
    arguments: dict[str, Any] = {"x-queue-type": queue_type}
    for name, value in given.items():
        if name not in _NAMES:
            raise TypeError(f"declare_queue() got an unexpected keyword argument {name!r}")
        if isinstance(value, int):
            check_range(name, value, -1 if name == "delivery_limit" else 0)  # -1: without a limit
        if queue_type not in _NAMES[name]:
            others = " or ".join(_NAMES[name])
            text = f"a {queue_type} queue has no argument {name}: queue_type {others} has it"
            raise ValueError(text + (_PRIORITIES if (name, queue_type) == ("max_priority", "quorum") else ""))
        arguments[_NAMES[name][queue_type]] = _spelled(name, value)
    return arguments | dict(more)


def _spelled(name: str, value: Any) -> Any:
    if not isinstance(value, timedelta):
        return value
    # The age of a stream is text with a unit; all other times are numbers of milliseconds.
    return f"{ceil(value.total_seconds())}s" if name == "max_age" else ceil(value / timedelta(milliseconds=1))
