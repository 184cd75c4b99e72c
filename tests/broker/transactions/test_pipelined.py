"""Clients of AMQP 0-10 that say one transaction after the other in one go: each counts, with what was said in it."""

from __future__ import annotations

from typing import Any

import pytest

from amqp10.broker._virtual_host_core import VirtualHostCore
from amqp10.dialects.v0_10.wire.commands import (
    DeliveryProperties,
    DtxCommit,
    DtxEnd,
    DtxPrepare,
    DtxRollback,
    DtxSelect,
    DtxStart,
    MessageAccept,
    MessageFlow,
    MessageSubscribe,
    MessageTransfer,
    TxCommit,
    TxRollback,
    TxSelect,
    Xid,
)
from amqp10.dialects.v0_10.wire.controls import (
    ConnectionOpen,
    ConnectionStartOk,
    ConnectionTuneOk,
    SessionAttach,
    SessionCommandPoint,
)
from amqp10.dialects.v0_10.wire.frames import PROTOCOL_HEADER, encode_command, encode_control
from amqp10.dialects.v0_10.wire.struct import Command

from ...kit.broker.served import Served
from ...kit.broker.wire import queue_of

HEADER = DeliveryProperties(routing_key="q").encode_struct32()
ONE, TWO = Xid(1, b"one", b""), Xid(1, b"two", b"")


class Client(Served):
    """With a session, and a queue "q"."""

    def __init__(self, vhost: VirtualHostCore) -> None:
        super().__init__("0-10", vhost)
        vhost.declare("q", "queue")
        controls: list[tuple[int, Any]] = [
            (0, ConnectionStartOk({}, "ANONYMOUS", b"", "en_US")),
            (0, ConnectionTuneOk(256, 65_535, 0)),
            (0, ConnectionOpen("", [])),
            (1, SessionAttach(b"s")),
            (1, SessionCommandPoint(0, 0)),
        ]
        self.take(PROTOCOL_HEADER)
        for channel, control in controls:
            self.take(encode_control(channel, control.encode()))

    def says(self, *commands: Command) -> int:
        """All of it in one go; how many messages are in the queue then."""
        self.take(b"".join(map(octets, commands)))
        assert len(self.engine.sessions) == 1  # type: ignore[attr-defined]
        return queue_of(self.vhost, "q").depth

    def consumes(self) -> list[Command]:
        """Three messages; what accepts each."""
        self.says(
            *[MessageTransfer("", 1, 0)] * 3,
            MessageSubscribe(queue="q", destination="d"),
            MessageFlow("d", 0, 3),
            MessageFlow("d", 1, 0xFFFF_FFFF),
        )
        return [MessageAccept(((number, number),)) for number in range(3)]


def octets(command: Command) -> bytes:
    """Of a command, and of a message if it has one."""
    header, body = (HEADER, b"x") if isinstance(command, MessageTransfer) else (None, None)
    return bytes(encode_command(1, command.encode(True), header, body, 65_523))


@pytest.mark.parametrize("accept_mode", [0, 1])
def test_sent(vhost: VirtualHostCore, accept_mode: int) -> None:
    """Messages, whether their outcomes are wanted or not."""
    client = Client(vhost)
    send = MessageTransfer("", accept_mode, 0)
    assert client.says(TxSelect(), send, TxCommit(), send, TxRollback(), send, send, TxCommit()) == 3
    assert client.peer.transactions.keys() == {client.engine.sessions[1].transaction}  # type: ignore[attr-defined]


def test_accepted(vhost: VirtualHostCore) -> None:
    """Outcomes."""
    client = Client(vhost)
    first, second, third = client.consumes()
    assert client.says(TxSelect(), first, TxCommit(), second, TxCommit(), third, TxRollback()) == 1


def test_accepted_and_prepared(vhost: VirtualHostCore) -> None:
    """Outcomes that were named before a branch is prepared are part of it."""
    client = Client(vhost)
    first, second, _ = client.consumes()
    assert client.says(DtxSelect(), DtxStart(ONE), first, DtxEnd(ONE), DtxPrepare(ONE), DtxCommit(ONE)) == 2
    assert client.says(DtxStart(TWO), second, DtxEnd(TWO), DtxPrepare(TWO), DtxRollback(TWO)) == 2


def test_branches(vhost: VirtualHostCore) -> None:
    """The same with branches of distributed transactions."""
    client, send = Client(vhost), MessageTransfer("", 1, 0)
    one, two = ((DtxStart(xid), send, DtxEnd(xid), DtxCommit(xid, one_phase=True)) for xid in (ONE, TWO))
    assert client.says(DtxSelect(), *one, *two) == 2
