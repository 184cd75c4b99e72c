"""A client's octets in each dialect, one or a few of them changed: the broker ends what it must, and nothing raises."""

from __future__ import annotations

import random
from datetime import timedelta
from functools import cache
from typing import Any

import pytest

from amqp10.engine import (
    Bind,
    ConnectionTerms,
    DeclareExchange,
    DeclareQueue,
    Engine,
    LinkTerms,
    ReceiverLink,
    SessionTerms,
    dialect,
    dialect_names,
)
from amqp10.errors import LocalProtocolError, Unsupported
from amqp10.messaging import ACCEPTED, RELEASED, Message, Source, Target
from amqp10.sasl import Anonymous
from amqp10.types import Symbol

from ...kit.broker.served import Served
from ...kit.clock import Clock
from ...kit.inside.broker import VirtualHostCore

ROUNDS = 200
OFFERED = ConnectionTerms("broker", offered_capabilities=("amqp10_on_demand",))
CHANGES = ("flip", "set", "cut", "insert", "double")


def make_vhost() -> VirtualHostCore:
    """A vhost of its own."""
    return VirtualHostCore(clock=Clock())


class Client:
    """A client engine that is turned by hand; all that it says is kept."""

    def __init__(self, name: str) -> None:
        spoken = dialect(name)
        self.engine: Engine = spoken.client(ConnectionTerms("client", hostname="host"), (Anonymous(),), True)
        self.served = Served(name, make_vhost(), offered=OFFERED)
        self.said: list[bytes] = []
        self.engine.start()
        self.engine.open()
        self.turn()

    def turn(self) -> None:
        """Carry octets until both are quiet."""
        for _ in range(100):
            there = self.engine.data_to_send()
            if there:
                self.said.append(there)
            back = self.served.take(there)
            self.engine.receive_data(back)
            self.engine.events()
            if not there and not back:
                return

    def ask(self, session: Any, *requests: Any) -> None:
        """The first of these requests that the dialect can say."""
        for request in requests:
            try:
                session.request(request)
            except (Unsupported, LocalProtocolError):
                continue
            self.turn()
            return


@cache
def octets_of(name: str) -> tuple[bytes, ...]:
    """What a client of that dialect says in a life of some variety, write by write."""
    client = Client(name)
    session = client.engine.begin(SessionTerms())
    client.turn()
    arguments = {"x-max-length": 100, "x-dead-letter-exchange": "amq.fanout"}
    client.ask(session, DeclareQueue("q", arguments=arguments), DeclareQueue("q"))
    client.ask(session, DeclareExchange("e", "headers", alternate="amq.direct"), DeclareExchange("e"))
    client.ask(session, Bind("q", "e", "k", {"x-match": "any", "color": "red"}), Bind("q", "e", "k"))
    sender = session.attach_sender(LinkTerms("to", source=Source(), target=Target("q")))
    client.turn()
    message = Message(
        b"body" * 10,
        durable=True,
        ttl=timedelta(minutes=1),
        message_id="m",
        reply_to="answers",
        application_properties={"color": "red", "n": 7},
        message_annotations={Symbol("x-opt-a"): "b"},
    )
    for body in (message, Message("text"), Message({"a": [1]})):
        assert sender.credit > 0, name
        sender.send(body.encode())
        client.turn()
    receiver = session.attach_receiver(LinkTerms("from", source=Source("q"), target=Target()))
    assert isinstance(receiver, ReceiverLink)
    receiver.flow(2)
    client.turn()
    outcomes = [ACCEPTED, RELEASED if "released" in dialect(name).capabilities else ACCEPTED]
    while receiver.incoming and outcomes:
        receiver.settle(receiver.incoming.popleft(), outcomes.pop())
    client.turn()
    receiver.detach()
    sender.detach()
    client.turn()
    session.end()
    client.turn()
    client.engine.close()
    client.turn()
    return tuple(client.said)


@pytest.mark.parametrize("name", sorted(dialect_names()))
def test_unchanged(name: str) -> None:
    """The octets as they are: they lead where they led, so the changed ones lead into all that follows, too."""
    served = Served(name, make_vhost(), offered=OFFERED)
    written = [served.take(data) for data in octets_of(name)]
    assert len(octets_of(name)) >= 8
    assert sum(map(len, written)) > 100


@pytest.mark.parametrize("name", sorted(dialect_names()))
@pytest.mark.slow
def test_changed(name: str) -> None:
    """Octets flipped, set, cut out, put in or said twice, anywhere: no fault of a peer's is one of ours."""
    dice = random.Random(f"mutants of {name}")
    said = octets_of(name)
    for _ in range(ROUNDS):
        writes = list(said)
        for _ in range(dice.choice((1, 1, 1, 3))):
            place = dice.randrange(len(writes))
            writes[place] = _changed(writes[place], dice)
        served = Served(name, make_vhost(), offered=OFFERED)
        for data in writes:
            served.take(data)
        served.engine.receive_eof()
        served.settle_down()
        served.peer.lost()


def _changed(data: bytes, dice: random.Random) -> bytes:
    if not data:
        return dice.randbytes(8)
    octets = bytearray(data)
    at = dice.randrange(len(octets))
    match dice.choice(CHANGES):
        case "flip":
            octets[at] ^= 1 << dice.randrange(8)
        case "set":
            octets[at] = dice.choice((0, 1, 0x7F, 0x80, 0xFF, dice.randrange(256)))
        case "cut":
            del octets[at : at + dice.randrange(1, 5)]
        case "insert":
            octets[at:at] = dice.randbytes(dice.randrange(1, 5))
        case _:
            octets += octets[at:]
    return bytes(octets)
