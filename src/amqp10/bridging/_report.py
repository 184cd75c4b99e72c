"""How far a bridge has come, in numbers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BridgeReport:
    """The counts of a bridge, now or at its end; messages, unless said otherwise.

    Attributes:
        moved: the target has accepted them, and the source was told so; those that were only looked at (`copy`) are
            still there.
        in_flight: taken from the source and not done with. At the end: those without the target's word by the deadline.
        refused: the target did not accept them; what became of them `on_refused` says.
        returned: given back to the source unsent, or of unknown fate, when the bridge ended.
        duplicates: those that may be at the target twice, at most, for a connection was lost at the wrong moment: sent
            again without the target's word, or delivered again by a source that had not heard that they were accepted.
            At the end those that a lost source was told of last are among them.
        in_doubt: part of a transaction to whose commit no answer came: all of it happened, or nothing. What did not
            comes again.
        recovered: taken up from the store of deliveries, where an earlier process left them.
        size: bytes of the messages moved.
        seconds: how long the bridge has been at it.
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
        """Whether all went as it should: nothing was refused, is in flight, in doubt, or may be there twice."""
        return not (self.in_flight or self.refused or self.duplicates or self.in_doubt)

    @property
    def rate(self) -> float:
        """Messages moved in a second, from the beginning."""
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
