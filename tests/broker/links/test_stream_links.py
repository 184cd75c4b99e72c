"""Links to streams: what an attach is answered, and that nothing a receiver says takes a message away."""

from __future__ import annotations

from typing import Any

import pytest

from amqp10.engine import LinkTerms, ReceiverLink
from amqp10.messaging import ACCEPTED, TXN_ID, Message, Modified, Rejected, Source, StreamOffset
from amqp10.types import Described, Symbol

from ...kit.broker.controller import Controller
from ...kit.broker.wire import Wire, bodies
from ...kit.inside.broker import QueueDeclaration, Stream

FAILED = Modified(delivery_failed=True, undeliverable_here=True)


@pytest.fixture
def stream(wire: Wire) -> Stream:
    """A stream of three messages."""
    made = wire.vhost.declare_queue("s", QueueDeclaration(arguments={"x-queue-type": "stream"}))
    assert isinstance(made, Stream)
    sender = wire.send_to("s")
    for number in range(3):
        sender.send(Message(number).encode())
        wire.turn()
    return made


def read(wire: Wire, where: Any = "first", *, address: str = "s", **terms: Any) -> ReceiverLink:
    return wire.receive_from(Source(address, filters=[StreamOffset(where)]), credit=10, **terms)


def test_the_answer(wire: Wire, stream: Stream) -> None:
    """The filter is applied, and the source is one that is only looked at."""
    link = read(wire, 1)
    assert bodies(link) == [1, 2]
    assert link.remote is not None
    source = link.remote.source
    assert isinstance(source, Source)
    assert (source.filter, source.distribution_mode) == (Source(filters=[StreamOffset(1)]).filter, "copy")


@pytest.mark.parametrize("outcome", [ACCEPTED, Rejected(), FAILED])
def test_outcomes(wire: Wire, stream: Stream, outcome: Any) -> None:
    """They end the delivery, and nothing else; nothing comes back to any reader."""
    link = read(wire)
    for delivery in list(link.incoming):
        link.settle(delivery, outcome)
    wire.turn()
    assert (stream.depth, stream.unsettled, bodies(link)) == (3, 0, [0, 1, 2])
    link.detach(closed=True)
    wire.turn()
    assert bodies(read(wire, name="again")) == [0, 1, 2]


def test_settled(wire: Wire, stream: Stream) -> None:
    """A receiver that has its messages settled takes none away either."""
    assert bodies(read(wire, settle_mode="settled")) == [0, 1, 2]
    assert stream.depth == 3


def test_a_link_that_would_be_resumed(wire: Wire, stream: Stream) -> None:
    """Nothing is kept of it: a reader has its offset."""
    source = Source("s", filters=[StreamOffset("first")], durable="unsettled-state", expiry_policy="never")
    link = wire.receive_from(source, credit=1)
    assert link.remote is not None
    assert isinstance(link.remote.source, Source)
    assert (link.remote.source.durable, link.remote.source.expiry_policy) == ("none", "link-detach")


def test_no_stream_is_made_on_demand(wire: Wire) -> None:
    """Who names an offset means a stream, and streams are declared."""
    link = read(wire, address="none-such")
    assert not link.attached
    assert wire.refusal().condition == "amqp:not-found"
    assert "none-such" not in wire.vhost.nodes


def test_on_a_queue(wire: Wire) -> None:
    """The filter is not applied, and the answer says so by leaving it out."""
    wire.send_to("q")
    link = read(wire, address="q")
    assert link.remote is not None
    assert isinstance(link.remote.source, Source)
    assert not link.remote.source.filter


def test_an_offset_that_is_none(wire: Wire, stream: Stream) -> None:
    """The link is refused."""
    key = StreamOffset.descriptor_name
    wire.receive_from(Source("s", filter={key: Described(key, "never")}))
    assert (wire.refusal().condition, len(stream.consumers)) == ("amqp:invalid-field", 0)


def test_getting_one(wire: Wire, stream: Stream) -> None:
    """What dialects with a word for it ask for is not to be had from a stream."""
    link = wire.session.attach_receiver(
        LinkTerms("get", source=Source(address="s"), target=None, properties={Symbol("x-opt-get"): True})
    )
    wire.turn()
    assert not link.attached
    assert wire.refusal().condition == "amqp:not-implemented"


def test_nothing_is_acquired_in_a_transaction(wire: Wire, control: Controller, stream: Stream) -> None:
    """What cannot be taken cannot be taken in a transaction."""
    link = wire.receive_from(Source("s", filters=[StreamOffset("first")]))
    link.flow(1, properties={TXN_ID: control.declare()})
    wire.turn()
    assert wire.refusal().condition == "amqp:not-implemented"


def test_deleted(wire: Wire, stream: Stream) -> None:
    """Its readers are told."""
    read(wire)
    wire.vhost.delete(stream)
    wire.turn()
    assert wire.refusal().condition == "amqp:resource-deleted"
