"""Time: moments, which are milliseconds to Qpid's brokers and seconds to all others, and the heartbeats of any peer."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from amqp10.dialects.v0_9 import DIALECT
from amqp10.dialects.v0_9.message.from_basic import FromBasic
from amqp10.dialects.v0_9.message.to_basic import ToBasic
from amqp10.dialects.v0_9.wire.methods import (
    ChannelOpenOk,
    ConfirmSelectOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    QueueDeclareOk,
)
from amqp10.dialects.v0_9.wire.properties import BasicProperties
from amqp10.dialects.v0_9.wire.tables import QPID_TABLES, TABLES
from amqp10.dialects.v0_9.wire.variant import V0_9_1
from amqp10.engine import ConnectionEnded, ConnectionTerms, Engine, LinkTerms
from amqp10.errors import ConnectionLost
from amqp10.messaging import Message, Source, Target
from amqp10.sasl import Anonymous, Authenticator
from amqp10.types import Timestamp

from ...kit.dialects.v0_9.client_engine import hear

MOMENT = datetime(2024, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
IN_SECONDS, IN_MS = 1_704_164_645, 1_704_164_645_678


def opened(product: str, *, idle_timeout: float | None = None, heartbeat: int = 0) -> Engine:
    """A client's engine, connected to a server of that name."""
    engine = DIALECT.client(ConnectionTerms("client", idle_timeout=idle_timeout), (Anonymous(),), True)
    engine.start()
    engine.open()
    start = ConnectionStart(server_properties={"product": product}, mechanisms=b"ANONYMOUS")
    hear(engine, 0, start, ConnectionTune(100, 131072, heartbeat), ConnectionOpenOk())
    engine.data_to_send()
    return engine


@pytest.mark.parametrize(
    ("product", "number"), [("RabbitMQ", IN_SECONDS), ("qpid", IN_MS), ("Qpid Broker-J", IN_MS), ("other", IN_SECONDS)]
)
def test_how_moments_are_said(product: str, number: int) -> None:
    """In seconds, but to Qpid in milliseconds: the property, and the header."""
    engine = opened(product)
    link = engine.begin().attach_sender(LinkTerms("s", Source(), Target("q")))
    hear(engine, 1, ChannelOpenOk(), QueueDeclareOk("q"), ConfirmSelectOk())
    engine.data_to_send()
    link.send(Message(b"m", creation_time=MOMENT, application_properties={"t": MOMENT.replace(microsecond=0)}).encode())
    octets = engine.data_to_send()
    assert number.to_bytes(8, "big") in octets
    assert b"T" + (number // 1000 * 1000 if number == IN_MS else number).to_bytes(8, "big") in octets


@pytest.mark.parametrize(
    ("number", "value"),
    [
        (IN_MS, MOMENT),
        (IN_SECONDS, MOMENT.replace(microsecond=0)),
        (0, datetime(1970, 1, 1, tzinfo=UTC)),
        (253_402_300_800_000, Timestamp(253_402_300_800_000)),
        (2**64 - 1, Timestamp(2**63 - 1)),
    ],
)
def test_how_moments_are_read(number: int, value: datetime | Timestamp) -> None:
    """By their size: there are those of Qpid's own programs, in milliseconds, and those of all others."""
    for layout, tables in ((b"", QPID_TABLES), (b"T", QPID_TABLES)):
        octets = number.to_bytes(8, "big")
        if layout:
            table = b"\0\0\0\x0b\1tT" + octets
            assert tables.read(table, 0) == ({"t": value}, len(table))
        else:
            properties = BasicProperties.decode(b"\0\x40" + octets, tables)
            assert properties.timestamp == value
    assert TABLES.moment(IN_SECONDS) == MOMENT.replace(microsecond=0)


@pytest.mark.parametrize(
    "moment",
    [
        MOMENT,
        datetime(1971, 5, 6, 7, 8, 9, 10_000, tzinfo=UTC),
        datetime(1970, 1, 1, tzinfo=UTC),
        datetime(1969, 1, 1, tzinfo=UTC),
    ],
)
def test_every_moment_comes_back(moment: datetime | Timestamp) -> None:
    """Those that Qpid's way cannot tell from others, too."""
    message = Message(b"m", creation_time=moment, application_properties={"t": moment})
    route, body = ToBasic(QPID_TABLES, "", "q", clock=lambda: 0).map(message.encode())
    back = Message.decode(FromBasic(QPID_TABLES).map(b"\0\0\1q", route.properties, body))
    assert (back.creation_time, back.application_properties) == (moment, {"t": moment})


def test_heartbeats_come_in_time() -> None:
    """In each interval there is one, and a second in case it is late."""
    engine = opened("any", idle_timeout=120.0, heartbeat=60)
    engine.tick(0.0)
    sent = 0
    for now in range(0, 60, 5):
        engine.tick(float(now))
        sent += engine.data_to_send().count(V0_9_1.framing.heartbeat)
    assert 2 <= sent <= 5


@pytest.mark.parametrize("heartbeat", [0, 1])
def test_a_client_without_heartbeats(heartbeat: int) -> None:
    """Zero says that it sends none: however long it is silent, it is not lost; who says nothing else is."""
    engine = DIALECT.server(ConnectionTerms("server", idle_timeout=10.0), Authenticator(anonymous=True))
    engine.start()
    engine.receive_data(V0_9_1.header)
    hear(engine, 0, ConnectionStartOk({}, "ANONYMOUS", b"", "en_US"), ConnectionTuneOk(100, 131072, heartbeat))
    hear(engine, 0, ConnectionOpen("/"))
    engine.open()
    assert engine.opened
    for now in (0.0, 30.0, 3000.0):
        engine.tick(now)
    assert [isinstance(event, ConnectionEnded) for event in engine.events()].count(True) == (1 if heartbeat else 0)


@pytest.mark.parametrize(("idle_timeout", "limit"), [(0.2, 2.0), (1.0, 2.0), (10.0, 10.0)])
def test_a_quiet_peer_is_no_silent_one(idle_timeout: float, limit: float) -> None:
    """Heartbeats are whole seconds: who sends one a second is heard in two, however little silence was asked for."""
    engine = opened("any", idle_timeout=idle_timeout, heartbeat=60)
    engine.tick(0.0)
    engine.tick(limit - 0.01)
    assert not [event for event in engine.events() if isinstance(event, ConnectionEnded)]
    engine.tick(limit + 0.01)
    (ended,) = [event for event in engine.events() if isinstance(event, ConnectionEnded)]
    assert isinstance(ended.error, ConnectionLost)
