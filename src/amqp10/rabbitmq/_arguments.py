"""What queues can be declared with: keyword arguments here, `x-` arguments there (https://www.rabbitmq.com/docs/queues)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final, Literal, TypedDict

QueueType = Literal["classic", "quorum", "stream"]
ExchangeType = Literal["direct", "fanout", "topic", "headers", "x-local-random", "x-delayed-message"] | str
Overflow = Literal["drop-head", "reject-publish", "reject-publish-dlx"]


class QueueArguments(TypedDict, total=False):
    """The keyword arguments of `declare_queue` that become `x-` arguments, and which queue types have them."""

    max_length: int  # messages [classic, quorum]
    max_length_bytes: int  # [all]
    overflow: Overflow  # what happens when it is full [classic, quorum]
    message_ttl: timedelta  # [classic, quorum]
    expires: timedelta  # unused for so long, the queue goes [classic, quorum]
    dead_letter_exchange: str  # [classic, quorum]
    dead_letter_routing_key: str  # [classic, quorum]
    single_active_consumer: bool  # [classic, quorum]
    max_priority: int  # 1..255 [classic]
    delivery_limit: int  # failed deliveries before a message is dead-lettered [quorum]
    initial_group_size: int  # replicas [quorum, stream]
    max_age: timedelta  # [stream]
    max_segment_size_bytes: int  # [stream]
    filter_size: int  # bytes of a chunk's filter, 16..255 [stream]
    leader_locator: Literal["client-local", "balanced"]  # [quorum, stream]


_CLASSIC: Final = {"max_priority"}
_QUORUM: Final = {"delivery_limit", "initial_group_size", "leader_locator"}
_STREAM: Final = {
    "max_length_bytes",
    "initial_group_size",
    "leader_locator",
    "max_age",
    "max_segment_size_bytes",
    "filter_size",
}
_ONLY_SOMEWHERE: Final = _CLASSIC | _QUORUM | _STREAM - {"max_length_bytes"}
_NAMES: Final = {
    "initial_group_size": {"quorum": "x-quorum-initial-group-size", "stream": "x-initial-cluster-size"},
    "max_segment_size_bytes": {"stream": "x-stream-max-segment-size-bytes"},
    "filter_size": {"stream": "x-stream-filter-size-bytes"},
    "leader_locator": {"quorum": "x-queue-leader-locator", "stream": "x-queue-leader-locator"},
}


def queue_arguments(queue_type: QueueType, said: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """The `x-` arguments of a queue.

    Args:
        said: see `QueueArguments`.
        more: arguments by their own names, which go first.

    Raises:
        TypeError: there is no such argument.
        ValueError: a queue of this type has no such argument.
    """
    arguments: dict[str, Any] = {"x-queue-type": queue_type}
    for name, value in said.items():
        if name not in QueueArguments.__annotations__:
            raise TypeError(f"declare_queue() got an unexpected keyword argument {name!r}")
        if not _has(queue_type, name):
            raise ValueError(f"a {queue_type} queue has no {name}")
        arguments[_NAMES.get(name, {}).get(queue_type, "x-" + name.replace("_", "-"))] = _spelled(name, value)
    return arguments | dict(more)


def _has(queue_type: QueueType, name: str) -> bool:
    if queue_type == "stream":
        return name in _STREAM
    return name not in _ONLY_SOMEWHERE or name in (_CLASSIC if queue_type == "classic" else _QUORUM)


def _spelled(name: str, value: Any) -> Any:
    if not isinstance(value, timedelta):
        return value
    # The age of a stream is a text with a unit, all other times are numbers of milliseconds.
    return f"{int(value.total_seconds())}s" if name == "max_age" else int(value.total_seconds() * 1000)
