from __future__ import annotations

from typing import Literal

import pytest

from amqp10.engine import (
    OutcomesReceived,
)
from amqp10.messaging import (
    ACCEPTED,
    Accepted,
    Message,
    Rejected,
    Source,
    Target,
)

from ...kit.broker.wire import Wire, queue_of
from ...kit.clock import Clock
from ...kit.inside.broker import Limits, VirtualHostCore, VirtualHostSettings


class TestSending:
    def test_accepted(self, wire: Wire) -> None:
        """An unsettled message is accepted once the queue has it."""
        link = wire.send_to("q")
        sent = [link.send(Message(number).encode()) for number in range(5)]
        told = [event for event in wire.turn() if isinstance(event, OutcomesReceived)]
        assert sum(len(event.deliveries) for event in told) == 5
        assert all(delivery.remote_settled and isinstance(delivery.remote_state, Accepted) for delivery in sent)
        assert queue_of(wire.vhost, "q").depth == 5

    def test_malformed_in_a_run(self, wire: Wire) -> None:
        """Messages that begin with an octet of no section are rejected, where many come together, too."""
        link = wire.send_to("q")
        sent = [link.send(payload) for payload in [Message(b"").encode()] * 20 + [b"\xff\x53\x75\xa0\0"] * 20]
        wire.turn()
        for number, delivery in enumerate(sent):
            assert isinstance(delivery.remote_state, Accepted if number < 20 else Rejected)
        assert queue_of(wire.vhost, "q").depth == 20

    def test_settled(self, wire: Wire) -> None:
        """A settled message is taken without a word."""
        link = wire.send_to("q", settle_mode="settled")
        link.send(Message("x").encode(), settled=True)
        wire.turn()
        assert queue_of(wire.vhost, "q").depth == 1

    @pytest.mark.spec("2.6.12", "receiver-settle-mode second: the receiver settles after the sender")
    def test_second(self, wire: Wire) -> None:
        """The broker names the outcome and settles when the sender has."""
        link = wire.send_to("q", settle_mode="unsettled", receiver_settle_mode="second")
        assert link.remote is not None
        assert link.remote.receiver_settle_mode == "second"
        delivery = link.send(Message("x").encode())
        wire.turn()
        assert isinstance(delivery.remote_state, Accepted)
        assert delivery.local_settled
        assert not link.unsettled
        (broker_side,) = wire.peer.links.producers
        assert not broker_side.unsettled

    @pytest.mark.spec("2.7.3", "the receiver keeps to the receiver-settle-mode that the sender desires")
    @pytest.mark.parametrize("settle_mode", ["unsettled", "settled", "mixed"])
    @pytest.mark.parametrize("receiver_settle_mode", ["first", "second"])
    def test_modes(
        self,
        wire: Wire,
        settle_mode: Literal["unsettled", "settled", "mixed"],
        receiver_settle_mode: Literal["first", "second"],
    ) -> None:
        """And the answer says the sender's own mode again."""
        link = wire.send_to("q", settle_mode=settle_mode, receiver_settle_mode=receiver_settle_mode)
        assert link.remote is not None
        assert (link.remote.settle_mode, link.remote.receiver_settle_mode) == (settle_mode, receiver_settle_mode)

    @pytest.mark.deviation(
        "3.2.1",
        "a broker without a store accepts durable messages instead of rejecting them with precondition-failed",
        "most clients send durable messages by default, and a broker without a store is started on purpose",
    )
    def test_durable_without_a_store(self, wire: Wire) -> None:
        """They stay marked as durable for whoever comes next."""
        link = wire.send_to("q")
        delivery = link.send(Message("x", durable=True).encode())
        wire.turn()
        assert isinstance(delivery.remote_state, Accepted)
        (came,) = wire.receive_from("q", credit=1).incoming
        assert Message.decode(came.payload).durable

    def test_undecodable(self, wire: Wire) -> None:
        """A message whose header cannot be read is rejected, and the next one is not."""
        link = wire.send_to("q")
        bad = link.send(b"\x00\x53\x70\xc0\x05\x01garbage")
        good = link.send(Message("x").encode())
        wire.turn()
        assert isinstance(bad.remote_state, Rejected)
        assert bad.remote_state.error is not None
        assert bad.remote_state.error.condition == "amqp:decode-error"
        assert isinstance(good.remote_state, Accepted)
        assert queue_of(wire.vhost, "q").depth == 1

    def test_settled_then_gone(self, wire: Wire) -> None:
        """Messages that came in the same breath as the detach are in the queue."""
        link = wire.send_to("q", settle_mode="settled")
        link.send(Message("x").encode(), settled=True)
        link.detach()
        wire.turn()
        assert queue_of(wire.vhost, "q").depth == 1
        assert not queue_of(wire.vhost, "q").producers

    def test_full_queue(self, clock: Clock) -> None:
        """Credit ends with the room, and comes back with it; nothing is lost."""
        wire = Wire(VirtualHostCore(VirtualHostSettings(limits=Limits(messages=10)), clock=clock))
        sender = wire.send_to("q")
        assert sender.credit == 10
        for number in range(10):
            sender.send(Message(number).encode())
        wire.turn()
        assert sender.credit == 0
        receiver = wire.receive_from("q", credit=4)
        for delivery in list(receiver.incoming):
            receiver.settle(delivery, ACCEPTED)
        wire.turn()
        assert sender.credit == 4
        assert queue_of(wire.vhost, "q").depth == 6


class TestAnonymous:
    @pytest.mark.spec("3.5.4", "a target without address: the message says where it goes")
    def test_routes_by_to(self, wire: Wire) -> None:
        """Each message goes where its `to` says."""
        link = wire.send_to(Target())
        for address in ("a", "b", "a"):
            link.send(Message("x", to=address).encode())
        wire.turn()
        assert (queue_of(wire.vhost, "a").depth, queue_of(wire.vhost, "b").depth) == (2, 1)

    def test_nowhere(self, clock: Clock) -> None:
        """What has no way is rejected; what was sent settled is counted."""
        wire = Wire(VirtualHostCore(VirtualHostSettings(auto_create=False), clock=clock))
        link = wire.send_to(Target(), settle_mode="mixed")
        unknown = link.send(Message("x", to="nowhere").encode())
        without = link.send(Message("x").encode())
        link.send(Message("x", to="nowhere").encode(), settled=True)
        wire.turn()
        for delivery in (unknown, without):
            assert isinstance(delivery.remote_state, Rejected)
            assert delivery.remote_state.error is not None
            assert delivery.remote_state.error.condition == "amqp:not-found"
        assert wire.vhost.unroutable == 1
        assert not link.attached
        assert wire.refusal().condition == "amqp:not-found"

    def test_sender_that_takes_no_rejection(self, clock: Clock) -> None:
        """A sender that does not take rejected is detached instead, with the reason."""
        wire = Wire(VirtualHostCore(VirtualHostSettings(auto_create=False), clock=clock))
        link = wire.send_to(Target(), source=Source(outcomes=("amqp:accepted:list",)))
        link.send(Message("x", to="nowhere").encode())
        wire.turn()
        assert wire.refusal().condition == "amqp:not-found"
        assert not link.attached

    def test_full_queue(self, clock: Clock) -> None:
        """A full queue holds the anonymous sender up as it does any other, until it has room."""
        wire = Wire(VirtualHostCore(VirtualHostSettings(limits=Limits(messages=10, credit=20)), clock=clock))
        link = wire.send_to(Target())
        assert link.credit == 20
        for number in range(12):
            link.send(Message(number, to="q").encode())
        wire.turn()
        assert link.credit == 0
        receiver = wire.receive_from("q", credit=100)
        for _ in range(12):
            receiver.settle(receiver.incoming.popleft(), ACCEPTED)
        wire.turn()
        assert link.credit == 10
        link.send(Message("x", to="other").encode())
        wire.turn()
        assert link.attached

    def test_leaves_when_there_is_room(self, clock: Clock) -> None:
        """It is a producer of the node only while room is short there."""
        wire = Wire(VirtualHostCore(VirtualHostSettings(limits=Limits(messages=100, credit=10)), clock=clock))
        link = wire.send_to(Target())
        for _ in range(10):
            while link.credit:
                link.send(Message("x", to="q").encode())
            wire.turn()
        queue = queue_of(wire.vhost, "q")
        assert len(queue.producers) == 1
        receiver = wire.receive_from("q", credit=1000, settle_mode="settled")
        wire.turn()
        assert len(receiver.incoming) == queue.enqueued
        assert not queue.producers
        assert link.credit == 10

    def test_node_deleted_while_full(self, clock: Clock) -> None:
        """When the node that held it up is deleted, it goes on for other nodes."""
        wire = Wire(VirtualHostCore(VirtualHostSettings(limits=Limits(messages=10, credit=20)), clock=clock))
        inbox = wire.receive_from(Source(dynamic=True), name="inbox")
        assert inbox.remote is not None
        assert inbox.remote.source is not None
        link = wire.send_to(Target())
        for _ in range(15):
            link.send(Message("x", to=inbox.remote.source.address).encode())
        wire.turn()
        assert link.credit == 0
        inbox.detach()
        wire.turn()
        assert link.attached
        assert link.credit == 20

    def test_undecodable(self, wire: Wire) -> None:
        """A message whose `to` cannot be read is rejected as what it is."""
        link = wire.send_to(Target())
        bad = link.send(b"\x00\x53\x73\xc0\x05\x01garbage")
        wire.turn()
        assert isinstance(bad.remote_state, Rejected)
        assert bad.remote_state.error is not None
        assert bad.remote_state.error.condition == "amqp:decode-error"
        link.detach()
        wire.turn()
