"""The fate of each delivery when a link is resumed (§2.6.13, §3.4.6), and the two unsettled maps; pure functions.

Each side's attach has a map of the deliveries that it holds unsettled: the state of each by its tag. When both maps are
known, `sender_step` gives the sender's step for one delivery. The receiver only looks for deliveries that are missing
in the sender's map, and waits for the rest to be resumed.

The part of a message that was received is told as a section and an octet in it (§3.4.1); `ReceivedPosition` counts
both along a payload.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from ...messaging import OUTCOMES, Declared, Error, Modified, Received, Rejected, TransactionalState
from ...types import encode

if TYPE_CHECKING:
    from ...engine import IncomingDelivery, OutgoingDelivery
    from ...messaging import DeliveryState

ABSENT: Final = object()
"""Stands for the state of a tag that is not in a map."""


class Step(Enum):
    """The sender's step for a delivery that it holds unsettled. The numbers are the examples of §3.4.6."""

    RESEND = "send it as a new delivery (1)"
    UNKNOWN = "whether the receiver had it is not to be known (1, 5)"
    WAIT = "the receiver's map does not say (incomplete); the next attachment will"
    CONTINUE = "resume it where the receiver's data ends (2, 4, 6)"
    SETTLE = "the receiver's outcome stands: settle it (3, 8, 12)"
    FINISH = "both had an outcome, and the receiver has forgotten it: nothing to say (10)"
    RESTATE = "the outcomes differ: this side's stands, and is said again (13)"
    ABORT = "this side cannot resume it from there, and does not know what became of it (7, 9)"
    CLOSE = "this side has its outcome already, and cannot resume it: abort it (11, 14)"


def sender_step(
    ours: DeliveryState | None,
    theirs: Any,
    *,
    handed_over: bool = True,
    streamed: bool = False,
    second: bool = False,
    incomplete: bool = False,
) -> Step:
    """Return the sender's step for one delivery.

    Args:
        ours: the state in our map: an outcome that is known here; `Received`, from where on we can send again; or None.
        theirs: the state in the receiver's map; `ABSENT` if it is not there.
        handed_over: the receiver may have had all of the delivery.
        streamed: the delivery cannot be sent again.
        second: the receiver settles after the sender: a delivery that it does not know never reached it.
        incomplete: the receiver's map is incomplete.
    """
    if isinstance(ours, OUTCOMES):
        if theirs is ABSENT:
            return Step.WAIT if incomplete else Step.FINISH
        if isinstance(theirs, OUTCOMES):
            return Step.SETTLE if theirs == ours else Step.RESTATE
        return Step.CLOSE
    if theirs is ABSENT:
        if incomplete:
            return Step.WAIT
        certain = second or not handed_over
        return Step.RESEND if certain and not streamed else Step.UNKNOWN
    if isinstance(theirs, OUTCOMES):
        return Step.SETTLE
    if isinstance(ours, Received) and reach(theirs) < reach(ours):
        return Step.ABORT
    return Step.CONTINUE


def reach(state: object) -> tuple[float, int]:
    """Return the section and octet up to which a message was received, by a state other than an outcome (§3.4.6).

    `state` None: nothing was received.
    """
    if isinstance(state, Received):
        return state.section_number, state.section_offset
    # A state of a transaction or an extension: only a complete message has one.
    return (0, 0) if state is None else (float("inf"), 0)


# The maps


def sender_state(delivery: OutgoingDelivery) -> DeliveryState | None:
    """Return the state of a delivery for a sender's map."""
    for state in (delivery.state, delivery.remote_state):
        if isinstance(state, OUTCOMES) or (isinstance(state, Received) and delivery.streamed):
            return state
    return None


def receiver_state(delivery: IncomingDelivery) -> DeliveryState:
    """Return the state of a delivery for a receiver's map."""
    if delivery.state is not None:
        return delivery.state
    stream = getattr(delivery, "stream", None)
    if stream is None:
        return place_of(delivery.payload).received
    return (stream.place if stream.place is not None else place_of(b"".join(stream.parts))).received


def of_transaction(*states: object) -> bool:
    """Return whether a state belongs to a transaction: its delivery ends with the transaction, and is not resumed."""
    return any(isinstance(state, TransactionalState | Declared) for state in states)


def cut(entries: Iterable[tuple[bytes, DeliveryState | None]], limit: int) -> tuple[dict[bytes, Any], bool]:
    """Return as much of a map as fits into `limit` bytes, and whether something is missing."""
    kept: dict[bytes, Any] = {}
    for tag, state in entries:
        size = len(encode(tag)) + len(encode(state))
        if size > limit and not kept:  # the first entry alone is too large: leave out the details of its outcome
            state = plain(state)
            size = len(encode(tag)) + len(encode(state))
        if size > limit:
            return kept, True
        limit -= size
        kept[tag] = state
    return kept, False


def plain(state: DeliveryState | None) -> DeliveryState | None:
    """Leave the details out of an outcome, so that it fits any frame."""
    if isinstance(state, Rejected) and state.error is not None:
        return Rejected(Error(state.error.condition))
    if isinstance(state, Modified):
        return Modified(state.delivery_failed, state.undeliverable_here)
    return state


def well_formed(unsettled: Mapping[Any, Any] | None) -> bool:
    """Return whether the keys of a peer's map are delivery-tags."""
    return all(isinstance(tag, bytes) and len(tag) <= 32 for tag in unsettled or ())


# Places in a message

_ENDLESS: Final = 1 << 62
_MAX_HEAD_SIZE: Final = 600
# Octets of a value after its constructor, by the constructor's high half; all others begin with a size (§1.2).
_FIXED: Final = {0x4: 0, 0x5: 1, 0x6: 2, 0x7: 4, 0x8: 8, 0x9: 16}


class ReceivedPosition:
    """The place in a message up to which its portions were received.

    In a malformed message, everything after the last recognizable section counts as one section.

    Attributes:
        section: the section that comes next, from 0.
        offset: the first octet of that section that is not here.
    """

    __slots__ = ("_head", "_left", "offset", "section")

    def __init__(self) -> None:
        self.section: int = 0
        self.offset: int = 0
        self._left = 0  # octets of the section still to come; 0 while its size is not known
        self._head = b""  # the beginning of the section, while its size is not known

    @property
    def received(self) -> Received:
        """The place as a state to tell the peer."""
        return Received(self.section, self.offset)

    def feed(self, payload: bytes) -> None:
        """Move on by the next part of the message."""
        if len(payload) < self._left:
            self._left -= len(payload)
            self.offset += len(payload)
            return
        at = 0
        while at < len(payload):
            if not self._left:
                # The beginning takes a few octets: 64 more show the size, mostly.
                grown = payload[at : at + min(64, _MAX_HEAD_SIZE - len(self._head))]
                end = extent(self._head + grown)
                if end is None:
                    self._head += grown
                    self.offset += len(grown)
                    at += len(grown)
                    continue
                self._left = end - len(self._head)
                self._head = b""
            count = min(self._left, len(payload) - at)
            at += count
            self.offset += count
            self._left -= count
            if not self._left:
                self.section += 1
                self.offset = 0


def place_of(payload: bytes) -> ReceivedPosition:
    """Return the place at the end of a payload."""
    place = ReceivedPosition()
    place.feed(payload)
    return place


def offset_of(payload: bytes, state: object) -> int | None:
    """Return the offset of the octet that `state` names as the next; None if it is not in the payload."""
    section, offset = reach(state)
    if section == float("inf"):
        return len(payload)
    at = 0
    for _ in range(int(section)):
        end = extent(payload[at : at + _MAX_HEAD_SIZE])
        if end is None or at + end > len(payload):
            return None
        at += end
    return at + offset if at + offset <= len(payload) else None


def extent(head: bytes) -> int | None:
    """Return the size of the section that begins with `head`; None while `head` is too short to tell.

    If 600 octets do not tell, the section has no end: descriptors are names or numbers, and values are not described
    again and again.
    """
    try:
        return _end(head, 0, described=True)
    except IndexError:
        return None if len(head) < _MAX_HEAD_SIZE else _ENDLESS
    except ValueError:
        return _ENDLESS


def _end(data: bytes, at: int, *, described: bool = False) -> int:
    """Return the end of the value that begins at `at`.

    Raises:
        IndexError: `data` is too short to tell.
        ValueError: no value can begin like that, or a descriptor is itself described.
    """
    if described and data[at]:
        raise ValueError("no section")
    while not (code := data[at]):
        if not data[at + 1]:
            raise ValueError("no descriptor")
        at = _end(data, at + 1)
    at += 1
    kind = code >> 4
    if kind in _FIXED:
        return at + _FIXED[kind]
    if kind in (0xA, 0xC, 0xE):
        return at + 1 + data[at]
    if kind in (0xB, 0xD, 0xF):
        data[at + 3]
        return at + 4 + int.from_bytes(data[at : at + 4], "big")
    raise ValueError("no value")
