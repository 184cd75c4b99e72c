"""Messages of AMQP 1.0 with further routing keys: RabbitMQ's message annotation `x-cc`.

RabbitMQ heeds it since 4.1. Older dialects say the same by a header, see tests/interop/test_pika.py.
"""

from __future__ import annotations

from typing import Any

import pytest

from amqp10.engine import SenderLink
from amqp10.messaging import (
    ACCEPTED,
    Coordinator,
    Declare,
    Declared,
    Discharge,
    Message,
    Rejected,
    Source,
    Target,
    TransactionalState,
)
from amqp10.types import Symbol

from ...kit.broker.bound_queues import bound, depths
from ...kit.broker.wire import Wire
from ...kit.inside.broker import VirtualHostCore

CC = Symbol("x-cc")


@pytest.fixture
def wire(vhost: VirtualHostCore) -> Wire:
    """A connection to the virtual host with three queues: two of them are bound."""
    return bound(vhost)


def outcome(link: SenderLink, wire: Wire, cc: Any, state: Any = None, **fields: Any) -> Any:
    """What becomes of one message."""
    message = Message(b"x", message_annotations={CC: cc}, **fields)
    delivery = link.send(message.encode(), state=state)
    wire.turn()
    return delivery.remote_state


def test_queue(wire: Wire, vhost: VirtualHostCore) -> None:
    """The keys are names of queues where the target is one; none gets two copies, and who is not there gets none."""
    link = wire.send_to("/queues/one")
    assert outcome(link, wire, ["two", "one", "two", "nobody"]) == ACCEPTED
    assert depths(vhost) == [1, 1, 0]
    assert outcome(link, wire, [], durable=True) == ACCEPTED
    link.send(Message(b"x", subject="s").encode())
    link.send(Message(b"x", durable=True).encode())
    wire.turn()
    assert depths(vhost) == [4, 1, 0]


def test_exchange(wire: Wire, vhost: VirtualHostCore) -> None:
    """They are routing keys of the exchange, beside that of the address, which may be empty."""
    vhost.topology.bind(vhost.topology.find("amq.topic"), vhost.nodes["three"], "c")
    by_key, without_key = wire.send_to("/exchanges/amq.topic/a.x"), wire.send_to("/exchanges/amq.topic")
    assert outcome(by_key, wire, ["c", "a.b"]) == ACCEPTED
    assert depths(vhost) == [1, 1, 1]
    assert outcome(without_key, wire, ["c"]) == ACCEPTED
    assert depths(vhost) == [1, 1, 2]


def test_anonymous(wire: Wire, vhost: VirtualHostCore) -> None:
    """So they are where each message says in `to` where it goes."""
    link = wire.send_to(Target(), name="anonymous")
    assert outcome(link, wire, ["three"], to="/queues/one") == ACCEPTED
    assert outcome(link, wire, ["a.b"], to="/exchanges/amq.topic/nobody") == ACCEPTED
    assert depths(vhost) == [2, 1, 1]


def test_plain_names(wire: Wire, vhost: VirtualHostCore) -> None:
    """A queue by its plain name is no address of RabbitMQ's: the annotation is one like any other."""
    link = wire.send_to("one")
    assert outcome(link, wire, ["two"]) == ACCEPTED
    assert outcome(link, wire, "odd") == ACCEPTED
    assert depths(vhost) == [2, 0, 0]


def test_in_a_transaction(wire: Wire, vhost: VirtualHostCore) -> None:
    """All copies are part of it."""
    coordinator = wire.send_to(Coordinator(), name="control")
    for fail, expected in ((True, [0, 0, 0]), (False, [1, 1, 0])):
        declared = coordinator.send(Message(Declare()).encode())
        wire.turn()
        assert isinstance(declared.remote_state, Declared)
        txn_id = declared.remote_state.txn_id
        link = wire.send_to("/queues/one")
        state = outcome(link, wire, ["two"], TransactionalState(txn_id))
        assert state == TransactionalState(txn_id, ACCEPTED)
        assert depths(vhost) == [0, 0, 0]
        coordinator.send(Message(Discharge(txn_id, fail)).encode())
        link.detach()
        wire.turn()
        assert depths(vhost) == expected


@pytest.mark.parametrize("odd", ["two", [1], {"two": 1}, [Symbol("two"), None]])
@pytest.mark.parametrize("target", ["/queues/one", "/exchanges/amq.topic/a.b"])
def test_odd(wire: Wire, vhost: VirtualHostCore, target: str, odd: Any) -> None:
    """What is no list of strings is rejected, or ends the link of who takes no rejections; nothing is sent anywhere."""
    state = outcome(wire.send_to(target), wire, odd)
    assert isinstance(state, Rejected)
    assert state.error is not None
    assert (state.error.condition, "x-cc" in str(state.error.description)) == ("amqp:invalid-field", True)
    unwilling = wire.send_to(target, source=Source(outcomes=(Symbol("amqp:accepted:list"),)), name="unwilling")
    assert outcome(unwilling, wire, odd) is None
    assert wire.refusal().condition == "amqp:invalid-field"
    assert depths(vhost) == [0, 0, 0]


@pytest.mark.parametrize("descriptor", [b"\x80" + bytes(7) + b"\x72", b"\xa3\x1camqp:message-annotations:map"])
def test_descriptors(wire: Wire, vhost: VirtualHostCore, descriptor: bytes) -> None:
    """Annotations are found by each form of their descriptor, a wide number or its name."""
    link = wire.send_to("/queues/one")
    payload = Message(b"x", message_annotations={Symbol("x-cc"): ["two"]}).encode()
    delivery = link.send(b"\0" + descriptor + payload[3:])
    wire.turn()
    assert delivery.remote_state == ACCEPTED
    assert depths(vhost) == [1, 1, 0]


def test_malformed(wire: Wire, vhost: VirtualHostCore) -> None:
    """Annotations that cannot be read are found before the message goes anywhere."""
    link = wire.send_to("/queues/one")
    delivery = link.send(b"\x00\x53\x72\xc1\x02\x02\xff" + Message(b"x").encode())
    wire.turn()
    assert isinstance(delivery.remote_state, Rejected)
    assert depths(vhost) == [0, 0, 0]
