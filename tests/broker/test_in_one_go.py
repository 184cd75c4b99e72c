"""What a client of AMQP 0-9-1 or 0-10 says has one result, whether it comes piece by piece or in one go."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from amqp10.broker._queues.node import Limits
from amqp10.broker._virtual_host_core import VirtualHostCore
from amqp10.dialects.v0_9.channel import BASIC
from amqp10.dialects.v0_9.wire.frames import FrameReader
from amqp10.dialects.v0_9.wire.framing import METHOD
from amqp10.dialects.v0_9.wire.method_table import Method
from amqp10.dialects.v0_9.wire.methods import (
    BasicAck,
    BasicConsume,
    BasicDeliver,
    BasicGet,
    BasicNack,
    BasicPublish,
    BasicQos,
    ChannelOpen,
    ConnectionOpen,
    ConnectionStartOk,
    ConnectionTuneOk,
    QueueDeclare,
    QueuePurge,
)
from amqp10.dialects.v0_9.wire.methods import TxCommit as Commit
from amqp10.dialects.v0_9.wire.methods import TxRollback as Rollback
from amqp10.dialects.v0_9.wire.methods import TxSelect as Select
from amqp10.dialects.v0_9.wire.properties import BasicProperties
from amqp10.dialects.v0_9.wire.variant import V0_9_1
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

from ..kit.broker.served import Served
from ..kit.broker.wire import queue_of
from .transactions.test_pipelined import Client, octets

SEEDS = range(40)


class Client091(Served):
    """With a channel that has three of five messages in "q" to settle."""

    def __init__(self, vhost: VirtualHostCore) -> None:
        super().__init__("0-9-1", vhost)
        self._reader = FrameReader(V0_9_1.framing, 1 << 20)
        self.heard: list[str] = []
        self.take(V0_9_1.header)
        self.take(said(ConnectionStartOk(client_properties={}, mechanism="ANONYMOUS", response=b"", locale="en_US"), 0))
        self.take(said(ConnectionTuneOk(100, 131_072, 0), 0) + said(ConnectionOpen("/"), 0))
        for each in (
            said(ChannelOpen()),
            said(QueueDeclare(queue="q")),
            said(QueueDeclare(queue="r")),
            *[published("q")] * 5,
        ):
            self.take(each)
        self.take(said(BasicQos(prefetch_count=3)) + said(BasicConsume(queue="q")))
        self.heard.clear()

    def take(self, data: bytes) -> bytes:
        answer = super().take(data)
        self._reader.feed(answer.removeprefix(V0_9_1.header))
        for kind, _, payload in self._reader.frames():
            method = V0_9_1.methods.decode(payload) if kind == METHOD else None
            if method is not None and not isinstance(method, BasicDeliver):
                self.heard.append(method.name)
        return answer


def said(method: Method, channel: int = 1) -> bytes:
    return V0_9_1.framing.frame(METHOD, channel, V0_9_1.methods.encode(method))


def published(key: str, *, mandatory: bool = False) -> bytes:
    properties = BasicProperties(message_id="id").encode(V0_9_1.tables)
    content = V0_9_1.framing.message(1, BASIC, properties, b"x", 4096)
    return said(BasicPublish(routing_key=key, mandatory=mandatory)) + content


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
        vhost = VirtualHostCore(clock=lambda: 0.0, limits=Limits())
        client: Client | Client091 = Client091(vhost) if dialect == "0-9-1" else Client(vhost)
        if isinstance(client, Client):
            client.consumes()
        for portion in portions:
            client.take(portion)
        heard = client.heard if isinstance(client, Client091) else len(client.engine.sessions)  # type: ignore[attr-defined]
        queue = queue_of(vhost, "q")
        results.append((queue.depth, queue.enqueued, len(client.peer.transactions), heard))
    assert results[0] == results[1] == results[2]
