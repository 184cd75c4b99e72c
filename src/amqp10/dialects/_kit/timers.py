"""Silence and heartbeats, alike in every dialect: flags note that bytes passed, and only `tick` has the time.

So the moment of the last bytes is known only to a quarter of the limit. A peer is given up later by at most that much,
and never earlier.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Final

from ...engine import Engine

PARTIAL_FRAME_STEP: Final = 4096
"""Bytes of a frame that count as a sign of life before it is whole: a large one takes its time on a slow line."""


class TimedEngine(Engine):
    """An engine that gives up silent peers, and sends heartbeats so as not to be silent itself.

    A subclass sets `_sent` when there was output.
    """

    _received = False
    _in_part = 0  # bytes of a frame that has not come to its end
    _sent = False
    _last_received: float | None = None
    _next_heartbeat = 0.0

    def _note_input(self, size: int, within_frame: bool) -> None:
        """Record that `size` bytes came. `within_frame`: they neither completed nor began a frame."""
        self._in_part += size
        if not within_frame or self._in_part >= PARTIAL_FRAME_STEP:
            self._received = True
            self._in_part = 0

    def _beat(self, now: float, limit: float | None, pause: float | None) -> float | None:
        """Do what is due now, and return when to look again (see `Engine.tick`).

        Args:
            limit: seconds of silence after which the peer is given up; None or 0 for never.
            pause: seconds after which a heartbeat is sent if nothing else was; None or 0 for never.
        """
        deadlines = []
        if limit:
            # While this side reads nothing, the silence is its own.
            if self._received or self._last_received is None or not self.reading:
                self._received = False
                self._last_received = now
            if now >= self._last_received + limit:  # as the deadline is reckoned: the difference may round down
                self._fell_silent(limit)
                return None
            deadlines.append(min(self._last_received + limit, now + limit / 4))
        if pause:
            if now >= self._next_heartbeat:
                if not self._sent:
                    self._send_heartbeat()
                self._sent = False
                self._next_heartbeat = now + pause
            deadlines.append(self._next_heartbeat)
        return min(deadlines) if deadlines else None

    @abstractmethod
    def _fell_silent(self, limit: float) -> None:
        """End the connection: nothing came for `limit` seconds."""

    @abstractmethod
    def _send_heartbeat(self) -> None:
        """Send a heartbeat: nothing was sent for a while."""
