"""How a profile spells nodes, and what it adds to errors."""

from __future__ import annotations

import copy
import pickle

import pytest

from amqp10 import LinkDetached, MessageReleased, Source, Symbol, Target, Unsupported
from amqp10.profiles import ACTIVEMQ, ARTEMIS, GENERIC, RABBITMQ, SOLACE, Fact, NodeKind, Profile

PROFILE = Profile(
    "test",
    "Test Broker",
    queue="/q/{quoted}",
    topic="/t/{}",
    topic_source="",
    capabilities=True,
    hints={"released": "nobody wanted it", "amqp:not-found": "declare it", "no topic": "bind a queue"},
    facts=(Fact("It is made up.", "here"),),
)


def test_target() -> None:
    """The name goes into the template, percent-encoded where the broker wants that, and the kind is said."""
    assert PROFILE.target("a/b c") == Target("/q/a%2Fb%20c", capabilities=(Symbol("queue"),))
    assert PROFILE.target("a/b c", "topic") == Target("/t/a/b c", capabilities=(Symbol("topic"),))


def test_fields() -> None:
    """Further fields go into the terminus; capabilities add up."""
    source = PROFILE.source("q", durable="unsettled-state", capabilities=(Symbol("shared"),))
    assert source == Source("/q/q", durable="unsettled-state", capabilities=(Symbol("queue"), Symbol("shared")))


def test_nothing_to_receive_from() -> None:
    """Where the broker has no such source, asking for it says so, with the advice there is, before anything is sent."""
    with pytest.raises(Unsupported, match="Test Broker has no topic for that: bind a queue"):
        PROFILE.source("news", "topic")
    with pytest.raises(Unsupported, match=r"has no topic for that$"):
        Profile("x", "X", topic=None).target("news", "topic")


@pytest.mark.parametrize("kind", ["queue", "topic"])
def test_names_are_not_templates(kind: NodeKind) -> None:
    """Braces in a name are the name's."""
    assert Profile("x", "X").target("{0}{quoted}{", kind).address == "{0}{quoted}{"


def test_27_addresses() -> None:
    """Pitfall 27: one name, spelled by the profile as each broker wants it."""
    assert [profile.target("a b").address for profile in (GENERIC, ARTEMIS, RABBITMQ, ACTIVEMQ, SOLACE)] == [
        "a b",
        "a b",
        "/queues/a%20b",
        "queue://a b",
        "queue://a b",
    ]


def test_explain() -> None:
    """What an outcome means here is in its text, where logs show it; of a condition it is a note. Both stand once."""
    released = MessageReleased()
    PROFILE.explain(released)
    PROFILE.explain(released)
    assert str(released) == "the receiver released the message; Test Broker: nobody wanted it"
    assert not hasattr(released, "__notes__")
    for other in (pickle.loads(pickle.dumps(released)), copy.copy(released)):
        assert (str(other), other.meaning) == (str(released), "Test Broker: nobody wanted it")
    gone = LinkDetached("amqp:not-found", "no such node")
    PROFILE.explain(gone)
    PROFILE.explain(gone)
    assert gone.__notes__ == ["Test Broker: declare it"]
    other = LinkDetached("amqp:internal-error")
    PROFILE.explain(other)
    assert not hasattr(other, "__notes__")


def test_version_of_any_length() -> None:
    """A peer says its version: thousands of digits are none, and an error does not repeat all of it."""
    assert RABBITMQ.takes_tokens("9" * 5000)
    with pytest.raises(Unsupported) as error:
        RABBITMQ.require_replies("0" * 5000)
    assert len(str(error.value)) < 1000


@pytest.mark.parametrize(
    ("version", "made"), [("3.13.7", False), ("4.10", True), ("4.2", True), ("", True), ("x", True)]
)
def test_require_replies(version: str, made: bool) -> None:
    """By number, not by letter; what says no version is not refused."""
    GENERIC.require_replies(version)
    if made:
        RABBITMQ.require_replies(version)
    else:
        with pytest.raises(Unsupported, match=r"before version 4\.2: give reply_to="):
            RABBITMQ.require_replies(version)
