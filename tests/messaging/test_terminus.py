"""`messaging/_terminus.py`: sources and targets on the wire, by the specification's words."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from amqp10.errors import DecodeError, EncodeError
from amqp10.messaging import (
    Coordinator,
    DeleteOnClose,
    DeleteOnNoLinksOrMessages,
    Modified,
    NoLocal,
    Selector,
    Source,
    Target,
)
from amqp10.testing.strategies import coordinators, sources, targets
from amqp10.types import Described, Symbol, UInt, ULong, decode, encode


@given(sources())
def test_sources_survive_the_wire(source: Source) -> None:
    """A source is read back equal, its outcome and lifetime policy of their classes."""
    assert Source.decode(source.encode()) == source


@given(targets())
def test_targets_survive_the_wire(target: Target) -> None:
    """A target is read back equal."""
    assert Target.decode(target.encode()) == target


@given(coordinators())
def test_coordinators_survive_the_wire(coordinator: Coordinator) -> None:
    """A coordinator is read back equal."""
    assert Coordinator.decode(coordinator.encode()) == coordinator


def test_an_address_is_all_that_a_terminus_needs() -> None:
    """The address comes first, and everything else has a default that is not sent."""
    assert decode(Source("queue").encode()) == Described(ULong(0x28), ["queue"])
    assert decode(Target("queue").encode()) == Described(ULong(0x29), ["queue"])
    source = Source.decode(Source("queue").encode())
    assert (source.durable, source.expiry_policy, source.timeout, source.dynamic) == ("none", "session-end", 0, False)
    assert (source.outcomes, source.capabilities, source.filter) == ((), (), None)


@pytest.mark.parametrize(("word", "number"), [("none", 0), ("configuration", 1), ("unsettled-state", 2)])
def test_durability_is_a_word(word: Any, number: int) -> None:
    """The three words are the numbers of §3.5.5."""
    assert Source(durable=word).encode() == encode(Described(ULong(0x28), [None, UInt(number)] if number else []))
    assert Target.decode(encode(Described(ULong(0x29), [None, UInt(number)]))).durable == word


def test_words_that_are_none_are_refused() -> None:
    """Durability and expiry policy take their words and no others: as arguments, set later, and from the wire."""
    misspelled: list[tuple[str, Any]] = [("durable", "very"), ("durable", 2), ("expiry_policy", "soon")]
    for name, wrong in misspelled:
        with pytest.raises((TypeError, ValueError), match=f"^{name} must be one of "):
            Source(**{name: wrong})
        source = Source()
        setattr(source, name, wrong)
        with pytest.raises(EncodeError, match=name.replace("_", "-")):
            source.encode()
    for fields in ([None, UInt(3)], [None, None, Symbol("soon")]):
        with pytest.raises(DecodeError):
            Target.decode(encode(Described(ULong(0x29), fields)))


def test_everything_of_a_source_is_reachable() -> None:
    """All fields in Python's words give the list of §3.5.3."""
    source = Source(
        "events",
        durable="unsettled-state",
        expiry_policy="never",
        timeout=60,
        dynamic_node_properties={"lifetime-policy": DeleteOnClose(), "supported-dist-modes": Symbol("copy")},
        distribution_mode="copy",
        filter={"f": Described(Symbol("apache.org:selector-filter:string"), "a = 1")},
        default_outcome=Modified(delivery_failed=True),
        outcomes=("amqp:accepted:list", "amqp:rejected:list"),
        capabilities=("queue",),
    )
    (described,) = [decode(source.encode())]
    fields = described.value
    assert fields[:5] == ["events", 2, Symbol("never"), 60, None]
    assert fields[5] == {"lifetime-policy": Described(ULong(0x2B), []), "supported-dist-modes": "copy"}
    assert [type(key) for key in (*fields[5], *fields[7])] == [Symbol] * 3
    assert fields[8] == Described(ULong(0x27), [True])
    assert (list(fields[9]), list(fields[10])) == (["amqp:accepted:list", "amqp:rejected:list"], [Symbol("queue")])
    assert Source.decode(source.encode()) == source


def test_filters_become_the_filter_set() -> None:
    """`filters` is a shorter way to write `filter`, and adds to it; two of a name are a mistake."""
    selector = Described(Symbol("apache.org:selector-filter:string"), "a = 1")
    assert Source("q", filters=[Selector("a = 1")]) == Source("q", filter={"jms-selector": selector})
    own = {"mine": Described(Symbol("example:f"), None)}
    source = Source("q", filter=own, filters=(each for each in (Selector("a = 1"), NoLocal())))
    assert source.filter is not None
    assert list(source.filter) == ["mine", "jms-selector", "no-local"]
    assert list(own) == ["mine"]
    assert Source("q", filters=[]).filter is None
    assert Source("q", filter={"mine": Selector("a = 1")}).filter == {"mine": selector}
    assert Source.decode(source.encode()) == source
    with pytest.raises(ValueError, match="jms-selector"):
        Source("q", filters=[Selector("a = 1"), Selector("b = 1")])
    assert Source("q", filters=[Selector("a = 1"), Selector("b = 1").named("other")]).filter is not None


def test_a_terminus_is_not_an_outcome() -> None:
    """What stands as default outcome has to be one, what stands as lifetime policy too."""
    terminus: Any = Target("x")
    with pytest.raises(TypeError, match=r"^default_outcome must be an Accepted or "):
        Source(default_outcome=terminus)
    for name, wrong, reason in (
        ("default_outcome", terminus, "default-outcome: expected outcome, not "),
        (
            "dynamic_node_properties",
            {Symbol("lifetime-policy"): terminus},
            "dynamic-node-properties: .* lifetime-policy",
        ),
    ):
        source = Source()
        setattr(source, name, wrong)
        with pytest.raises(EncodeError, match=reason):
            source.encode()
        wire = [wrong if each.name == name else None for each in Source.fields]
        with pytest.raises(DecodeError, match=reason):
            Source.decode(encode(Described(ULong(0x28), wire)))


def test_lifetime_policies_are_values() -> None:
    """Two of one class are equal, two of different classes are not."""
    assert DeleteOnClose() == DeleteOnClose()
    assert len({DeleteOnClose(), DeleteOnClose(), DeleteOnNoLinksOrMessages()}) == 2
