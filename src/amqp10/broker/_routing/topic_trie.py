"""The binding keys of a topic exchange as a tree, in which one walk finds all keys that match a routing key.

Words are separated by dots; in a binding key `*` stands for any one word, `#` for any number of words, also zero.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, Generic, TypeVar

from .._limits import MAX_KEY_LENGTH

Bound = TypeVar("Bound", bound=Hashable)

MAX_PLACES: Final = 50_000
"""The most places of the tree that are visited for one routing key: about 10 ms."""


class TooManyPlaces(Exception):
    """Matching a routing key against these binding keys would take too long."""

    def __init__(self) -> None:
        super().__init__(f"more than {MAX_PLACES} steps to find what its routing key matches")


class _TrieNode(Generic[Bound]):
    """A place in the tree: the words that lead here, and what is bound with exactly these words."""

    __slots__ = ("bound", "hash", "hashed", "star", "words")

    def __init__(self, *, hashed: bool = False) -> None:
        self.words: dict[str, _TrieNode[Bound]] = {}
        self.star: _TrieNode[Bound] | None = None
        self.hash: _TrieNode[Bound] | None = None
        self.hashed = hashed  # a `#` leads here, which matches further words, too
        self.bound: dict[Bound, None] = {}

    def after(self, word: str) -> _TrieNode[Bound] | None:
        """Return the place that one more word of a binding key leads to, or None."""
        return self.star if word == "*" else self.hash if word == "#" else self.words.get(word)

    def grow(self, word: str) -> _TrieNode[Bound]:
        """Return the place that one more word leads to, created if it does not exist."""
        place = self.after(word)
        if place is None:
            place = _TrieNode(hashed=word == "#")
            if word == "*":
                self.star = place
            elif word == "#":
                self.hash = place
            else:
                self.words[word] = place
        return place

    def cut(self, word: str) -> None:
        """Remove the place that a word leads to, if it is empty."""
        place = self.after(word)
        if place is None or place.bound or place.words or place.star or place.hash:
            return
        if word == "*":
            self.star = None
        elif word == "#":
            self.hash = None
        else:
            del self.words[word]


class TopicTrie(Generic[Bound]):
    """Things bound by binding keys."""

    def __init__(self) -> None:
        self._root: _TrieNode[Bound] = _TrieNode()

    def add(self, pattern: str, bound: Bound) -> None:
        """Bind something; binding it with the same key again changes nothing."""
        place = self._root
        for word in _pattern(pattern):
            place = place.grow(word)
        place.bound[bound] = None

    def remove(self, pattern: str, bound: Bound) -> None:
        """Unbind something."""
        words = _pattern(pattern)
        path = [self._root]
        for word in words:
            place = path[-1].after(word)
            if place is None:
                return
            path.append(place)
        path[-1].bound.pop(bound, None)
        for place, word in zip(reversed(path[:-1]), reversed(words), strict=True):
            place.cut(word)

    def matching(self, key: str) -> list[Bound]:
        """Return all that is bound with a key that matches the routing key.

        All places that the words so far may lead to are walked at once, and each of them once. So the time for a
        binding key is bounded by its own length times that of the routing key. A routing key longer than the older
        dialects can carry only matches "#".

        Raises:
            TooManyPlaces: there are too many binding keys with wildcards.
        """
        reached = _and_beyond({self._root: None})
        if len(key) > MAX_KEY_LENGTH:
            hashed = self._root.hash
            return list(hashed.bound) if hashed is not None else []
        looked_at = 0
        for word in split(key):
            looked_at += len(reached)
            if looked_at > MAX_PLACES:
                raise TooManyPlaces
            following: dict[_TrieNode[Bound], None] = {}
            for place in reached:
                if place.hashed:
                    following[place] = None
                if (named := place.words.get(word)) is not None:
                    following[named] = None
                if place.star is not None:
                    following[place.star] = None
            reached = _and_beyond(following)
        return list({bound: None for place in reached for bound in place.bound})


def _and_beyond(places: dict[_TrieNode[Bound], None]) -> dict[_TrieNode[Bound], None]:
    """Add the places that a `#` leads to without a word."""
    waiting = [place.hash for place in places if place.hash is not None]
    while waiting:
        place = waiting.pop()
        if place not in places:
            places[place] = None
            if place.hash is not None:
                waiting.append(place.hash)
    return places


def _pattern(key: str) -> list[str]:
    """Split a binding key into words, without any `#` that follows another."""
    words = split(key)
    return [word for at, word in enumerate(words) if not (at and word == "#" == words[at - 1])]


def split(key: str) -> list[str]:
    """Split a routing key into words; an empty key has no words."""
    return key.split(".") if key else []
