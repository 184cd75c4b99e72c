"""Binding keys of topic exchanges: what matches what."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10.broker._routing.topic_trie import TooManyPlaces, TopicTrie

from ...kit.steps import steps

words = st.sampled_from(["a", "b", "", "*", "#", "cc"])
patterns = st.lists(words, max_size=5).map(".".join)
keys = st.lists(st.sampled_from(["a", "b", "", "cc"]), max_size=5).map(".".join)


def fits(pattern: list[str], key: list[str]) -> bool:
    """The definition, word by word; slow."""
    if not pattern:
        return not key
    first, rest = pattern[0], pattern[1:]
    if first == "#":
        return any(fits(rest, key[taken:]) for taken in range(len(key) + 1))
    return bool(key) and first in ("*", key[0]) and fits(rest, key[1:])


def split(text: str) -> list[str]:
    """Words; nothing has none."""
    return text.split(".") if text else []


@given(st.lists(patterns, max_size=12), st.lists(st.integers(0, 11), max_size=8), keys)
def test_as_defined(bound: list[str], unbound: list[int], key: str) -> None:
    """After any binding and unbinding a key matches just those that the definition says, each once."""
    tree: TopicTrie[int] = TopicTrie()
    for number, pattern in enumerate(bound):
        tree.add(pattern, number)
    for number in unbound:
        if number < len(bound):
            tree.remove(bound[number], number)
    matching = tree.matching(key)
    assert len(matching) == len(set(matching))
    assert set(matching) == {
        number for number, pattern in enumerate(bound) if number not in unbound and fits(split(pattern), split(key))
    }


@pytest.mark.parametrize(
    ("pattern", "key", "matches"),
    [
        ("stock.*.nyse", "stock.ibm.nyse", True),
        ("stock.*.nyse", "stock.nyse", False),
        ("stock.#", "stock", True),
        ("stock.#", "stock.ibm.nyse", True),
        ("#", "", True),
        ("*", "", False),
        ("", "", True),
        ("#.nyse", "nyse", True),
        ("a.#.b.#.c", "a.x.b.b.y.c", True),
        ("*.*", "a.", True),
        ("A", "a", False),
    ],
)
def test_examples(pattern: str, key: str, matches: bool) -> None:
    """`*` is one word, `#` any number; an empty key has no words, and case counts."""
    tree: TopicTrie[str] = TopicTrie()
    tree.add(pattern, "here")
    assert tree.matching(key) == (["here"] if matches else [])


def test_removing_leaves_nothing() -> None:
    """What was bound and unbound takes no room, and unbinding what is not bound does nothing."""
    tree: TopicTrie[int] = TopicTrie()
    for number, pattern in enumerate(("a.b.c", "a.*.#", "#.#", "a")):
        tree.add(pattern, number)
        tree.remove(pattern, number + 100)
        tree.remove(pattern + ".more", number)
    for number, pattern in enumerate(("a.b.c", "a.*.#", "#.#", "a")):
        tree.remove(pattern, number)
    root = tree._root
    assert (root.words, root.star, root.hash, root.bound) == ({}, None, None, {})


def test_hostile_patterns() -> None:
    """Patterns made to be matched in very many ways take few steps for each of their words."""
    tree: TopicTrie[int] = TopicTrie()
    for number in range(20):
        tree.add(".".join(["#", "a"] * 60 + ["#"] * number), number)
    key = ".".join(["a"] * 127)
    assert tree.matching(key) == list(range(20))
    assert steps(lambda: tree.matching(key)) < 1_000_000


def test_long_routing_keys_match_only_everything() -> None:
    """A key that no older AMQP can say is not walked through the tree: it matches "#" and nothing else."""
    tree: TopicTrie[int] = TopicTrie()
    for number in range(500):
        tree.add(".".join(["#", "x"] * 60) + f".{number}", number)
    tree.add("#", 1000)
    assert tree.matching("x." * 10_000) == [1000]


def test_too_many_places_are_said_and_short_keys_go_on() -> None:
    """Binding keys made to be hard cost some steps, and then an error; keys of few words match as before."""
    tree: TopicTrie[int] = TopicTrie()
    for number in range(2000):
        bits = f"{number:011b}".replace("0", "#.a.").replace("1", "#.*.")
        tree.add(bits + "#.a." * 30 + f"end{number}", number)
    tree.add("a.*", 5000)
    with pytest.raises(TooManyPlaces):
        tree.matching(".".join(["a"] * 127))
    assert tree.matching("a.b") == [5000]
