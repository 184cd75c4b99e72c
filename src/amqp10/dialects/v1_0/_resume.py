"""What becomes of each delivery when a link is resumed (§2.6.13, §3.4.6), and what the two maps say; pure functions.

Both sides say in their attach which deliveries they hold unsettled, by tag, with the state of each. When both maps are
here, `sender_step` gives the sender's step for one delivery; the receiver only has to see what is missing in the
sender's map, and to wait for the rest to be resumed.

How far a message has come is told as a section and an octet in it (§3.4.1); `Place` counts that along a payload.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from ...messaging import Accepted, Declared, Error, Modified, Received, Rejected, Released, TransactionalState
from ...types import encode

if TYPE_CHECKING:
    from ...engine import IncomingDelivery, OutgoingDelivery
    from ...messaging import DeliveryState

OUTCOMES: Final = (Accepted, Rejected, Released, Modified)
ABSENT: Final = object()
"""What a map says of a tag that is not in it."""


class Step(Enum):
    """What the sender does with a delivery that it holds unsettled. The numbers are the examples of §3.4.6."""

    RESEND = "send it as a new delivery (1)"
    ASK = "whether the receiver had it is not to be known (1, 5)"
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
    """The sender's step for one delivery.

    Args:
        ours: what we say of it: an outcome that is known here; `Received`, from where on it can be sent again; or None.
        theirs: what the receiver's map says of it; `ABSENT` if nothing.
        handed_over: the receiver may have had all of it.
        streamed: it cannot be sent again.
        second: the receiver settles after the sender: what it does not know any more it never had.
        incomplete: the receiver's map does not say all.
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
        return Step.RESEND if certain and not streamed else Step.ASK
    if isinstance(theirs, OUTCOMES):
        return Step.SETTLE
    if isinstance(ours, Received) and reach(theirs) < reach(ours):
        return Step.ABORT
    return Step.CONTINUE


def reach(state: object) -> tuple[float, int]:
    """How far a message has come, as far as a state that is no outcome tells; null is the same as nothing (§3.4.6)."""
    if isinstance(state, Received):
        return state.section_number, state.section_offset
    # A state of a transaction, or of an extension: there is one for a message that is whole.
    return (0, 0) if state is None else (float("inf"), 0)


# The maps


def sender_state(delivery: OutgoingDelivery) -> DeliveryState | None:
    """What a sender says of a delivery, in its map."""
    for state in (delivery.state, delivery.remote_state):
        if isinstance(state, OUTCOMES) or (isinstance(state, Received) and delivery.streamed):
            return state
    return None


def receiver_state(delivery: IncomingDelivery) -> DeliveryState:
    """What a receiver says of a delivery, in its map."""
    if delivery.state is not None:
        return delivery.state
    stream = getattr(delivery, "stream", None)
    if stream is None:
        return place_of(delivery.payload).received
    return (stream.place if stream.place is not None else place_of(b"".join(stream.parts))).received


def of_transaction(*states: object) -> bool:
    """Whether a state is one of a transaction: its delivery ends with that, and is not resumed."""
    return any(isinstance(state, TransactionalState | Declared) for state in states)


def cut(entries: Iterable[tuple[bytes, DeliveryState | None]], room: int) -> tuple[dict[bytes, Any], bool]:
    """As much of a map as fits, in bytes; and whether something is missing."""
    said: dict[bytes, Any] = {}
    for tag, state in entries:
        size = len(encode(tag)) + len(encode(state))
        if size > room and not said:  # alone it is too much: say the outcome without its details
            state = plain(state)
            size = len(encode(tag)) + len(encode(state))
        if size > room:
            return said, True
        room -= size
        said[tag] = state
    return said, False


def plain(state: DeliveryState | None) -> DeliveryState | None:
    """Leave the details out of an outcome: what remains fits any frame."""
    if isinstance(state, Rejected) and state.error is not None:
        return Rejected(Error(state.error.condition))
    if isinstance(state, Modified):
        return Modified(state.delivery_failed, state.undeliverable_here)
    return state


def well_formed(unsettled: Mapping[Any, Any] | None) -> bool:
    """Whether the keys of a peer's map are delivery-tags."""
    return all(isinstance(tag, bytes) and len(tag) <= 32 for tag in unsettled or ())


# Places in a message

_ENDLESS: Final = 1 << 62
# Octets of a value after its constructor, by the constructor's high half; those not here begin with a size (§1.2).
_FIXED: Final = {0x4: 0, 0x5: 1, 0x6: 2, 0x7: 4, 0x8: 8, 0x9: 16}


class Place:
    """Where a message that comes in portions has got to.

    What follows the sections that can be told apart, in a message that is none by the letter, counts as one.

    Attributes:
        section: the section that is next to come, from 0.
        offset: the first octet of it that is not here.
    """

    __slots__ = ("_head", "_left", "offset", "section")

    def __init__(self) -> None:
        self.section = 0
        self.offset = 0
        self._left = 0  # octets of the section still to come; 0 while that is not known
        self._head = b""  # its beginning, for as long

    @property
    def received(self) -> Received:
        """The same, as it is said to the peer."""
        return Received(self.section, self.offset)

    def feed(self, payload: bytes) -> None:
        """The message goes on with this."""
        if len(payload) < self._left:
            self._left -= len(payload)
            self.offset += len(payload)
            return
        at = 0
        while at < len(payload):
            if not self._left:
                # A beginning is a few octets: with 64 more its extent is known, or never will be.
                grown = payload[at : at + 64]
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


def place_of(payload: bytes) -> Place:
    """The place at the end of a payload."""
    place = Place()
    place.feed(payload)
    return place


def offset_of(payload: bytes, state: object) -> int | None:
    """Where in a payload the octet is that a state says is the next; None if it is not in there."""
    section, offset = reach(state)
    if section == float("inf"):
        return len(payload)
    at = 0
    for _ in range(int(section)):
        end = extent(payload[at : at + 600])
        if end is None or at + end > len(payload):
            return None
        at += end
    return at + offset if at + offset <= len(payload) else None


def extent(head: bytes) -> int | None:
    """How many octets the section has that begins so; None while that cannot be told."""
    try:
        return _end(head, 0, described=True)
    except IndexError:
        return None
    except ValueError:
        return _ENDLESS


def _end(data: bytes, at: int, *, described: bool = False) -> int:
    """Where the value ends that begins at `at`.

    Raises:
        IndexError: its beginning is not all here.
        ValueError: no value begins so.
    """
    code = data[at]
    if code == 0:
        return _end(data, _end(data, at + 1))
    if described:
        raise ValueError("no section")
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
