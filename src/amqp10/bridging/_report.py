"""The counts of a bridge."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BridgeReport:
    """The current or final counts of a bridge, in messages unless stated otherwise.

    Attributes:
        moved: accepted by the target and then at the source. With `copy` they are still at the source.
        in_flight: taken from the source and not yet done. At the end, those without an outcome by the deadline.
        refused: not accepted by the target; `on_refused` decided what happened to them.
        returned: given back to the source when the bridge ended, because they were unsent or their outcome is unknown.
        duplicates: the most that may be at the target twice because a connection was lost: sent again without knowing
            their outcome, or delivered again by a source that their acceptance did not reach. At the end, the last
            acceptances sent to a lost source are included.
        in_doubt: part of a transaction whose commit got no answer, so that it took effect as a whole, or its messages
            come again.
        recovered: taken over from the store of deliveries, where an earlier process left them.
        size: bytes of the messages moved.
        seconds: how long the bridge has been running.
    """

    moved: int = 0
    in_flight: int = 0
    refused: int = 0
    returned: int = 0
    duplicates: int = 0
    in_doubt: int = 0
    recovered: int = 0
    size: int = 0
    seconds: float = 0.0

    @property
    def clean(self) -> bool:
        """Whether no message was refused, is in flight, is in doubt, or may be duplicated."""
        return not (self.in_flight or self.refused or self.duplicates or self.in_doubt)

    @property
    def rate(self) -> float:
        """Messages moved per second since the start."""
        return self.moved / self.seconds if self.seconds else 0.0

    def __str__(self) -> str:
        numbers = [f"{self.moved} moved"]
        for name, words in _WORDS.items():
            count = getattr(self, name)
            if count:
                numbers.append(f"{count} {words}")
        return ", ".join(numbers)


_WORDS = {
    "in_flight": "in flight",
    "refused": "refused",
    "returned": "given back",
    "duplicates": "possibly twice",
    "in_doubt": "in doubt",
    "recovered": "recovered",
}
