"""A message at rest in a queue: its bytes as they came, and the few facts that the broker needs.

Bytes are passed on unchanged where the specification allows it (§3.2: the bare message is immutable, the header belongs
to intermediaries). A header is only rewritten if it would be wrong: after a failed attempt, to reduce the ttl, or if it
claims a first acquirer that is not the first any more. Delivery annotations are for the next node, which is the broker:
they end here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from functools import lru_cache
from struct import Struct, error
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ...errors import DecodeError, EncodeError
from ...messaging import Error, Header, patch_header, read_header, read_properties
from ...types import Symbol, skip

if TYPE_CHECKING:
    from ...engine import OutgoingDelivery
    from .._limits import Account

Clock = Callable[[], float]

AT_ONCE: Final = 0.01
"""The seconds that a ttl of 0 gives a message: enough for a consumer that waits for it."""

SAYS_NOTHING = b"\x00\x53\x75\xa0\x00"
"""An empty message, which stands for one that cannot be read, where its sections would decide."""

# The first two bytes of a section in its usual encoding: a described value with a smallulong (§1.2, §3.2).
_DESCRIBED = b"\x00\x53"
_HEADER, _DELIVERY_ANNOTATIONS, _PROPERTIES, _APPLICATION_PROPERTIES, _FOOTER = 0x70, 0x71, 0x73, 0x74, 0x78
_LIST0, _LIST8, _LIST32, _MAP8, _MAP32 = 0x45, 0xC0, 0xD0, 0xC1, 0xD1
_SHORT_HEADER = 32
_HEADER_SECTION, _DATA_SECTION = (bytes((*_DESCRIBED, code)) for code in (_HEADER, 0x75))
_ANNOTATIONS_MAP8, _ANNOTATIONS_MAP32 = (bytes((*_DESCRIBED, 0x72, kind)) for kind in (_MAP8, _MAP32))
_PROPERTIES_LIST8, _PROPERTIES_LIST32 = (bytes((*_DESCRIBED, _PROPERTIES, kind)) for kind in (_LIST8, _LIST32))
# What a section behind the header usually begins with.
_AFTER_HEADER = frozenset(bytes((*_DESCRIBED, code)) for code in range(_DELIVERY_ANNOTATIONS, _FOOTER + 1))
_NULL, _TIME = 0x40, 0x83
_SHORT = frozenset((0xA0, 0xA1, 0xA3))  # binary, string and symbol with their size in the next octet (§1.6)
# The delivery annotation of a message that was rejected (§3.2.2).
_REJECTED = Symbol("rejected")
# absolute-expiry-time is the ninth field of properties (§3.2.4): a shorter list cannot have it. The tenth is
# creation-time, a timestamp as well.
_FIELDS_BEFORE_EXPIRY, _FIELDS_TO_CREATION = 8, 10
_NULL_AND_TIME = bytes((_NULL, _TIME))
_long_sizes = Struct(">II").unpack_from  # size and count of a list32 or map32


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
        listed: whether it was taken out of turn by a filter, so that the queue's own order still has it.
        origin: the number of the connection that it came by, or 0.
        account: that of the user who sent it; None: there is no user.
        hops: how often the broker has moved it by itself, as a dead letter, since somebody sent or rejected it.
        gone: whether it has left the queue, whatever still refers to it.
        durable: whether a store must keep it (§3.2.1); messages of other formats count as durable.
        row: its number in the store; 0: it is not kept.
        stored: whether the store has it; unset if `row` is 0.
        arrived: when it came to a stream, as time of day in seconds; None elsewhere.
        as_it_came: whether it is sent with the octets that it came with.
    """

    __slots__ = (
        "_claims_first",
        "_has_ttl",
        "account",
        "acquired",
        "arrived",
        "as_it_came",
        "available",
        "durable",
        "excluded",
        "expires",
        "failures",
        "gone",
        "hops",
        "listed",
        "message_format",
        "origin",
        "payload",
        "position",
        "row",
        "size",
        "stored",
    )

    failures: int
    stored: bool

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
        self.listed: bool = False
        self.origin: int = 0
        self.account: Account | None = None
        self.durable: bool = message_format != 0
        self.row: int = 0
        self.arrived: float | None = None
        self.as_it_came: bool = True
        self._claims_first = False
        self._has_ttl = False

    @classmethod
    def read(
        cls, payload: bytes, message_format: int, now: float, wall: Clock = time.time, *, kept: bool = False
    ) -> QueuedMessage:
        """Return the entry for a message from a sender; `now` is the broker's clock, `wall` the time of day.

        With `kept` its delivery annotations are kept. Otherwise they are left out, as they were for the broker.

        Raises:
            DecodeError: the sections that the broker has to read are malformed.
        """
        entry = cls(payload, message_format)
        if message_format == 0 and (front := _front_of(payload)) is not _PLAIN:
            entry._read_sections(front, now, wall)
            if front.annotated and not kept:
                entry.payload = patch_header(payload, delivery_annotations=None)
                entry.size = len(entry.payload)
        return entry

    def _read_sections(self, front: _Front, now: float, wall: Clock) -> None:
        payload = self.payload
        if not payload:
            raise DecodeError("an empty payload is not a message, for a message has a body")
        end = front.header
        header = _header_of(payload[:end]) if 0 < end <= _SHORT_HEADER else read_header(payload)
        if header.ttl is not None:
            # "a message expiration time will be computed based on the time of arrival at an intermediary" (§3.2.1)
            self.expires = now + max(header.ttl / 1000, AT_ONCE)
            self._has_ttl = True
            self.as_it_came = False
        expiry = read_properties(payload).absolute_expiry_time if front.expires else None
        if expiry is not None:
            moment = expiry / 1000 if isinstance(expiry, int) else expiry.timestamp()
            absolute = now + (moment - wall())
            self.expires = absolute if self.expires is None else min(self.expires, absolute)
        self.failures = header.delivery_count
        self.durable = header.durable
        self._claims_first = header.first_acquirer

    @classmethod
    def read_run(cls, payloads: Iterable[bytes], origin: int, account: Account | None) -> list[QueuedMessage]:
        """Make entries of messages of format 0, as `read` does, up to the first that says more than most messages do.

        That is one with an expiry, a time-to-live or delivery annotations, or one whose front is odd. What a header
        says is read once for all that begin with the same octets. benchmarks/real_brokers.py
        """
        new, made = cls.__new__, []
        begins = b"\xff"  # no message
        for payload in payloads:
            if not payload.startswith(begins):
                if (beginning := _beginning_of(payload)) is None:
                    break
                begins, header = beginning
                end = len(begins) - 3
                more = begins[-1] < _APPLICATION_PROPERTIES
                failures, durable, claims_first = header.delivery_count, header.durable, header.first_acquirer
            if more and not _is_plain_behind(payload, end):
                _, annotated, expires = _front_behind(payload, end)
                if annotated or expires:
                    break
            entry = new(cls)
            entry.payload = payload
            entry.message_format = 0
            entry.size = len(payload)
            entry.position = -1
            entry.failures = failures
            entry.expires = None
            entry.excluded = None
            entry.acquired = False
            entry.available = False
            entry.gone = False
            entry.hops = 0
            entry.listed = False
            entry.origin = origin
            entry.account = account
            entry.durable = durable
            entry.row = 0
            entry.arrived = None
            entry.as_it_came = True
            entry._claims_first = claims_first
            entry._has_ttl = False
            made.append(entry)
        return made

    @classmethod
    def stored_before(
        cls, payload: bytes, message_format: int, failures: int, expires: float | None, now: float
    ) -> QueuedMessage:
        """Return the entry of a message that a store kept.

        Raises:
            DecodeError: the broker would never have taken such a message.
        """
        entry = cls(payload, message_format)
        if message_format == 0 and (front := _front_of(payload)) is not _PLAIN:
            entry._read_sections(front, now, time.time)
        entry.durable = True
        if failures != entry.failures:
            entry.failures = failures
            entry.as_it_came = message_format != 0
        entry.expires = expires
        entry._has_ttl = entry._has_ttl and expires is not None
        return entry

    def copy(self) -> QueuedMessage:
        """Return a copy of the message for another queue; they share the bytes."""
        twin = QueuedMessage(self.payload, self.message_format)
        twin.failures = self.failures
        twin.expires = self.expires
        twin.origin = self.origin
        twin.account = self.account
        twin.hops = self.hops
        twin.durable = self.durable
        twin.as_it_came = self.as_it_came
        twin._claims_first = self._claims_first
        twin._has_ttl = self._has_ttl
        return twin

    def outgoing(self, now: float) -> bytes:
        """Return the bytes to send now, with an updated header; a malformed message is sent as it came."""
        if self.as_it_came:
            return self.payload
        changes: dict[str, Any] = {"delivery_count": self.failures}
        if self._has_ttl and self.expires is not None:
            # "the transmitted message's header SHOULD contain a ttl that is computed as the difference" (§3.2.1)
            changes["ttl"] = timedelta(seconds=max(0.0, self.expires - now))
        if self._claims_first and self.acquired:
            changes["first_acquirer"] = False
        return self._changed(**changes)

    def failed(self) -> None:
        """Count a failed attempt."""
        self.failures += 1
        self.as_it_came = self.message_format != 0

    def seen(self) -> None:
        """Record that a consumer has held it, so that no later one counts as the first (§3.2.1 "first-acquirer")."""
        self.acquired = True
        if self._claims_first:
            self.as_it_came = False

    def annotate(self, annotations: Mapping[Any, Any]) -> None:
        """Merge message annotations into it, replacing those with the same key (§3.4.5)."""
        if self.message_format == 0 and annotations:
            self.payload = self._changed(message_annotations=annotations)
            self.size = len(self.payload)

    def rejected(self, error: Error) -> None:
        """Write the error of a rejection into its delivery annotations (§3.4.3)."""
        if self.message_format == 0:
            self.payload = self._changed(delivery_annotations={_REJECTED: error})
            self.size = len(self.payload)

    def immortal(self) -> None:
        """Remove its expiry, so that it does not expire again in the queue of dead letters."""
        self.expires = None
        if self._has_ttl:
            self._has_ttl = False
            self.payload = self._changed(ttl=None)
            self.size = len(self.payload)

    def _changed(self, **changes: Any) -> bytes:
        try:
            return patch_header(self.payload, **changes)
        except (DecodeError, EncodeError):
            # Sections that the broker did not read may be malformed, or annotations of a consumer not encodable. The
            # message then stays as it is, because the queue must go on.
            return self.payload

    def leave(self) -> None:
        """Free the bytes of a message that has left its queue, because its object may stay for a while."""
        self.gone = True
        self.available = False
        self.payload = b""


class _Front(NamedTuple):
    """What the sections before the application properties may contain, judged by their first octets.

    Attributes:
        header: the offset where the header ends; 0: no header; `_UNKNOWN`: it has to be read.
        annotated: whether there may be delivery annotations.
        expires: whether the properties may have an expiry.
    """

    header: int
    annotated: bool
    expires: bool


_PLAIN: Final = _Front(0, annotated=False, expires=False)
_UNKNOWN: Final = -1
_ODD: Final = _Front(_UNKNOWN, annotated=True, expires=True)


def _front_of(payload: bytes) -> _Front:
    """Look at the front of a message without decoding it."""
    start = payload[:3]
    if start == _DATA_SECTION:
        return _PLAIN
    try:
        return _front_behind(payload, _end_of_header(payload) if start == _HEADER_SECTION else 0)
    except IndexError:
        return _ODD


def _front_behind(payload: bytes, header: int) -> _Front:
    """Return the front of a message whose header ends at `header`; 0: it has none."""
    if _is_plain_behind(payload, header):
        return _plain_but_for(header)
    try:
        return _front_by_sections(payload, header)
    except IndexError:
        return _ODD


def _is_plain_behind(payload: bytes, at: int) -> bool:
    """Return whether a message whose header ends at `at` surely has neither delivery annotations nor an expiry.

    It knows only the usual sections: message annotations or none, then properties. benchmarks/real_brokers.py
    """
    try:
        if payload.startswith(_ANNOTATIONS_MAP32, at):
            at += 8 + _long_sizes(payload, at + 4)[0]
        elif payload.startswith(_ANNOTATIONS_MAP8, at):
            at += 5 + payload[at + 4]
        if payload.startswith(_PROPERTIES_LIST32, at):
            size, count = _long_sizes(payload, at + 4)
            end = at + 8 + size
        elif payload.startswith(_PROPERTIES_LIST8, at):
            size, count = payload[at + 4], payload[at + 5]
            end = at + 5 + size
        else:
            return False
        # If a creation time comes last, and a null before it, the null could only be an octet of an expiry that began
        # at `end - 18`.
        return count <= _FIELDS_BEFORE_EXPIRY or (
            count == _FIELDS_TO_CREATION
            and payload[end - 10 : end - 8] == _NULL_AND_TIME
            and payload[end - 18] != _TIME
        )
    except (IndexError, error):
        return False


@lru_cache(maxsize=64)
def _plain_but_for(header: int) -> _Front:
    """Return the front of a message that is plain except for a header that ends at `header`."""
    return _Front(header, annotated=False, expires=False) if header else _PLAIN


def _front_by_sections(payload: bytes, header: int) -> _Front:
    """Examine the sections behind the header one by one.

    Raises:
        IndexError: the payload ends within them.
    """
    annotated, at = False, header
    while payload[at] == 0 and payload[at + 1] == _DESCRIBED[1]:
        section, kind = payload[at + 2], payload[at + 3]
        if section < _HEADER:  # not a section: it will be read, and refused
            break
        if section >= _PROPERTIES:
            expires = section == _PROPERTIES and _may_say_expiry(payload, at + 3)
            return _Front(header, annotated, expires) if annotated or expires else _plain_but_for(header)
        annotated = annotated or (section == _DELIVERY_ANNOTATIONS and at == header)
        if kind & 0xFE == _LIST8:  # or a map of that size
            at += 5 + payload[at + 4]
        elif kind & 0xFE == _LIST32:
            at += 8 + int.from_bytes(payload[at + 4 : at + 8], "big")
        else:
            break
    return _ODD


def _end_of_header(payload: bytes) -> int:
    """Return where the header at the begin of the payload ends; the payload's end if no usual section follows.

    Raises:
        IndexError: the payload ends before that.
    """
    kind = payload[3]
    if kind == _LIST8:
        end = 5 + payload[4]
    elif kind == _LIST32:
        end = 8 + int.from_bytes(payload[4:8], "big")
    else:
        end = 4 if kind == _LIST0 else len(payload)
    return end if payload[end : end + 3] in _AFTER_HEADER else len(payload)


def _beginning_of(payload: bytes) -> tuple[bytes, Header] | None:
    """Return the header, and the octets up to the type of the section behind it; None if that is not as usual."""
    end = 0
    try:
        if payload.startswith(_HEADER_SECTION):
            end = _end_of_header(payload)
        if end > _SHORT_HEADER or payload[end : end + 3] not in _AFTER_HEADER:
            return None
        header = _header_of(payload[:end]) if end else Header()
    except (IndexError, DecodeError):
        return None
    return None if header.ttl is not None else (payload[: end + 3], header)


@lru_cache(maxsize=64)
def _header_of(octets: bytes) -> Header:
    """Read a header by itself: mostly it is the same as that of the message before."""
    return read_header(octets)


def _may_say_expiry(payload: bytes, at: int) -> bool:
    """Return whether the properties whose list is at `at` may have an expiry; fields before it are skipped."""
    try:
        kind = payload[at]
        if kind == _LIST32:
            count = _long_sizes(payload, at + 1)[1]
            at += 9
        elif kind == _LIST8:
            count = payload[at + 2]
            at += 3
        else:
            return True
        if count <= _FIELDS_BEFORE_EXPIRY:
            return False
        for _ in range(_FIELDS_BEFORE_EXPIRY):
            kind = payload[at]
            if kind == _NULL:
                at += 1
            elif kind in _SHORT:
                at += 2 + payload[at + 1]
            else:
                at = skip(payload, at)
        return payload[at] != _NULL
    except (IndexError, DecodeError, error):
        return True


def message_of(delivery: OutgoingDelivery) -> QueuedMessage:
    """Return the message that a delivery carries, which waits for the outcome."""
    assert isinstance(delivery.waiter, QueuedMessage)
    return delivery.waiter
