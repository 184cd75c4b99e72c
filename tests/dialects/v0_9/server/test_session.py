"""A server's channel, octet by octet, where the answers of the owner meet what the client says next."""

from __future__ import annotations

from typing import Any

import pytest

from amqp10.dialects.v0_9 import DIALECT
from amqp10.dialects.v0_9.wire.methods import (
    BasicAck,
    BasicConsume,
    BasicPublish,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ConfirmSelect,
    ConnectionClose,
    ConnectionOpen,
    ConnectionStartOk,
    ConnectionTuneOk,
    QueueBind,
)
from amqp10.dialects.v0_9.wire.variant import V0_9_1
from amqp10.engine import ConnectionTerms, DeliveriesReceived, Engine, LinkAttached, LinkTerms, SessionBegun
from amqp10.messaging import ACCEPTED, Error, Source, Target
from amqp10.sasl import Authenticator

from ....kit.dialects.v0_9.client_engine import hear, said


def serving() -> tuple[Engine, Any]:
    """A server whose client has channel 1; its session."""
    engine = DIALECT.server(ConnectionTerms("server"), Authenticator(anonymous=True))
    engine.start()
    engine.receive_data(V0_9_1.header)
    hear(engine, 0, ConnectionStartOk({}, "ANONYMOUS", b"", "en_US"), ConnectionTuneOk(100, 131072, 0))
    hear(engine, 0, ConnectionOpen("/"))
    engine.open()
    (session,) = [event.session for event in hear(engine, 1, ChannelOpen()) if isinstance(event, SessionBegun)]
    session.begin()
    engine.data_to_send()
    return engine, session


def test_a_channel_above_the_limit() -> None:
    """It costs the client the connection, with 504; the last one below does not."""
    engine, _ = serving()
    assert any(isinstance(event, SessionBegun) for event in hear(engine, 100, ChannelOpen()))
    hear(engine, 101, ChannelOpen())
    (close,) = said(engine)
    assert isinstance(close, ConnectionClose)
    assert close.reply_code == 504


@pytest.mark.parametrize("cause", ["fault", "end", "refused", "closed by the client"])
def test_confirms_come_before_the_close(cause: str) -> None:
    """Messages taken so far are confirmed before this side closes the channel; nothing is sent on it afterwards."""
    engine, session = serving()
    events: list[Any] = hear(engine, 1, ConfirmSelect(), BasicPublish(routing_key="q"))
    link: Any
    (link,) = [event.link for event in events if isinstance(event, LinkAttached)]
    link.attach(LinkTerms(link.name, Source(), Target(None)))
    link.flow(10)
    assert any(isinstance(event, DeliveriesReceived) for event in engine.events())
    engine.data_to_send()
    link.settle(link.incoming.popleft(), ACCEPTED)
    if cause == "fault":
        hear(engine, 1, BasicAck(7))
    elif cause == "end":
        session.end(Error("amqp:not-allowed", "no"))
    elif cause == "refused":
        session.refuse_method(Error("amqp:not-found", "no"), BasicPublish())
    else:
        hear(engine, 1, ChannelClose(200))
        assert said(engine) == [ChannelCloseOk()]
        return
    ack, close = said(engine)
    assert ack == BasicAck(1)
    assert isinstance(close, ChannelClose)


@pytest.mark.parametrize("cause", ["fault", "end", "refused"])
def test_no_flow_after_the_close(cause: str) -> None:
    """A channel that this side has closed is not told that nothing is taken, nor a session begun on it."""
    engine, session = serving()
    if cause == "fault":
        hear(engine, 1, BasicAck(7))
    elif cause == "end":
        session.end(Error("amqp:not-allowed", "no"))
    else:
        session.refuse_method(Error("amqp:not-found", "no"), BasicPublish())
    (close,) = said(engine)
    assert isinstance(close, ChannelClose)
    engine.block("the disk is full")
    engine.block(None)
    session.begin()
    assert said(engine) == []
    assert not session.begun
    assert not session.sendable


@pytest.mark.parametrize("answer", ["end", "refused", "link refused"])
def test_the_connection_ends_before_the_answer(answer: str) -> None:
    """The owner has yet to hear of the end: its answer goes nowhere, and is no fault."""
    engine, session = serving()
    events: list[Any] = hear(engine, 1, BasicConsume(queue="q"))
    (link,) = [event.link for event in events if isinstance(event, LinkAttached)]
    engine.receive_eof()
    if answer == "end":
        session.end()
    elif answer == "refused":
        session.refuse_method(Error("amqp:not-found", "no"), QueueBind())
    else:
        link.refuse(Error("amqp:not-found", "no"))
    assert engine.events()
