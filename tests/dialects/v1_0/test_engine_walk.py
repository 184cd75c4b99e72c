"""Random walks of two engines that keep to the protocol, and what they have found, each as a test of its own.

AMQP10_WALKS=100000 walks as often; the default takes a few seconds.
"""

from __future__ import annotations

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
    SessionTerms,
    SessionUnmapped,
    dialect,
)
from amqp10.errors import LinkDetached, LocalProtocolError, RemoteProtocolError
from amqp10.messaging import ACCEPTED, RELEASED, Error, Source, Target
from amqp10.sasl import Authenticator
from amqp10.testing import Attach, Begin, Detach, End, EnginePair, EngineScript, Flow

from ...kit.counts import WALKS
from ...kit.dialects.v1_0.checks import check
from ...kit.dialects.v1_0.walk import SETTINGS, Step, Walk

STEPS = st.lists(st.tuples(st.integers(0, 199), st.integers(0, 59), st.integers(0, 1259)), min_size=20, max_size=100)


@settings(
    max_examples=WALKS,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(chosen=st.integers(0, SETTINGS - 1), steps=STEPS)
@pytest.mark.slow
def test_walk(chosen: int, steps: list[Step]) -> None:
    """Whatever the owners of two engines do, in whatever order and with bytes under way for however long: no rule is
    broken, everything whole arrives once and in order, and at rest both ends agree and nothing is left over."""
    walk = Walk(chosen)
    for step in steps:
        walk.step(*step)
    check(walk)


def no_faults(pair: EnginePair) -> None:
    """Neither end has found a fault of the other's."""
    pair.run()
    for event in (*pair.client_events, *pair.server_events):
        assert not isinstance(getattr(event, "error", None), RemoteProtocolError), event


def narrow(window: int = 1, frame_size: int = 512) -> EnginePair:
    """A pair whose server takes few and small frames at a time."""
    pair = EnginePair(server=ConnectionTerms("server", max_frame_size=frame_size))
    pair.open()
    pair.session = pair.begin(None, SessionTerms(incoming_window=window))[0]
    return pair


def to_server(pair: EnginePair) -> None:
    """Carry what the client has written, and nothing back."""
    pair.server.receive_data(pair.client.data_to_send())
    pair.server_events += pair.server.events()


def test_flow_leaves_held_deliveries_out() -> None:
    """A delivery that is held back whole is in no delivery-count: the receiver would count it twice (§2.6.7)."""
    pair = narrow()
    sender, receiver = pair.attach(credit=5)
    for number in range(3):
        sender.send(b"%d" % number)
    sender.offer(7)
    to_server(pair)
    assert (receiver.credit, receiver.available) == (4, 7)
    pair.run()
    assert [delivery.payload for delivery in receiver.incoming] == [b"0", b"1", b"2"]
    assert sender.credit == receiver.credit == 2
    no_faults(pair)


def test_drained_waits_for_held_deliveries() -> None:
    """Credit is given back when those that are held back have used theirs, not before (§2.6.7)."""
    pair = narrow()
    sender, receiver = pair.attach(credit=5)
    receiver.flow(5, drain=True)
    pair.run()
    for number in range(3):
        sender.send(b"%d" % number)
    sender.drained()
    to_server(pair)
    assert receiver.credit == 4
    pair.run()
    assert len(receiver.incoming) == 3
    assert sender.credit == receiver.credit == 0
    no_faults(pair)


def test_drained_when_the_last_held_is_aborted() -> None:
    """Aborting what was waited for gives the credit back, its own with the rest."""
    pair = narrow()
    sender, receiver = pair.attach(credit=5)
    receiver.flow(5, drain=True)
    pair.run()
    sender.send(b"sent")
    held = sender.send(b"held")
    sender.drained()
    sender.abort(held)
    assert sender.credit == 0
    pair.run()
    assert len(receiver.incoming) == 1
    assert receiver.credit == 0
    no_faults(pair)


def test_abort_in_its_place() -> None:
    """A delivery half on the wire is aborted before those that wait behind it begin (§2.6.14)."""
    pair = narrow(window=1)
    sender, receiver = pair.attach(credit=5)
    first = sender.send(bytes(1000))
    sender.send(b"second")
    sender.abort(first)
    pair.run()
    assert [delivery.payload for delivery in receiver.incoming] == [b"second"]
    assert sender.credit == receiver.credit == 3
    no_faults(pair)


@pytest.mark.parametrize("begun", [False, True])
def test_abort_twice(begun: bool) -> None:
    """The second time is an error of ours, and changes nothing: neither credit nor the wire."""
    pair = narrow(window=1)
    sender, receiver = pair.attach(credit=5)
    first = sender.send(bytes(1000))
    aborted = first if begun else sender.send(b"second")
    sender.abort(aborted)
    credit = sender.credit
    with pytest.raises(LocalProtocolError):
        sender.abort(aborted)
    assert sender.credit == credit
    no_faults(pair)
    assert sender.credit == receiver.credit


def test_abort_gives_no_credit_that_was_taken_back() -> None:
    """Aborting what never began gives its credit back only if the receiver has not lowered it meanwhile (§2.6.7)."""
    pair = narrow(window=1)
    sender, receiver = pair.attach(credit=5)
    deliveries = [sender.send(b"x") for _ in range(3)]
    receiver.flow(1)
    pair.client.receive_data(pair.server.data_to_send())
    assert sender.credit == 0
    sender.abort(deliveries[2])
    assert sender.credit == 0
    pair.run()
    assert sender.credit == receiver.credit == 0
    no_faults(pair)


def test_abort_after_settling_leaves_the_tag_alone() -> None:
    """A delivery settled here before it began may have given its tag to another, which stays unsettled."""
    pair = narrow(window=1)
    sender, _ = pair.attach(credit=5)
    sender.send(b"fills the window")
    first = sender.send(b"first", tag=b"t")
    sender.settle(first)
    second = sender.send(b"second", tag=b"t")
    sender.abort(first)
    assert sender.unsettled[b"t"] is second


def test_settled_half_on_the_wire() -> None:
    """The receiver is told that a delivery is settled when it knows of it: after its last frame (§2.6.12)."""
    pair = EnginePair()
    pair.open()
    terms = LinkTerms("x", Source("q"), Target("q"), receiver_settle_mode="second")
    sender, receiver = pair.attach(terms=terms, credit=5)
    delivery = sender.send(b"one", more=True)
    pair.run()
    sender.settle(delivery)
    pair.run()
    sender.send_more(delivery, b"two")
    pair.run()
    (got,) = receiver.incoming
    assert got.payload == b"onetwo"
    assert got.remote_settled
    assert not receiver.unsettled
    no_faults(pair)


def test_tag_used_again_at_once() -> None:
    """A tag is free once its delivery is settled: the receiver hears so before the next one has it (§2.6.12)."""
    pair = EnginePair()
    pair.open()
    terms = LinkTerms("x", Source("q"), Target("q"), receiver_settle_mode="second")
    sender, receiver = pair.attach(terms=terms, credit=5)
    for number in range(3):
        sender.send(b"%d" % number, tag=b"t")
        pair.run()
        delivery = receiver.incoming.popleft()
        receiver.settle(delivery, ACCEPTED)
        pair.client.receive_data(pair.server.data_to_send())  # settles, which is not written yet
    no_faults(pair)
    assert sender.attached


def test_tag_of_ours_taken() -> None:
    """Tags made here go around those that the owner has made."""
    pair = EnginePair()
    pair.open()
    sender, _ = pair.attach(credit=5)
    sender.send(b"", tag=bytes(4))
    sender.send(b"", tag=b"\0\0\0\2")
    assert [sender.send(b"").tag for _ in range(2)] == [b"\0\0\0\1", b"\0\0\0\3"]


def test_change_of_mind() -> None:
    """Of two outcomes named in one pass the last one counts, also when others were given the first of them before."""
    pair = EnginePair()
    pair.open()
    terms = LinkTerms("x", Source("q"), Target("q"), receiver_settle_mode="second")
    sender, receiver = pair.attach(terms=terms, credit=5)
    sender.auto_settle = False
    for _ in range(2):
        sender.send(b"")
    pair.run()
    first, second = receiver.incoming
    receiver.settle(first, ACCEPTED)
    receiver.settle(second, RELEASED)
    receiver.settle(second, ACCEPTED)
    receiver.settle(first, RELEASED)
    pair.run()
    assert [delivery.remote_state for delivery in sender.unsettled.values()] == [RELEASED, ACCEPTED]


def serve(**fields: int) -> EngineScript:
    """A server engine whose client has opened."""
    script = EngineScript(dialect("1.0").server(ConnectionTerms("tested"), Authenticator(anonymous=True)))
    script.open(**fields)
    return script


def begin() -> Begin:
    return Begin(next_outgoing_id=0, incoming_window=100, outgoing_window=100)


def test_link_detached_before_its_session_was_answered() -> None:
    """A peer may pipeline begin, attach and detach: the answers follow our begin, in order (§2.5.1, §2.6.4)."""
    script = serve()
    attach = Attach(name="x", handle=0, role=True, source=Source("q"), target=Target("q"))
    script.send_together(begin(), attach, Detach(handle=0, closed=True))
    session = script.expect_event(SessionBegun).session
    link = script.expect_event(LinkAttached).link
    assert isinstance(script.expect_event(LinkEnded).error, LinkDetached)
    script.expect_nothing()
    session.begin()
    assert link.terms is not None
    script.expect(Begin, remote_channel=0)
    script.expect(Attach, name="x")
    script.expect(Detach, closed=True)
    script.expect_nothing()


def test_link_answered_after_we_ended_its_session() -> None:
    """Nothing is attached any more, so nothing can be sent after our end (§2.5.2)."""
    script = serve()
    script.send(begin())
    session = script.expect_event(SessionBegun).session
    session.begin()
    script.expect(Begin)
    script.send(Attach(name="x", handle=0, role=True, source=Source("q"), target=Target("q")))
    script.send(
        Flow(next_incoming_id=0, incoming_window=9, next_outgoing_id=0, outgoing_window=9, handle=0, link_credit=9)
    )
    link = script.expect_event(LinkAttached).link
    session.end()
    link.attach(LinkTerms("x", Source("q"), Target("q")))
    assert not link.attached
    script.expect(End)
    script.expect_nothing()


@pytest.mark.parametrize("asked", [False, True])
def test_link_that_cannot_be_answered(asked: bool) -> None:
    """A link whose name alone is larger than what its peer takes costs its session, not the connection (§2.5.4)."""
    script = serve(max_frame_size=512)
    script.send(begin())
    session = script.expect_event(SessionBegun).session
    session.begin()
    script.expect(Begin)
    script.send(Attach(name="x" * 600, handle=0, role=True, source=Source("q"), target=Target("q")))
    link = script.expect_event(LinkAttached).link
    if asked:
        link.refuse(Error("amqp:not-found"))
    else:
        script.send(Detach(handle=0, closed=True))
    script.expect(End, error=lambda error: error.condition == "amqp:frame-size-too-small")
    script.send(End())
    assert script.expect_event(LinkEnded).link is link
    assert script.expect_event(SessionUnmapped).session is session
    assert not any(isinstance(event, ConnectionEnded) for event in script.events)
