from __future__ import annotations

import pytest

from amqp10.broker._address import split_address, usual_kind


@pytest.mark.parametrize(
    ("address", "capabilities", "expected"),
    [
        ("orders", (), ("orders", None)),
        ("queue://orders", (), ("orders", "queue")),
        ("topic://orders", (), ("orders", "topic")),
        ("queue://orders", ("topic",), ("orders", "queue")),
        ("orders", ("topic",), ("orders", "topic")),
        ("orders", ("x", "queue"), ("orders", "queue")),
        ("", ("temporary-topic",), ("", "topic")),
    ],
)
def test_split_address(address: str, capabilities: tuple[str, ...], expected: tuple[str, str | None]) -> None:
    """The prefix decides, then the capability, else nothing does."""
    assert split_address(address, capabilities) == expected


@pytest.mark.parametrize(("name", "kind"), [("topic.news", "topic"), ("topics", "queue"), ("orders", "queue")])
def test_usual_kind(name: str, kind: str) -> None:
    """A name that starts with `topic.` is a topic, as on Artemis and Broker-J."""
    assert usual_kind(name) == kind
