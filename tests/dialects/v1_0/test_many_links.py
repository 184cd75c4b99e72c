"""What a link costs does not depend on how many links there are."""

from __future__ import annotations

from typing import Literal

import pytest

from amqp10.engine import LinkTerms, SessionTerms
from amqp10.messaging import Source, Target
from amqp10.testing import EnginePair

from ...kit.steps import steps


def instructions(pair: EnginePair, name: str) -> int:
    """Attach and detach one link; how many instructions of the interpreter that takes, on both sides."""

    def attach_and_detach() -> None:
        sender, receiver = pair.attach(terms=LinkTerms(name, Source("q"), Target("q")))
        receiver.detach()
        pair.run()
        sender.detach()
        pair.run()

    return steps(attach_and_detach)


def test_attaching_costs_the_same() -> None:
    """With a thousand links on two sessions one more is attached for what it cost with none."""
    pair = EnginePair()
    pair.open()
    session, _ = pair.begin()
    other, _ = pair.begin()
    pair.attach(session=session)
    instructions(pair, "first")
    alone = instructions(pair, "alone")
    for number in range(500):
        pair.attach(terms=LinkTerms(f"here {number}"), session=session)
        pair.attach(terms=LinkTerms(f"there {number}"), session=other)
    pair.session = session
    assert instructions(pair, "among many") < 1.2 * alone


def test_handles_given_back_are_given_again() -> None:
    """The lowest free handle is the next one, so a session uses no more of them than it has links."""
    pair = EnginePair()
    pair.open()
    links = [pair.attach() for _ in range(5)]
    for sender, receiver in (links[1], links[3]):
        sender.detach()
        pair.run()
        receiver.detach()
        pair.run()
    handles = [pair.attach()[0] for _ in range(3)]
    assert [link.handle for link in handles] == [1, 3, 5]  # type: ignore[attr-defined]


@pytest.mark.parametrize("sender", ["client", "server"])
def test_detaching_costs_the_same(sender: Literal["client", "server"]) -> None:
    """However many deliveries of other links of the session are unsettled."""

    def cost(unsettled: int) -> int:
        pair = EnginePair()
        pair.open()
        pair.begin(SessionTerms(incoming_window=10_000), SessionTerms(incoming_window=10_000))
        holding, _ = pair.attach(credit=unsettled, sender=sender)
        for _ in range(unsettled):
            holding.send(b"\0\x53\x75\xa0\1x")
        pair.run()
        leaving, other = pair.attach(credit=1, sender=sender)
        leaving.send(b"\0\x53\x75\xa0\1x")
        pair.run()

        def detach() -> None:
            other.detach()
            pair.run()

        taken = steps(detach)
        assert not leaving.attached
        assert len(holding.unsettled) == unsettled
        return taken

    cost(1)
    assert cost(400) < 1.1 * cost(100)
