"""One message that nobody expected costs nobody else anything: whatever it is, wherever it goes, in whatever dialect.

Each hostile message goes to a node with some feature, and a victim's message behind it; the victim consumes in each
dialect. Nothing may be raised, the victim gets its message, and the books of all queues are right in the end.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from amqp10.engine import SenderLink, dialect_names
from amqp10.messaging import (
    ACCEPTED,
    ApplicationPropertiesFilter,
    Filter,
    HeadersBinding,
    Message,
    Modified,
    PropertiesFilter,
    Rejected,
    Selector,
    Source,
    SqlFilter,
    Target,
)
from amqp10.types import Decimal128, Symbol

from ...kit.broker.wire import Wire
from ...kit.hostile.odd_messages import MESSAGES, SNAN
from ...kit.inside.broker import Queue, QueueDeclaration, VirtualHostCore, VirtualHostSettings

FILTERS: dict[str, Filter] = {
    "selector": Selector("x = 1 OR x > 2 OR NOT x BETWEEN 1 AND 2 OR x IN ('a') OR x IS NULL OR x <> 1"),
    "sql": SqlFilter("x = 1 OR m.x_a = 1 OR p.subject LIKE '%' OR h.priority > 1 OR x IS NULL OR x + 1 > 2"),
    "headers binding": HeadersBinding({"x": Decimal128(SNAN)}, match="any"),
    "application properties": ApplicationPropertiesFilter({"x": Decimal128(Decimal(1))}),
    "properties": PropertiesFilter(subject="abc"),
}


class Scene:
    """A broker with one feature: where messages are sent, and where the victim waits for its own.

    Attributes:
        sends_to: the address, or the anonymous terminus, with `to` in the message.
        receives_from: the queue of the victim.
    """

    def __init__(self, *, dead_letter_expired: bool = False, duplicate_ids: int | None = None) -> None:
        self.now = 1000.0
        self.vhost = VirtualHostCore(
            VirtualHostSettings(
                dead_letter_expired=dead_letter_expired, duplicate_ids=duplicate_ids, max_delivery_count=3
            ),
            clock=lambda: self.now,
        )
        self.sends_to: str | Target = "q"
        self.receives_from = "q"

    def queue(self, name: str, **arguments: Any) -> Queue:
        terms = {word.replace("_", "-"): value for word, value in arguments.items()}
        return self.vhost.declare_queue(name, QueueDeclaration(arguments=terms))

    def bind(self, exchange: str, name: str, key: str = "", **arguments: Any) -> None:
        self.vhost.topology.bind(self.vhost.topology.find(exchange), self.vhost.nodes[name], key, arguments)


def plain() -> Scene:
    scene = Scene()
    scene.queue("q")
    return scene


def priorities() -> Scene:
    scene = Scene()
    scene.queue("q", x_max_priority=5)
    return scene


def duplicates() -> Scene:
    scene = Scene(duplicate_ids=10)
    scene.queue("q")
    return scene


def expiring_to_headers() -> Scene:
    """What expires goes to a headers exchange, with bindings that look at it; the victim's does not expire there."""
    scene = Scene()
    scene.queue("dying", x_message_ttl=100, x_dead_letter_exchange="amq.headers")
    scene.queue("q")
    scene.bind("amq.headers", "q", x=Decimal128(SNAN), a="b")
    scene.bind("amq.headers", "q", victim=True)
    scene.sends_to = "dying"
    return scene


def expiring_to_dead_letters() -> Scene:
    scene = Scene(dead_letter_expired=True)
    scene.queue("dying", x_message_ttl=100)
    scene.vhost.declare("dead-letter", "queue")
    scene.sends_to, scene.receives_from = "dying", "dead-letter"
    return scene


def ring(**limit: Any) -> Scene:
    """Queues that hold nothing, whose dead letters go round; a fanout gives the victim a copy of each."""
    scene = Scene()
    scene.vhost.topology.declare("round", "fanout")
    for name in ("one", "two", "three"):
        scene.queue(name, x_dead_letter_exchange="round", **limit)
        scene.bind("round", name)
    scene.queue("q")
    scene.bind("round", "q")
    scene.sends_to = "one"
    return scene


def limited_to_itself(**arguments: Any) -> Scene:
    """A queue whose dead letters come back to it, and one beside it for the victim, by the same exchange."""
    scene = Scene()
    scene.vhost.topology.declare("in", "fanout")
    scene.queue("self", x_dead_letter_exchange="", x_dead_letter_routing_key="self", **arguments)
    scene.queue("q")
    scene.bind("in", "self")
    scene.bind("in", "q")
    scene.sends_to = "/exchanges/in/key"
    return scene


def exchange(kind: str) -> Scene:
    """Sent to an exchange, which looks at the headers of the message or at the key."""
    scene = Scene()
    scene.vhost.topology.declare("e", kind)
    scene.queue("q")
    scene.bind("e", "q", "victim", **({"victim": True, "x": 1, "x-match": "any"} if kind == "headers" else {}))
    scene.sends_to = "/exchanges/e" if kind == "headers" else "/exchanges/e/victim"
    return scene


def keyed() -> Scene:
    """Sent to a queue by RabbitMQ's address, where the message may name further keys."""
    scene = Scene()
    scene.queue("q")
    scene.sends_to = "/queues/q"
    return scene


def anonymous() -> Scene:
    scene = Scene()
    scene.queue("q")
    scene.sends_to = Target()
    return scene


FEATURES: dict[str, Callable[[], Scene]] = {
    "plain": plain,
    "priorities": priorities,
    "duplicates": duplicates,
    "expiring to headers": expiring_to_headers,
    "expiring to dead letters": expiring_to_dead_letters,
    "a ring without room": lambda: ring(x_max_length=0),
    "a ring without octets": lambda: ring(x_max_length_bytes=0),
    "a ring without time": lambda: ring(x_message_ttl=0),
    "no room, back to itself": lambda: limited_to_itself(x_max_length=0),
    "no time, back to itself": lambda: limited_to_itself(x_message_ttl=0),
    "refused, back to itself": lambda: limited_to_itself(x_max_length=0, x_overflow="reject-publish-dlx"),
    "a headers exchange": lambda: exchange("headers"),
    "a topic exchange": lambda: exchange("topic"),
    "further keys": keyed,
    "anonymous": anonymous,
}
VICTIM = Message(
    b"victim",
    to="q",
    subject="victim",
    application_properties={"victim": True, "x": 1},
    message_annotations={Symbol("x-a"): [Decimal128(SNAN)]},
).encode()


def send(wire: Wire, link: SenderLink, payload: bytes, message_format: int) -> SenderLink:
    """Send; a link that ended over a message is attached anew, as a client would."""
    if not link.attached:
        assert link.terms is not None
        link = wire.send_to(link.terms.target, name=f"{link.name}+")
    link.send(payload, message_format=message_format)
    wire.turn()
    return link


@pytest.fixture
def _no_fault(caplog: pytest.LogCaptureFixture) -> Any:
    """No leaf of the broker raises over what these messages say: nothing is reported, nothing is set aside."""
    yield
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


def emptied(scene: Scene) -> None:
    """Take what is left everywhere: the books of all queues say that nothing is, and no count is wrong."""
    taker = Wire(scene.vhost)
    for node in list(scene.vhost.nodes.values()):
        if isinstance(node, Queue):
            receiver = taker.receive_from(Source(node.name), credit=1000)
            for delivery in list(receiver.incoming):
                receiver.settle(delivery, ACCEPTED)
            taker.turn()
            assert (node.name, node.depth, node.bytes, node.unsettled) == (node.name, 0, 0, 0)
            went = node.dequeued + node.rejected + node.expired + node.exhausted
            assert went <= node.enqueued


def receive(victim: Wire, link: Any) -> bool:
    """Whether the victim was given its message; it accepts all that it is given."""
    found = False
    for delivery in list(link.incoming):
        found = found or b"victim" in delivery.payload
        link.settle(delivery, ACCEPTED)
    link.incoming.clear()
    victim.turn()
    return found


@pytest.mark.slow  # a thirtieth of all that `make check` would take
@pytest.mark.usefixtures("_no_fault")
@pytest.mark.parametrize("dialect", dialect_names())
@pytest.mark.parametrize("feature", FEATURES)
def test_nodes(feature: str, dialect: str) -> None:
    """Each hostile message goes through nodes of all kinds; a victim behind it is served, in each dialect."""
    scene = FEATURES[feature]()
    sending, victim = Wire(scene.vhost), Wire(scene.vhost, dialect)
    link, own = sending.send_to(scene.sends_to), victim.receive_from(scene.receives_from)
    own.flow(10_000)
    victim.turn()
    honest = Wire(scene.vhost)
    honest_link = honest.send_to(scene.sends_to)
    for name, (payload, message_format) in MESSAGES.items():
        link = send(sending, link, payload, message_format)
        honest_link.send(VICTIM)
        honest.turn()
        scene.now += 1.0
        scene.vhost.expire()
        scene.vhost.flush()
        victim.turn()
        assert receive(victim, own), name
        assert own.attached, name
        assert honest_link.attached, name
    assert len(scene.vhost.quarantine) == 0
    assert not sending.over
    assert not victim.over
    emptied(scene)


@pytest.mark.usefixtures("_no_fault")
@pytest.mark.parametrize("kind", ["queue", "topic", "stream", "browser"])
@pytest.mark.parametrize("asked", FILTERS)
def test_filters(asked: str, kind: str) -> None:
    """What cannot be judged does not pass, and holds up nothing: filters of queues, topics, streams and browsers."""
    scene = plain()
    scene.queue("s", **{"x-queue-type": "stream"})
    scene.vhost.declare("t", "topic")
    address = {"queue": "q", "topic": "t", "stream": "s", "browser": "q"}[kind]
    mode = "copy" if kind == "browser" else None
    filters = {Symbol("f"): FILTERS[asked]}
    victim, other, sending = Wire(scene.vhost), Wire(scene.vhost), Wire(scene.vhost)
    own = victim.receive_from(Source(address, filter=filters, distribution_mode=mode), credit=10_000)  # type: ignore[arg-type]
    passes = Message(
        b"victim", subject="abc", application_properties={"x": Decimal128(Decimal(1)), "y": 1, "victim": True}
    ).encode()
    hopeless = asked == "headers binding"  # a signalling NaN equals nothing
    link = sending.send_to(address)
    for name, (payload, message_format) in MESSAGES.items():
        link = send(sending, link, payload, message_format)
        link = send(sending, link, passes, 0)
        victim.turn()
        assert receive(victim, own) is not hopeless, name
        assert own.attached, name
    if kind in ("queue", "browser"):
        rest = other.receive_from("q", credit=10_000)
        assert len(rest.incoming) > 0
        receive(other, rest)
    assert len(scene.vhost.quarantine) == 0
    if kind != "stream":
        emptied(scene)


@pytest.mark.usefixtures("_no_fault")
@pytest.mark.parametrize("outcome", [Rejected(), Modified(delivery_failed=True)], ids=["rejected", "failed"])
@pytest.mark.parametrize("dialect", [name for name in dialect_names() if name != "fast"])  # it has neither outcome
def test_outcomes(dialect: str, outcome: Any) -> None:
    """What a victim gives back goes on to a headers exchange, or comes again until it does; its link stays."""
    scene = Scene()
    scene.queue("work", x_dead_letter_exchange="amq.headers", x_delivery_limit=2)
    scene.queue("q")
    scene.bind("amq.headers", "q", x=1)
    sending, victim = Wire(scene.vhost), Wire(scene.vhost, dialect)
    link, own = sending.send_to("work"), victim.receive_from("work")
    own.flow(10_000)
    victim.turn()
    for name, (payload, message_format) in MESSAGES.items():
        link = send(sending, link, payload, message_format)
        victim.turn()
        for _ in range(5):
            for delivery in list(own.incoming):
                own.settle(delivery, outcome)
            own.incoming.clear()
            victim.turn()
        link = send(sending, link, VICTIM, 0)
        victim.turn()
        assert receive(victim, own), name
        assert own.attached, name
    assert len(scene.vhost.quarantine) == 0
    emptied(scene)


@pytest.mark.usefixtures("_no_fault")
@pytest.mark.parametrize("dialect", ["1.0", "0-10"])
def test_browsed(dialect: str) -> None:
    """Who only looks is shown every victim's message, and what the dialect can say of the others."""
    scene = plain()
    sending, looking = Wire(scene.vhost), Wire(scene.vhost, dialect)
    link = sending.send_to("q")
    own = looking.receive_from(Source("q", distribution_mode="copy"))
    own.flow(10_000)
    looking.turn()
    for payload, message_format in MESSAGES.values():
        link = send(sending, link, payload, message_format)
        link = send(sending, link, VICTIM, 0)
        looking.turn()
    assert sum(b"victim" in delivery.payload for delivery in own.incoming) == len(MESSAGES)
    assert not looking.over
    emptied(scene)
