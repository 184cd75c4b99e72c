"""A client of 0-9-1 and its kin whose server says anything: its octets changed, cut or repeated at random."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqp10.dialects.v0_9 import DIALECT
from amqp10.dialects.v0_9.wire.method_table import Method
from amqp10.dialects.v0_9.wire.methods import (
    BasicAck,
    BasicCancelOk,
    BasicConsumeOk,
    BasicDeliver,
    BasicQosOk,
    BasicReturn,
    ChannelOpenOk,
    ConfirmSelectOk,
    QueueDeclareOk,
)
from amqp10.dialects.v0_9.wire.properties import BasicProperties
from amqp10.dialects.v0_9.wire.variant import V0_9_1, Variant
from amqp10.engine import ConnectionEnded, ConnectionTerms, Dialect, Engine, Event, LinkTerms
from amqp10.errors import DecodeError
from amqp10.messaging import Message, Source, Target
from amqp10.sasl import Anonymous

from ...kit.dialects.v0_9.client_engine import DIALECTS, OPENING, frames


def conversation(variant: Variant) -> bytes:
    """All that a server says to a client that sends one message and receives one."""
    return frames(variant, 1, ChannelOpenOk(), QueueDeclareOk("q"), ConfirmSelectOk()) + frames(
        variant,
        2,
        ChannelOpenOk(),
        QueueDeclareOk("q"),
        BasicQosOk(),
        BasicConsumeOk("r"),
        BasicDeliver("r", 1, False, "", "q"),
        BasicCancelOk("r"),
    )


def opened(dialect: Dialect, variant: Variant) -> Engine:
    """A client that is open, with a link of each kind on its way."""
    engine = dialect.client(ConnectionTerms("client"), (Anonymous(),), True)
    engine.start()
    engine.open()
    engine.receive_data(frames(variant, 0, *OPENING))
    engine.events()
    session = engine.begin()
    session.attach_sender(LinkTerms("s", Source(), Target("q")))
    receiver = session.attach_receiver(LinkTerms("r", Source("q"), Target()))
    receiver.refills = False  # so that the consumer is canceled after one message
    receiver.flow(1)
    return engine


def ended(events: list[Event]) -> int:
    return sum(isinstance(event, ConnectionEnded) for event in events)


@settings(max_examples=2 * settings().max_examples, deadline=None)
@given(st.sampled_from(DIALECTS), st.data())
def test_changed_octets(dialect: tuple[Dialect, Variant], data: st.DataObject) -> None:
    """Whatever comes, nothing is raised; the connection goes on, or ends once, and says why in octets."""
    engine = opened(*dialect)
    octets = bytearray(conversation(dialect[1]))
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(octets) - 1))
        change = data.draw(st.sampled_from(("set", "cut", "repeat")))
        if change == "set":
            octets[place] = data.draw(st.integers(0, 255))
        elif change == "cut" and len(octets) > 40:
            del octets[place : place + data.draw(st.integers(1, 20))]
        else:
            octets[place:place] = octets[place : place + data.draw(st.integers(1, 40))]
    portion = data.draw(st.integers(1, len(octets)))
    for at in range(0, len(octets), portion):
        engine.receive_data(bytes(octets[at : at + portion]))
    events = engine.events()
    engine.data_to_send()
    engine.receive_eof()
    assert ended(events + engine.events()) == 1


def test_confirms_that_nobody_waits_for() -> None:
    """A confirm of what was never published closes the channel, not the connection; a return of it is dropped."""
    for dialect, variant in DIALECTS:
        engine = opened(dialect, variant)
        engine.receive_data(conversation(variant))
        engine.receive_data(frames(variant, 1, BasicReturn(312, "NO_ROUTE", "", "q")))
        engine.receive_data(frames(variant, 1, BasicAck(7)))
        assert engine.opened
        assert not ended(engine.events())


@pytest.mark.parametrize("kind", [4, 5, 6, 7])
def test_frames_that_only_the_draft_has(kind: int) -> None:
    """Out of band, or traces: in 0-9 and 0-9-1 they are no frames, and nothing is said to them (§4.2.3)."""
    for dialect, variant in DIALECTS[:2]:
        engine = opened(dialect, variant)
        engine.data_to_send()
        engine.receive_data(variant.framing.frame(kind, 0, b""))
        assert ended(engine.events())
        assert engine.data_to_send() == b""


def test_properties_that_the_class_has_not() -> None:
    """A flag beyond those of the specification's table has nothing to read behind it."""
    for flags in (b"\0\2", b"\0\1\x80\0"):
        with pytest.raises(DecodeError, match="has a property flag that its class does not define"):
            BasicProperties.decode(flags + b"\1x", V0_9_1.tables)


def test_the_conversation_is_one() -> None:
    """Unchanged, it delivers the message."""
    for dialect, variant in DIALECTS:
        engine = opened(dialect, variant)
        engine.receive_data(conversation(variant))
        found = [event for event in engine.events() if type(event).__name__ == "DeliveriesReceived"]
        assert Message.decode(found[0].link.incoming[0].payload).body == b"body"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "said",
    [
        (OPENING[1],),
        (OPENING[2],),
        (OPENING[0], OPENING[0]),
        (OPENING[0], OPENING[2]),
        (*OPENING[:2], OPENING[1]),
        (*OPENING, OPENING[2]),
    ],
    ids=lambda said: "-".join(type(each).__name__ for each in said),
)
def test_handshake_out_of_order(said: tuple[Method, ...]) -> None:
    """A step of the handshake that the table does not have ends the connection as unexpected (503)."""
    engine = DIALECT.client(ConnectionTerms("client"), (Anonymous(),), True)
    engine.start()
    engine.open()
    engine.receive_data(frames(V0_9_1, 0, *said))
    last = engine.events()[-1]
    assert isinstance(last, ConnectionEnded)
    assert f"{said[-1].name}, which is not expected here" in str(last.error)
