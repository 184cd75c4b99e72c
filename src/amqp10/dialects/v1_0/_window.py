"""A session's windows (§2.5.6): integers in, integers out. The unit is the transfer frame, whatever it carries."""

from __future__ import annotations

from ...types import serial_diff

_MASK = 0xFFFF_FFFF


class SessionWindow:
    """Transfer-ids and windows of one session endpoint.

    Attributes:
        next_outgoing_id: the transfer-id of our next frame.
        remote_incoming_window: how many frames the peer takes now.
        next_incoming_id: the transfer-id that the peer's next frame has.
        incoming_window: how many frames we still take, as the peer knows it; `capacity` again at `refresh`.
        strict: a frame beyond our window is refused; else it is taken, and our window is less than none.
        capacity: how many frames there is room for: our incoming window, less those that are held unread.
        outgoing_window: what we tell of our own sending.
        remote_outgoing_window: what the peer told of its own.
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
        "remote_outgoing_window",
        "strict",
    )

    def __init__(self, incoming_window: int, outgoing_window: int, next_outgoing_id: int = 0) -> None:
        self.remote_incoming_window = 0
        self.next_incoming_id = 0
        self.remote_outgoing_window = 0
        self.strict = True
        self.begin(incoming_window, outgoing_window, next_outgoing_id)

    def begin(self, incoming_window: int, outgoing_window: int, next_outgoing_id: int) -> None:
        """Our begin: what we take, and where we start to count."""
        self._size = self.capacity = self.incoming_window = incoming_window
        self.outgoing_window = outgoing_window
        self._initial_outgoing_id = self.next_outgoing_id = next_outgoing_id

    def begin_received(self, next_outgoing_id: int, incoming_window: int, outgoing_window: int) -> None:
        """The peer's begin."""
        self.next_incoming_id = next_outgoing_id
        self.remote_incoming_window = incoming_window
        self.remote_outgoing_window = outgoing_window

    def sent(self) -> None:
        """One of our transfer frames is out."""
        self.next_outgoing_id = (self.next_outgoing_id + 1) & _MASK
        self.remote_incoming_window -= 1

    def received(self) -> bool:
        """One of the peer's transfer frames is here; False if there was no window for it."""
        if self.incoming_window <= 0 and self.strict:
            return False
        self.next_incoming_id = (self.next_incoming_id + 1) & _MASK
        self.incoming_window -= 1
        if self.remote_outgoing_window > 0:
            self.remote_outgoing_window -= 1
        return True

    @property
    def before_refresh(self) -> int:
        """How many transfer frames may be received until our window is to be told anew, the last of them included."""
        return max(0, self.incoming_window - max(0, self.capacity // 2))

    def received_many(self, count: int) -> None:
        """The same as `received` as often, for no more than `before_refresh`."""
        self.next_incoming_id = (self.next_incoming_id + count) & _MASK
        self.incoming_window -= count
        self.remote_outgoing_window = max(0, self.remote_outgoing_window - count)

    @property
    def needs_refresh(self) -> bool:
        """Half of what we could take is used up: time to say that there is room again."""
        return self.incoming_window * 2 <= self.capacity and self.incoming_window < self.capacity

    def refresh(self) -> None:
        self.incoming_window = self.capacity

    def hold(self) -> None:
        """The frame that came last waits to be read: it keeps its place in our window."""
        self.capacity -= 1

    def let_go(self, count: int, starved: bool) -> bool:
        """That many held frames were read or dropped; True when it is time to say that there is room again.

        Room is told by the half window, not by the frame; but a reader that is `starved`, with nothing left to read,
        may wait for less: others hold the rest.
        """
        self.capacity += count
        room = self.capacity - self.incoming_window
        return self.capacity > 0 and (room * 2 >= self._size or (starved and 0 < room >= self.incoming_window))

    def flow_received(
        self, next_incoming_id: int | None, incoming_window: int, next_outgoing_id: int, outgoing_window: int
    ) -> bool:
        """The peer's flow; False if it claims to have seen frames that we did not send.

        A null next-incoming-id means that the peer had not seen our begin yet: it counts from our first id.
        """
        seen = self._initial_outgoing_id if next_incoming_id is None else next_incoming_id
        under_way = serial_diff(self.next_outgoing_id, seen)
        if under_way < 0:
            return False
        self.next_incoming_id = next_outgoing_id
        self.remote_outgoing_window = outgoing_window
        # Frames under way are ordered as serial numbers, a window is not: it may be 2**31 and more.
        self.remote_incoming_window = max(0, incoming_window - under_way)
        return True
