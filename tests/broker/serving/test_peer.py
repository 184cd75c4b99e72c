from __future__ import annotations

from typing import Any

import pytest

from amqp10.engine import (
    ConnectionEnded,
    LinkEnded,
    LinkTerms,
)
from amqp10.errors import ConnectionClosed, LinkDetached
from amqp10.messaging import (
    RELEASED,
    Modified,
    Source,
    Target,
)
from amqp10.types import Described, Symbol

from ...kit.broker.wire import Wire, queue_of
from ...kit.clock import Clock
from ...kit.inside.broker import VirtualHostCore, VirtualHostSettings


def source_of_mode(mode: Any) -> Source:
    """Return a source with a distribution mode that its constructor would refuse, as a peer may send it."""
    source = Source("q")
    source.distribution_mode = mode
    return source


class TestAnswers:
    @pytest.mark.spec("2.6.3", "the answered source is what is really there")
    def test_source(self, wire: Wire) -> None:
        """No durability is pretended, no unknown filter is confirmed; outcomes and the default outcome are named."""
        asked = Source(
            address="q",
            durable="unsettled-state",
            expiry_policy="never",
            filter={Symbol("sample"): Described(Symbol("example:sample"), 0.5)},
            outcomes=("amqp:accepted:list", "amqp:released:list", "x:other:list"),
            default_outcome=RELEASED,
        )
        link = wire.receive_from(asked)
        assert link.attached
        assert link.remote is not None
        source = link.remote.source
        assert source is not None
        assert (source.address, source.durable, source.expiry_policy) == ("q", "none", "never")
        assert (source.distribution_mode, not source.filter, source.default_outcome) == ("move", True, RELEASED)
        assert tuple(source.outcomes) == ("amqp:accepted:list", "amqp:released:list")
        assert "queue" in source.capabilities

    def test_source_without_wishes(self, wire: Wire) -> None:
        """All outcomes are offered; what ends without one counts as failed."""
        link = wire.receive_from("q")
        assert link.remote is not None
        assert link.remote.source is not None
        assert set(link.remote.source.outcomes) == {
            "amqp:accepted:list",
            "amqp:rejected:list",
            "amqp:released:list",
            "amqp:modified:list",
        }
        assert link.remote.source.default_outcome == Modified(delivery_failed=True)
        assert link.remote.settle_mode == "unsettled"

    def test_target(self, wire: Wire) -> None:
        """The target is as it is, and the limit of a message's size is told."""
        link = wire.send_to(Target(address="q", durable="unsettled-state", expiry_policy="never"))
        assert link.remote is not None
        assert isinstance(link.remote.target, Target)
        assert (link.remote.target.durable, link.remote.target.expiry_policy) == ("none", "never")
        assert link.remote.max_message_size == 1_000_000
        assert link.credit == 1000

    @pytest.mark.parametrize(
        ("source", "condition"),
        [
            (None, "amqp:not-found"),
            (Source(), "amqp:invalid-field"),
            (Source(address=5), "amqp:invalid-field"),
            (Source(address=""), "amqp:invalid-field"),
            (source_of_mode("x:up"), "amqp:not-implemented"),
            (Source(address="topic://taken"), "amqp:precondition-failed"),
        ],
    )
    def test_refused_sources(self, wire: Wire, source: Source | None, condition: str) -> None:
        """What cannot be a source is refused with the reason, and the session lives on."""
        wire.vhost.declare("taken", "queue")
        wire.receive_from(source, name="bad")
        assert wire.refusal().condition == condition
        assert wire.receive_from("q").attached

    def test_refused_targets(self, wire: Wire) -> None:
        """An address that is none is refused with the reason."""
        wire.send_to(Target(address=5), name="bad")
        assert wire.refusal().condition == "amqp:invalid-field"
        assert wire.send_to("q").attached

    @pytest.mark.spec(
        "2.8.15", "frame-size-too-small: the smallest encoding of a performative is too large for a frame"
    )
    @pytest.mark.parametrize("dynamic", [False, True])
    def test_answer_larger_than_the_peers_frames(self, vhost: VirtualHostCore, dynamic: bool) -> None:
        """A link whose answer cannot be said is refused, and leaves no node of its own behind."""
        wire = Wire(vhost, max_frame_size=512)
        long = ("x:" + "y" * 250, "x:" + "z" * 250)
        source = Source(address=None if dynamic else "q" * 500, dynamic=dynamic)
        wire.session.attach_receiver(LinkTerms("r", source=source, target=Target(capabilities=long if dynamic else ())))
        wire.turn()
        wire.send_to(Target(address="p" * 500), name="s")
        ended = [event.error for event in wire.events if isinstance(event, LinkEnded)]
        told = [error.condition for error in ended if isinstance(error, LinkDetached)]
        assert told == ["amqp:frame-size-too-small"] * 2
        assert not any(node.temporary for node in vhost.nodes.values())
        assert wire.receive_from("q").attached

    def test_attached_and_gone_in_one_breath(self, wire: Wire) -> None:
        """A link that the peer ended before it had our answer leaves nothing behind."""
        for name in ("q", "topic.t"):
            wire.session.attach_receiver(LinkTerms(name, source=Source(address=name), target=Target())).detach()
        wire.session.attach_sender(LinkTerms("s", source=Source(), target=Target(address="q"))).detach()
        wire.session.attach_receiver(LinkTerms("d", source=Source(dynamic=True), target=Target())).detach()
        wire.turn()
        assert [
            *wire.vhost.nodes,
            *wire.peer.links.consumers,
            *wire.peer.links.producers,
            *wire.peer.links.owned,
        ] == []
        assert wire.receive_from("q", name="next").attached

    def test_unknown_address(self, clock: Clock) -> None:
        """With nothing made on demand an unknown address is refused in both directions."""
        wire = Wire(VirtualHostCore(VirtualHostSettings(auto_create=False), clock=clock))
        wire.send_to("nowhere")
        assert wire.refusal().condition == "amqp:not-found"
        wire.receive_from("nowhere")
        assert wire.refusal().condition == "amqp:not-found"
        assert wire.vhost.nodes == {}

    def test_no_more_connections(self, vhost: VirtualHostCore) -> None:
        """A connection too many is opened and closed with the reason."""
        wire = Wire(vhost, admit=False)
        ended = [event for event in wire.events if isinstance(event, ConnectionEnded)]
        assert isinstance(ended[0].error, ConnectionClosed)
        assert ended[0].error.condition == "amqp:resource-limit-exceeded"
        assert wire.over


def test_lost_twice(wire: Wire) -> None:
    """A connection that is given up after it ended changes nothing more."""
    wire.receive_from("q", credit=1)
    wire.client.close()
    wire.turn()
    wire.peer.lost()
    assert wire.over
    assert not queue_of(wire.vhost, "q").consumers
