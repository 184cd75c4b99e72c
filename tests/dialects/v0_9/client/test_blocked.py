"""connection.blocked and channel.flow, as the engine of a client has them: no credit, until both say so."""

from __future__ import annotations

import pytest

from amqp10.dialects.v0_9 import DIALECT, FINAL
from amqp10.dialects.v0_9.client.sender import WINDOW
from amqp10.dialects.v0_9.wire.methods import (
    BasicAck,
    ChannelFlow,
    ChannelFlowOk,
    ChannelOpenOk,
    ConfirmSelectOk,
    ConnectionBlocked,
    ConnectionUnblocked,
    QueueDeclareOk,
)
from amqp10.dialects.v0_9.wire.variant import V0_9, V0_9_1
from amqp10.engine import ConnectionTerms, CreditChanged, Engine, Event, LinkTerms, PeerBlocked, SenderLink
from amqp10.errors import LocalProtocolError
from amqp10.messaging import Message, Source, Target
from amqp10.sasl import Anonymous

from ....kit.dialects.v0_9.client_engine import OPENING, frames

M = Message(b"m").encode()


def opened() -> Engine:
    engine = DIALECT.client(ConnectionTerms("client"), (Anonymous(),), True)
    engine.start()
    engine.open()
    engine.receive_data(frames(V0_9_1, 0, *OPENING))
    engine.events()
    return engine


def sender(engine: Engine, channel: int, *, settled: bool = False) -> SenderLink:
    terms = LinkTerms(f"s{channel}", Source(), Target("q"), settle_mode="settled" if settled else "mixed")
    link = engine.begin().attach_sender(terms)
    engine.receive_data(frames(V0_9_1, channel, ChannelOpenOk(), QueueDeclareOk("q")))
    if not settled:
        engine.receive_data(frames(V0_9_1, channel, ConfirmSelectOk()))
    return link


def told(engine: Engine, kind: type[Event]) -> list[Event]:
    return [event for event in engine.events() if isinstance(event, kind)]


@pytest.mark.parametrize("settled", [False, True])
def test_blocked(settled: bool) -> None:
    """Each link, also one that comes later, is without credit until it is unblocked; the owner hears of both, once."""
    engine = opened()
    early = sender(engine, 1, settled=settled)
    early.send(M, settled=settled)
    engine.events()
    engine.receive_data(frames(V0_9_1, 0, ConnectionBlocked("memory")))
    late = sender(engine, 2, settled=settled)
    events = engine.events()
    assert [event for event in events if isinstance(event, PeerBlocked)] == [PeerBlocked("memory")]
    assert not [event for event in events if isinstance(event, CreditChanged)]
    assert (early.credit, late.credit) == (0, 0)
    with pytest.raises(LocalProtocolError, match="no credit"):
        early.send(M, settled=settled)
    if not settled:
        engine.receive_data(frames(V0_9_1, 1, BasicAck(1)))
        assert early.credit == 0
    engine.receive_data(frames(V0_9_1, 0, ConnectionUnblocked()))
    assert (early.credit, late.credit) == (WINDOW, WINDOW)
    events = engine.events()
    assert PeerBlocked(None) in events
    assert [event.link for event in events if isinstance(event, CreditChanged)] == [early, late]


def test_flow() -> None:
    """It is of one channel, is answered at once, and said twice it is the same."""
    engine = opened()
    links = [sender(engine, channel) for channel in (1, 2)]
    engine.events()
    engine.data_to_send()
    for _ in range(2):
        engine.receive_data(frames(V0_9_1, 1, ChannelFlow(False)))
        assert engine.data_to_send() == frames(V0_9_1, 1, ChannelFlowOk(False))
        assert [link.credit for link in links] == [0, WINDOW]
    for _ in range(2):
        engine.receive_data(frames(V0_9_1, 1, ChannelFlow(True)))
        assert engine.data_to_send() == frames(V0_9_1, 1, ChannelFlowOk(True))
        assert [link.credit for link in links] == [WINDOW, WINDOW]
    assert [event.link for event in told(engine, CreditChanged)] == [links[0]]  # type: ignore[attr-defined]


@pytest.mark.parametrize("first", [ConnectionUnblocked(), ChannelFlow(True)])
def test_both(first: ConnectionUnblocked | ChannelFlow) -> None:
    """One of the two is not enough to go on."""
    engine = opened()
    link = sender(engine, 1)
    engine.receive_data(frames(V0_9_1, 0, ConnectionBlocked("disk")) + frames(V0_9_1, 1, ChannelFlow(False)))
    ends = {0: ConnectionUnblocked(), 1: ChannelFlow(True)}
    order = (0, 1) if isinstance(first, ConnectionUnblocked) else (1, 0)
    engine.receive_data(frames(V0_9_1, order[0], ends[order[0]]))
    assert link.credit == 0
    engine.receive_data(frames(V0_9_1, order[1], ends[order[1]]))
    assert link.credit == WINDOW


def test_no_more_than_the_window() -> None:
    """Blocked and unblocked between publishes and confirms, the window stays what it is."""
    engine = opened()
    link = sender(engine, 1)
    for number in range(1, 6):
        link.send(M)
        engine.receive_data(frames(V0_9_1, 0, ConnectionBlocked("again")))
        if number % 2:
            engine.receive_data(frames(V0_9_1, 1, BasicAck(number)))
        engine.receive_data(frames(V0_9_1, 0, ConnectionUnblocked()))
    assert link.credit + len(link.unsettled) == WINDOW


def test_0_9_final_has_flow() -> None:
    """The method channel.flow exists in the final 0-9, too, and works there."""
    engine = FINAL.client(ConnectionTerms("client"), (Anonymous(),), True)
    engine.start()
    engine.open()
    engine.receive_data(frames(V0_9, 0, *OPENING))
    link = engine.begin().attach_sender(LinkTerms("s", Source(), Target("q")))
    engine.receive_data(frames(V0_9, 1, ChannelOpenOk(), QueueDeclareOk("q"), ConfirmSelectOk(), ChannelFlow(False)))
    assert link.credit == 0
    engine.receive_data(frames(V0_9, 1, ChannelFlow(True)))
    assert link.credit == WINDOW
