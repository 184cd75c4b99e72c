"""Frames: bytes cut into frames, frames written as bytes (§2.2, §2.3).

The reader holds what was fed as one bytes object and an offset into it: a read of 64 KiB with hundreds of frames is
never copied, but for each frame's own payload, and a large payload not even that.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from ....errors import DecodeError, RemoteProtocolError
from ....messaging.payloads import LARGE, SplitPayload
from ....types import Composite, decode_composite
from ....types.codec import type_at
from ..._kit.buffered_reader import BufferedReader
from .bulk import KEY, Layouts, by_longer_key, read_mixed, read_run
from .bulk import Alike as Alike
from .bulk import Mixed as Mixed
from .performatives import (
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Flow,
    Open,
    SaslChallenge,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    SaslResponse,
    Transfer,
)
from .transfer import (
    KnownDispositions,
    KnownFlows,
    TransferLayout,
    encode_flow,
    handle_of,
    join_dispositions,
    layout_of,
    read_transfer,
)
from .transfer import TransferTemplate as TransferTemplate
from .transfer import encode_disposition as encode_disposition

AMQP_HEADER: Final = b"AMQP\x00\x01\x00\x00"
TLS_HEADER: Final = b"AMQP\x02\x01\x00\x00"
SASL_HEADER: Final = b"AMQP\x03\x01\x00\x00"

FRAME_AMQP: Final = 0
FRAME_SASL: Final = 1
HEARTBEAT: Final = b"\x00\x00\x00\x08\x02\x00\x00\x00"
"""An empty frame: it carries nothing but a sign of life (§2.4.5)."""

BODIES: Final[dict[int, frozenset[type[Composite]]]] = {
    FRAME_AMQP: frozenset({Open, Begin, Attach, Flow, Transfer, Disposition, Detach, End, Close}),
    FRAME_SASL: frozenset({SaslMechanisms, SaslInit, SaslChallenge, SaslResponse, SaslOutcome}),
}

_SHORT_DESCRIPTORS: Final = {
    kind: frozenset(bytes((0, 0x53, body.descriptor_code)) for body in bodies) for kind, bodies in BODIES.items()
}

Frame = tuple[int, int, Composite | None, bytes | SplitPayload]
"""Type, channel, performative (None for an empty frame), and what follows it: the payload of a transfer, else b""."""

_HEADER = Struct(">IBBH")
_read_header = _HEADER.unpack_from
_TRANSFER: Final = b"\x00\x53\x14"
_DISPOSITION: Final = b"\x00\x53\x15"
_FLOW: Final = b"\x00\x53\x13"
_MAX_LAYOUTS: Final = 2048
_MAX_PIECES: Final = 32  # pieces of one frame; if it comes in more, they are joined
_SCRAP: Final = 4096  # up to this many bytes of a large frame are copied, not kept with the buffer around them


class FrameReader(BufferedReader):
    """Cuts the bytes it is fed into frames.

    Args:
        reuses: transfers that look alike share one object, valid until the next frame is read; the payloads of large
            ones are `SplitPayload`; dispositions with the same state for successive deliveries are joined to one.

    Attributes:
        alike: the layout of the last transfer, if the one before had the same and there is more input: that is most
            likely a run of the same layout, which `run` reads.
        mixed: the last transfer was not like the one before, and the next one seems to be like neither, but of a known
            layout: these are most likely of several links by turns, which `by_turns` reads.
    """

    def __init__(self, max_frame_size: int = 512, *, reuses: bool = False) -> None:
        super().__init__()
        self._reuses = reuses
        self.max_frame_size = max_frame_size
        self._layouts: Layouts = {}
        self._dispositions = KnownDispositions()
        self._flows = KnownFlows()
        self.alike: TransferLayout | None = None
        self.mixed: bool = False
        self._before: TransferLayout | None = None
        self._piecemeal = False  # the frame that these complete is not to be joined

    @property
    def max_frame_size(self) -> int:
        """The largest frame taken, bytes; may be changed between frames."""
        return self._most

    @max_frame_size.setter
    def max_frame_size(self, size: int) -> None:
        self._most = size
        self._usual = min(size, LARGE) if self._reuses else size

    @property
    def buffered(self) -> int:
        """The number of bytes that were fed and not yet read."""
        return len(self._data) - self._at + sum(map(len, self._more))

    def feed(self, data: bytes) -> None:
        """Take bytes, in any portions."""
        if not self._more and self._at == len(self._data):
            self._data = bytes(data)
            self._at = 0
            self._missing = 0
            return
        self._more.append(bytes(data))
        self._missing -= len(data)
        if self._missing <= 0 and (not self._piecemeal or len(self._more) >= _MAX_PIECES):
            # The copy pays only now: a frame that comes in small portions is joined once, not once per portion.
            self._data = b"".join((self._data[self._at :], *self._more))
            self._at = 0
            self._more.clear()
            self._piecemeal = False

    def next(self) -> Frame | None:
        """Return the next whole frame; None while it is not all there.

        Raises:
            RemoteProtocolError: a frame header that cannot be, or a frame above the limit; both as soon as it is here.
            DecodeError: the frame's body is not one of its type's.
        """
        data, at = self._data, self._at
        left = len(data) - at
        if left < 8:
            if not left and not self._more:
                self._data, self._at = b"", 0  # what was read is not to be kept until more comes
            else:
                self._wait(8 - left)
            return None
        size, offset, kind, channel = _read_header(data, at)
        if size > self._usual or size < 8 or offset < 2 or offset * 4 > size:
            if size > self._most or size < 8 or offset < 2 or offset * 4 > size:
                raise self._bad_header(size, offset)
            if kind == FRAME_AMQP and data[at + offset * 4 : at + offset * 4 + 3] == _TRANSFER:
                frame = self._large(size, at + offset * 4, channel)
                if frame is not None or self._piecemeal:
                    return frame
                data, at = self._data, self._at
                left = len(data) - at
        if left < size:
            self._wait(size - left)
            return None
        end = at + size
        self._at = end
        body = at + offset * 4
        if kind == FRAME_AMQP:
            layouts = self._layouts
            known = layouts.get(key := data[body : body + KEY])
            if isinstance(known, int):
                known = by_longer_key(layouts, data, body, known)
            if known is not None:
                length, unpack, before, between, after, transfer, _ = known
                payload = body + length
                if payload <= end:
                    found = unpack(data, body)
                    if found[0] == before and found[4] == after and found[2] == between:
                        transfer.delivery_id, transfer.delivery_tag = found[1], found[3]
                        if known is self._before:
                            self.alike = known if end < len(data) else None
                        else:
                            ahead = data[end + 8 : end + 8 + KEY]
                            self.mixed = ahead != key and ahead in layouts
                            self.alike, self._before = None, known
                        return FRAME_AMQP, channel, transfer, data[payload:end]
            descriptor = key[:3]
            if descriptor == _TRANSFER:
                walked = read_transfer(data, body + 3, end)
                if walked is not None:
                    if self._reuses:
                        self._learn(data, body, *walked)
                    return FRAME_AMQP, channel, walked[0], data[walked[1] : end]
        else:
            descriptor = b""
        if body == end:
            return kind, channel, None, b""
        if descriptor != _DISPOSITION or not self._reuses:
            if descriptor == _FLOW and self._reuses:
                return self._flow(channel, data, body, end)
            return self._generic(kind, channel, data[body:end])
        read = self._dispositions.read(data, body, end)
        if read is None:
            frame = self._generic(kind, channel, data[body:end])
            if type(frame[2]) is not Disposition:
                return frame
            read = frame[2]
            self._dispositions.learn(read, data, body, end)
        if end < len(data):
            self._at = join_dispositions(read, data, at, body, end)
        return FRAME_AMQP, channel, read, b""

    def run(self, channel: int, layout: TransferLayout, most: int) -> list[Alike]:
        """Return the next transfers on this channel that have this layout, at most `most`.

        The result is that of repeated calls of `next`, without the steps common to all. benchmarks/budget.py,
        "receive".
        """
        found, self._at = read_run(self._data, self._at, channel, layout, most, self._usual)
        return found

    def by_turns(self, channel: int, most: int) -> list[Mixed]:
        """Return the next transfers on this channel that have known layouts, at most `most`, up to two alike.

        The result is that of repeated calls of `next`, without the steps common to all. benchmarks/budget.py,
        "receive_links".
        """
        at = self._at
        found, self._at = read_mixed(self._data, at, channel, self._layouts, self._before, most, self._usual)
        if found:
            self._before = found[-1][0]
        return found

    def _large(self, size: int, body: int, channel: int) -> Frame | None:
        """Read a large frame's transfer; its payload stays where it came in: benchmarks/run.py, "receive 64 KiB".

        None: the frame is not complete, and will not be joined if `_piecemeal` is set now; or `next` has to read it.
        """
        data, at = self._data, self._at
        if self._more and self._missing > 0:
            return None
        walked = read_transfer(data, body + 3, min(at + size, len(data)))
        if walked is None:
            return None
        transfer, payload = walked
        pieces = [memoryview(data)[payload : at + size]]
        if self._more:
            *middle, last = self._more
            self._data, self._at = last, len(last) + self._missing
            pieces += [*(memoryview(each) for each in middle), memoryview(last)[: self._at]]
            self._more, self._missing, self._piecemeal = [], 0, False
        elif at + size <= len(data):
            self._at = at + size
        else:
            self._piecemeal = True
            self._wait(at + size - len(data))
            return None
        self.alike = self._before = None
        return FRAME_AMQP, channel, transfer, SplitPayload(pieces)

    def _flow(self, channel: int, data: bytes, body: int, end: int) -> Frame:
        """Read a flow between these offsets, by the layout of an earlier one if it can be."""
        flow = self._flows.read(data, body, end)
        if flow is not None:
            return FRAME_AMQP, channel, flow, b""
        frame = self._generic(FRAME_AMQP, channel, data[body:end])
        self._flows.learn(frame[2], data, body, end)  # type: ignore[arg-type]
        return frame

    def _learn(self, data: bytes, body: int, transfer: Transfer, payload: int) -> None:
        """Learn the layout of a transfer, so that transfers like it are recognized at once."""
        layout = layout_of(data, body, transfer, payload)
        if layout is not None:
            layouts = self._layouts
            if len(layouts) >= _MAX_LAYOUTS:
                layouts.clear()
            handle = handle_of(data, body)
            key = data[body : body + KEY]
            ends = [handle + 2, handle + 5] if data[handle] == 0x70 else [handle + 2]
            for end in ends:
                if end - body > KEY:
                    layouts[key] = end - body
                    key = data[body:end]
            layouts[key] = layout

    def _wait(self, missing: int) -> None:
        """Look again after `missing` more bytes; bytes fed since the first call for a frame are counted already."""
        if not self._more:
            self._missing = missing
            at = self._at
            if at and (not self._piecemeal or len(self._data) - at <= _SCRAP):
                # Do not keep the frames that were read only because the rest is in the same buffer.
                self._data, self._at = self._data[at:], 0

    def _bad_header(self, size: int, offset: int) -> RemoteProtocolError:
        if size > self.max_frame_size:
            return RemoteProtocolError(f"a frame of {size} bytes exceeds the limit of {self.max_frame_size}")
        return RemoteProtocolError(f"an invalid frame header: size {size}, data offset {offset}")

    def _generic(self, kind: int, channel: int, body: bytes) -> Frame:
        """Decode a frame by the type's tables; `read_transfer` may only be a faster way to the same."""
        bodies = BODIES.get(kind)
        if bodies is None:
            raise RemoteProtocolError(f"a frame of type {kind}, which AMQP 1.0 does not have")
        # The descriptor first: what an unknown one describes may be anything, and is not read.
        if body[:3] not in _SHORT_DESCRIPTORS[kind] and body[0] == 0 and (found := type_at(body, 1)) not in bodies:
            name = found.__name__ if found is not None else "an unknown described value"
            raise DecodeError(f"a frame of type {kind} must not have {name} as its body")
        performative, after = decode_composite(body)
        if after != len(body) and type(performative) is not Transfer:
            raise DecodeError(f"{len(body) - after} octets follow the {type(performative).__name__.lower()}")
        return kind, channel, performative, body[after:]  # type: ignore[return-value]


def encode_frame(channel: int, performative: Composite, payload: bytes | memoryview = b"") -> bytes:
    """Encode an AMQP frame.

    Raises:
        EncodeError: a field of the performative has no encoding.
    """
    if type(performative) is Flow and (flow := encode_flow(channel, performative)) is not None:
        return flow
    body = performative.encode()
    return _HEADER.pack(8 + len(body) + len(payload), 2, FRAME_AMQP, channel) + body + payload


def encode_sasl_frame(performative: Composite) -> bytes:
    """Encode a SASL frame (§5.3.1)."""
    body = performative.encode()
    return _HEADER.pack(8 + len(body), 2, FRAME_SASL, 0) + body
