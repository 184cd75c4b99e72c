from __future__ import annotations

from typing import Any

import pytest

from amqp10.broker._connection import Carrier, Peer, PeerTerms
from amqp10.broker._node import Limits
from amqp10.broker._queue import Queue
from amqp10.broker._router import Router
from amqp10.engine import (
    ConnectionEnded,
    ConnectionTerms,
    Event,
    FlowReceived,
    LinkEnded,
    LinkTerms,
    OutcomesReceived,
    ReceiverLink,
    SenderLink,
    Session,
    SessionTerms,
    dialect,
)
from amqp10.errors import ConnectionClosed, LinkDetached
from amqp10.messaging import (
    ACCEPTED,
    RELEASED,
    Accepted,
    DeleteOnClose,
    Error,
    Message,
    Modified,
    Outcome,
    Received,
    Rejected,
    Released,
    Source,
    Target,
)
from amqp10.sasl import Authenticator
from amqp10.types import Described, Symbol

from .conftest import Clock


class Wire(Carrier):
    """A client engine and the broker's side of its connection, with the bytes carried by hand."""

    def __init__(
        self, router: Router, *, admit: bool = True, session: SessionTerms | None = None, max_frame_size: int = 131_072
    ) -> None:
        spoken = dialect("1.0")
        self.router = router
        self.client = spoken.client(ConnectionTerms("client", max_frame_size=max_frame_size), None, True)
        self.server = spoken.server(ConnectionTerms("broker"), Authenticator(None, anonymous=True))
        self.events: list[Event] = []
        self.full = False
        self.over = False
        self._admit = admit
        terms = PeerTerms(ConnectionTerms("broker"), SessionTerms(), max_message_size=1_000_000)
        self.peer = Peer(self.server, router, terms, self)
        self.server.start()
        self.client.start()
        self.client.open()
        self.turn()
        self.session: Session = self.client.begin(session or SessionTerms()) if admit else None  # type: ignore[assignment]
        self.turn()

    def wake(self) -> None:
        pass

    def blocked(self) -> bool:
        return self.full

    def opened(self) -> Error | None:
        return None if self._admit else Error("amqp:resource-limit-exceeded", "no")

    def ended(self) -> None:
        self.over = True

    def turn(self) -> list[Event]:
        """Carry bytes until both sides are quiet; what the client was told by that."""
        seen: list[Event] = []
        while True:
            there = self.client.data_to_send()
            if there:
                self.server.receive_data(there)
                self.peer.handle(self.server.events())
            back = self.server.data_to_send()
            if back:
                self.client.receive_data(back)
            seen += self.client.events()
            if not there and not back:
                self.events += seen
                return seen

    def send_to(self, target: Any, *, source: Source | None = None, **terms: Any) -> SenderLink:
        """A sender link of the client's."""
        asked = target if target is None or not isinstance(target, str) else Target(address=target)
        name = terms.pop("name", f"to-{target}")
        link = self.session.attach_sender(LinkTerms(name, source=source or Source(), target=asked, **terms))
        self.turn()
        return link

    def receive_from(self, source: Any, *, credit: int = 0, **terms: Any) -> ReceiverLink:
        """A receiver link of the client's."""
        asked = source if source is None or not isinstance(source, str) else Source(address=source)
        name = terms.pop("name", f"from-{source}")
        link = self.session.attach_receiver(LinkTerms(name, source=asked, target=Target(), **terms))
        if credit:
            link.flow(credit)
        self.turn()
        return link

    def refusal(self) -> LinkDetached:
        """Why the link that ended last was ended."""
        ended = [event for event in self.events if isinstance(event, LinkEnded)][-1]
        assert isinstance(ended.error, LinkDetached)
        return ended.error


@pytest.fixture
def wire(router: Router) -> Wire:
    """A client of a broker with the usual settings."""
    return Wire(router)


def queue_of(router: Router, name: str) -> Queue:
    """That queue."""
    queue = router.nodes[name]
    assert isinstance(queue, Queue)
    return queue


def bodies(link: ReceiverLink) -> list[Any]:
    """Bodies of what came in, in order."""
    return [Message.decode(delivery.payload).body for delivery in link.incoming]


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
            (Source(address="q", distribution_mode="x:up"), "amqp:not-implemented"),  # type: ignore[arg-type]
            (Source(address="topic://taken"), "amqp:precondition-failed"),
        ],
    )
    def test_refused_sources(self, wire: Wire, source: Source | None, condition: str) -> None:
        """What cannot be a source is refused with the reason, and the session lives on."""
        wire.router.declare("taken", "queue")
        wire.receive_from(source, name="bad")
        assert wire.refusal().condition == condition
        assert wire.receive_from("q").attached

    def test_refused_targets(self, wire: Wire) -> None:
        """An address that is none is refused with the reason."""
        wire.send_to(Target(address=5), name="bad")
        assert wire.refusal().condition == "amqp:invalid-field"
        assert wire.send_to("q").attached

    @pytest.mark.parametrize("dynamic", [False, True])
    def test_answer_larger_than_the_peers_frames(self, router: Router, dynamic: bool) -> None:
        """A link whose answer cannot be said is refused, and leaves no node of its own behind."""
        wire = Wire(router, max_frame_size=512)
        long = ("x:" + "y" * 250, "x:" + "z" * 250)
        source = Source(address=None if dynamic else "q" * 500, dynamic=dynamic)
        wire.session.attach_receiver(LinkTerms("r", source=source, target=Target(capabilities=long if dynamic else ())))
        wire.turn()
        wire.send_to(Target(address="p" * 500), name="s")
        ended = [event.error for event in wire.events if isinstance(event, LinkEnded)]
        assert [error.condition for error in ended if isinstance(error, LinkDetached)][-1] == "amqp:not-allowed"
        assert not any(node.temporary for node in router.nodes.values())
        assert wire.receive_from("q").attached

    def test_attached_and_gone_in_one_breath(self, wire: Wire) -> None:
        """A link that the peer ended before it had our answer leaves nothing behind."""
        for name in ("q", "topic.t"):
            wire.session.attach_receiver(LinkTerms(name, source=Source(address=name), target=Target())).detach()
        wire.session.attach_sender(LinkTerms("s", source=Source(), target=Target(address="q"))).detach()
        wire.session.attach_receiver(LinkTerms("d", source=Source(dynamic=True), target=Target())).detach()
        wire.turn()
        assert [*wire.router.nodes, *wire.peer._consumers, *wire.peer._producers, *wire.peer._owned] == []
        assert wire.receive_from("q", name="next").attached

    def test_unknown_address(self, clock: Clock) -> None:
        """With nothing made on demand an unknown address is refused in both directions."""
        wire = Wire(Router(clock=clock, limits=Limits(), auto_create=False))
        wire.send_to("nowhere")
        assert wire.refusal().condition == "amqp:not-found"
        wire.receive_from("nowhere")
        assert wire.refusal().condition == "amqp:not-found"
        assert wire.router.nodes == {}

    def test_no_more_connections(self, router: Router) -> None:
        """A connection too many is opened and closed with the reason."""
        wire = Wire(router, admit=False)
        ended = [event for event in wire.events if isinstance(event, ConnectionEnded)]
        assert isinstance(ended[0].error, ConnectionClosed)
        assert ended[0].error.condition == "amqp:resource-limit-exceeded"
        assert wire.over


class TestSending:
    def test_accepted(self, wire: Wire) -> None:
        """An unsettled message is accepted once the queue has it."""
        link = wire.send_to("q")
        sent = [link.send(Message(number).encode()) for number in range(5)]
        told = [event for event in wire.turn() if isinstance(event, OutcomesReceived)]
        assert sum(len(event.deliveries) for event in told) == 5
        assert all(delivery.remote_settled and isinstance(delivery.remote_state, Accepted) for delivery in sent)
        assert queue_of(wire.router, "q").depth == 5

    def test_settled(self, wire: Wire) -> None:
        """A settled message is taken without a word."""
        link = wire.send_to("q", settle_mode="settled")
        link.send(Message("x").encode(), settled=True)
        wire.turn()
        assert queue_of(wire.router, "q").depth == 1

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
        (broker_side,) = wire.peer._producers
        assert not broker_side.unsettled

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
        assert queue_of(wire.router, "q").depth == 1

    def test_settled_then_gone(self, wire: Wire) -> None:
        """Messages that came in the same breath as the detach are in the queue."""
        link = wire.send_to("q", settle_mode="settled")
        link.send(Message("x").encode(), settled=True)
        link.detach()
        wire.turn()
        assert queue_of(wire.router, "q").depth == 1
        assert not queue_of(wire.router, "q").producers

    def test_full_queue(self, clock: Clock) -> None:
        """Credit ends with the room, and comes back with it; nothing is lost."""
        wire = Wire(Router(clock=clock, limits=Limits(messages=10)))
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
        assert queue_of(wire.router, "q").depth == 6


class TestAnonymous:
    @pytest.mark.spec("3.5.4", "a target without address: the message says where it goes")
    def test_routes_by_to(self, wire: Wire) -> None:
        """Each message goes where its `to` says."""
        link = wire.send_to(Target())
        for address in ("a", "b", "a"):
            link.send(Message("x", to=address).encode())
        wire.turn()
        assert (queue_of(wire.router, "a").depth, queue_of(wire.router, "b").depth) == (2, 1)

    def test_nowhere(self, clock: Clock) -> None:
        """What has no way is rejected; what was sent settled is counted."""
        wire = Wire(Router(clock=clock, limits=Limits(), auto_create=False))
        link = wire.send_to(Target(), settle_mode="mixed")
        unknown = link.send(Message("x", to="nowhere").encode())
        without = link.send(Message("x").encode())
        link.send(Message("x", to="nowhere").encode(), settled=True)
        wire.turn()
        for delivery in (unknown, without):
            assert isinstance(delivery.remote_state, Rejected)
            assert delivery.remote_state.error is not None
            assert delivery.remote_state.error.condition == "amqp:not-found"
        assert wire.router.unroutable == 1
        assert link.attached

    def test_sender_that_takes_no_rejection(self, clock: Clock) -> None:
        """A sender that does not take rejected is detached instead, with the reason."""
        wire = Wire(Router(clock=clock, limits=Limits(), auto_create=False))
        link = wire.send_to(Target(), source=Source(outcomes=("amqp:accepted:list",)))
        link.send(Message("x", to="nowhere").encode())
        wire.turn()
        assert wire.refusal().condition == "amqp:not-found"
        assert not link.attached

    def test_full_queue(self, clock: Clock) -> None:
        """A full queue holds the anonymous sender up as it does any other, until it has room."""
        wire = Wire(Router(clock=clock, limits=Limits(messages=10, credit=20)))
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
        wire = Wire(Router(clock=clock, limits=Limits(messages=100, credit=10)))
        link = wire.send_to(Target())
        for _ in range(10):
            while link.credit:
                link.send(Message("x", to="q").encode())
            wire.turn()
        queue = queue_of(wire.router, "q")
        assert len(queue.producers) == 1
        receiver = wire.receive_from("q", credit=1000, settle_mode="settled")
        wire.turn()
        assert len(receiver.incoming) == queue.enqueued
        assert not queue.producers
        assert link.credit == 10

    def test_node_deleted_while_full(self, clock: Clock) -> None:
        """When the node that held it up is deleted, it goes on for other nodes."""
        wire = Wire(Router(clock=clock, limits=Limits(messages=10, credit=20)))
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


class TestReceiving:
    def put(self, wire: Wire, *values: Any, address: str = "q") -> None:
        link = wire.send_to(address, settle_mode="settled", name="putter")
        for value in values:
            link.send(Message(value).encode(), settled=True)
        link.detach()
        wire.turn()

    def test_by_credit(self, wire: Wire) -> None:
        """As many as there is credit for, in order."""
        self.put(wire, 1, 2, 3)
        link = wire.receive_from("q", credit=2)
        assert bodies(link) == [1, 2]
        link.flow(5)
        wire.turn()
        assert bodies(link) == [1, 2, 3]

    def test_outcomes(self, wire: Wire) -> None:
        """Each outcome has its effect on the queue."""
        self.put(wire, 1, 2, 3, 4)
        link = wire.receive_from("q", credit=4)
        outcomes: list[Outcome] = [ACCEPTED, Rejected(None), RELEASED, Modified(delivery_failed=True)]
        for outcome in outcomes:
            link.settle(link.incoming.popleft(), outcome)
        wire.turn()
        facts = queue_of(wire.router, "q")
        assert (facts.depth, facts.dequeued, facts.rejected, facts.unsettled) == (2, 1, 1, 0)
        link.flow(10)
        wire.turn()
        assert bodies(link) == [3, 4]
        assert [Message.decode(delivery.payload).delivery_count or 0 for delivery in link.incoming] == [0, 1]

    def test_settled(self, wire: Wire) -> None:
        """A receiver that asks for it gets messages settled; they are gone with that."""
        self.put(wire, 1)
        link = wire.receive_from("q", credit=1, settle_mode="settled")
        assert link.incoming[0].local_settled
        assert queue_of(wire.router, "q").depth == 0

    @pytest.mark.spec("2.6.12", "receiver-settle-mode second: the sender settles when it knows the outcome")
    def test_second(self, wire: Wire) -> None:
        """The broker settles when it has heard the outcome, and the receiver after it."""
        self.put(wire, 1)
        link = wire.receive_from("q", credit=1, receiver_settle_mode="second")
        delivery = link.incoming.popleft()
        link.settle(delivery, ACCEPTED)
        settled_at_once = delivery.local_settled
        wire.turn()
        assert (settled_at_once, delivery.remote_settled, delivery.local_settled) == (False, True, True)
        assert queue_of(wire.router, "q").depth == 0

    @pytest.mark.spec("3.5.3", "default-outcome is for transfers settled without a terminal state")
    @pytest.mark.parametrize(("default", "count"), [(None, 1), (Released(), 0), (Modified(delivery_failed=True), 1)])
    @pytest.mark.parametrize("how", ["settled", "detached", "lost"])
    def test_default_outcome(self, wire: Wire, default: Any, count: int, how: str) -> None:
        """It decides what becomes of deliveries that end without an outcome, in whichever way."""
        self.put(wire, 1)
        link = wire.receive_from(Source(address="q", default_outcome=default), credit=1)
        if how == "settled":
            link.settle(link.incoming.popleft(), Received(0, 0), settled=True)
        elif how == "detached":
            link.detach()
        else:
            wire.server.receive_eof()
            wire.peer.handle(wire.server.events())
        wire.turn()
        other = Wire(wire.router)
        again = other.receive_from("q", credit=1, name="again")
        assert bodies(again) == [1]
        assert (Message.decode(again.incoming[0].payload).delivery_count or 0) == count

    def test_order_after_loss(self, wire: Wire) -> None:
        """What a lost link held comes back in its order, before the rest."""
        self.put(wire, *range(6))
        link = wire.receive_from("q", credit=4)
        link.detach()
        wire.turn()
        again = wire.receive_from("q", credit=10, name="again")
        assert bodies(again) == list(range(6))

    def test_received_is_no_outcome(self, wire: Wire) -> None:
        """The state received, unsettled, leaves the delivery with the receiver."""
        self.put(wire, 1)
        link = wire.receive_from("q", credit=1)
        link.settle(link.incoming[0], Received(0, 0), settled=False)
        wire.turn()
        assert queue_of(wire.router, "q").unsettled == 1

    @pytest.mark.spec("2.6.7", "drain: use the credit or give it back")
    def test_drain(self, wire: Wire) -> None:
        """Draining ends on an empty queue, and the link goes on."""
        self.put(wire, 1)
        link = wire.receive_from("q")
        link.flow(10, drain=True)
        told = [event for event in wire.turn() if isinstance(event, FlowReceived)]
        assert any(event.drained for event in told)
        assert (bodies(link), link.credit) == ([1], 0)
        link.flow(10)
        self.put(wire, 2)
        assert bodies(link) == [1, 2]

    @pytest.mark.spec("2.5.6", "transfers stop at the peer's incoming window")
    def test_window(self, router: Router) -> None:
        """A receiver whose window is full keeps only what it took; the rest stays in the queue, for others."""
        wire = Wire(router, session=SessionTerms(incoming_window=4))
        self.put(wire, *range(10))
        slow = Wire(router, session=SessionTerms(incoming_window=4))
        link = slow.session.attach_receiver(LinkTerms("slow", source=Source(address="q"), target=Target()))
        link.flow(100)
        slow.server.receive_data(slow.client.data_to_send())
        slow.peer.handle(slow.server.events())
        assert queue_of(router, "q").unsettled == 4
        other = Wire(router)
        taken = other.receive_from("q", credit=2, name="other")
        assert bodies(taken) == [4, 5]
        slow.turn()
        assert bodies(link) == [0, 1, 2, 3, 6, 7, 8, 9]

    def test_blocked_output(self, wire: Wire) -> None:
        """A peer that does not read gets no more until it does; others do."""
        self.put(wire, 1, 2)
        wire.full = True
        link = wire.receive_from("q", credit=1)
        assert not link.incoming
        other = Wire(wire.router)
        assert bodies(other.receive_from("q", credit=1, name="other")) == [1]
        wire.full = False
        wire.peer.resume()
        wire.turn()
        assert bodies(link) == [2]

    def test_large_message_for_a_small_receiver(self, wire: Wire) -> None:
        """A message above a receiver's max-message-size waits for another receiver."""
        self.put(wire, "x" * 1000, "y")
        link = wire.receive_from("q", credit=2, max_message_size=100)
        assert bodies(link) == ["y"]

    def test_other_message_format(self, wire: Wire) -> None:
        """A message-format other than 0 is passed on, with its number."""
        sender = wire.send_to("q")
        sender.send(b"not AMQP at all", message_format=0x8001_3700)
        wire.turn()
        link = wire.receive_from("q", credit=1)
        assert (link.incoming[0].payload, link.incoming[0].message_format) == (b"not AMQP at all", 0x8001_3700)

    def test_browse(self, wire: Wire) -> None:
        """A browser sees messages and changes nothing."""
        self.put(wire, 1, 2)
        link = wire.receive_from(Source(address="q", distribution_mode="copy"), credit=10)
        assert link.remote is not None
        assert link.remote.source is not None
        assert link.remote.source.distribution_mode == "copy"
        assert bodies(link) == [1, 2]
        link.settle(link.incoming.popleft(), ACCEPTED)
        link.detach()
        wire.turn()
        assert queue_of(wire.router, "q").depth == 2


class TestTopics:
    def test_copies(self, wire: Wire) -> None:
        """Each subscriber gets each message; a subscription ends with its link."""
        one = wire.receive_from("topic.news", credit=10, name="one")
        two = wire.receive_from("topic.news", credit=10, name="two")
        sender = wire.send_to("topic.news")
        sender.send(Message("x").encode())
        wire.turn()
        assert bodies(one) == bodies(two) == ["x"]
        one.detach()
        wire.turn()
        topic = wire.router.nodes["topic.news"]
        assert len(topic.subscriptions) == 1  # type: ignore[attr-defined]

    def test_by_capability(self, wire: Wire) -> None:
        """The capability "topic" makes one, and the answer has it."""
        link = wire.receive_from(Source(address="events", capabilities=("topic",)), credit=1)
        assert link.remote is not None
        assert link.remote.source is not None
        assert "topic" in link.remote.source.capabilities
        assert link.remote.source.distribution_mode == "copy"


class TestDynamic:
    @pytest.mark.spec("3.5.3", "dynamic: the node is made by the sender of the source, its address told in the answer")
    def test_source(self, wire: Wire) -> None:
        """The address is told; others reach the node; it ends with the link that it was made for."""
        link = wire.receive_from(Source(dynamic=True), credit=1, name="inbox")
        assert link.remote is not None
        source = link.remote.source
        assert source is not None
        assert source.dynamic
        assert source.dynamic_node_properties == {"lifetime-policy": DeleteOnClose()}
        sender = wire.send_to(source.address)
        sender.send(Message("x").encode())
        wire.turn()
        assert bodies(link) == ["x"]
        link.detach()
        wire.turn()
        assert wire.router.nodes == {}
        assert not sender.attached
        gone = [event for event in wire.events if isinstance(event, LinkEnded) and event.link is sender]
        assert isinstance(gone[0].error, LinkDetached)
        assert gone[0].error.condition == "amqp:resource-deleted"

    def test_target(self, wire: Wire) -> None:
        """The same for a target; a lost connection ends the node as well."""
        sender = wire.send_to(Target(dynamic=True), name="outbox")
        assert sender.remote is not None
        assert isinstance(sender.remote.target, Target)
        other = Wire(wire.router)
        receiver = other.receive_from(sender.remote.target.address, credit=1)
        sender.send(Message("x").encode())
        wire.turn()
        other.turn()
        assert bodies(receiver) == ["x"]
        wire.server.receive_eof()
        wire.peer.handle(wire.server.events())
        other.turn()
        assert wire.router.nodes == {}
        assert not receiver.attached


def test_lost_twice(wire: Wire) -> None:
    """A connection that is given up after it ended changes nothing more."""
    wire.receive_from("q", credit=1)
    wire.client.close()
    wire.turn()
    wire.peer.lost()
    assert wire.over
    assert not queue_of(wire.router, "q").consumers
