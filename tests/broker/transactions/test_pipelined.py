"""Clients of AMQP 0-10 that say one transaction after the other in one go: each counts, with what was said in it."""

from __future__ import annotations

import pytest

from amqp10.dialects.v0_10.wire.commands import (
    DtxCommit,
    DtxEnd,
    DtxPrepare,
    DtxRollback,
    DtxSelect,
    DtxStart,
    MessageTransfer,
    TxCommit,
    TxRollback,
    TxSelect,
    Xid,
)

from ...kit.broker.client_0_10 import Client
from ...kit.inside.broker import VirtualHostCore

ONE, TWO = Xid(1, b"one", b""), Xid(1, b"two", b"")


@pytest.mark.parametrize("accept_mode", [0, 1])
def test_sent(vhost: VirtualHostCore, accept_mode: int) -> None:
    """Messages, whether their outcomes are wanted or not."""
    client = Client(vhost)
    send = MessageTransfer("", accept_mode, 0)
    assert client.says(TxSelect(), send, TxCommit(), send, TxRollback(), send, send, TxCommit()) == 3
    assert client.served.peer.transactions.keys() == {client.engine.sessions[1].transaction}  # type: ignore[attr-defined]


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
