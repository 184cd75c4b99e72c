"""Engines whose peer's frames are changed on their way, and what that has found, each as a test of its own.

AMQP10_WALKS=100000 walks as often; the default takes a few seconds.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amqp10.engine import (
    ConnectionEnded,
    ConnectionTerms,
    LinkAttached,
    LinkEnded,
    LinkTerms,
    SessionBegun,
    SessionUnmapped,
    dialect,
)
from amqp10.errors import LocalProtocolError, RemoteProtocolError, SessionEnded
from amqp10.messaging import Source, Target
from amqp10.sasl import Authenticator
from amqp10.testing import Attach, Begin, Close, Detach, End, EngineScript, Flow, Frame, Open, Transfer
from amqp10.types import Described, UInt, ULong, encode

from ...kit.counts import WALKS
from ...kit.dialects.v1_0.mutants import SETTINGS, Mutants, Step

STEPS = st.lists(st.tuples(st.integers(0, 39), st.integers(0, 20), st.integers(0, 9999)), min_size=10, max_size=60)
BEGIN = Begin(next_outgoing_id=0, incoming_window=100, outgoing_window=100)
ATTACH = Attach(name="x", handle=0, role=True, source=Source("q"), target=Target("q"))
HEADER = b"AMQP\0\1\0\0"


@settings(
    max_examples=WALKS,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(chosen=st.integers(0, SETTINGS - 1), steps=STEPS)
@pytest.mark.slow
def test_mutants(chosen: int, steps: list[Step]) -> None:
    """Whatever becomes of frames on their way: nothing is raised but for what owners do wrong, every fault has the
    condition of its level, things end once and inside out, and what is written is legal."""
    mutants = Mutants(chosen)
    for step in steps:
        mutants.step(*step)
    mutants.finish()


def serve() -> EngineScript:
    """A server engine that waits for a client."""
    return EngineScript(dialect("1.0").server(ConnectionTerms("tested"), Authenticator(anonymous=True)))


def begun(**fields: int) -> EngineScript:
    """A server engine with a session."""
    script = serve()
    script.open(**fields)
    script.send(BEGIN)
    script.expect_event(SessionBegun).session.begin()
    script.expect(Begin)
    return script


def together(script: EngineScript, *performatives: Open | Begin | Attach | Transfer | Detach | End | Close) -> None:
    """Send the header, an open and these frames in one portion."""
    frames = (Open(container_id="script"), *performatives)
    script.send_bytes(HEADER + b"".join(Frame(0, performative).encode() for performative in frames))
    script.expect_header()


NO_ERROR: Any = Described(ULong(0x4711), [])


@pytest.mark.parametrize(
    ("code", "fields"), [(0x16, [UInt(0), False, NO_ERROR]), (0x17, [NO_ERROR]), (0x18, [NO_ERROR])]
)
def test_error_of_another_type(code: int, fields: list[Any]) -> None:
    """An error field that holds something else cannot be decoded; there is no other type of errors (§2.8.14)."""
    script = begun()
    script.send(ATTACH)
    body = encode(Described(ULong(code), fields))
    script.send_bytes((8 + len(body)).to_bytes(4, "big") + b"\2\0\0\0" + body)
    script.expect(Close, error=lambda error: error.condition == "amqp:decode-error")
    error = script.expect_event(ConnectionEnded).error
    assert isinstance(error, RemoteProtocolError)
    assert error.condition == "amqp:decode-error"


def test_terminus_of_another_type() -> None:
    """A source that nobody here knows costs the link, not the session (§2.6.5)."""
    script = begun()
    source = Described(ULong(0x4711), [])
    script.send(Attach(name="x", handle=0, role=True, source=source, target=Target("q")))
    script.expect(Attach, name="x", source=None)
    script.expect(Detach, closed=True, error=lambda error: error.condition == "amqp:not-implemented")
    assert not [event for event in script.events if isinstance(event, LinkAttached | SessionUnmapped)]


def test_more_sessions_than_can_be_answered() -> None:
    """A session that the peer's own channel-max leaves no channel to answer, or to end, costs the connection."""
    script = serve()
    script.open(channel_max=0)
    script.send(BEGIN, channel=0)
    script.send(BEGIN, channel=1)
    assert script.expect_event(SessionBegun).session.terms is None
    script.expect(Close)
    assert isinstance(script.expect_event(ConnectionEnded).error, RemoteProtocolError)


def test_channels_are_kept_for_answers() -> None:
    """A session that waits for our answer has its channel, though we begin others first."""
    script = serve()
    script.open(channel_max=1)
    script.send(BEGIN, channel=0)
    session = script.expect_event(SessionBegun).session
    script.engine.begin()
    with pytest.raises(LocalProtocolError, match="2 sessions"):
        script.engine.begin()
    session.begin()
    script.expect(Begin, channel=0, remote_channel=None)
    script.expect(Begin, channel=1, remote_channel=0)


def test_fault_before_our_open() -> None:
    """A session may be answered and ended before the owner opens: all of that follows our open (§2.4.1)."""
    script = serve()
    together(script, BEGIN, Transfer(handle=7, delivery_id=0, delivery_tag=b""))
    assert isinstance(script.expect_event(SessionUnmapped).error, RemoteProtocolError)
    script.expect_nothing()
    script.engine.open()
    script.expect(Open)
    script.expect(Begin, remote_channel=0)
    script.expect(End)
    assert script.engine.opened


def test_open_and_close_together() -> None:
    """A client may close before it sees our open: both are answered in order (§2.4.6 CLOSE PIPE)."""
    script = serve()
    together(script, Close())
    script.expect(Open)
    script.expect(Close, error=None)
    script.expect_event(ConnectionEnded)
    script.engine.open()
    script.expect_nothing()


def test_begin_and_end_together() -> None:
    """A client may end before it sees our begin: both are answered in order."""
    script = serve()
    script.open()
    script.send_together(BEGIN, ATTACH, End())
    session = script.expect_event(SessionBegun).session
    assert isinstance(script.expect_event(LinkEnded).error, SessionEnded)
    script.expect_event(SessionUnmapped)
    script.expect(Begin, remote_channel=0)
    script.expect(End, error=None)
    session.begin()
    script.expect_nothing()


def test_session_before_its_links() -> None:
    """Answering or refusing a link of a session that is not answered is an error of ours, and changes nothing."""
    script = serve()
    script.open()
    flow = Flow(next_incoming_id=0, incoming_window=9, next_outgoing_id=0, outgoing_window=9, handle=0, link_credit=9)
    script.send_together(BEGIN, ATTACH, flow)
    session = script.expect_event(SessionBegun).session
    link = script.expect_event(LinkAttached).link
    with pytest.raises(LocalProtocolError):
        link.attach(LinkTerms("x", Source("q"), Target("q")))
    assert not link.attached
    session.begin()
    script.expect(Begin)
    link.attach(LinkTerms("x", Source("q"), Target("q")))
    script.expect(Attach)
    link.send(b"")  # type: ignore[attr-defined]
    script.expect(Transfer, channel=0, handle=0)


def test_empty_parts_cost_nothing() -> None:
    """Frames without payload can follow each other for ever, where a maximum size is told: they are not kept."""
    script = begun()
    script.send(
        Attach(name="x", handle=0, role=False, source=Source("q"), target=Target("q"), initial_delivery_count=0)
    )
    link = script.expect_event(LinkAttached).link
    link.attach(LinkTerms("x", Source("q"), Target("q"), max_message_size=10))
    link.flow(1)  # type: ignore[attr-defined]
    script.send(Transfer(handle=0, delivery_id=0, delivery_tag=b"t", more=True))
    for _ in range(100):
        script.send(Transfer(handle=0, more=True))
    assert len(link._partial.parts) <= 1  # type: ignore[attr-defined]
    script.send(Transfer(handle=0), b"whole")
    assert link.incoming.popleft().payload == b"whole"  # type: ignore[attr-defined]
