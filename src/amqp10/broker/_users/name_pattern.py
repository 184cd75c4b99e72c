"""Regular expressions for names, matched in time proportional to the name, whatever the pattern.

Python's own matcher backtracks: `^(a+)+$` with a name of 40 letters takes hours. This one follows all ways at once,
letter by letter, as a set of places in the pattern. What cannot be matched like this is refused: backreferences, flags,
possessive repeats, and lookarounds except `^(?!...)` and `^(?=...)`, which look only once.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final

MAX_PLACES: Final = 2000
"""The most places of a pattern, with counted repeats expanded."""

_REPEAT: Final = re.compile(r"(?:([*+?])|\{(\d*)(,?)(\d*)\})([?+]?)")
_GROUP: Final = re.compile(r"\((?:\?:|\?P<\w+>|(?!\?))")
_AHEAD: Final = re.compile(r"\(\?[!=]")
_CLASS: Final = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
_ESCAPE: Final = re.compile(
    r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|N\{[^}]+\}|0[0-7]{0,2}|[afnrtvdDwWsS]|\W)"
)
_FOUND: Final = 0
_REPEATS: Final = {"*": (0, None), "+": (1, None), "?": (0, 1)}

Tree = Callable[[int], int]
"""Adds a part of the pattern before the place of that number; returns the number of the part's first place."""


class NamePattern:
    """A regular expression to search for in names.

    Raises:
        ValueError: the pattern is not a regular expression, or cannot be matched in time proportional to the name.
    """

    def __init__(self, pattern: str) -> None:
        try:
            re.compile(pattern)
        except (re.error, TypeError, OverflowError, RecursionError) as error:
            raise ValueError(str(error)) from None
        self._pattern = pattern
        self._at = 0
        # By place: the test of one letter (None: no letter is read), and the places that follow.
        self._tests: list[Callable[[str], object] | None] = [None]
        self._next: list[tuple[int, ...]] = [()]
        self._ends: dict[int, str] = {}  # places of ^ and $
        self._aheads: dict[
            int, tuple[bool, int, int]
        ] = {}  # lookaheads after ^: whether each must match, its first place and its last
        tree = self._alternatives()
        self._start = tree(_FOUND)
        self.matches = lru_cache(maxsize=1000)(self._matches)

    def _matches(self, name: str) -> bool:
        return self._leads(self._start, _FOUND, name, anywhere=True)

    def _leads(self, start: int, goal: int, name: str, *, anywhere: bool) -> bool:
        """Return whether one place leads to another, from the beginning of the name or from anywhere in it."""
        places = {start}
        for at in range(len(name) + 1):
            if anywhere:
                places.add(start)
            reached = self._closure(places, at, name)
            if goal in reached:
                return True
            if at < len(name):
                letter, places = name[at], set()
                for place in reached:
                    test = self._tests[place]
                    if test is not None and test(letter):
                        places.update(self._next[place])
        return False

    def _closure(self, places: set[int], at: int, name: str) -> set[int]:
        """Return all places that can be reached from `places` without reading a letter."""
        waiting = list(places)
        for place in waiting:  # grows during the loop
            if self._tests[place] is None and self._stands(place, at, name):
                for following in self._next[place]:
                    if following not in places:
                        places.add(following)
                        waiting.append(following)
        return places

    def _stands(self, place: int, at: int, name: str) -> bool:
        if place in self._aheads:  # it follows ^, so this is the beginning of the name
            wanted, start, goal = self._aheads[place]
            return self._leads(start, goal, name, anywhere=False) is wanted
        sign = self._ends.get(place)
        return sign is None or at == (0 if sign == "^" else len(name))

    # Reading the pattern

    def _alternatives(self) -> Tree:
        branches = [self._sequence()]
        while self._pattern.startswith("|", self._at):
            self._at += 1
            branches.append(self._sequence())
        return lambda following: self._add(None, *[branch(following) for branch in branches])

    def _sequence(self) -> Tree:
        parts: list[Tree] = []
        begins = False  # whether no letter can have been read yet
        while self._at < len(self._pattern) and self._pattern[self._at] not in "|)":
            if begins and _AHEAD.match(self._pattern, self._at):
                part = self._ahead()
            else:
                begins = self._pattern[self._at] == "^"
                part = self._part()
            while (repeat := _REPEAT.match(self._pattern, self._at)) is not None and repeat[0] != "{}":
                self._at, begins = repeat.end(), False
                part = self._repeat(part, repeat)
            parts.append(part)

        def tree(following: int) -> int:
            for part in reversed(parts):
                following = part(following)
            return following

        return tree

    def _ahead(self) -> Tree:
        wanted = self._pattern[self._at + 2] == "="
        self._at += 3
        tree = self._alternatives()
        self._at += 1  # the parenthesis

        def ahead(following: int) -> int:
            goal = self._add(None)
            start = tree(goal)
            place = self._add(None, following)
            self._aheads[place] = wanted, start, goal
            return place

        return ahead

    def _part(self) -> Tree:
        """Read one letter, class, group or anchor."""
        pattern, at = self._pattern, self._at
        if pattern[at] == "(":
            group = _GROUP.match(pattern, at)
            if group is None:
                known = "groups are (...), (?:...) and, right after ^, (?!...) and (?=...)"
                raise ValueError(f"{pattern[at : at + 4]!r} is not supported in patterns of names: {known}")
            self._at = group.end()
            tree = self._alternatives()
            self._at += 1  # the parenthesis
            return tree
        if pattern[at] in "^$":
            self._at += 1
            return lambda following: self._end(pattern[at], following)
        found = _CLASS.match(pattern, at) if pattern[at] == "[" else _ESCAPE.match(pattern, at)
        if found is None and pattern[at] in "[\\":
            raise ValueError(f"{pattern[at : at + 2]!r} is not supported in patterns of names")
        self._at = found.end() if found is not None else at + 1
        text = pattern[at : self._at]
        test = re.compile(text if len(text) > 1 or text == "." else re.escape(text)).fullmatch
        return lambda following: self._add(test, following)

    def _repeat(self, part: Tree, repeat: re.Match[str]) -> Tree:
        sign, first, comma, last, suffix = repeat.groups()
        if suffix == "+":
            raise ValueError("possessive repeats such as a++ are not supported in patterns of names")
        least, most = _REPEATS[sign] if sign else (int(first or 0), int(last) if last else None)
        if not sign and not comma:
            most = least

        def tree(following: int) -> int:
            if most is None:
                loop = self._add(None, following)
                self._next[loop] = (part(loop), following)
                following = loop
            end = following
            for _ in range((least if most is None else most) - least):
                following = self._add(None, part(following), end)
            for _ in range(least):
                following = part(following)
            return following

        return tree

    def _end(self, sign: str, following: int) -> int:
        place = self._add(None, following)
        self._ends[place] = sign
        return place

    def _add(self, test: Callable[[str], object] | None, *following: int) -> int:
        if len(self._tests) >= MAX_PLACES:
            raise ValueError(f"it must have at most {MAX_PLACES} places, with counted repeats written out")
        self._tests.append(test)
        self._next.append(following)
        return len(self._tests) - 1


@lru_cache(maxsize=10_000)
def name_pattern(pattern: str) -> NamePattern:
    """Return the compiled pattern, from a cache.

    Raises:
        ValueError, TypeError: see `NamePattern`.
    """
    return NamePattern(pattern)
