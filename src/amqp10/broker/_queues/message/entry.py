"""A message at rest in a queue: its bytes as they came, and the few facts that the broker needs.

Bytes are passed on unchanged where the specification allows it (§3.2: the bare message is immutable, the header belongs
to intermediaries). A header is only rewritten if it would be wrong: after a failed attempt, or if it claims a first
acquirer that is not the first any more. To reduce the ttl, its four octets are replaced. Delivery annotations are for
the next node, which is the broker: they end here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from ....errors import DecodeError, EncodeError
from ....messaging import Error, patch_header, read_properties
from ....types import Symbol
from .front import (
    APPLICATION_PROPERTIES,
    DESCRIPTOR_SIZE,
    ODD,
    PLAIN,
    UNREAD,
    Front,
    expiry_behind,
    front_behind,
    front_of,
    header_and_next_section,
    header_of,
)

if TYPE_CHECKING:
    from ....engine import OutgoingDelivery
    from ..._users.accounts import Account

Clock = Callable[[], float]

MIN_TTL: Final = 0.01
"""The seconds that a ttl of 0 gives a message: enough for a consumer that waits for it."""

EMPTY_MESSAGE: Final = b"\x00\x53\x75\xa0\x00"
"""It is used in place of a message that cannot be read, by code that looks at sections."""

_MAX_TTL: Final = 0xFFFF_FFFF  # in milliseconds

# The delivery annotation of a message that was rejected (§3.2.2).
_REJECTED = Symbol("rejected")


class QueuedMessage:
    """One message in one queue.

    Attributes:
        payload: the encoded message.
        message_format: 0 for a standard AMQP message (§3.2); others are passed on unread.
        position: its place in the queue, to which it returns whenever it comes back.
        failures: failed delivery attempts so far, including those of earlier intermediaries (§3.2.1).
        expires: when it expires, in seconds on the broker's clock; None: never.
        excluded: keys of consumers that said "undeliverable-here" (§3.4.5), or None.
        acquired: whether a consumer ever held it.
        available: whether it waits in the queue; False while a consumer holds it.
        left_in_order: whether the queue's order still has it though it is not available.
        origin: the number of the connection that it came by, or 0.
        account: that of the user who sent it; None: there is no user.
        hops: how often the broker has moved it by itself, as a dead letter, since somebody sent or rejected it.
        gone: whether it has left the queue, whatever still refers to it.
        durable: whether a store must keep it (§3.2.1); messages of other formats count as durable.
        row: its number in the store; 0: it has none.
        stored: whether the store has it.
        arrived: when it came to a stream, as time of day in seconds; None elsewhere.
        header_is_current: whether the payload can be sent without a new header, but for its ttl.
        ttl_at: where the four octets of its ttl are in the payload; 0: it has no ttl; negative: the ttl is in another
            encoding.
    """

    __slots__ = (
        "_claims_first",
        "account",
        "acquired",
        "arrived",
        "available",
        "durable",
        "excluded",
        "expires",
        "failures",
        "gone",
        "header_is_current",
        "hops",
        "left_in_order",
        "message_format",
        "origin",
        "payload",
        "position",
        "row",
        "size",
        "stored",
        "ttl_at",
    )

    failures: int

    def __init__(self, payload: bytes, message_format: int = 0) -> None:
        self.payload: bytes = payload
        self.message_format: int = message_format
        self.size: int = len(payload)
        self.position: int = -1
        self.failures = 0
        self.expires: float | None = None
        self.excluded: set[int] | None = None
        self.acquired: bool = False
        self.available: bool = False
        self.gone: bool = False
        self.hops: int = 0
        self.left_in_order: bool = False
        self.origin: int = 0
        self.account: Account | None = None
        self.durable: bool = message_format != 0
        self.row: int = 0
        self.stored: bool = False
        self.arrived: float | None = None
        self.header_is_current: bool = True
        self.ttl_at: int = 0
        self._claims_first = False

    @classmethod
    def read(
        cls, payload: bytes, message_format: int, now: float, wall: Clock = time.time, *, keep_annotations: bool = False
    ) -> QueuedMessage:
        """Return the entry for a message from a sender; `now` is the broker's clock, `wall` the time of day.

        Without `keep_annotations` its delivery annotations are left out, because they were meant for the broker.

        Raises:
            DecodeError: the sections that the broker has to read are malformed.
        """
        entry = cls(payload, message_format)
        if message_format == 0 and (front := front_of(payload)) is not PLAIN:
            entry._read_sections(front, now, wall)
            if front is ODD and not keep_annotations:
                entry._replace_payload(patch_header(payload, delivery_annotations=None))
            elif front.annotations_end != front.header_end and not keep_annotations:
                entry._replace_payload(payload[: front.header_end] + payload[front.annotations_end :])
        return entry

    def _read_sections(self, front: Front, now: float, wall: Clock) -> None:
        payload = self.payload
        if not payload:
            raise DecodeError("an empty payload is not a message, for a message has a body")
        header, ttl, self.ttl_at = header_of(payload, front.header_end)
        if ttl is not None:
            self.expires = _end_of_life(ttl, now)
            self.header_is_current = self.ttl_at > 0
        expiry = read_properties(payload).absolute_expiry_time if front is ODD else front.expiry
        if expiry is not None:
            moment = expiry / 1000 if isinstance(expiry, int) else expiry.timestamp()
            self.expires = _sooner(self.expires, now + (moment - wall()))
        self.failures = header.delivery_count
        self.durable = header.durable
        self._claims_first = header.first_acquirer

    @classmethod
    def read_run(
        cls, payloads: Iterable[bytes], origin: int, account: Account | None, now: float, wall: Clock = time.time
    ) -> list[QueuedMessage]:
        """Make entries of messages of format 0 as `read` does, up to the first whose front is in an unusual encoding.

        The header is read once for all messages that begin with the same octets. benchmarks/real_brokers.py
        """
        new, made = cls.__new__, []
        time_of_day = wall()
        start: bytes | tuple[()] = ()  # no message begins with it
        for payload in payloads:
            if not payload.startswith(start):
                if (found := header_and_next_section(payload)) is None:
                    break
                header, ttl, ttl_at, header_end, next_section = found
                start = payload[: header_end + DESCRIPTOR_SIZE]
                has_more = next_section < APPLICATION_PROPERTIES  # the front has more sections than the header
                failures, durable, claims_first = header.delivery_count, header.durable, header.first_acquirer
                end_of_life = None if ttl is None else _end_of_life(ttl, now)
            expires = end_of_life
            if has_more and (expiry := expiry_behind(payload, header_end)) is not None:
                if expiry == UNREAD:
                    front = front_behind(payload, header_end)
                    if front is ODD:
                        break
                    payload, expiry = payload[:header_end] + payload[front.annotations_end :], front.expiry
                if expiry is not None:
                    expires = _sooner(expires, now + (expiry / 1000 - time_of_day))
            entry = new(cls)
            entry.payload = payload
            entry.message_format = 0
            entry.size = len(payload)
            entry.position = -1
            entry.failures = failures
            entry.expires = expires
            entry.excluded = None
            entry.acquired = False
            entry.available = False
            entry.gone = False
            entry.hops = 0
            entry.left_in_order = False
            entry.origin = origin
            entry.account = account
            entry.durable = durable
            entry.row = 0
            entry.stored = False
            entry.arrived = None
            entry.header_is_current = True
            entry.ttl_at = ttl_at
            entry._claims_first = claims_first
            made.append(entry)
        return made

    @classmethod
    def stored_before(
        cls, payload: bytes, message_format: int, failures: int, expires: float | None, now: float
    ) -> QueuedMessage:
        """Return the entry of a message from a store.

        Raises:
            DecodeError: the broker would never have taken such a message.
        """
        entry = cls(payload, message_format)
        if message_format == 0 and (front := front_of(payload)) is not PLAIN:
            entry._read_sections(front, now, time.time)
        entry.durable = True
        if failures != entry.failures:
            entry.failures = failures
            entry.header_is_current = message_format != 0
        entry.expires = expires
        if expires is None:
            entry.ttl_at = 0
        return entry

    def copy(self) -> QueuedMessage:
        """Return a copy of the message for another queue; they share the bytes."""
        copy = QueuedMessage(self.payload, self.message_format)
        copy.failures = self.failures
        copy.expires = self.expires
        copy.origin = self.origin
        copy.account = self.account
        copy.hops = self.hops
        copy.durable = self.durable
        copy.header_is_current = self.header_is_current
        copy._claims_first = self._claims_first
        copy.ttl_at = self.ttl_at
        return copy

    def outgoing(self, now: float) -> bytes:
        """Return the bytes to send now, with an updated header; a malformed message is sent as it came."""
        payload, at = self.payload, self.ttl_at
        if self.header_is_current:
            if not at:
                return payload
            return b"".join((payload[:at], self._ttl(now).to_bytes(4, "big"), memoryview(payload)[at + 4 :]))
        changes: dict[str, Any] = {"delivery_count": self.failures}
        if at:
            changes["ttl"] = timedelta(milliseconds=self._ttl(now))
        if self._claims_first and self.acquired:
            changes["first_acquirer"] = False
        return self._changed(**changes)

    def _ttl(self, now: float) -> int:
        """Return the milliseconds that it still has, rounded up.

        "the transmitted message's header SHOULD contain a ttl that is computed as the difference" (§3.2.1).
        """
        assert self.expires is not None
        return min(max(0, -(-round((self.expires - now) * 1_000_000) // 1000)), _MAX_TTL)

    def count_failure(self) -> None:
        """Count a failed attempt."""
        self.failures += 1
        self.header_is_current = self.message_format != 0

    def mark_acquired(self) -> None:
        """Record that a consumer has held it, so that no later one counts as the first (§3.2.1 "first-acquirer")."""
        self.acquired = True
        if self._claims_first:
            self.header_is_current = False

    def annotate(self, annotations: Mapping[Any, Any]) -> None:
        """Merge message annotations into it, replacing those with the same key (§3.4.5)."""
        if self.message_format == 0 and annotations:
            self._replace_payload(self._changed(message_annotations=annotations))

    def write_rejection(self, error: Error) -> None:
        """Write the error of a rejection into its delivery annotations (§3.4.3)."""
        if self.message_format == 0:
            self._replace_payload(self._changed(delivery_annotations={_REJECTED: error}))

    def remove_expiry(self) -> None:
        """Remove its expiry, so that it does not expire again in the queue of dead letters."""
        self.expires = None
        if self.ttl_at:
            self.ttl_at = 0
            self._replace_payload(self._changed(ttl=None))

    def _replace_payload(self, payload: bytes) -> None:
        self.payload = payload
        self.size = len(payload)

    def _changed(self, **changes: Any) -> bytes:
        try:
            return patch_header(self.payload, **changes)
        except (DecodeError, EncodeError):
            # Sections that the broker did not read may be malformed, or annotations of a consumer not encodable. The
            # message then stays as it is, because the queue must go on.
            return self.payload

    def free(self) -> None:
        """Free the bytes of a message that has left its queue, because its object may stay for a while."""
        self.gone = True
        self.available = False
        self.payload = b""


def _end_of_life(ttl: int, now: float) -> float:
    """Return when a message expires that came now.

    "a message expiration time will be computed based on the time of arrival at an intermediary" (§3.2.1).
    """
    return now + max(ttl / 1000, MIN_TTL)


def _sooner(one: float | None, other: float) -> float:
    return other if one is None else min(one, other)


def message_of(delivery: OutgoingDelivery) -> QueuedMessage:
    """Return the message that a delivery carries, which waits for the outcome."""
    assert isinstance(delivery.waiter, QueuedMessage)
    return delivery.waiter
