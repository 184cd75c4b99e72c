"""Delays of a retry at the broker: by a delayed outcome, a scheduled copy, or a delay queue.

The broker keeps the message meanwhile, so that it is safe when the worker ends.
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
from ..errors import EncodeError, LocalProtocolError, MessageRejected, Unsupported
from ..messaging import ACCEPTED, Message, Modified, Outcome
from ..types import Symbol, Timestamp

FAILED_ATTEMPTS: Final = Symbol("x-opt-failed-attempts")
"""The message annotation with the number of failed attempts that the broker's delivery-count does not include."""

DELIVERY_TIME: Final = Symbol("x-opt-delivery-time")
"""The time of the next delivery, in milliseconds since 1970: RabbitMQ 4.3, Artemis."""

SCHEDULED_FOR: Final = Symbol("x-opt-scheduled-enqueue-time")
"""The time of the next delivery, as a timestamp: Azure Service Bus."""

OWN_ID: Final = Symbol("x-opt-own-message-id")
"""The original message-id of a copy that has another one, because its queue drops duplicates by message-id."""

DUPLICATE_ID: Final = "_AMQ_DUPL_ID"
"""The application property by which Artemis and the embedded broker drop duplicates."""

SCHEDULES: Final = "DELAYED_DELIVERY"
"""The capability of a peer that delivers a message no sooner than its `x-opt-delivery-time`."""

DELAYED_RETRY_SINCE: Final = (4, 3)
"""The version of RabbitMQ whose quorum queues keep a `modified` message back until its `x-opt-delivery-time`."""


MAX_COUNTED: Final = (1 << 32) - 2
"""The largest number of failed attempts: with one more, a delivery-count still fits into 32 bits."""

_BROKERS_OWN: Final = (
    *("x-death", "x-first-death-", "x-last-death-", "x-opt-deaths"),
    *("x-delivery-count", "x-acquired-count", DELIVERY_TIME, FAILED_ATTEMPTS, OWN_ID),
    *("x-opt-sequence-number", "x-opt-enqueue", "x-opt-locked-until", "x-opt-message-state", SCHEDULED_FOR),
)
"""The prefixes of annotations about a stay in a queue; RabbitMQ drops or refuses a copy that has them."""


class Delay(Protocol):
    """A way to have the broker deliver a message again after a delay."""

    async def __call__(self, delivery: Delivery, failures: int, broker_count: int, delay: float) -> Outcome:
        """Return the outcome for the delivery; the broker delivers the message again after `delay`.

        Args:
            failures: the number of failed attempts, including this one.
            broker_count: the number that the broker had counted when the message arrived.
            delay: seconds until the message is to arrive again.
        """


def uncounted(message: Message) -> int:
    """Return the number of failed attempts that the broker's delivery-count does not include.

    The annotation may come from the message's sender, so the number is limited to what a delivery-count can hold.
    """
    failed = message.message_annotations.get(FAILED_ATTEMPTS, 0)
    return min(max(0, failed), max(0, MAX_COUNTED - message.delivery_count)) if isinstance(failed, int) else 0


def copy_of(message: Message, annotations: dict[Any, Any], **changes: Any) -> Message:
    """Return a copy to send, with further annotations, but without annotations about the message's stay in a queue.

    It has no duplicate id, because a broker would accept the copy and drop it.

    Args:
        annotations: annotations to add.
        changes: as for `Message.replace`.
    """
    kept = {
        name: value for name, value in message.message_annotations.items() if not str(name).startswith(_BROKERS_OWN)
    }
    properties = message.application_properties
    if DUPLICATE_ID in properties:
        changes["application_properties"] = {name: properties[name] for name in properties if name != DUPLICATE_ID}
    changes = {"message_id": own_message_id(message)} | changes
    return message.replace(message_annotations=kept | annotations, delivery_count=None, **changes)


async def send_copy(sender: Sender, copy: Message) -> None:
    """Send a copy, and wait until it was accepted.

    Raises:
        MessageRejected: the link cannot carry it, for instance because the copy has more octets than the peer takes.
        AmqpError: see `Sender.send`.

    Cancelling: as for `Sender.send`.
    """
    try:
        await sender.send(copy)
    except LocalProtocolError as error:
        if not sender.open:
            raise
        raise MessageRejected(description=str(error)) from error


async def send_letter(sender: Sender, message: Message, reason: dict[Any, Any]) -> None:
    """Send a copy of a message to the dead letters, with annotations for the reason unless they make it too large.

    Raises:
        AmqpError: as for `send_copy`.

    Cancelling: as for `Sender.send`.
    """
    try:
        await send_copy(sender, copy_of(message, reason))
    except (EncodeError, MessageRejected) as error:
        if not _may_be_too_large(error):
            raise
        await send_copy(sender, copy_of(message, {}))


def _may_be_too_large(error: EncodeError | MessageRejected) -> bool:
    """Return whether `send_copy` may have raised `error` because the copy is too large."""
    if isinstance(error, EncodeError) or error.condition == "amqp:link:message-size-exceeded":
        return True
    return isinstance(error.__cause__, LocalProtocolError)


def own_message_id(message: Message) -> Any:
    """Return the message-id set by the sender, even if a copy has another one."""
    return message.message_annotations.get(OWN_ID, message.message_id)


def failed_annotations(failures: int, broker_count: int) -> dict[Any, Any]:
    """Return annotations with all failed attempts for the next worker; the broker counts the outcome as one more."""
    return {FAILED_ATTEMPTS: failures - broker_count - 1}


class ByOutcome:
    """A delay by the outcome `modified` with a delivery time: quorum queues of RabbitMQ 4.3, or the embedded broker.

    Args:
        clock: returns the time in seconds since 1970.
    """

    def __init__(self, clock: Callable[[], float] = time) -> None:
        self._clock = clock

    async def __call__(self, delivery: Delivery, failures: int, broker_count: int, delay: float) -> Outcome:
        annotations = failed_annotations(failures, broker_count)
        annotations[DELIVERY_TIME] = _from_now(self._clock, delay)
        return Modified(delivery_failed=True, message_annotations=annotations)


class ByCopy:
    """A delay by a copy, scheduled at the same address or sent to a delay queue; the original is then accepted.

    Args:
        sender: a sender to the same address, or to a queue that passes expired messages on to it.
        when: the annotation for the time of delivery; None if the copy expires in a delay queue.
        clock: returns the time in seconds since 1970.
    """

    def __init__(self, sender: Sender, when: Symbol | None = None, clock: Callable[[], float] = time) -> None:
        self._sender = sender
        self._when = when
        self._clock = clock

    async def __call__(self, delivery: Delivery, failures: int, broker_count: int, delay: float) -> Outcome:
        message = delivery.message
        annotations: dict[Any, Any] = {FAILED_ATTEMPTS: failures}
        changes: dict[str, Any] = {}
        if self._when is None:
            changes["ttl"] = timedelta(seconds=delay)
        elif self._when == DELIVERY_TIME:
            annotations[DELIVERY_TIME] = _from_now(self._clock, delay)
        else:
            annotations[SCHEDULED_FOR] = Timestamp(_from_now(self._clock, delay))
            if (own := own_message_id(message)) is not None:  # duplicate detection would drop the copy
                annotations[OWN_ID], changes["message_id"] = own, str(uuid4())
        await send_copy(self._sender, copy_of(message, annotations, **changes))
        return ACCEPTED


def scheduled_by(connection: Connection) -> Symbol | None:
    """Return the annotation that schedules a copy at the broker; None if the broker delays `modified` messages itself.

    Raises:
        Unsupported: the broker does neither.
    """
    if "annotations" in connection.capabilities:
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
    # A long, because Artemis ignores a timestamp and delivers at once.
    return round((clock() + delay) * 1000)
