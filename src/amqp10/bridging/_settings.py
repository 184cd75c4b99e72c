"""The settings of a bridge."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Literal

from .._arguments import check_range

OnRefused = Literal["stop", "reject", "leave"]

MAX_WINDOW = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """See `bridge`.

    Raises:
        ValueError: settings that are invalid or do not fit together.
    """

    window: int
    max_bytes: int
    count: int | None
    until_empty: bool
    copy: bool
    stream: bool
    rate: float | None
    exactly_once: bool
    on_refused: OnRefused
    refused_to: str | None
    close_timeout: float

    def __post_init__(self) -> None:
        check_range("window", self.window, 1, MAX_WINDOW)
        check_range("max_bytes", self.max_bytes, 1)
        check_range("close_timeout", self.close_timeout, 0)
        if self.count is not None:
            check_range("count", self.count, 1)
        if self.rate is not None:
            check_range("rate", self.rate, 0, sys.float_info.max, exclusive=True)
        if self.refused_to is not None and self.on_refused != "stop":
            raise ValueError("refused_to and on_refused exclude each other: give one of them")
        if self.stream and (self.copy or self.exactly_once or self.refused_to is not None):
            raise ValueError(
                "stream excludes copy, exactly_once and refused_to, for a streamed body can be read only once"
            )
        if self.exactly_once and (self.copy or self.on_refused != "stop" or self.refused_to is not None):
            raise ValueError("exactly_once excludes copy, on_refused and refused_to")

    @property
    def max_in_flight(self) -> int:
        """The most messages here at a time: with a rate, those of one second."""
        if self.stream:
            return 1
        return self.window if self.rate is None else max(1, min(self.window, int(self.rate)))
