"""How a message comes again later: held here, or by what the broker has: a delayed outcome, a schedule, a queue.

Each but the first leaves the message with the broker, which is where it is safe when the worker ends.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from time import time
from typing import Any, Final, Protocol
from uuid import uuid4

from ..client import Connection, Delivery, Sender
from ..engine import DELAYED_RETRY_CAPABILITY
from ..errors import Unsupported
from ..messaging import ACCEPTED, Message, Modified, Outcome
from ..types import Symbol, Timestamp

FAILED_ATTEMPTS: Final = Symbol("x-opt-failed-attempts")
"""The message annotation that counts the failed attempts which the broker's delivery-count does not know of."""

DELIVERY_TIME: Final = Symbol("x-opt-delivery-time")
"""When the message is to be delivered again, in milliseconds since 1970: RabbitMQ 4.3, Artemis."""

SCHEDULED_FOR: Final = Symbol("x-opt-scheduled-enqueue-time")
"""The same, as a timestamp: Azure Service Bus."""

OWN_ID: Final = Symbol("x-opt-own-message-id")
"""The message-id of a message whose copy has another one, because its queue drops a second one of the same id."""

DUPLICATE_ID: Final = "_AMQ_DUPL_ID"
"""The application property by which Artemis and the embedded broker know, and drop, what was sent twice."""

SCHEDULES: Final = "DELAYED_DELIVERY"
"""The capability of a peer that delivers a message no sooner than its `x-opt-delivery-time` says."""

DELAYED_RETRY_SINCE: Final = (4, 3)
"""The version of RabbitMQ whose quorum queues keep a `modified` message back until its `x-opt-delivery-time`."""


MOST_COUNTED: Final = (1 << 32) - 2
"""Attempts that failed, with which and one more a delivery-count can still be written."""

_BROKERS_OWN: Final = (
    *("x-death", "x-first-death-", "x-last-death-", "x-opt-deaths"),
    *("x-delivery-count", "x-acquired-count", DELIVERY_TIME, FAILED_ATTEMPTS, OWN_ID),
    *("x-opt-sequence-number", "x-opt-enqueue", "x-opt-locked-until", "x-opt-message-state", SCHEDULED_FOR),
)
"""How annotations begin that tell of one stay in a queue: with them RabbitMQ drops a copy, or does not take it."""


class Delay(Protocol):
    """A way to have the broker deliver a message again after a delay."""

    async def __call__(self, delivery: Delivery, failures: int, broker_count: int, delay: float) -> Outcome:
        """Return the outcome by which the message comes later.

        Args:
            failures: all failed attempts, this one among them.
            broker_count: those that the broker had counted when the message came.
            delay: seconds until it is to come again.
        """


def uncounted(message: Message) -> int:
    """Return how many failed attempts at a message the broker's delivery-count does not include.

    Its sender may have said that, so it is no more than what with the delivery-count can be said again.
    """
    failed = message.message_annotations.get(FAILED_ATTEMPTS, 0)
    return min(max(0, failed), max(0, MOST_COUNTED - message.delivery_count)) if isinstance(failed, int) else 0


def copy_of(message: Message, said: dict[Any, Any], **changes: Any) -> Message:
    """Return a copy to be sent: with further annotations, and without what tells of the message's stay in a queue.

    It has no duplicate id, by which a broker would accept it and drop it.

    Args:
        said: annotations that it gets.
        changes: as for `Message.replace`.
    """
    kept = {
        name: value for name, value in message.message_annotations.items() if not str(name).startswith(_BROKERS_OWN)
    }
    properties = message.application_properties
    if DUPLICATE_ID in properties:
        changes["application_properties"] = {name: properties[name] for name in properties if name != DUPLICATE_ID}
    changes = {"message_id": own_message_id(message)} | changes
    return message.replace(message_annotations=kept | said, delivery_count=None, **changes)


def own_message_id(message: Message) -> Any:
    """Return the message-id that the message's sender gave it, also where a copy has another."""
    return message.message_annotations.get(OWN_ID, message.message_id)


def failed_annotations(failures: int, broker_count: int) -> dict[Any, Any]:
    """Return what tells the next worker of all failed attempts, in an outcome that the broker counts as one more."""
    return {FAILED_ATTEMPTS: failures - broker_count - 1}


class ByOutcome:
    """RabbitMQ 4.3 and later, quorum queues; the embedded broker, all queues: the outcome `modified` says when.

    Args:
        clock: the time in seconds since 1970.
    """

    def __init__(self, clock: Callable[[], float] = time) -> None:
        self._clock = clock

    async def __call__(self, delivery: Delivery, failures: int, broker_count: int, delay: float) -> Outcome:
        said = failed_annotations(failures, broker_count)
        said[DELIVERY_TIME] = _from_now(self._clock, delay)
        return Modified(delivery_failed=True, message_annotations=said)


class ByCopy:
    """A copy is sent, and the original accepted once the copy was: to the same address for later, or to a delay queue.

    Args:
        sender: leads to the same address, or to a queue that hands expired messages on to it.
        when: the annotation that says when it is to be delivered; None: it expires in the delay queue.
        clock: the time in seconds since 1970.
    """

    def __init__(self, sender: Sender, when: Symbol | None = None, clock: Callable[[], float] = time) -> None:
        self._sender = sender
        self._when = when
        self._clock = clock

    async def __call__(self, delivery: Delivery, failures: int, broker_count: int, delay: float) -> Outcome:
        message = delivery.message
        said: dict[Any, Any] = {FAILED_ATTEMPTS: failures}
        changes: dict[str, Any] = {}
        if self._when is None:
            changes["ttl"] = timedelta(seconds=delay)
        elif self._when == DELIVERY_TIME:
            said[DELIVERY_TIME] = _from_now(self._clock, delay)
        else:
            said[SCHEDULED_FOR] = Timestamp(_from_now(self._clock, delay))
            if (own := own_message_id(message)) is not None:  # a queue with duplicate detection would drop the copy
                said[OWN_ID], changes["message_id"] = own, str(uuid4())
        await self._sender.send(copy_of(message, said, **changes))
        return ACCEPTED


def scheduled_by(connection: Connection) -> Symbol | None:
    """Return the annotation by which the broker delivers a copy later; None: it keeps a `modified` message back itself.

    Raises:
        Unsupported: it does neither.
    """
    if connection.dialect == "1.0":
        if connection.profile.name == "rabbitmq":
            version = str(connection.remote_properties.get(Symbol("version"), ""))
            if tuple(map(int, re.findall(r"\d+", version)[:2])) >= DELAYED_RETRY_SINCE:
                return None
        elif DELAYED_RETRY_CAPABILITY in connection.offered_capabilities:
            return None
        elif connection.profile.name == "service-bus":
            return SCHEDULED_FOR
        elif SCHEDULES in connection.offered_capabilities:
            return DELIVERY_TIME
    raise Unsupported(
        f"{connection.profile.title} has no delayed delivery in dialect {connection.dialect!r}: hold messages in "
        'memory by delay_by="memory", or give delay_queue=, a queue that forwards expired messages'
    )


def _from_now(clock: Callable[[], float], delay: float) -> int:
    # A long: Artemis delivers at once what says it as a timestamp.
    return round((clock() + delay) * 1000)
