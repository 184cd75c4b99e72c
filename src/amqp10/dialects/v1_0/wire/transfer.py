"""The frames of the message path, by hand: transfers, dispositions and credit, out and in.

Each has its generic twin, the composite's own codec, and may only be a faster way to the same result: `read_transfer`
gives None for whatever it does not know at sight, and so do `encode_flow`, `KnownFlows` and `KnownDispositions`
(§2.7.4-6). benchmarks/run.py measures them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from functools import cache, lru_cache
from itertools import count
from operator import itemgetter
from struct import Struct, error, iter_unpack
from typing import Any, Final, NamedTuple

from ....messaging import ACCEPTED, Accepted, DeliveryState, Released, TransactionalState
from ....types import decode_composite
from .performatives import Disposition, Flow, Transfer

_ACCEPTED: Final = b"\x00\x53\x24\x45"
_TRANSACTIONAL: Final = b"\x00\x53\x34\xc0"
_BOOLEANS: Final = (False, True)  # by the octet of the encoding 0x56 (§1.6.2)
_U32 = Struct(">I")
_read_u32 = _U32.unpack_from
_read_sizes = Struct(">II").unpack_from
_new_transfer = Transfer.__new__


def read_transfer(data: bytes, at: int, end: int) -> tuple[Transfer, int] | None:
    """Read the transfer whose fields begin at `at`, and its payload's offset; None: ask the generic decoder."""
    try:
        code = data[at]
        if code == 0xC0:
            stop = at + 2 + data[at + 1]
            count = data[at + 2]
            p = at + 3
        elif code == 0xD0:
            size, count = _read_sizes(data, at + 1)
            stop = at + 5 + size
            p = at + 9
        else:
            return None
        if stop > end or not 1 <= count <= 11:
            return None
        delivery_id = delivery_tag = message_format = settled = state = mode = None
        more = batchable = False
        # handle
        code = data[p]
        if code == 0x43:
            handle = 0
            p += 1
        elif code == 0x52:
            handle = data[p + 1]
            p += 2
        elif code == 0x70:
            handle = _read_u32(data, p + 1)[0]
            p += 5
        else:
            return None
        if count > 1:  # delivery-id
            code = data[p]
            if code == 0x70:
                delivery_id = _read_u32(data, p + 1)[0]
                p += 5
            elif code == 0x52:
                delivery_id = data[p + 1]
                p += 2
            elif code == 0x43:
                delivery_id = 0
                p += 1
            elif code == 0x40:
                p += 1
            else:
                return None
        if count > 2:  # delivery-tag
            code = data[p]
            if code == 0xA0:
                after = p + 2 + data[p + 1]
                delivery_tag = data[p + 2 : after]
                p = after
            elif code == 0x40:
                p += 1
            else:
                return None
        if count > 3:  # message-format
            code = data[p]
            if code == 0x43:
                message_format = 0
                p += 1
            elif code == 0x40:
                p += 1
            elif code == 0x52:
                message_format = data[p + 1]
                p += 2
            elif code == 0x70:
                message_format = _read_u32(data, p + 1)[0]
                p += 5
            else:
                return None
        if count > 4:  # settled
            code = data[p]
            if code == 0x42:
                settled = False
            elif code == 0x41:
                settled = True
            elif code == 0x56:
                settled = _BOOLEANS[data[p + 1]]
                p += 1
            elif code != 0x40:
                return None
            p += 1
        if count > 5:  # more
            code = data[p]
            if code == 0x41:
                more = True
            elif code == 0x56:
                more = _BOOLEANS[data[p + 1]]
                p += 1
            elif code != 0x42 and code != 0x40:
                return None
            p += 1
        if count > 6:  # rcv-settle-mode
            code = data[p]
            if code == 0x50:
                mode = data[p + 1]
                p += 1
            elif code != 0x40:
                return None
            p += 1
            if count > 7:  # state
                code = data[p]
                if code == 0:
                    after = p + 5 + data[p + 4] if data[p + 3] == 0xC0 else p + 4
                    state = _known_state(data[p:after])
                    if state is None:
                        return None
                    p = after
                elif code == 0x40:
                    p += 1
                else:
                    return None
            for _ in range(8, min(count, 10)):  # resume, aborted: null or false, or else not our business
                code = data[p]
                if code == 0x56 and data[p + 1] == 0:
                    p += 1
                elif code != 0x40 and code != 0x42:
                    return None
                p += 1
            if count > 10:  # batchable
                code = data[p]
                if code == 0x41:
                    batchable = True
                elif code == 0x56:
                    batchable = _BOOLEANS[data[p + 1]]
                    p += 1
                elif code != 0x42 and code != 0x40:
                    return None
                p += 1
        if p != stop:
            return None
    except Exception:  # an index or struct past the end: malformed, and the generic decoder says how
        return None
    transfer = _new_transfer(Transfer)
    transfer.handle = handle
    transfer.delivery_id = delivery_id
    transfer.delivery_tag = delivery_tag
    transfer.message_format = message_format
    transfer.settled = settled
    transfer.more = more
    transfer.rcv_settle_mode = mode
    transfer.state = state
    transfer.resume = False
    transfer.aborted = False
    transfer.batchable = batchable
    return transfer, p


@lru_cache(maxsize=64)
def _known_state(octets: bytes) -> DeliveryState | None:
    """Return the state that a sender says with each of its messages: accepted, or that of a transaction (§4.4.1).

    None: it is neither, or not in the usual encoding. benchmarks/budget.py, "broker_fill_transaction".

    Raises:
        DecodeError: it is malformed.
    """
    if octets == _ACCEPTED:  # Broker-J says so in whatever it sends settled
        return ACCEPTED
    if not octets.startswith(_TRANSACTIONAL):
        return None
    state, end = decode_composite(octets)
    return state if type(state) is TransactionalState and end == len(octets) else None


ID_FORMATS: Final = {0x52: (1, "B"), 0x70: (4, "I")}
"""How many octets a delivery-id has behind its constructor, and how `struct` reads it."""


class TransferLayout(NamedTuple):
    """How a transfer looked that came before: those that look the same differ in delivery-id, tag and payload alone.

    A sender forms its transfers in one way, so nearly all of them are read by this: one look at the constant bytes in
    place of a walk through the fields. benchmarks/budget.py, "receive": four tenths of the steps. Most peers write the
    delivery-ids below 256 in one octet: transfers with these have a layout of their own.

    Attributes:
        size: bytes of the performative.
        unpack: cuts them into the three constant parts, with delivery-id and delivery-tag between them.
        before, between, after: the constant parts.
        transfer: the fields, to be filled with the two that differ.
        unpack_frame: cuts a frame from its size to the end of the performative, in the same way.
    """

    size: int
    unpack: Callable[[bytes, int], tuple[bytes, int, bytes, bytes, bytes]]
    before: bytes
    between: bytes
    after: bytes
    transfer: Transfer
    unpack_frame: Callable[[bytes, int], tuple[int, bytes, int, bytes, bytes, bytes]]


def layout_of(data: bytes, body: int, transfer: Transfer, payload: int) -> TransferLayout | None:
    """Return the layout of a transfer that `read_transfer` has read; None for one that others will not be like.

    Args:
        body: where the performative begins.
        payload: where it ends.
    """
    if transfer.more or transfer.delivery_id is None or transfer.delivery_tag is None:
        return None
    handle = handle_of(data, body)
    number = handle + {0x43: 1, 0x52: 2}.get(data[handle], 5)
    if data[number] not in ID_FORMATS:
        return None  # 0 without an octet, which comes once
    octets, letter = ID_FORMATS[data[number]]
    tag = number + 1 + octets + 2
    after = tag + len(transfer.delivery_tag)
    parts = (data[body : number + 1], data[tag - 2 : tag], data[after:payload])
    before, between, rest = parts
    cut = f"{letter}{len(between)}s{after - tag}s{len(rest)}s"
    unpack = Struct(f">{len(before)}s{cut}").unpack_from
    unpack_frame = Struct(f">I{4 + len(before)}s{cut}").unpack_from
    return TransferLayout(payload - body, unpack, *parts, copy(transfer), unpack_frame)


def handle_of(data: bytes, body: int) -> int:
    """Return where the handle is of a transfer whose performative begins at `body`: behind list8 or list32."""
    return body + (6 if data[body + 3] == 0xC0 else 12)


def _uint(value: int) -> bytes:
    if value == 0:
        return b"\x43"
    return bytes((0x52, value)) if value < 256 else b"\x70" + _U32.pack(value)


@cache
def _packers(prefix: int) -> tuple[Callable[..., bytes], Callable[..., bytes]]:
    """Return what packs a frame from its size to the flags, its prefix being so long: of a tag of octets, of a number.

    All links share these. To each of its own, they would take 800 bytes of it.
    """
    return Struct(f">I{prefix}sI2s4s2s").pack, Struct(f">I{prefix}sI2sI2s").pack


class TransferTemplate:
    """The transfer frames of one link: what never changes is formed once."""

    overhead: Final = 8 + 6 + 5 + 5 + 34 + 5 + 1 + 1  # header, list8, handle, delivery-id, tag, format, settled, more

    def __init__(self, channel: int, handle: int) -> None:
        frame = b"\x02\x00" + channel.to_bytes(2, "big")
        self._frame = frame
        self._handle = number = _uint(handle)
        # handle, delivery-id (uint), a tag of 4 octets, message-format 0, settled
        fields = 1 + len(number) + 5 + 6 + 2
        self._prefix = frame + b"\x00\x53\x14\xc0" + bytes((fields, 5)) + number + b"\x70"
        self._pack, self._pack_numbers = _packers(len(self._prefix))
        self._size = 4 + len(self._prefix) + 4 + 8
        last = b"\x00\x53\x14\xc0" + bytes((1 + len(number), 1)) + number
        more = b"\x00\x53\x14\xc0" + bytes((1 + len(number) + 5, 6)) + number + b"\x40\x40\x40\x40\x41"
        self._last, self._more = frame + last, frame + more

    def head(
        self, delivery_id: int, tag: bytes, settled: bool, size: int, more: bool = False, message_format: int = 0
    ) -> bytes:
        """Encode header and performative of a delivery's first frame, for a payload of `size` bytes to follow."""
        if len(tag) == 4 and not more and not message_format:
            flags = b"\x43\x41" if settled else b"\x43\x42"
            return self._pack(self._size + size, self._prefix, delivery_id, b"\xa0\x04", tag, flags)
        fields = b"".join(
            (
                self._handle,
                b"\x70",
                _U32.pack(delivery_id),
                b"\xa0",
                bytes((len(tag),)),
                tag,
                _uint(message_format),
                b"\x41" if settled else b"\x42",
                b"\x41" if more else b"",
            )
        )
        head = self._frame + b"\x00\x53\x14\xc0" + bytes((1 + len(fields), 6 if more else 5)) + fields
        return _U32.pack(4 + len(head) + size) + head

    def heads(self, number: int, tag: int, settled: bool, payloads: Sequence[bytes]) -> list[bytes]:
        """Encode what `head` does for deliveries of one frame each, whose ids and tags of 4 octets count up."""
        pack, size, prefix = self._pack_numbers, self._size, self._prefix
        flags = b"\x43\x41" if settled else b"\x43\x42"
        return [
            pack(size + len(payload), prefix, each, b"\xa0\x04", each_tag, flags)
            for each, each_tag, payload in zip(count(number), count(tag), payloads)  # the counts have no end
        ]

    def continuation(self, size: int, more: bool) -> bytes:
        """Encode header and performative of a later frame, for a payload of `size` bytes to follow."""
        head = self._more if more else self._last
        return _U32.pack(4 + len(head) + size) + head


_STATES: Final[dict[type[Any], bytes]] = {
    type(None): b"\x40",
    Accepted: _ACCEPTED,
    Released: b"\x00\x53\x26\x45",
}
_disposition = Struct(">I2sHBBBBBBBBI").pack
_MAX_DISPOSITIONS: Final = 16
_TRUTHS: Final = (b"\x41", b"\x42")
_WIDE: Final = b"\x70"
"""The constructor of a uint of four octets."""
_SMALL: Final = b"\x52"
"""The constructor of a uint of one octet."""


def encode_disposition(
    channel: int, as_receiver: bool, first: int, last: int, settled: bool, state: Any = None
) -> bytes:
    """Encode a disposition frame for the deliveries from `first` to `last`."""
    known = _STATES.get(type(state))
    if known is None:
        body = Disposition(role=as_receiver, first=first, last=last, settled=settled, state=state).encode()
        return _U32.pack(8 + len(body)) + b"\x02\x00" + channel.to_bytes(2, "big") + body
    rest = (b"\x40" if first == last else b"\x70" + _U32.pack(last)) + (b"\x41" if settled else b"\x42") + known
    role = 0x41 if as_receiver else 0x42
    size = 20 + len(rest)
    return _disposition(size, b"\x02\x00", channel, 0, 0x53, 0x15, 0xC0, 7 + len(rest), 5, role, 0x70, first) + rest


_small_uint = {number: _uint(number) for number in range(256)}.get
_wide_uint = Struct(">BI").pack
_flow = Struct(">I2sH4sBB").pack


def encode_flow(channel: int, flow: Flow) -> bytes | None:
    """Encode the flow of a link that says nothing but its numbers; None: ask the generic encoder.

    A link with a credit of 10 sends one for each five messages. benchmarks/budget.py, "receive_links".
    """
    if flow.drain or flow.echo or flow.properties is not None:
        return None
    try:
        fields = b"".join(
            [
                _small_uint(number) or _wide_uint(0x70, number)  # type: ignore[arg-type]
                for number in (
                    flow.next_incoming_id,
                    flow.incoming_window,
                    flow.next_outgoing_id,
                    flow.outgoing_window,
                    flow.handle,
                    flow.delivery_count,
                    flow.link_credit,
                    flow.available,
                )
            ]
        )
    except error:  # one of them is null, or no uint
        return None
    return _flow(14 + len(fields), b"\x02\x00", channel, b"\x00\x53\x13\xc0", 1 + len(fields), 8) + fields


_NUMBERS: Final = {0x52: (2, "B"), 0x70: (5, "I")}
"""How many octets a uint has by its constructor, and how `struct` reads it."""
_CONSTANTS: Final = frozenset((0x40, 0x41, 0x42, 0x43))
"""Constructors that are a value by themselves: null, true, false, 0."""
_LIST8: Final = 0xC0
_MAX_OF_FLOW: Final = 64
"""Octets that a flow of numbers and flags has at most: 3 + 9 for descriptor and list, 8 times 5, and 3."""


class KnownFlows:
    """Flows that differ from an earlier one only in their numbers (§2.7.4).

    Some brokers send one for each message, and so does a receiver with little credit. benchmarks/budget.py,
    "send_each".
    """

    __slots__ = ("_known", "_met")

    def __init__(self) -> None:
        self._known: dict[int, FlowLayout] = {}  # by the octets of the performative, which are fewer than 60
        self._met = 0  # a bit for each number of octets: an idle link, which has one flow, keeps no layout

    def learn(self, read: Flow, data: bytes, body: int, end: int) -> None:
        """Keep the layout of one that the generic decoder has read out of these octets, the second time."""
        size = end - body
        if read.properties is None and size < _MAX_OF_FLOW:
            if self._met >> size & 1 and (layout := flow_layout_of(read, data, body, end)) is not None:
                self._known[size] = layout
            self._met |= 1 << size

    def read(self, data: bytes, body: int, end: int) -> Flow | None:
        """Read the performative between these offsets; None: ask the generic decoder."""
        known = self._known.get(end - body)
        if known is None:
            return None
        unpack, same, pick, values = known
        found = unpack(data, body)
        return Flow(*pick(values + found)) if found[::2] == same else None


class FlowLayout(NamedTuple):
    """How a flow looked that came before: those that look the same differ in their numbers alone.

    Attributes:
        unpack: cuts the performative into parts that are always the same, with a number between each two.
        same: these parts.
        pick: takes the eleven fields out of the values and what was cut.
        values: the fields of the flow from which it was learned: those that are no numbers are the same in all.
    """

    unpack: Callable[[bytes, int], tuple[Any, ...]]
    same: tuple[bytes, ...]
    pick: Callable[[tuple[Any, ...]], tuple[Any, ...]]
    values: tuple[Any, ...]


def flow_layout_of(read: Flow, data: bytes, body: int, end: int) -> FlowLayout | None:
    """Return the layout of a flow that was read out of these octets; None if it has more than numbers and flags."""
    values = tuple(getattr(read, field.name) for field in Flow.fields)
    places = list(range(len(values)))
    form, same = ">", []
    start, at = body, body + (6 if data[body + 3] == _LIST8 else 12)
    place = 0
    while at < end:
        code = data[at]
        if code in _NUMBERS:
            octets, kind = _NUMBERS[code]
            form += f"{at + 1 - start}s{kind}"
            same.append(data[start : at + 1])
            places[place] = len(values) + 2 * len(same) - 1
            start = at = at + octets
        elif code in _CONSTANTS:
            at += 1
        else:
            return None
        place += 1
    same.append(data[start:end])
    return FlowLayout(Struct(f"{form}{end - start}s").unpack_from, tuple(same), itemgetter(*places), values)


class KnownDispositions:
    """Dispositions of one delivery that differ from an earlier one only in which delivery it is (§2.7.6).

    Where each message is sent when the one before was accepted, each outcome comes alone: there is nothing to join.
    Some peers say which delivery it is twice, as the first and the last. benchmarks/budget.py, "send_each".
    """

    __slots__ = ("_known", "_small")

    def __init__(self) -> None:
        # By all octets but those of the delivery-ids: first those with one, then those with two; and the same for ids
        # of one octet. The size among the octets does not tell them apart where a frame does not end with its list.
        self._known: tuple[dict[bytes, tuple[bool, bool, Any, bool]], ...] = ({}, {})
        self._small: tuple[dict[bytes, tuple[bool, bool, Any, bool]], ...] = ({}, {})

    def learn(self, read: Disposition, data: bytes, body: int, end: int) -> None:
        """Keep one that the generic decoder has read out of these octets, if it is of a usual form."""
        at = _first_of_range(data, body)
        form = data[at - 1 : at]
        usual = data[at - 2 : at - 1] in _TRUTHS and form in (_WIDE, _SMALL) and type(read.state) in _STATES
        if data[body : body + 3] == b"\x00\x53\x15" and usual:
            known = (self._small if form == _SMALL else self._known)[read.last is not None]
            if len(known) >= _MAX_DISPOSITIONS:
                known.clear()
            stop = at + ID_FORMATS[form[0]][0]
            head, first, after = data[body:at], data[at - 1 : stop], data[stop:end]
            if read.last is None:
                known[head + after] = read.role, read.settled, read.state, read.batchable
            elif after.startswith(first):
                known[head + after[len(first) :]] = read.role, read.settled, read.state, read.batchable

    def read(self, data: bytes, body: int, end: int) -> Disposition | None:
        """Read the performative between these offsets; None: ask the generic decoder."""
        at = body + (8 if data[body + 3 : body + 4] == b"\xc0" else 14)  # as `_first_of_range`, without the call
        twice = data[at + 4 : at + 9] == _WIDE + data[at : at + 4] and at + 9 <= end
        known = self._known[twice].get(data[body:at] + data[at + 9 if twice else at + 4 : end])
        if known is None or end < at + 4:
            return self._read_small(data, body, at, end)
        role, settled, state, batchable = known
        first: int = _read_u32(data, at)[0]
        return Disposition(role, first, first if twice else None, settled, state, batchable)

    def _read_small(self, data: bytes, body: int, at: int, end: int) -> Disposition | None:
        """Read one whose delivery-id, at `at`, has one octet: most peers write those below 256 so."""
        if data[at - 1 : at] != _SMALL or end <= at:
            return None
        twice = data[at + 1 : at + 3] == data[at - 1 : at + 1] and at + 3 <= end
        known = self._small[twice].get(data[body:at] + data[at + 3 if twice else at + 1 : end])
        if known is None:
            return None
        role, settled, state, batchable = known
        return Disposition(role, data[at], data[at] if twice else None, settled, state, batchable)


def _first_of_range(data: bytes, body: int) -> int:
    """Return where a disposition has its first delivery-id, behind its constructor, by the kind of its list."""
    return body + (8 if data[body + 3 : body + 4] == b"\xc0" else 14)


def join_dispositions(merged: Disposition, data: bytes, at: int, body: int, end: int) -> int:
    """Extend a disposition of one delivery by the frames behind it with the same state for the next ones (§2.7.6).

    Artemis sends one for each message: benchmarks/run.py --single, "send": a half less.

    Args:
        at: the beginning of the disposition's frame.
        body: the beginning of its performative.
        end: the end of the frame.

    Returns:
        The end of the last frame that the disposition now includes.
    """
    number = merged.first
    first = _first_of_range(data, body)
    form = data[first - 1 : first]
    if form not in (_WIDE, _SMALL) or data[body : body + 3] != b"\x00\x53\x15" or merged.last not in (None, number):
        return end
    octets, letter = ID_FORMATS[form[0]]
    stop = first + octets
    if int.from_bytes(data[first:stop], "big") != number:
        return end
    before, after = data[at:first], data[stop:end]
    if merged.last is not None and not after.startswith(data[first - 1 : stop]):
        return end
    if not data.startswith(before, end):  # nothing like it follows
        return end
    size = end - at
    alike = memoryview(data)[end : len(data) - (len(data) - end) % size]
    if merged.last is None:
        for frame in iter_unpack(f">{len(before)}s{letter}{len(after)}s", alike):
            following = number + 1 & 0xFFFF_FFFF
            if frame != (before, following, after):
                break
            number = following
            end += size
    else:
        after = after[1 + octets :]
        for frame in iter_unpack(f">{len(before)}s{letter}s{letter}{len(after)}s", alike):
            following = number + 1 & 0xFFFF_FFFF
            if frame != (before, following, form, following, after):
                break
            number = following
            end += size
    if number != merged.first:
        merged.last = number
    return end
