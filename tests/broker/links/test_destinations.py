"""Senders whose messages go to many nodes: through exchanges, or by their own `to`, in 1.0 and in older dialects."""

from __future__ import annotations

from typing import Any

import pytest

from amqp10 import Connection, LinkDetached, MessageRejected, MessageReleased
from amqp10.broker import Broker
from amqp10.engine import Event, LinkAttached, OutcomesReceived, OutgoingDelivery, SenderLink
from amqp10.messaging import (
    ACCEPTED,
    RELEASED,
    Accepted,
    Coordinator,
    Declare,
    Declared,
    DeliveryState,
    Discharge,
    Error,
    Message,
    Rejected,
    Released,
    Source,
    Target,
    TransactionalState,
)
from amqp10.types import Symbol

from ...kit.broker.bound_queues import bound, depths
from ...kit.broker.controller import Controller
from ...kit.broker.queue_doubles import Taker
from ...kit.broker.wire import Wire, queue_of
from ...kit.clock import Clock
from ...kit.inside.broker import Limits, QueueDeclaration, VirtualHostCore, VirtualHostSettings


class OldWire(Wire):
    """The same as a dialect has it that declares its nodes: they are not made on demand."""

    def turn(self) -> list[Event]:
        events = self.server.events

        def without_demand() -> list[Event]:
            found = events()
            for event in found:
                if isinstance(event, LinkAttached) and event.link.remote is not None:
                    object.__setattr__(event.link.remote, "on_demand", False)
            return found

        self.server.events = without_demand  # type: ignore[method-assign]
        try:
            return super().turn()
        finally:
            self.server.events = events  # type: ignore[method-assign]


@pytest.fixture
def wire(vhost: VirtualHostCore) -> Wire:
    """A connection to the virtual host with three queues: two of them are bound."""
    return bound(vhost)


def outcome(wire: Wire, link: SenderLink, **fields: Any) -> Any:
    """What becomes of one message."""
    delivery = link.send(Message(b"x", **fields).encode())
    wire.turn()
    return delivery.remote_state


def test_exchange_with_a_key(wire: Wire, vhost: VirtualHostCore) -> None:
    """The address of an exchange with a routing key: copies for all that are bound so; else it is released."""
    link = wire.send_to("/exchanges/amq.topic/a.b")
    assert isinstance(outcome(wire, link), Accepted)
    assert depths(vhost) == [1, 1, 0]
    link = wire.send_to("/exchanges/amq.topic/b")
    assert isinstance(outcome(wire, link), Released)
    assert depths(vhost) == [1, 1, 0]


def test_exchange_without_a_key(wire: Wire, vhost: VirtualHostCore) -> None:
    """Without a key in the address it is empty, whatever the subject of a message, as on RabbitMQ."""
    link = wire.send_to("/exchanges/amq.topic")
    assert isinstance(outcome(wire, link, subject="a.c"), Released)
    vhost.topology.bind(vhost.topology.find("amq.topic"), vhost.nodes["three"], "")
    assert isinstance(outcome(wire, link, subject="a.c"), Accepted)
    assert depths(vhost) == [0, 0, 1]


def test_percent_encoding(wire: Wire, vhost: VirtualHostCore) -> None:
    """Names and keys come in percent-encoding; plain names mean what they always did."""
    vhost.topology.declare("e/1 %", "fanout")
    queue = vhost.declare("q/ö", "queue")
    vhost.topology.bind(vhost.topology.find("e/1 %"), queue, "")
    assert isinstance(outcome(wire, wire.send_to("/exchanges/e%2F1%20%25/k%2Fk")), Accepted)
    assert isinstance(outcome(wire, wire.send_to("/queues/q%2F%C3%B6")), Accepted)
    assert queue.depth == 2  # type: ignore[attr-defined]
    wire.send_to("q%2F")
    assert "q%2F" in vhost.nodes


@pytest.mark.parametrize(
    ("address", "condition"),
    [
        ("/exchanges/missing", "amqp:not-found"),
        ("/exchanges/missing/key", "amqp:not-found"),
        ("/exchanges/internal", "amqp:unauthorized-access"),
        ("/exchanges/a/b/c", "amqp:invalid-field"),
        ("/queues/a/b", "amqp:invalid-field"),
        ("/queues/", "amqp:invalid-field"),
        ("/queues/%ff", "amqp:invalid-field"),
    ],
)
def test_no_such_target(wire: Wire, vhost: VirtualHostCore, address: str, condition: str) -> None:
    """What is not there, or not for senders, or spelled wrong, is refused with the attach."""
    vhost.topology.declare("internal", "fanout", internal=True)
    link = wire.send_to(address)
    assert not link.attached
    assert wire.refusal().condition == condition


def test_exchanges_are_no_source(wire: Wire) -> None:
    """To receive there have to be queues."""
    wire.receive_from("/exchanges/amq.topic/a.b")
    assert wire.refusal().condition == "amqp:not-allowed"


def test_by_to(wire: Wire, vhost: VirtualHostCore) -> None:
    """On the anonymous terminus each message may go to another exchange or queue."""
    link = wire.send_to(Target(), name="anonymous")
    assert isinstance(outcome(wire, link, to="/exchanges/amq.topic/a.c"), Accepted)
    assert isinstance(outcome(wire, link, to="/exchanges/amq.topic/a.b"), Accepted)
    assert isinstance(outcome(wire, link, to="/queues/three"), Accepted)
    assert isinstance(outcome(wire, link, to="new"), Accepted)
    assert depths(vhost) == [2, 1, 1]
    assert isinstance(outcome(wire, link, to="/exchanges/amq.topic/c"), Released)
    refused = outcome(wire, link, to="/exchanges/missing/c")
    assert isinstance(refused, Rejected)
    assert refused.error is not None
    assert refused.error.condition == "amqp:not-found"


def test_where_it_came_by(wire: Wire, vhost: VirtualHostCore) -> None:
    """Who receives what came through an exchange is told which, and with what key, as on RabbitMQ."""
    link = wire.send_to("/exchanges/amq.topic/a.b")
    link.send(Message(b"x", subject="none", message_annotations={Symbol("x-mine"): 1}).encode())
    reader = wire.receive_from("two", credit=1)
    wire.turn()
    message = Message.decode(reader.incoming.popleft().payload)
    assert message.message_annotations == {"x-mine": 1, "x-exchange": "amq.topic", "x-routing-key": "a.b"}


def test_settled(wire: Wire, vhost: VirtualHostCore) -> None:
    """What goes nowhere and was sent settled is counted."""
    link = wire.send_to("/exchanges/amq.topic/c")
    link.send(Message(b"x").encode(), settled=True)
    wire.turn()
    assert vhost.unroutable == 1


@pytest.mark.spec("anonymous-terminus 2.2.2", "a message to an address that is not there is rejected with the error")
@pytest.mark.spec("anonymous-terminus 2.2.2", "sent settled, or where rejected is not an outcome, it ends the link")
@pytest.mark.spec("anonymous-terminus 2.2.2", "the error is that of such an attach, and names the delivery-tag")
@pytest.mark.parametrize("how", ["unsettled", "settled", "cannot be rejected", "in a transaction"])
@pytest.mark.parametrize(
    ("to", "condition"),
    [
        ("/exchanges/missing/key", "amqp:not-found"),
        ("/queues/%ff", "amqp:invalid-field"),
        ("$management", "amqp:not-found"),
        (None, "amqp:not-found"),
    ],
)
def test_nowhere_by_to(
    wire: Wire, vhost: VirtualHostCore, control: Controller, how: str, to: str | None, condition: str
) -> None:
    """The next message on a link that goes on is delivered; behind one that ended it nothing is done."""
    outcomes = () if how != "cannot be rejected" else ("amqp:accepted:list",)
    link = wire.send_to(Target(), name="anonymous", source=Source(outcomes=outcomes), settle_mode="mixed")
    payload = Message(b"x", to=to).encode()
    settled = how in ("settled", "in a transaction")
    state = TransactionalState(control.declare()) if how == "in a transaction" else None
    link.send(payload, tag=b"lost", settled=settled, state=state)
    link.send(Message(b"y", to="one").encode(), settled=settled)
    wire.turn()
    if how == "unsettled":
        told = [event.deliveries for event in wire.events if isinstance(event, OutcomesReceived)]
        (error,) = [
            each.remote_state.error
            for deliveries in told
            for each in deliveries
            if isinstance(each.remote_state, Rejected)
        ]
        assert link.attached
        assert queue_of(vhost, "one").depth == 1
    else:
        detached = wire.refusal()
        error = Error(Symbol(detached.condition), detached.description, dict(detached.info or {}))
        assert not link.attached
        assert queue_of(vhost, "one").depth == 0
    assert error is not None
    assert error.condition == condition
    assert error.info == {"delivery-tag": b"lost"}
    if state is not None:
        assert isinstance(control.discharge(state.txn_id), Rejected)


@pytest.mark.parametrize("first", ["1.0", "older"])
def test_the_way_of_another_dialect(vhost: VirtualHostCore, first: str) -> None:
    """What a message is marked with does not depend on who sent to that address before, in which dialect."""
    vhost.declare("q", "queue")
    ways = {"1.0": True, "older": False}
    for name in [first, *(ways.keys() - {first})]:
        route = vhost.route("q", b"", on_demand=ways[name])
        assert (route.exchange is None) == (name == "1.0")
    assert vhost.topology.exchanges[""].published == 1


def test_older_dialects(vhost: VirtualHostCore) -> None:
    """There names are keys of the default exchange: what is not there is not made, and a message for it comes back."""
    wire = OldWire(vhost)
    link = wire.send_to(Target(), name="anonymous")
    assert isinstance(outcome(wire, link, to="/queues/new"), Released)
    assert isinstance(outcome(wire, link, to="/queues/"), Released)
    assert "new" not in vhost.nodes
    # Another dialect makes it, whatever was remembered of that.
    modern = Wire(vhost)
    assert isinstance(outcome(modern, modern.send_to(Target(), name="anonymous"), to="/queues/new"), Accepted)
    assert isinstance(outcome(wire, link, to="/queues/new"), Accepted)
    wire.receive_from("/queues/other")
    assert wire.refusal().condition == "amqp:not-found"
    vhost.delete(vhost.nodes["new"])
    assert isinstance(outcome(wire, link, to="/queues/new"), Released)


def test_full(wire: Wire, vhost: VirtualHostCore) -> None:
    """A queue that was declared to refuse says so to the sender, whichever way the message came; others take theirs."""
    terms = QueueDeclaration(arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    queue = vhost.declare_queue("full", terms)
    vhost.topology.bind(vhost.topology.find("amq.topic"), queue, "a.b")
    exchange, direct = wire.send_to("/exchanges/amq.topic/a.b"), wire.send_to("full")
    assert isinstance(outcome(wire, exchange), Accepted)
    for link in (exchange, direct):
        refused = outcome(wire, link)
        assert isinstance(refused, Rejected)
        assert refused.error is not None
        assert refused.error.condition == "amqp:resource-limit-exceeded"
    assert (queue.depth, depths(vhost)) == (1, [2, 2, 0])
    anonymous = wire.send_to(Target(), name="anonymous")
    assert isinstance(outcome(wire, anonymous, to="full"), Rejected)


def test_in_a_transaction(wire: Wire, vhost: VirtualHostCore) -> None:
    """Copies are seen with the commit, and what goes nowhere is known before it."""
    coordinator = wire.send_to(Coordinator(), name="coordinator")
    declared = coordinator.send(Message(Declare()).encode())
    wire.turn()
    state = declared.remote_state
    assert isinstance(state, Declared)
    link = wire.send_to(Target(), name="anonymous")
    working = TransactionalState(state.txn_id)
    good = link.send(Message(b"x", to="/exchanges/amq.topic/a.b").encode(), state=working)
    lost = link.send(Message(b"x", to="/exchanges/amq.topic/c").encode(), state=working)
    wire.turn()
    assert depths(vhost) == [0, 0, 0]
    assert (good.remote_state, lost.remote_state) == (
        TransactionalState(state.txn_id, ACCEPTED),
        TransactionalState(state.txn_id, RELEASED),
    )
    coordinator.send(Message(Discharge(state.txn_id)).encode())
    wire.turn()
    assert depths(vhost) == [1, 1, 0]


def test_room(clock: Clock) -> None:
    """Senders to an exchange are held back by the fullest queue that they reach, until it has room."""
    vhost = VirtualHostCore(VirtualHostSettings(limits=Limits(messages=10, credit=8)), clock=clock)
    topology = vhost.topology
    for name in ("one", "two"):
        topology.bind(topology.find("amq.fanout"), vhost.declare(name, "queue"), "")
    wire = Wire(vhost)
    link = wire.send_to("/exchanges/amq.fanout")
    sent: list[OutgoingDelivery] = []
    while link.credit:
        sent.append(link.send(Message(b"x").encode()))
        wire.turn()
    assert 10 <= len(sent) <= 18
    for name in ("one", "two"):
        assert link.credit == 0
        taker = Taker(100, settles=True)
        queue = vhost.nodes[name]
        queue.add_consumer(taker)  # type: ignore[attr-defined]
        queue.in_line(taker)  # type: ignore[attr-defined]
        vhost.flush()
        wire.turn()
    assert link.credit > 0


@pytest.mark.anyio
async def test_by_the_client() -> None:
    """With the client's own objects: what a program sees of exchanges."""
    async with (
        Broker(exchanges={"logs": "topic"}, bindings=[("logs", "#.error", "errors")]) as broker,
        Connection(broker.url) as connection,
    ):
        async with connection.sender(None) as sender:
            await sender.send(Message("disk full", to="/exchanges/logs/db.error"))
            with pytest.raises(MessageReleased):
                await sender.send(Message("all is well", to="/exchanges/logs/db.info"))
        async with connection.receiver("/queues/errors") as receiver:
            delivery = await receiver.receive()
            assert delivery.message.body == "disk full"
            assert delivery.message.message_annotations["x-routing-key"] == "db.error"
            delivery.accept()
        with pytest.raises(LinkDetached, match="no exchange 'nothing'"):
            async with connection.sender("/exchanges/nothing/key"):
                pass
        async with connection.sender(None) as sender:
            with pytest.raises(MessageRejected, match="no exchange 'nothing'"):
                await sender.send(Message("x", to="/exchanges/nothing/key"))
        facts = broker.exchange("logs")
        assert (facts.kind, facts.bindings, facts.published, facts.unrouted) == (
            "topic",
            (("errors", "#.error"),),
            2,
            1,
        )
        assert "amq.direct" in {each.name for each in broker.exchanges}


@pytest.mark.parametrize(
    "settings",
    [
        {"exchanges": {"logs": "wrong"}},
        {"exchanges": {"amq.logs": "topic"}},
        {"bindings": [("missing", "", "q")]},
    ],
)
def test_wrong_settings(settings: dict[str, Any]) -> None:
    """Exchanges and bindings that cannot be are refused when the broker is made."""
    with pytest.raises(ValueError, match=r"exchange|names that begin"):
        Broker(**settings)


@pytest.mark.spec("3.5.3", "outcomes: those that can be chosen on the link, and no others are")
@pytest.mark.parametrize("in_transaction", [False, True])
@pytest.mark.parametrize(
    ("outcomes", "told"),
    [
        ((), Released),
        (("amqp:accepted:list", "amqp:released:list"), Released),
        (("amqp:accepted:list", "amqp:rejected:list"), Rejected),
        (("amqp:accepted:list",), None),
    ],
)
def test_outcome_of_what_no_queue_takes(
    wire: Wire, control: Controller, outcomes: tuple[str, ...], told: type[DeliveryState] | None, in_transaction: bool
) -> None:
    """Who does not take released has it rejected; who takes neither loses the link, and hears why with that."""
    state = TransactionalState(control.declare()) if in_transaction else None
    link = wire.send_to("/exchanges/amq.fanout", source=Source(outcomes=outcomes))
    link.send(Message(b"x").encode(), state=state)
    wire.turn()
    said = [each for event in wire.events if isinstance(event, OutcomesReceived) for each in event.deliveries]
    states = [each.remote_state for each in said if each.link is link]
    if told is None:
        assert states == []
        assert wire.refusal().condition == "amqp:not-found"
        return
    (outcome,) = [each.outcome if isinstance(each, TransactionalState) else each for each in states]
    assert type(outcome) is told
    assert link.attached
    if isinstance(outcome, Rejected):
        assert outcome.error is not None
        assert outcome.error.condition == "amqp:not-found"
