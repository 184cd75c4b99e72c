"""A message from its receipt until it has an outcome."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

from ..client import Delivery
from ..errors import DecodeError
from ..messaging import Message
from ..messaging.sections import may_hold
from ._delays import FAILED_ATTEMPTS, MAX_COUNTED, own_message_id, uncounted
from ._locks import Lock
from ._policy import DeadLetter

_FAILED_ATTEMPTS: Final = FAILED_ATTEMPTS.encode()


class Job:
    """A received message that has no outcome yet."""

    __slots__ = (
        "broker_count",
        "delivery",
        "failures",
        "failures_on_arrival",
        "fault",
        "held",
        "key",
        "letter",
        "lock",
    )

    def __init__(self, delivery: Delivery) -> None:
        self.delivery = delivery
        self.broker_count = 0  # failed attempts counted by the broker: the delivery-count on arrival
        self.failures_on_arrival = 0  # all failed attempts before the message arrived
        self.failures = 0  # all failed attempts, before the arrival and here
        self.fault: Exception | None = None  # why the handler cannot get the message
        self.letter: DeadLetter | None = None  # a dead letter that could not be sent
        self.key: Hashable = None
        self.held = False  # waiting for its retry
        self.lock: Lock | None = None  # of Service Bus, renewed while the message is here

    @property
    def attempt(self) -> int:
        """The number of the current or next attempt; the first is 1."""
        return self.failures + 1

    @property
    def message_id(self) -> str | None:
        """The message-id as text; None if it is missing or malformed."""
        try:
            message_id = self.delivery.message.message_id
        except DecodeError:
            return None
        return None if message_id is None else str(message_id)

    def count_earlier_attempts(self) -> None:
        """Count the failed attempts before the message arrived."""
        try:
            message = self.delivery.message
            has_header, has_octets = may_hold(message, _FAILED_ATTEMPTS)
            if has_header:
                self.broker_count = min(message.delivery_count, MAX_COUNTED)
            # A search for the octets of its name saves decoding the annotations, mostly in vain.
            more = uncounted(message) if has_octets else 0
            self.failures_on_arrival = self.failures = self.broker_count + more
        except Exception as error:
            self.fault = error

    def message_for_handler(self) -> Message:
        """Return the message for the handler, with all failed attempts in its delivery-count."""
        message = self.delivery.message
        if self.failures != self.broker_count:
            message.delivery_count = self.failures
            message.message_id = own_message_id(message)
        return message


def may_have_failed(delivery: Delivery) -> bool:
    """Return whether a message failed before, or is malformed. `Job.count_earlier_attempts` says how often."""
    message = delivery.message
    try:
        has_header, has_octets = may_hold(message, _FAILED_ATTEMPTS)
        return has_octets or (has_header and message.delivery_count > 0)
    except DecodeError:
        return True
