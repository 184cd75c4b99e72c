"""What a server says of the messages that clients send."""

from __future__ import annotations

from typing import Any

import pytest

from amqp10.dialects.v0_10.wire.commands import DeliveryProperties, MessageReject, MessageTransfer
from amqp10.engine import LinkAttached, LinkTerms
from amqp10.messaging import ACCEPTED, RELEASED, Error, Modified, Rejected

from ....kit.dialects.v0_10.engines import a_server


@pytest.mark.parametrize(
    ("outcome", "discards", "said"),
    [
        (ACCEPTED, False, None),
        (RELEASED, False, (1, "unroutable")),
        (RELEASED, True, None),
        (Modified(), False, (0, "it was not taken")),
        (Rejected(Error("amqp:precondition-failed", "too sweet")), False, (0, "too sweet")),
        (Rejected(Error("amqp:not-allowed", "bitter")), True, (0, "amqp:not-allowed: bitter")),
        (Rejected(Error("amqp:not-found")), True, (0, "amqp:not-found: ")),
    ],
)
def test_outcomes(outcome: Any, discards: bool, said: tuple[int, str] | None) -> None:
    """Accepted is nothing but complete, and so is what no queue took where the client wants that dropped."""
    raw = a_server()
    raw.open_as_client()
    raw.engine.events()[0].session.begin()  # type: ignore[attr-defined]
    header = DeliveryProperties(routing_key="q", discard_unroutable=discards).encode_struct32()
    raw.do(MessageTransfer("", 0, 0), header, b"x")
    links: list[Any] = [event.link for event in raw.engine.events() if isinstance(event, LinkAttached)]
    link = links[0]
    link.attach(LinkTerms("transfers", link.remote.source, link.remote.target))
    link.flow(1)
    link.settle(link.incoming.popleft(), outcome)
    rejects = [(each.code, each.text) for each in raw.listen() if isinstance(each, MessageReject)]
    assert rejects == ([said] if said is not None else [])
