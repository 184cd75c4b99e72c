"""Whole conversations of our client with the embedded broker, read by the second decoder: nearly every command."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from amqp10.dialects.fast import List, Show
from amqp10.dialects.fast.wire.frames import INITIATION, CommandReader
from amqp10.engine import LinkTerms, SenderLink
from amqp10.messaging import (
    ACCEPTED,
    RELEASED,
    AmqpValue,
    Coordinator,
    Declare,
    Declared,
    Discharge,
    Message,
    Source,
    TransactionalState,
    data_head,
)
from amqp10.sasl import Authenticator, ScramSha256
from amqp10.testing import EnginePair

from ...kit.dialects.fast.second_decoder import BY_NAME
from ...kit.dialects.fast.talk import Talk, commands

pytestmark = pytest.mark.capability("AMQP/Fast")


@contextmanager
def checked(talk: Talk) -> Iterator[set[str]]:
    """Both directions are read by both decoders, and mean the same; the names of what was said."""
    names: set[str] = set()
    yield names
    assert talk.there.startswith(INITIATION)
    for data in (talk.there[2:], talk.back):
        reader = CommandReader(1 << 24)
        reader.feed(data)
        for name, values, content in commands(data):
            ours = reader.next()
            assert ours is not None
            assert (ours[0].title(), ours[1]) == (name, content)
            for key, value in values.items():
                mine = getattr(ours[0], key.replace("-", "_"))
                assert isinstance(value, dict) or mine == value
            names.add(name)
        assert reader.next() is None


def test_conversation() -> None:
    """Sending in fragments and parts, receiving, giving back, draining, browsing, transactions, closing."""
    talk = Talk(max_frame_size=1024)
    with checked(talk) as names:
        sender = talk.sender()
        for body in (b"small", b"x" * 5000):
            sender.send(Message(body, subject="s", application_properties={"n": 1.5}).encode())
        delivery = sender.send(data_head(3000) + b"y" * 10, more=True)
        sender.send_more(delivery, b"y" * 2990)
        talk.turn()
        assert delivery.remote_state == ACCEPTED
        receiver = talk.receiver(Source("q"))
        receiver.flow(10)
        talk.turn()
        first, second, third = receiver.incoming
        receiver.settle(second, ACCEPTED)
        receiver.settle(first, RELEASED)
        receiver.settle(third, ACCEPTED)
        talk.turn()
        receiver.flow(5, drain=True)
        talk.turn()
        listed = talk.session.request(List("q"))
        talk.turn()
        shown = talk.session.request(Show("q", 77))
        talk.turn()
        assert listed.answered
        assert shown.error is not None
        dynamic = talk.receiver(Source(dynamic=True))
        topic = talk.receiver(
            Source("topic.t", capabilities=("topic",), durable="configuration", expiry_policy="never")
        )
        topic.detach()
        dynamic.detach(closed=False)
        talk.turn()
        transact(talk, sender)
        streamed = sender.send(data_head(3000) + b"z", more=True)
        sender.abort(streamed)
        talk.turn()
        assert talk.client.tick(1.0) is not None
        talk.turn()
        assert talk.client.tick(17.0) is not None
        talk.client.close()
        talk.turn()
    # The rest is for a login of several steps, for a large message after a loss, and for a server that rolls back.
    assert BY_NAME.keys() - names == {"channel-rollback", "handle-prepare", "handle-ready"}


def transact(talk: Talk, sender: SenderLink) -> None:
    """A transaction with a message in it is committed."""
    coordinator = talk.session.attach_sender(LinkTerms("t", Source(), Coordinator()))
    declared = coordinator.send(Message(AmqpValue(Declare())).encode())
    assert isinstance(declared.remote_state, Declared)
    txn_id = declared.remote_state.txn_id
    sender.send(Message(b"in it").encode(), state=TransactionalState(txn_id))
    discharge = coordinator.send(Message(AmqpValue(Discharge(txn_id, False))).encode())
    talk.turn()
    assert discharge.remote_state == ACCEPTED


def test_login() -> None:
    """A login of several steps is read by both."""
    pair = EnginePair(
        dialect="fast",
        mechanisms=(ScramSha256("me", "secret"),),
        authenticator=Authenticator({"me": "secret"}).for_connection(secure=True),
    )
    said: list[str] = []
    pair.client.open()
    for _ in range(6):
        there = pair.client.data_to_send()
        pair.server.receive_data(there)
        said += [name for name, _, _ in commands(there.removeprefix(INITIATION))]
        back = pair.server.data_to_send()
        pair.client.receive_data(back)
        said += [name for name, _, _ in commands(back)]
    assert said == [
        "connection-challenge",
        "connection-response",
        "connection-challenge",
        "connection-response",
        "connection-tune",
        "connection-tune",
        "connection-open",
    ]
