"""How far a partition was handled when several of its events are handled at a time."""

from __future__ import annotations

from collections import deque

from ._leases import Checkpoint


class _Handling:
    __slots__ = ("checkpoint", "count", "done")

    def __init__(self, checkpoint: Checkpoint, count: int) -> None:
        self.checkpoint = checkpoint
        self.count = count
        self.done = False


class Progress:
    """Knows up to which event all events were handled.

    Attributes:
        checkpoint: that of this event; None: none was handled yet.
        unsaved: events handled since the checkpoint was last kept.
    """

    def __init__(self) -> None:
        self.checkpoint: Checkpoint | None = None
        self.unsaved = 0
        self._handling: deque[_Handling] = deque()

    def begin(self, checkpoint: Checkpoint, count: int) -> _Handling:
        """Begin to handle `count` events up to `checkpoint`. Calls must come in the order of the events."""
        handling = _Handling(checkpoint, count)
        self._handling.append(handling)
        return handling

    def finish(self, handling: _Handling) -> None:
        """Record that events were handled; the checkpoint moves past them once all earlier ones were, too."""
        handling.done = True
        while self._handling and self._handling[0].done:
            first = self._handling.popleft()
            self.checkpoint = first.checkpoint
            self.unsaved += first.count
