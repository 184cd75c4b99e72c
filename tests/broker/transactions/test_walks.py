"""Random lives of clients of the older dialects, with transactions and breaks: no message is lost or there twice."""

from __future__ import annotations

import random
from typing import Any

import pytest

from amqp10.dialects.v0_9.wire.methods import (
    BasicAck,
    BasicConsume,
    BasicDeliver,
    BasicGet,
    BasicGetOk,
    BasicPublish,
    TxCommit,
    TxRollback,
    TxSelect,
)
from amqp10.dialects.v0_10.wire import commands
from amqp10.dialects.v0_10.wire.commands import (
    DeliveryProperties,
    DtxCommit,
    DtxEnd,
    DtxPrepare,
    DtxRollback,
    DtxSelect,
    DtxStart,
    ExecutionException,
    MessageAccept,
    MessageFlow,
    MessageSubscribe,
    MessageTransfer,
    Xid,
)
from amqp10.dialects.v0_10.wire.struct import Command

from ...kit.broker.older_clients import Client010, Client09, new_vhost
from ...kit.counts import WALKS
from ...kit.inside.broker import VirtualHostCore

pytestmark = [pytest.mark.slow, pytest.mark.capability("transactions")]

HEADER = DeliveryProperties(routing_key="q").encode_struct32()


class Peer091:
    """A client of 0-9-1 in "tx".

    Attributes:
        held: what it has and has not accepted yet, by number.
    """

    def __init__(self, vhost: VirtualHostCore, number: int) -> None:
        self.held: dict[int, bytes] = {}
        self.client = Client09(vhost)
        self._hear(self.client.do(TxSelect()))

    def _hear(self, said: list[Any]) -> None:
        for each in said:
            assert type(each).__name__ not in ("ChannelClose", "ConnectionClose"), each
            if isinstance(each, BasicDeliver | BasicGetOk):
                self.held[each.delivery_tag] = self.client.messages.pop(0)[1]

    def post(self, body: bytes) -> None:
        self._hear(self.client.put(self.client.encode(BasicPublish(routing_key="q")) + self.client.content(body)))

    def take(self, *, everything: bool = False) -> None:
        self._hear(self.client.do(BasicConsume(queue="q") if everything else BasicGet(queue="q")))

    def accept(self, number: int) -> None:
        self._hear(self.client.do(BasicAck(delivery_tag=number)))

    def commit(self) -> None:
        self._hear(self.client.do(TxCommit()))

    def roll_back(self) -> None:
        self._hear(self.client.do(TxRollback()))

    def leave(self) -> None:
        self.client.served.engine.receive_eof()
        self.client.served.settle_down()


class Peer010:
    """A client of 0-10 in "tx"."""

    def __init__(self, vhost: VirtualHostCore, number: int) -> None:
        self.held: dict[int, bytes] = {}
        self.number = number
        self.client = Client010(vhost)
        self._id = -1
        self._begin()
        self._do(MessageSubscribe(queue="q", destination="d"))
        self._do(MessageFlow("d", 1, 0xFFFF_FFFF))

    def _begin(self) -> None:
        self._do(commands.TxSelect())

    def _do(self, command: Command, *content: bytes) -> None:
        for each in self.client.do(command, *content):
            assert not isinstance(each, ExecutionException), each
            if isinstance(each, Command):
                self._id += 1
                if isinstance(each, MessageTransfer):
                    self.held[self._id] = self.client.bodies.pop(0)

    def post(self, body: bytes) -> None:
        self._do(MessageTransfer("", 1, 0), HEADER, body)

    def take(self, *, everything: bool = False) -> None:
        self._do(MessageFlow("d", 0, 0xFFFF_FFFF if everything else 1))

    def accept(self, number: int) -> None:
        self._do(MessageAccept(((number, number),)))

    def commit(self) -> None:
        self._do(commands.TxCommit())

    def roll_back(self) -> None:
        self._do(commands.TxRollback())

    def leave(self) -> None:
        self.client.served.engine.receive_eof()
        self.client.served.settle_down()


class Branches(Peer010):
    """A client of 0-10 in "dtx", with one branch after the other; every other one ends in two phases."""

    def _begin(self) -> None:
        self._count = 0
        self._do(DtxSelect())
        self._start()

    def _start(self) -> None:
        self._count += 1
        self._xid = Xid(1, f"{self.number}-{self._count}".encode(), b"")
        self._do(DtxStart(self._xid))

    def commit(self) -> None:
        self._do(DtxEnd(self._xid))
        two_phases = self._count % 2 == 0
        if two_phases:
            self._do(DtxPrepare(self._xid))
        self._do(DtxCommit(self._xid, one_phase=not two_phases))
        self._start()

    def roll_back(self) -> None:
        self._do(DtxEnd(self._xid))
        if self._count % 2 == 0:
            self._do(DtxPrepare(self._xid))
        self._do(DtxRollback(self._xid))
        self._start()


@pytest.mark.parametrize("kind", [Peer091, Peer010, Branches])
def test_nothing_is_lost(kind: type[Peer091 | Peer010]) -> None:
    """What was committed is there; what was rolled back, or cut, did not happen."""
    for seed in range(max(1, WALKS // 5)):
        walk(random.Random(seed), kind)


def walk(chosen: random.Random, kind: type[Peer091 | Peer010]) -> None:
    vhost = new_vhost()
    vhost.declare("q", "queue")
    peers = [kind(vhost, number) for number in range(3)]
    posted: list[list[bytes]] = [[], [], []]
    accepted: list[list[bytes]] = [[], [], []]
    there: set[bytes] = set()
    for step in range(100):
        at = chosen.randrange(3)
        peer = peers[at]
        match chosen.choice(["post", "post", "take", "take", "accept", "accept", "commit", "roll back", "leave"]):
            case "post":
                posted[at].append(f"{step}".encode())
                peer.post(posted[at][-1])
            case "take":
                peer.take()
            case "accept" if peer.held:
                number = chosen.choice(list(peer.held))
                accepted[at].append(peer.held.pop(number))
                peer.accept(number)
            case "commit":
                peer.commit()
                there.update(posted[at])
                assert there.issuperset(accepted[at])
                there.difference_update(accepted[at])
                posted[at], accepted[at] = [], []
            case "roll back":
                peer.roll_back()
                posted[at], accepted[at] = [], []
            case "leave":
                peer.leave()
                peers[at] = kind(vhost, 3 + step)
                posted[at], accepted[at] = [], []
    for peer in peers:
        peer.leave()
    last = kind(vhost, 1000)
    last.take(everything=True)
    assert sorted(last.held.values()) == sorted(there)
