"""Peers that count their deliveries in several threads at once, as azure-servicebus for Python does on its requests."""

from __future__ import annotations

from typing import Any

from amqp10.engine import ConnectionTerms, LinkAttached, LinkTerms, SessionBegun, dialect
from amqp10.messaging import ACCEPTED, Source, Target
from amqp10.sasl import Authenticator
from amqp10.testing import Attach, Begin, Disposition, End, EngineScript, Flow, Transfer

# The delivery-id and the tag of each delivery: given twice, and then one left out.
NUMBERS = [(6, b"6"), (7, b"7"), (7, b"7"), (7, b"7"), (10, b"10")]


def play(*, any_numbers: bool) -> tuple[EngineScript, Any]:
    """A server to which a client has sent deliveries with these numbers, and the link of them."""
    terms = ConnectionTerms("tested", any_numbers=any_numbers)
    script = EngineScript(dialect("1.0").server(terms, Authenticator(anonymous=True)))
    script.open()
    script.send(Begin(next_outgoing_id=0, incoming_window=100, outgoing_window=100))
    script.expect_event(SessionBegun).session.begin()
    script.send(
        Attach(name="x", handle=0, role=False, source=Source("q"), target=Target("q"), initial_delivery_count=0)
    )
    link: Any = script.expect_event(LinkAttached).link
    link.attach(LinkTerms("x", Source("q"), Target("q")))
    link.flow(10)
    script.expect(Begin)
    script.expect(Attach)
    script.expect(Flow)
    for number, tag in NUMBERS:
        script.send(Transfer(handle=0, delivery_id=number, delivery_tag=tag), tag)
    return script, link


def test_used_numbers() -> None:
    """Each delivery comes, and is settled by the number that it came with."""
    played, link = play(any_numbers=True)
    found = [link.incoming.popleft() for _ in NUMBERS]
    assert [delivery.payload for delivery in found] == [tag for _, tag in NUMBERS]
    for delivery, (number, _) in zip(found, NUMBERS, strict=True):
        link.settle(delivery, ACCEPTED)
        link.session.engine.flush()
        played.expect(Disposition, role=True, first=number, settled=True)
    played.expect_nothing()
    assert not link.unsettled


def test_others() -> None:
    """Where nobody asks for that, the session ends (§2.7.5)."""
    played, _ = play(any_numbers=False)
    assert "a delivery with the id 7, where 8 is the next" in str(played.expect(End).error)
