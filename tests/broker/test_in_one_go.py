"""What a client of AMQP 0-9-1 or 0-10 says has one result, whether it comes piece by piece or in one go."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from amqp10.broker._virtual_host_core import VirtualHostCore
from amqp10.dialects.v0_9.wire.methods import (
    BasicAck,
    BasicGet,
    BasicNack,
    QueueDeclare,
    QueuePurge,
)
from amqp10.dialects.v0_9.wire.methods import TxCommit as Commit
from amqp10.dialects.v0_9.wire.methods import TxRollback as Rollback
from amqp10.dialects.v0_9.wire.methods import TxSelect as Select
from amqp10.dialects.v0_10.wire.commands import (
    DtxCommit,
    DtxEnd,
    DtxPrepare,
    DtxRollback,
    DtxSelect,
    DtxStart,
    MessageAccept,
    MessageReject,
    MessageRelease,
    MessageTransfer,
    TxCommit,
    TxRollback,
    TxSelect,
    Xid,
)
from amqp10.dialects.v0_10.wire.struct import Command
from amqp10.engine import LinkTerms
from amqp10.messaging import Message, Source, Target

from ..kit.broker.client_0_9_1 import Client091, published, said
from ..kit.broker.client_0_10 import Client, octets
from ..kit.broker.wire import Wire, queue_of

SEEDS = range(40)


def methods(random: Random) -> list[bytes]:
    """Something that a client may say."""
    tags, selected, found = [1, 2, 3], False, list[bytes]()
    for _ in range(random.randint(3, 14)):
        kind = random.randrange(8)
        if kind < 3:
            found.append(published(random.choice(["q", "r", "nowhere"]), mandatory=random.random() < 0.3))
        elif kind < 5 and tags:
            tag = tags.pop(random.randrange(len(tags)))
            settling = BasicAck(tag), BasicNack(tag, requeue=False), BasicNack(tag)
            found.append(said(random.choice(settling)))
        elif kind == 5:
            found.append(said(random.choice([BasicGet(queue="r"), QueuePurge(queue="r"), QueueDeclare(queue="r")])))
        elif not selected:
            selected = True
            found.append(said(Select()))
        else:
            found.append(said(random.choice([Commit(), Commit(), Rollback()])))
    return found


def commands(random: Random) -> list[bytes]:
    """The same of 0-10, with branches."""
    numbers, mode, left, found = [0, 1, 2], "", list[Command](), list[Command]()
    for count in range(random.randint(3, 14)):
        kind = random.randrange(8)
        if kind < 3:
            found.append(MessageTransfer("", random.randrange(2), 0))
        elif kind < 5 and numbers:
            number = numbers.pop(random.randrange(len(numbers)))
            one = ((number, number),)
            found.append(random.choice([MessageAccept(one), MessageRelease(one), MessageReject(one)]))
        elif not mode:
            mode = random.choice(["tx", "dtx"])
            found.append(TxSelect() if mode == "tx" else DtxSelect())
        elif mode == "tx":
            found.append(random.choice([TxCommit(), TxCommit(), TxRollback()]))
        else:
            if not left:
                xid = Xid(1, b"%d" % count, b"")
                ends: list[list[Command]] = [
                    [DtxCommit(xid, one_phase=True)],
                    [DtxRollback(xid)],
                    [DtxPrepare(xid), DtxCommit(xid)],
                ]
                left = [DtxStart(xid), DtxEnd(xid), *random.choice(ends)]
            found.append(left.pop(0))
    return [octets(each) for each in found]


def pieces(data: bytes, random: Random) -> list[bytes]:
    """The same octets, cut anywhere."""
    found = []
    while data:
        size = random.randint(1, 100)
        found.append(data[:size])
        data = data[size:]
    return found


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("dialect", ["0-9-1", "0-10"])
def test_in_one_go(dialect: str, seed: int) -> None:
    """The same answers, messages and open transactions."""
    one_by_one = (methods if dialect == "0-9-1" else commands)(Random(seed))
    together = b"".join(one_by_one)
    results: list[Any] = []
    for portions in (one_by_one, [together], pieces(together, Random(seed))):
        vhost = VirtualHostCore(clock=lambda: 0.0)
        client: Client | Client091 = Client091(vhost) if dialect == "0-9-1" else Client(vhost)
        if isinstance(client, Client):
            client.consumes()
        for portion in portions:
            client.put(portion)
        heard = client.heard if isinstance(client, Client091) else len(client.engine.sessions)  # type: ignore[attr-defined]
        queue = queue_of(vhost, "q")
        results.append((queue.depth, queue.enqueued, len(client.served.peer.transactions), heard))
    assert results[0] == results[1] == results[2]


@pytest.mark.parametrize("dialect", ["0-9-1", "0-9", "0-10", "fast"])
@pytest.mark.parametrize("ends", ["connection", "session"])
def test_closed_in_one_go(dialect: str, ends: str) -> None:
    """The first messages of a session come to their queue, although its close, or the connection's, is right behind."""
    wire = Wire(VirtualHostCore(clock=lambda: 0.0), dialect)
    wire.server.portion = 2000
    wire.vhost.declare("q", "queue")
    link = wire.session.attach_sender(LinkTerms("link", source=Source(), target=Target("q")))
    wire.turn()
    for number in range(20):
        link.send(Message(number).encode(), settled=link.settled_by_sender)
    if ends == "connection":
        wire.client.close()
    else:
        wire.session.end()
    wire.server.receive_data(wire.client.data_to_send())
    wire.settle_down()
    while wire.server.behind:
        wire.server.receive_data(b"")
        wire.settle_down()
    assert queue_of(wire.vhost, "q").depth == 20
    assert wire.over is (ends == "connection")
