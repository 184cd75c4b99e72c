"""A session's windows (§2.5.6): integers in, integers out. The unit is the transfer frame, whatever its payload.

The peer's outgoing window is not here: it is no promise, and decides nothing on this side.
"""

from __future__ import annotations

from ...types import SERIAL_MASK as _MASK
from ...types import serial_diff


class SessionWindow:
    """Transfer-ids and windows of one session endpoint.

    Attributes:
        next_outgoing_id: the transfer-id of our next frame.
        remote_incoming_window: how many frames the peer takes now.
        next_incoming_id: the transfer-id of the peer's next frame.
        incoming_window: how many frames we still take, as the peer knows it; `refresh` sets it to `capacity`.
        strict: refuse a frame beyond our window; False: take it, and let our window become negative.
        capacity: how many frames there is room for: our incoming window, less the frames that are held unread.
        outgoing_window: our outgoing window, as told to the peer.
    """

    __slots__ = (
        "_initial_outgoing_id",
        "_size",
        "capacity",
        "incoming_window",
        "next_incoming_id",
        "next_outgoing_id",
        "outgoing_window",
        "remote_incoming_window",
        "strict",
    )
    capacity: int
    incoming_window: int
    next_outgoing_id: int
    outgoing_window: int

    def __init__(self, incoming_window: int, outgoing_window: int, next_outgoing_id: int = 0) -> None:
        self.remote_incoming_window: int = 0
        self.next_incoming_id: int = 0
        self.strict: bool = True
        self.begin(incoming_window, outgoing_window, next_outgoing_id)

    def begin(self, incoming_window: int, outgoing_window: int, next_outgoing_id: int) -> None:
        """Take our windows and our first transfer-id from our begin."""
        self._size = self.capacity = self.incoming_window = incoming_window
        self.outgoing_window = outgoing_window
        self._initial_outgoing_id = self.next_outgoing_id = next_outgoing_id

    def begin_received(self, next_outgoing_id: int, incoming_window: int) -> None:
        """Take the windows from the peer's begin."""
        self.next_incoming_id = next_outgoing_id
        self.remote_incoming_window = incoming_window

    def sent(self) -> None:
        """Count one of our transfer frames."""
        self.next_outgoing_id = (self.next_outgoing_id + 1) & _MASK
        self.remote_incoming_window -= 1

    def received(self) -> bool:
        """Count one of the peer's transfer frames; return False if there was no window for it."""
        if self.incoming_window <= 0 and self.strict:
            return False
        self.next_incoming_id = (self.next_incoming_id + 1) & _MASK
        self.incoming_window -= 1
        return True

    @property
    def before_refresh(self) -> int:
        """The number of transfer frames until our window must be told anew, the frame that requires it included."""
        return max(0, self.incoming_window - max(0, self.capacity // 2))

    def received_many(self, count: int) -> None:
        """Count `count` transfer frames, no more than `before_refresh`, as `received` would."""
        self.next_incoming_id = (self.next_incoming_id + count) & _MASK
        self.incoming_window -= count

    @property
    def needs_refresh(self) -> bool:
        """Return whether half of the capacity is used up, so that our window should be told anew."""
        return self.incoming_window * 2 <= self.capacity and self.incoming_window < self.capacity

    def refresh(self) -> None:
        self.incoming_window = self.capacity

    def hold(self) -> None:
        """Hold the frame received last: until it is read it keeps its place in our window."""
        self.capacity -= 1

    def let_go(self, count: int, starved: bool) -> bool:
        """Let go of `count` held frames; return whether our window should be told anew.

        Room is told once it is half a window, not frame by frame. A `starved` reader, with nothing left to read, needs
        less: other links may hold the rest.
        """
        self.capacity += count
        free = self.capacity - self.incoming_window
        return self.capacity > 0 and (free * 2 >= self._size or (starved and 0 < free >= self.incoming_window))

    def flow_received(self, next_incoming_id: int | None, incoming_window: int, next_outgoing_id: int) -> bool:
        """Take the peer's flow; return False if it counts frames that we did not send.

        A null next-incoming-id means that the peer had not seen our begin yet: it counts from our first id.
        """
        seen = self._initial_outgoing_id if next_incoming_id is None else next_incoming_id
        under_way = serial_diff(self.next_outgoing_id, seen)
        if under_way < 0:
            return False
        self.next_incoming_id = next_outgoing_id
        # Frames under way are ordered as serial numbers, a window is not: it may be 2**31 and more.
        self.remote_incoming_window = max(0, incoming_window - under_way)
        return True
