"""Where messages go that nobody could take: the broker's queue for them, or the exchange that their queue names.

With the reason, in message annotations: `x-opt-dead-letter-...` for the broker's queue, and for an exchange `x-death`
and its companions as RabbitMQ writes them, newest first. The error of a consumer that rejected it is, as it is, the
delivery annotation "rejected" (§3.4.3).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from ...errors import DecodeError
from ...messaging import read_annotations, read_header
from ...types import Symbol
from .._errors import Refused
from .._queues.message import SAYS_NOTHING
from .._queues.node import Node, NotTaken
from .._queues.topic import Subscription

if TYPE_CHECKING:
    from ...messaging import Error
    from .._queues.message import QueuedMessage
    from .._queues.queue import Queue, Reason
    from .exchanges import Exchange
    from .topology import Topology

# Reasons that have another name in RabbitMQ.
_REASONS: Final = {"max-delivery-count": "delivery_limit"}
_DEATHS: Final = Symbol("x-death")
_FIRST_DEATH: Final = Symbol("x-first-death-queue")
_NATIVE: Final = Symbol("x-opt-0-9-1")  # has the headers of 0-9-1 that AMQP 1.0 has no place for, lists among them

MOST_HOPS: Final = 64
"""How often the broker moves a message on by itself. Moving it to several queues counts that many times for each copy,
so that what one message becomes is bounded, whatever leads from where to where."""


class DeadLetters:
    """What becomes of dead letters.

    Args:
        name: of the broker's queue for them; None for none.
        declare: makes that queue, or finds it.
    """

    def __init__(self, name: str | None, topology: Topology, declare: Callable[[str], Node]) -> None:
        self.name = name
        self._topology = topology
        self._declare = declare

    def take(self, queue: Queue, entry: QueuedMessage, reason: Reason, error: Error | None) -> bool:
        """Move a message out of its queue, with the reason in its annotations; False when it just ends.

        It ends, too, when it has gone through too many queues by itself: whatever it says of where it was.
        """
        if entry.hops >= MOST_HOPS and reason != "rejected":
            return False
        if queue.dead_letter_to is not None:
            return self._publish(queue, entry, reason, error, *queue.dead_letter_to)
        # What is rejected out of the dead-letter queue itself has nowhere left to go.
        if self.name is None or queue.name == self.name:
            return False
        try:
            node = self._declare(self.name)
        except Refused:
            return False
        dead = _moved(entry, reason)
        if reason == "rejected":
            dead.failed()  # it was an attempt, too (§3.4.3); the others were counted before
        reasons: dict[Symbol, Any] = {
            Symbol("x-opt-dead-letter-reason"): reason,
            Symbol("x-opt-dead-letter-source"): queue.topic.name if isinstance(queue, Subscription) else queue.name,
        }
        if error is not None:
            dead.rejected(error)
            reasons[Symbol("x-opt-dead-letter-condition")] = str(error.condition)
            if error.description is not None:
                reasons[Symbol("x-opt-dead-letter-description")] = error.description
        dead.annotate(reasons)
        dead.immortal()
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
        if ttl is not None and entry.expires is not None:  # which it has no more, so that it does not die again at once
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
            dead.rejected(error)
        dead.annotate(marks)
        dead.immortal()
        try:
            nodes = self._nodes(exchange, keys, dead.payload if dead.message_format == 0 else SAYS_NOTHING)
        except DecodeError:
            # Headers that cannot be read count as missing.
            nodes = self._nodes(exchange, keys, SAYS_NOTHING)
        except Refused:  # too many binding keys to look through
            return False
        dead.hops *= max(1, len(nodes))
        return sum([_put(node, dead.copy()) for node in nodes]) > 0

    def _nodes(self, exchange: Exchange, keys: list[str], payload: bytes) -> dict[Node, None]:
        """Return where a message with these routing keys goes: once to each node."""
        return {node: None for key in keys for node in self._topology.route(exchange, key, payload).nodes}


def _moved(entry: QueuedMessage, reason: str) -> QueuedMessage:
    dead = entry.copy()
    dead.hops = entry.hops + 1 if reason != "rejected" else 0
    return dead


def _read(entry: QueuedMessage) -> tuple[Mapping[Any, Any], int | None]:
    """Read the annotations and the time-to-live of a message; nothing from a message that cannot be read."""
    try:
        if entry.message_format == 0:
            return read_annotations(entry.payload), read_header(entry.payload).ttl
    except DecodeError:
        pass
    return {}, None


def _put(node: Node, entry: QueuedMessage) -> bool:
    try:
        node.put(entry)
    except NotTaken:
        return False
    return True


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _further_keys(annotations: Mapping[Any, Any]) -> list[str]:
    """Return the routing keys that a message has beside its first: of 1.0 in `x-cc`, of 0-9-1 in the header CC."""
    keys, native = annotations.get("x-cc"), annotations.get(_NATIVE)
    if keys is None and isinstance(native, dict) and isinstance(native.get("headers"), dict):
        keys = native["headers"].get("CC")
    return [key for key in keys if isinstance(key, str)] if isinstance(keys, list) else []


def _deaths(
    annotations: Mapping[Any, Any], queue: str, reason: str, exchange: str, keys: list[str]
) -> list[dict[str, Any]] | None:
    """Return the deaths of a message with this one more; None for a circle without a rejection."""
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
