"""Values in the documents that describe entities, with their paths, which errors name; durations."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

MAX_LOCK: Final = 300.0
"""The most seconds that a message is locked."""
FOR_EVER: Final = 10_675_199 * 86_400
"""Seconds of the longest duration in .NET, which stands for no end."""
_DURATION: Final = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Place:
    """A value in a document, and its path."""

    value: Any
    path: str

    def wrong(self, rule: str, value: object) -> ValueError:
        """Return the error for a value that violates a rule."""
        return ValueError(f"{self.path or 'the file'} {rule}, not {value!r:.200}")

    def lacks(self, name: str) -> ValueError:
        """Return the error for a missing member."""
        return ValueError(f"{self.path or 'the file'} lacks the member {name}")

    def at(self, name: str) -> Place:
        """Return the member of that name."""
        return Place(self.value[name], f"{self.path}.{name}" if self.path else name)

    def members(self, known: dict[str, bool]) -> dict[str, Place]:
        """Return the members of an object; `known` has the allowed names, and whether each is required.

        Raises:
            ValueError: the value is not an object, lacks a required member, or has an unknown one.
        """
        if not isinstance(self.value, dict):
            raise self.wrong("must be an object", self.value)
        if unknown := sorted(self.value.keys() - known.keys() - {"$schema"}):
            raise self.wrong(f"must have only the members {', '.join(known)}", unknown[0])
        if missing := [name for name, required in known.items() if required and name not in self.value]:
            raise self.lacks(missing[0])
        return {name: self.at(name) for name in self.value if name in known}

    def required(self, name: str) -> Place:
        """Return a required member of an object.

        Raises:
            ValueError: it is missing.
        """
        if not isinstance(self.value, dict):
            raise self.wrong("must be an object", self.value)
        if name not in self.value:
            raise self.lacks(name)
        return self.at(name)

    def items(self) -> list[Place]:
        if not isinstance(self.value, list):
            raise self.wrong("must be an array", self.value)
        return [Place(item, f"{self.path}[{index}]") for index, item in enumerate(self.value)]

    def text(self) -> str:
        if not isinstance(self.value, str):
            raise self.wrong("must be a string", self.value)
        return self.value

    def flag(self) -> bool:
        if not isinstance(self.value, bool):
            raise self.wrong("must be true or false", self.value)
        return self.value

    def number(self) -> int:
        """Return a number of 1 or more, which may be written as a string."""
        digits = isinstance(self.value, str) and self.value.isascii() and self.value.isdecimal()
        return Place(int(self.value) if digits and len(self.value) < 10 else self.value, self.path).count()

    def count(self) -> int:
        """Return a number of 1 or more."""
        if not isinstance(self.value, int) or isinstance(self.value, bool) or self.value < 1:
            raise self.wrong("must be a number of 1 or more", self.value)
        return self.value

    def seconds(self) -> float | None:
        """Return the seconds of an ISO 8601 duration of days, hours, minutes and seconds; None: no end."""
        try:
            return read_duration(self.value)
        except ValueError as error:
            raise ValueError(f"{self.path or 'the file'} {error}") from None

    def lock(self) -> float:
        """Return the seconds of a duration of at most five minutes."""
        seconds = self.seconds()
        if seconds is None or seconds > MAX_LOCK:
            raise self.wrong("must be PT5M or less", self.value)
        return seconds

    def entity(self) -> str | None:
        """Return the name of an entity; None: it names none."""
        return self.text() or None


def seconds_in(text: object) -> float:
    """Return the seconds of an ISO 8601 duration of days, hours, minutes and seconds.

    Raises:
        ValueError: `text` is not a duration, or has no number in it.
    """
    found = _DURATION.fullmatch(text) if isinstance(text, str) else None
    if found is None or not any(found.groups()):
        raise ValueError(f'must be a duration such as "PT1M" or "P14DT12H", not {text!r:.200}')
    days, hours, minutes, seconds = (float(part or 0) for part in found.groups())
    return days * 86_400 + hours * 3600 + minutes * 60 + seconds


def read_duration(text: object) -> float | None:
    """Return the seconds of an ISO 8601 duration that is longer than 0; None: no end.

    Raises:
        ValueError: `text` is not such a duration.
    """
    total = seconds_in(text)
    if total <= 0:
        raise ValueError(f"must be longer than 0 seconds, not {text!r:.200}")
    return total if total < FOR_EVER else None


def camel(name: str) -> str:
    """Return an attribute's name as the documents write it."""
    return "".join(part.capitalize() for part in name.split("_"))
