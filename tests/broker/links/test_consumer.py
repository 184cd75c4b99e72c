from __future__ import annotations

from typing import Any, Literal

import pytest

from amqp10.dialects.v0_10.wire.commands import (
    MessageAccept,
    MessageAcquire,
    MessageFlow,
    MessageSubscribe,
    TxCommit,
    TxRollback,
    TxSelect,
)
from amqp10.dialects.v0_10.wire.struct import Command
from amqp10.engine import (
    FlowReceived,
    LinkEnded,
    LinkTerms,
    SessionTerms,
)
from amqp10.errors import LinkDetached
from amqp10.messaging import (
    ACCEPTED,
    RELEASED,
    DeleteOnClose,
    DeleteOnNoLinks,
    DeleteOnNoLinksOrMessages,
    DeleteOnNoMessages,
    Message,
    Modified,
    Outcome,
    Received,
    Rejected,
    Released,
    Source,
    Target,
)
from amqp10.types import Array, Decimal32, Symbol

from ...kit.broker.controller import stock
from ...kit.broker.older_clients import Client010
from ...kit.broker.wire import Wire, bodies, queue_of
from ...kit.inside.broker import VirtualHostCore


@pytest.mark.spec("2.6.7", "available: the messages that wait for credit, where that is known without reading them")
def test_available(wire: Wire) -> None:
    """The answer to an echo says it, and that to a drain; what is held does not wait, what came back does."""
    sender = wire.send_to("q")
    for number in range(10):
        sender.send(Message(number).encode())
    link = wire.receive_from("q", credit=2)
    link.flow(0, echo=True)
    wire.turn()
    assert (len(link.incoming), link.available) == (2, 8)
    link.settle(link.incoming[0], RELEASED)
    wire.turn()
    link.flow(0, echo=True)
    wire.turn()
    assert link.available == 9
    link.flow(4, drain=True)
    wire.turn()
    assert (len(link.incoming), link.available) == (6, 5)
    link.flow(9, drain=True)
    wire.turn()
    assert (len(link.incoming), link.available) == (11, 0)
    browser = wire.receive_from(Source("q", distribution_mode="copy"), credit=1)
    browser.flow(0, echo=True)
    wire.turn()
    assert browser.available == 0


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
        facts = queue_of(wire.vhost, "q")
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
        assert queue_of(wire.vhost, "q").depth == 0

    @pytest.mark.spec(
        "2.7.3", "the sender keeps to the snd-settle-mode that the receiver desires, and says which it has"
    )
    @pytest.mark.parametrize(
        ("asked", "given"), [("unsettled", "unsettled"), ("settled", "settled"), ("mixed", "unsettled")]
    )
    @pytest.mark.parametrize("receiver_settle_mode", ["first", "second"])
    def test_modes(
        self,
        wire: Wire,
        asked: Literal["unsettled", "settled", "mixed"],
        given: str,
        receiver_settle_mode: Literal["first", "second"],
    ) -> None:
        """Mixed leaves it to the broker, which keeps what is not settled."""
        self.put(wire, 1)
        link = wire.receive_from("q", credit=1, settle_mode=asked, receiver_settle_mode=receiver_settle_mode)
        assert link.remote is not None
        assert (link.remote.settle_mode, link.remote.receiver_settle_mode) == (given, receiver_settle_mode)
        assert link.incoming[0].remote_settled == (given == "settled")

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
        assert queue_of(wire.vhost, "q").depth == 0

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
        other = Wire(wire.vhost)
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
        assert queue_of(wire.vhost, "q").unsettled == 1

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
    def test_window(self, vhost: VirtualHostCore) -> None:
        """A receiver whose window is full keeps only what it took; the rest stays in the queue, for others."""
        wire = Wire(vhost, session=SessionTerms(incoming_window=4))
        self.put(wire, *range(10))
        slow = Wire(vhost, session=SessionTerms(incoming_window=4))
        link = slow.session.attach_receiver(LinkTerms("slow", source=Source(address="q"), target=Target()))
        link.flow(100)
        slow.server.receive_data(slow.client.data_to_send())
        slow.peer.handle(slow.server.events())
        assert queue_of(vhost, "q").unsettled == 4
        other = Wire(vhost)
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
        other = Wire(wire.vhost)
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
        assert queue_of(wire.vhost, "q").depth == 2


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
        topic = wire.vhost.nodes["topic.news"]
        assert len(topic.subscriptions) == 1  # type: ignore[attr-defined]

    def test_by_capability(self, wire: Wire) -> None:
        """The capability "topic" makes one, and the answer has it."""
        link = wire.receive_from(Source(address="events", capabilities=("topic",)), credit=1)
        assert link.remote is not None
        assert link.remote.source is not None
        assert "topic" in link.remote.source.capabilities
        assert link.remote.source.distribution_mode == "copy"


class TestDynamic:
    @pytest.mark.deviation(
        "3.5.3",
        "the address of a dynamic node contains neither the link's name nor the container's",
        "it is passed on as a reply address, which should neither reveal its owner nor be guessable",
    )
    @pytest.mark.spec("3.5.3", "dynamic: the node is made by the sender of the source, its address told in the answer")
    def test_source(self, wire: Wire) -> None:
        """The address is told; others reach the node; it ends with the link that it was made for."""
        link = wire.receive_from(Source(dynamic=True), credit=1, name="inbox")
        assert link.remote is not None
        source = link.remote.source
        assert source is not None
        assert source.dynamic
        assert "inbox" not in source.address
        assert "client" not in source.address
        assert source.dynamic_node_properties == {
            "lifetime-policy": DeleteOnClose(),
            "supported-dist-modes": Array("symbol", [Symbol("move"), Symbol("copy")]),
        }
        sender = wire.send_to(source.address)
        sender.send(Message("x").encode())
        wire.turn()
        assert bodies(link) == ["x"]
        link.detach()
        wire.turn()
        assert wire.vhost.nodes == {}
        assert not sender.attached
        gone = [event for event in wire.events if isinstance(event, LinkEnded) and event.link is sender]
        assert isinstance(gone[0].error, LinkDetached)
        assert gone[0].error.condition == "amqp:resource-deleted"

    @pytest.mark.spec("3.5.3", "a dynamic source has no address when it is asked for")
    @pytest.mark.spec("3.5.4", "a dynamic target has no address when it is asked for")
    def test_dynamic_with_an_address(self, wire: Wire) -> None:
        """The link is refused, and no node is made."""
        links = [
            wire.receive_from(Source("mine", dynamic=True), name="in"),
            wire.send_to(Target("mine", dynamic=True), name="out"),
        ]
        for link in links:
            assert not link.attached
        assert wire.refusal().condition == "amqp:invalid-field"
        assert wire.vhost.nodes == {}

    @pytest.mark.spec("3.5.9", "dynamic-node-properties are read, and what cannot be is refused")
    @pytest.mark.parametrize(
        ("properties", "kind", "refused"),
        [
            ({"lifetime-policy": DeleteOnClose()}, "queue", False),
            ({"lifetime-policy": DeleteOnNoLinks()}, "queue", True),
            ({"lifetime-policy": DeleteOnNoMessages()}, "queue", True),
            ({"lifetime-policy": DeleteOnNoLinksOrMessages()}, "queue", True),
            ({"lifetime-policy": 5}, "queue", True),
            ({"supported-dist-modes": Symbol("move")}, "queue", False),
            ({"supported-dist-modes": Array("symbol", ["move", "copy"])}, "queue", False),
            ({"supported-dist-modes": Symbol("copy")}, "topic", False),
            ({"supported-dist-modes": Symbol("move")}, "topic", True),
            ({"supported-dist-modes": Symbol("x:teleport")}, "queue", True),
            ({"supported-dist-modes": 5}, "queue", True),
            ({"supported-dist-modes": {"move": 1}}, "queue", True),
            ({"supported-dist-modes": [Decimal32("sNaN")]}, "queue", True),
            ({"x-opt-unknown": "said"}, "queue", False),
        ],
    )
    def test_node_properties(self, wire: Wire, properties: dict[str, Any], kind: str, refused: bool) -> None:
        """The lifetime is that of the link, the modes are those of the kind of node; the answer says just that."""
        asked = {Symbol(name): value for name, value in properties.items()}
        capabilities = (Symbol(f"temporary-{kind}"),)
        links = [
            wire.receive_from(
                Source(dynamic=True, dynamic_node_properties=asked, capabilities=capabilities), name="in"
            ),
            wire.send_to(Target(dynamic=True, dynamic_node_properties=asked, capabilities=capabilities), name="out"),
        ]
        for link in links:
            assert link.attached is not refused
        if refused:
            assert wire.refusal().condition == "amqp:not-implemented"
            assert wire.vhost.nodes == {}
            return
        for link in links:
            assert link.remote is not None
            terminus = link.remote.target if link.is_sender else link.remote.source
            assert isinstance(terminus, Source | Target)
            modes = [Symbol("move"), Symbol("copy")] if kind == "queue" else [Symbol("copy")]
            assert terminus.dynamic_node_properties == {
                "lifetime-policy": DeleteOnClose(),
                "supported-dist-modes": Array("symbol", modes),
            }

    @pytest.mark.spec("3.5.3", "a dynamic node is its connection's: another may send to it, and not receive from it")
    def test_of_another_connection(self, wire: Wire) -> None:
        """The refusal is amqp:resource-locked."""
        link = wire.receive_from(Source(dynamic=True), name="inbox", credit=1)
        assert link.remote is not None
        assert isinstance(link.remote.source, Source)
        other = Wire(wire.vhost)
        stolen = other.receive_from(link.remote.source.address, credit=1)
        assert not stolen.attached
        assert other.refusal().condition == "amqp:resource-locked"
        assert other.send_to(link.remote.source.address).attached

    def test_target(self, wire: Wire) -> None:
        """The same for a target; a lost connection ends the node as well."""
        sender = wire.send_to(Target(dynamic=True), name="outbox")
        assert sender.remote is not None
        assert isinstance(sender.remote.target, Target)
        address = sender.remote.target.address
        other = Wire(wire.vhost)
        other.receive_from(address, credit=1)
        assert other.refusal().condition == "amqp:resource-locked"
        receiver = wire.receive_from(address, credit=1)
        sender.send(Message("x").encode())
        wire.turn()
        assert bodies(receiver) == ["x"]
        another = other.send_to(address)
        wire.server.receive_eof()
        wire.peer.handle(wire.server.events())
        other.turn()
        assert wire.vhost.nodes == {}
        assert not another.attached


@pytest.mark.parametrize("end", [TxCommit(), TxRollback()], ids=str)
def test_acquired_and_settled_in_a_transaction(vhost: VirtualHostCore, end: Command) -> None:
    """A browser of 0-10 that acquires one message after the other does not gather them."""
    stock(Wire(vhost), "x")
    client = Client010(vhost)
    client.do(TxSelect())
    client.do(MessageSubscribe("q", "d", 0, 1))
    client.do(MessageFlow("d", 0, 9))
    client.do(MessageFlow("d", 1, 0xFFFF_FFFF))
    queue = queue_of(vhost, "q")
    (browser,) = queue.consumers.values()
    client.do(MessageAcquire(((0, 0),)))
    assert (len(browser.acquired), queue.unsettled) == (1, 1)
    client.do(MessageAccept(((0, 0),)))
    client.do(end)
    assert (len(browser.acquired), queue.unsettled) == (0, 0)
    assert queue.depth == isinstance(end, TxRollback)
