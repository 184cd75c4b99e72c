"""Each of the 28 commands is said by each side that may say it, and understood by the other: a table, and its proof.

The second decoder reads what crosses. A conversation in which nobody closes over an error is one in which both ends
took everything for what it is; what they make of it the other tests of this directory see.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Literal

import pytest

from amqp10.dialects.fast import List, Show
from amqp10.dialects.fast.wire.frames import INITIATION
from amqp10.engine import DeliveriesUnresumed, LinkTerms
from amqp10.messaging import (
    ACCEPTED,
    RELEASED,
    AmqpValue,
    Coordinator,
    Declare,
    Declared,
    Discharge,
    Message,
    Rejected,
    Source,
    TransactionalState,
)
from amqp10.sasl import Authenticator, ScramSha256
from amqp10.testing import EnginePair

from ...kit.dialects.fast.restart import AGAIN, BODY, FIRST, attached, receiving
from ...kit.dialects.fast.second_decoder import GRAMMAR
from ...kit.dialects.fast.talk import Talk, commands

pytestmark = pytest.mark.capability("AMQP/Fast")

Side = Literal["client", "server"]
Said = Iterator[tuple[Side, str, dict[str, Any]]]


def crossed(client: bytes, server: bytes) -> Said:
    """Return what each side sent."""
    sides: tuple[tuple[Side, bytes], ...] = ("client", client.removeprefix(INITIATION)), ("server", server)
    for side, data in sides:
        for name, values, _ in commands(data):
            yield side, name, values


def login() -> Said:
    """A login of several steps."""
    pair = EnginePair(
        dialect="fast",
        mechanisms=(ScramSha256("me", "secret"),),
        authenticator=Authenticator({"me": "secret"}).for_connection(secure=True),
    )
    pair.client.open()
    for _ in range(6):
        there = pair.client.data_to_send()
        pair.server.receive_data(there)
        back = pair.server.data_to_send()
        pair.client.receive_data(back)
        yield from crossed(there, back)


def messages() -> Said:
    """Sent, consumed, given back, acknowledged, paused; a temporary destination, and a subscription that ends."""
    talk = Talk()
    sender = talk.sender()
    sender.send(Message(b"one").encode())
    sender.send(Message(b"two").encode())
    receiver = talk.receiver(Source("q"))
    receiver.flow(10)
    talk.turn()
    first, second = receiver.incoming
    receiver.settle(first, RELEASED)
    receiver.settle(second, ACCEPTED)
    receiver.flow(0)
    talk.turn()
    talk.receiver(Source(dynamic=True))
    topic = talk.receiver(Source("t", capabilities=("topic",), durable="configuration", expiry_policy="never"))
    topic.detach()
    talk.turn()
    yield from crossed(talk.there, talk.back)


def looking() -> Said:
    """A queue is listed, and a message of it shown."""
    talk = Talk()
    talk.sender().send(Message(b"one").encode())
    talk.turn()
    listed = talk.session.request(List("q"))
    talk.turn()
    shown = talk.session.request(Show("q", listed.result.numbers[0]))
    talk.turn()
    assert Message.decode(shown.result).body == b"one"
    yield from crossed(talk.there, talk.back)


def transactions(large: bool = False) -> Said:
    """One is committed; or refused, and rolled back."""
    talk = Talk()
    coordinator = talk.session.attach_sender(LinkTerms("t", Source(), Coordinator()))
    sender = talk.sender()
    declared = coordinator.send(Message(AmqpValue(Declare())).encode())
    assert isinstance(declared.remote_state, Declared)
    txn_id = declared.remote_state.txn_id
    body = b"x" * (20_000 if large else 10)
    sender.send(Message(body).encode(), state=TransactionalState(txn_id))
    discharge = coordinator.send(Message(AmqpValue(Discharge(txn_id, False))).encode())
    talk.turn()
    assert isinstance(discharge.remote_state, Rejected) is large
    yield from crossed(talk.there, talk.back)


def refused() -> Said:
    """A transaction that the server does not commit, for a message in it is larger than it takes."""
    yield from transactions(large=True)


def alive() -> Said:
    """Both ask whether the other is there, and both answer."""
    talk = Talk()
    for end in (talk.client, talk.engine):
        end.tick(1.0)
    talk.turn()
    for end in (talk.client, talk.engine):
        end.tick(17.0)
    talk.turn()
    yield from crossed(talk.there, talk.back)


def closing() -> Said:
    """Handle, channel and connection are closed, and each close is answered."""
    talk = Talk()
    talk.sender().detach()
    talk.turn()
    talk.session.end()
    talk.turn()
    talk.client.close()
    talk.turn()
    yield from crossed(talk.there, talk.back)


def going_on_at_the_server() -> Said:
    """A large message that was cut off on its way to the server."""
    pair, link, theirs = attached()
    delivery = link.send(Message(BODY).encode())  # type: ignore[attr-defined]
    pair.server.receive_data(pair.client.data_to_send()[:9000])
    pair.lose()
    pair, link, theirs = attached(link.suspended(), list(theirs.suspended()))  # type: ignore[attr-defined]
    assert [event for event in pair.take("client") if isinstance(event, DeliveriesUnresumed)]
    link.resend(delivery)  # type: ignore[attr-defined]
    yield from carried(pair)
    assert len(theirs.incoming) == 1


def going_on_at_the_client() -> Said:
    """A large message that was cut off on its way to the client."""
    pair, link, _, _ = receiving(payload=FIRST)
    pair.client.receive_data(pair.server.data_to_send()[:9000])
    pair.lose()
    pair, link, _, _ = receiving(link.suspended(), AGAIN)
    yield from carried(pair)
    assert len(link.incoming) == 1


def carried(pair: EnginePair) -> Said:
    for _ in range(3):
        there, back = pair.client.data_to_send(), pair.server.data_to_send()
        pair.server.receive_data(there)
        pair.client.receive_data(back)
        yield from crossed(there, back)


TABLE: dict[tuple[str, Side], Callable[[], Said]] = {
    ("connection-challenge", "server"): login,
    ("connection-response", "client"): login,
    ("connection-tune", "server"): login,
    ("connection-tune", "client"): login,
    ("connection-open", "client"): login,
    ("connection-reply", "server"): messages,
    ("connection-ping", "client"): alive,
    ("connection-ping", "server"): alive,
    ("connection-close", "client"): closing,
    ("connection-close", "server"): closing,
    ("channel-open", "client"): messages,
    ("channel-ack", "client"): messages,
    ("channel-commit", "client"): transactions,
    ("channel-rollback", "client"): refused,
    ("channel-reply", "server"): transactions,
    ("channel-close", "client"): closing,
    ("channel-close", "server"): closing,
    ("handle-open", "client"): messages,
    ("handle-send", "client"): messages,
    ("handle-consume", "client"): messages,
    ("handle-cancel", "client"): messages,
    ("handle-flow", "client"): messages,
    ("handle-unget", "client"): messages,
    ("handle-query", "client"): looking,
    ("handle-browse", "client"): looking,
    ("handle-created", "server"): messages,
    ("handle-notify", "server"): messages,
    ("handle-index", "server"): looking,
    ("handle-prepare", "client"): going_on_at_the_server,
    ("handle-ready", "server"): going_on_at_the_server,
    ("handle-prepare", "server"): going_on_at_the_client,
    ("handle-ready", "client"): going_on_at_the_client,
    ("handle-reply", "server"): messages,
    ("handle-close", "client"): closing,
    ("handle-close", "server"): closing,
}


@cache
def conversation(talk: Callable[[], Said]) -> list[tuple[Side, str, dict[str, Any]]]:
    """All of it, once."""
    return list(talk())


def test_the_table_is_the_specifications() -> None:
    """Every command is in it, for each side that the grammar lets say it."""
    sides = {"both": ("client", "server")}
    wanted = {(each["name"], side) for each in GRAMMAR["commands"] for side in sides.get(each["from"], (each["from"],))}
    assert len({name for name, _ in wanted}) == 28
    assert TABLE.keys() == wanted


@pytest.mark.parametrize(("name", "side"), TABLE, ids=[" by ".join(each) for each in TABLE])
def test_said_and_understood(name: str, side: Side) -> None:
    """It crosses, and neither end closes over it."""
    said = conversation(TABLE[name, side])
    assert (side, name) in {each[:2] for each in said}
    codes = {values["reply-code"] for _, title, values in said if title.endswith("-close")}
    assert codes <= {0, 200} | ({311} if TABLE[name, side] is refused else set())
