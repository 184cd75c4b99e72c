"""Silence, the same in every dialect: a peer that says nothing is given up, and only when it was asked to speak."""

from __future__ import annotations

import pytest

from amqp10 import Anonymous
from amqp10.dialects.v0_9.wire.methods import ConnectionOpenOk, ConnectionStart, ConnectionTune
from amqp10.dialects.v0_9.wire.variant import V0_9, V0_9_1, V0_9_DRAFT
from amqp10.engine import ConnectionEnded, ConnectionTerms, Engine, dialect, dialect_names
from amqp10.errors import ConnectionLost


def client(name: str, idle_timeout: float | None = 8.0) -> Engine:
    """A client engine whose server has not answered yet."""
    engine = dialect(name).client(ConnectionTerms("c", idle_timeout=idle_timeout), (Anonymous(),), True)
    engine.start()
    engine.open()
    engine.data_to_send()
    return engine


def ends(engine: Engine) -> list[object]:
    return [event.error for event in engine.events() if isinstance(event, ConnectionEnded)]


@pytest.mark.parametrize("name", dialect_names())
def test_given_up(name: str) -> None:
    """When its time is over, not before; looked at often enough, and never again."""
    engine = client(name)
    now = 0.0
    while now < 8.0:
        deadline = engine.tick(now)
        assert deadline is not None
        assert now < deadline <= now + 2.0
        assert not ends(engine)
        now = deadline
    assert engine.tick(now) is None
    (error,) = ends(engine)
    assert isinstance(error, ConnectionLost)
    assert "silent for 8 s" in str(error)
    assert engine.tick(1000.0) is None


@pytest.mark.parametrize("name", dialect_names())
def test_each_deadline_leads_on(name: str) -> None:
    """At its own deadline an engine does what is due: whoever sleeps until then would else ask it again for ever.

    1.5 + 0.8 is 2.3, and 2.3 - 1.5 is less than 0.8.
    """
    for start in range(200):
        engine = client(name, 0.8)
        deadline: float | None = start / 10
        while deadline is not None:
            before, deadline = deadline, engine.tick(deadline)
            assert deadline is None or deadline > before
        assert len(ends(engine)) == 1


@pytest.mark.parametrize("name", dialect_names())
def test_its_own_silence(name: str) -> None:
    """While this side reads nothing, nobody is to blame; nor where no limit was given."""
    engine = client(name)
    engine.reading = False
    for now in range(100):
        assert engine.tick(float(now)) is not None
    assert not ends(engine)
    engine = client(name, None)
    assert engine.tick(0.0) is None
    assert not ends(engine)


@pytest.mark.parametrize("name", [name for name in dialect_names() if name.startswith("0-9")])
def test_frames_that_end_in_the_middle_of_a_read(name: str) -> None:
    """A whole frame is a sign of life, also where the next one has begun behind it."""
    engine = client(name)
    variant = {"0-9-1": V0_9_1, "0-9": V0_9, "0-9-draft": V0_9_DRAFT}[name]
    said = ConnectionStart(mechanisms=b"ANONYMOUS"), ConnectionTune(10, 131_072, 4), ConnectionOpenOk()
    engine.receive_data(b"".join(variant.framing.frame(1, 0, variant.methods.encode(each)) for each in said))
    beat = variant.framing.frame(8, 0, b"")
    engine.receive_data(beat[:3])
    now = 0.0
    while now < 100.0:
        engine.tick(now)
        now += 3.0
        engine.receive_data(beat[3:] + beat[:3])
    assert not ends(engine)
    assert engine.opened
