"""How far a partition was handled, where several of its events are handled at a time."""

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
    """Knows the last event before which none is left that is still handled.

    Attributes:
        checkpoint: of that event; None: there is none yet.
        unsaved: events that were handled since the checkpoint was last kept.
    """

    def __init__(self) -> None:
        self.checkpoint: Checkpoint | None = None
        self.unsaved = 0
        self._handling: deque[_Handling] = deque()

    def begin(self, checkpoint: Checkpoint, count: int) -> _Handling:
        """Begin to handle so many events, of which that is the last one; they come in their order."""
        handling = _Handling(checkpoint, count)
        self._handling.append(handling)
        return handling

    def finish(self, handling: _Handling) -> None:
        """Say that they were handled; the checkpoint moves when all before them were, too."""
        handling.done = True
        while self._handling and self._handling[0].done:
            first = self._handling.popleft()
            self.checkpoint = first.checkpoint
            self.unsaved += first.count
