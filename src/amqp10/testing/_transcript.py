"""The conversation on the wire, frame by frame: shared by scripted peers with and without I/O.

Bytes from the side under test are split into protocol headers and frames. Everything is kept, so that a failure shows
the conversation that led to it. Only the codec reads and writes frames, so that a script may break every rule.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass
from typing import Any, TypeVar

from ..dialects.v1_0.wire.frames import FRAME_AMQP, FRAME_SASL, FrameReader, encode_frame, encode_sasl_frame
from ..dialects.v1_0.wire.performatives import SaslOutcome
from ..dialects.v1_0.wire.trace import HEADERS, SASL, describe
from ..errors import AmqpError
from ..types import Composite

# The number of lines of a conversation that a failure shows.
_SHOWN = 40

P = TypeVar("P", bound=Composite)


class PeerMismatch(AssertionError):
    """The side under test did not do what the script expects; the message ends with the conversation so far."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame (§2.3).

    Attributes:
        channel: the channel; 0 for a SASL frame.
        performative: the performative; None for an empty frame, a heartbeat (§2.4.5).
        payload: the bytes after the performative; b"" except for transfers.
    """

    channel: int
    performative: Composite | None
    payload: bytes = b""

    def __str__(self) -> str:
        if self.performative is None:
            return f"[{self.channel}] (empty)"
        body = describe(self.performative)
        return f"[{self.channel}] {body}" + (f" + {len(self.payload)} bytes" if self.payload else "")

    def encode(self) -> bytes:
        """Encode the frame; a SASL performative makes a SASL frame.

        Raises:
            EncodeError: a field of the performative has no encoding.
        """
        if self.performative is None:
            return b"\x00\x00\x00\x08\x02\x00" + self.channel.to_bytes(2, "big")
        if type(self.performative) in SASL:
            return encode_sasl_frame(self.performative)
        return encode_frame(self.channel, self.performative, self.payload)


def garbage(size: int, seed: int = 0) -> bytes:
    """Return `size` random bytes, the same for the same seed."""
    return random.Random(seed).randbytes(size)


class Transcript:
    """The conversation between a script and the side under test.

    Attributes:
        lines: the conversation as text: "< " for the side under test, "> " for the script.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._reader = FrameReader(0xFFFF_FFFF)
        self._header_due = True
        self._items: deque[bytes | Frame] = deque()

    # From the side under test

    def feed(self, data: bytes) -> None:
        """Take bytes that the side under test wrote.

        Raises:
            PeerMismatch: the bytes are not frames, or not the protocol header that is due.
        """
        self._reader.feed(data)
        try:
            while (item := self._next()) is not None:
                self._items.append(item)
                self.lines.append(f"< {HEADERS.get(item, item) if isinstance(item, bytes) else item}")
        except AmqpError as error:
            raise self.mismatch(f"the received data is not AMQP 1.0: {error}") from error

    def _next(self) -> bytes | Frame | None:
        if self._header_due:
            header = self._reader.protocol_header()
            if header is None:
                return None
            self._header_due = False
            return bytes(header)
        frame = self._reader.next()
        if frame is None:
            return None
        kind, channel, performative, payload = frame
        if kind not in (FRAME_AMQP, FRAME_SASL):
            raise self.mismatch(f"a frame of type {kind}")
        self._header_due = type(performative) is SaslOutcome  # a header follows, perhaps in the same bytes
        return Frame(channel, performative, bytes(payload))

    def expect_header(self) -> None:
        """Read the next bytes as a protocol header: at the start, and after SASL (§2.2, §5.3.2)."""
        if not any(isinstance(item, bytes) for item in self._items):
            self._header_due = True
        self.feed(b"")

    def take(self) -> bytes | Frame | None:
        """Return the next header or frame; None if there is no more."""
        return self._items.popleft() if self._items else None

    # From the script

    def record_action(self, what: object) -> None:
        """Record what the script did."""
        self.lines.append(f"> {what}")

    def record_event(self, what: object) -> None:
        """Record what the other end did, besides writing bytes."""
        self.lines.append(f"< {what}")

    # Judging

    def unexpected(self, wanted: str, item: bytes | Frame | None) -> PeerMismatch:
        """Return the failure for an unexpected item; None means no item."""
        if isinstance(item, bytes):
            return self.mismatch(f"expected {wanted}, got the protocol header {item!r}")
        return self.mismatch(f"expected {wanted}, got {item if item is not None else 'nothing'}")

    def check(self, frame: bytes | Frame | None, kind: type[P], channel: int | None, wanted: dict[str, Any]) -> P:
        """Return the frame's performative if it is of `kind` and its fields are as `wanted`.

        A callable in `wanted` returns whether the field's value is right; any other value must equal it.

        Raises:
            PeerMismatch: the frame differs; the message names the fields.
        """
        found = frame.performative if isinstance(frame, Frame) else None
        if not isinstance(frame, Frame) or type(found) is not kind:
            raise self.unexpected(kind.__name__, frame)
        assert isinstance(found, kind)
        faults = []
        if channel is not None and frame.channel != channel:
            faults.append(f"  channel: {frame.channel}, expected {channel}")
        for name, value in wanted.items():
            if name not in {each.name for each in kind.fields}:
                raise TypeError(f"{kind.__name__} has no field {name!r}")
            actual = getattr(found, name)
            if callable(value) and not isinstance(value, type):
                if not value(actual):
                    faults.append(f"  {name}: {actual!r} does not satisfy {getattr(value, '__name__', value)!s}")
            elif actual != value:
                faults.append(f"  {name}: {actual!r}, expected {value!r}")
        if faults:
            raise self.mismatch(f"{kind.__name__} is not as expected:\n" + "\n".join(faults))
        return found

    def mismatch(self, why: str) -> PeerMismatch:
        """Return the failure to raise, with the conversation."""
        return PeerMismatch(f"{why}\n{self}")

    def __str__(self) -> str:
        left = len(self.lines) - _SHOWN
        before = [f"  ... {left} more before ..."] if left > 0 else []
        return "\n".join(["the conversation, < from the side under test, > from the script:", *before]) + "".join(
            f"\n  {line}" for line in self.lines[-_SHOWN:]
        )
