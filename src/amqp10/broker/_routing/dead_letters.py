"""Dead letters: they go to the broker's queue for them, or to the dead-letter exchange of their queue.

Message annotations give the reason: `x-opt-dead-letter-...` in the broker's queue; `x-death` and related ones for an
exchange, as RabbitMQ writes them, newest first. The delivery annotation "rejected" has the error of the consumer that
rejected the message (§3.4.3).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from ...errors import DecodeError
from ...messaging import read_annotations, read_header
from ...types import Symbol
from .._errors import Refused
from .._log import attempt, dead_letter_observers, notice
from .._queues.message import EMPTY_MESSAGE
from .._queues.node import Node
from .._queues.topic import Subscription

if TYPE_CHECKING:
    from ...messaging import Error
    from .._queues.message import QueuedMessage
    from .._queues.queue import Queue, Reason
    from .exchanges import Exchange
    from .topology import Topology

# Reasons that RabbitMQ calls otherwise.
_REASONS: Final = {"max-delivery-count": "delivery_limit"}
_DEATHS: Final = Symbol("x-death")
_FIRST_DEATH: Final = Symbol("x-first-death-queue")
_NATIVE: Final = Symbol("x-opt-0-9-1")  # holds the headers of 0-9-1 that do not fit into AMQP 1.0, such as lists

MAX_HOPS: Final = 64
"""Hops from queue to queue that a message may take by itself. A hop to several queues counts as many for each copy, so
that the number of copies is bounded, whatever the routes are.
"""


class DeadLetters:
    """Moves dead letters.

    Args:
        name: the broker's queue for them; None: there is no such queue.
        declare: returns that queue, created if it does not exist.
    """

    def __init__(self, name: str | None, topology: Topology, declare: Callable[[str], Node]) -> None:
        self.name = name
        self._topology = topology
        self._declare = declare

    def take(self, queue: Queue, entry: QueuedMessage, reason: Reason, error: Error | None) -> bool:
        """Copy a message to where dead letters go, with the reason; return False if it ends, as after too many hops."""
        taken = self._copy(queue, entry, reason, error)
        if taken:
            condition = str(error.condition) if error is not None else None
            cause = f"{condition}: {error.description}" if error is not None else "no error given"
            notice(
                "message_dead_lettered",
                logging.INFO,
                f"message {entry.position} of {queue.name!r:.200} is a dead letter: {reason}, {cause:.500}",
                queue=queue.name,
                reason=reason,
                condition=condition,
                position=entry.position,
                failures=entry.failures,
            )
            if entry.message_format == 0:
                for observe in dead_letter_observers:
                    attempt("a span of a dead letter", observe, "amqp", queue.name, entry.payload, condition or reason)
        return taken

    def _copy(self, queue: Queue, entry: QueuedMessage, reason: Reason, error: Error | None) -> bool:
        if entry.hops >= MAX_HOPS and reason != "rejected":
            return False
        if queue.dead_letter_to is not None:
            return self._publish(queue, entry, reason, error, *queue.dead_letter_to)
        # A message rejected from the dead-letter queue has nowhere left to go.
        if self.name is None or queue.name == self.name:
            return False
        try:
            node = self._declare(self.name)
        except Refused:
            return False
        dead = _moved(entry, reason)
        if reason == "rejected":
            dead.count_failure()  # a rejection counts as an attempt, too (§3.4.3); others were counted before
        reasons: dict[Symbol, Any] = {
            Symbol("x-opt-dead-letter-reason"): reason,
            Symbol("x-opt-dead-letter-source"): queue.topic.name if isinstance(queue, Subscription) else queue.name,
        }
        if error is not None:
            dead.write_rejection(error)
            reasons[Symbol("x-opt-dead-letter-condition")] = str(error.condition)
            if error.description is not None:
                reasons[Symbol("x-opt-dead-letter-description")] = error.description
        dead.annotate(reasons)
        dead.remove_expiry()
        return _put(node, dead)

    def _publish(
        self,
        queue: Queue,
        entry: QueuedMessage,
        reason: Reason,
        error: Error | None,
        exchange_name: str,
        key: str | None,
    ) -> bool:
        exchange = self._topology.exchanges.get(exchange_name)
        if exchange is None:
            return False
        annotations, ttl = _read(entry)
        came_to, came_with = (_text(annotations.get(name)) for name in ("x-exchange", "x-routing-key"))
        keys = [came_with if came_with is not None else queue.name, *_further_keys(annotations)]
        named = _REASONS.get(reason, reason)
        deaths = _deaths(annotations, queue.name, named, came_to or "", keys)
        if deaths is None:
            return False
        # The expiry is removed, so that the message does not die again at once.
        if ttl is not None and entry.expires is not None:
            deaths[0]["original-expiration"] = str(ttl)
        keys = keys if key is None else [key]
        dead = _moved(entry, reason)
        marks: dict[Symbol, Any] = {
            _DEATHS: deaths,
            Symbol("x-exchange"): exchange_name,
            Symbol("x-routing-key"): keys[0],
        }
        for which in ("last",) if _FIRST_DEATH in annotations else ("first", "last"):
            marks[Symbol(f"x-{which}-death-reason")] = named
            marks[Symbol(f"x-{which}-death-queue")] = queue.name
            marks[Symbol(f"x-{which}-death-exchange")] = came_to or ""
        if error is not None:
            dead.write_rejection(error)
        dead.annotate(marks)
        dead.remove_expiry()
        try:
            nodes = self._nodes(exchange, keys, dead.payload if dead.message_format == 0 else EMPTY_MESSAGE)
        except DecodeError:
            # Unreadable headers count as missing.
            nodes = self._nodes(exchange, keys, EMPTY_MESSAGE)
        except Refused:  # too many binding keys to search
            return False
        dead.hops *= max(1, len(nodes))
        return sum([_put(node, dead.copy()) for node in nodes]) > 0

    def _nodes(self, exchange: Exchange, keys: list[str], payload: bytes) -> dict[Node, None]:
        """Return the nodes for a message with these routing keys, each of them once."""
        return {node: None for key in keys for node in self._topology.route(exchange, key, payload).nodes}


def _moved(entry: QueuedMessage, reason: str) -> QueuedMessage:
    dead = entry.copy()
    dead.hops = entry.hops + 1 if reason != "rejected" else 0
    return dead


def _read(entry: QueuedMessage) -> tuple[Mapping[Any, Any], int | None]:
    """Return the annotations and the ttl of a message; if it cannot be read, neither."""
    try:
        if entry.message_format == 0:
            return read_annotations(entry.payload), read_header(entry.payload).ttl
    except DecodeError:
        pass
    return {}, None


def _put(node: Node, entry: QueuedMessage) -> bool:
    try:
        node.put(entry)
    except Refused:
        return False
    return True


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _further_keys(annotations: Mapping[Any, Any]) -> list[str]:
    """Return the routing keys of a message besides its first: `x-cc` in 1.0, the header CC in 0-9-1."""
    keys, native = annotations.get("x-cc"), annotations.get(_NATIVE)
    if keys is None and isinstance(native, dict) and isinstance(native.get("headers"), dict):
        keys = native["headers"].get("CC")
    return [key for key in keys if isinstance(key, str)] if isinstance(keys, list) else []


def _deaths(
    annotations: Mapping[Any, Any], queue: str, reason: str, exchange: str, keys: list[str]
) -> list[dict[str, Any]] | None:
    """Return the deaths of a message with this one added; None: it went in a circle without a rejection."""
    found = annotations.get(_DEATHS)
    before = [dict(each) for each in found if isinstance(each, dict)] if isinstance(found, list) else []
    same = [each for each in before if (each.get("queue"), each.get("reason")) == (queue, reason)]
    if same and reason != "rejected" and all(each.get("reason") != "rejected" for each in before):
        return None
    times = same[0].get("count") if same else 0
    death = {
        "count": (times if isinstance(times, int) else 0) + 1,
        "reason": reason,
        "queue": queue,
        "time": datetime.now(UTC).replace(microsecond=0),
        "exchange": exchange,
        "routing-keys": keys,
    }
    return [death, *(each for each in before if not any(each is one for one in same))]
