"""Links (§2.6.1 to §2.6.3): names, handles, attaching, refusing."""

from __future__ import annotations

from typing import Any

import pytest

from amqp10.engine import (
    LinkAttached,
    LinkEnded,
    LinkTerms,
    Session,
    SessionBegun,
    SessionTerms,
    SessionUnmapped,
)
from amqp10.errors import LinkDetached, LocalProtocolError, RemoteProtocolError
from amqp10.messaging import ACCEPTED, Error, Source, Target
from amqp10.testing import (
    Attach,
    Begin,
    Close,
    Detach,
    End,
    EnginePair,
    EngineScript,
    Flow,
    Transfer,
)

from ..kit.conformance.play import Play, attach, condition_is

# Names


@pytest.mark.spec("2.6.1", "a link is named by its name and direction, within its pair of containers")
def test_same_name_both_directions() -> None:
    """One name for a sender and a receiver is two links."""
    pair = EnginePair()
    pair.open()
    terms = LinkTerms("same", Source("q"), Target("q"))
    out = pair.attach(terms=terms, credit=1, sender="client")
    back = pair.attach(terms=terms, credit=1, sender="server")
    out[0].send(b"out")
    back[0].send(b"back")
    pair.run()
    assert out[1].incoming[0].payload == b"out"
    assert back[1].incoming[0].payload == b"back"


@pytest.mark.spec("2.6.1", "this side does not attach a name twice")
def test_name_in_use(play_client: Play) -> None:
    """The second one is refused before a byte is written."""
    script = play_client()
    session = script.session()
    terms = LinkTerms("same", Source("q"), Target("q"))
    script.sender(session, terms)
    with pytest.raises(LocalProtocolError, match="same"):
        session.attach_sender(terms)
    script.expect_nothing()


@pytest.mark.spec("2.6.1", "a link that is attached elsewhere is stolen from its old place")
def test_stolen(serving: tuple[EngineScript, Session]) -> None:
    """The old end is detached with amqp:link:stolen, and the new one is offered."""
    script, _ = serving
    script.send(attach("mine", 0, receives=False))
    old = script.expect_event(LinkAttached).link
    assert old.remote is not None
    old.attach(old.remote)
    script.expect(Attach, name="mine")
    script.send(attach("mine", 1, receives=False))
    script.expect(Detach, closed=True, error=condition_is("amqp:link:stolen"))
    ended = script.expect_event(LinkEnded)
    assert ended.link is old
    new = script.expect_event(LinkAttached).link
    assert new is not old
    assert new.remote is not None
    new.attach(new.remote)
    script.expect(Attach, name="mine")
    assert new.attached


# Handles


@pytest.mark.spec("2.6.2", "each side chooses its own handles")
def test_handles_differ(play_client: Play) -> None:
    """Our handle 0 is the peer's 9, and its frames name 9."""
    script = play_client()
    session = script.session()
    sender = script.sender(session, handle=9)
    script.flow(handle=9, link_credit=3, delivery_count=0)
    assert sender.credit == 3
    sender.send(b"x")
    script.expect(Transfer, handle=0)
    script.send(Detach(handle=9, closed=True))
    script.expect(Detach, handle=0, closed=True)


@pytest.mark.spec("2.6.2", "a handle is free again when both sides have detached")
def test_handle_reuse(play_client: Play) -> None:
    """With room for one link, one after another can be attached."""
    script = play_client()
    session = script.session(handle_max=0)
    for _ in range(3):
        link = script.sender(session)
        link.detach()
        script.expect(Detach, handle=0, closed=True)
        script.send(Detach(handle=0, closed=True))
    script.sender(session)


@pytest.mark.spec("2.7.2", "no link is attached above the peer's handle-max")
def test_handle_max_obeyed(play_client: Play) -> None:
    """The third link is refused before a byte is written."""
    script = play_client()
    session = script.session(handle_max=1)
    script.sender(session)
    script.receiver(session)
    with pytest.raises(LocalProtocolError, match="2 links"):
        session.attach_sender(LinkTerms("late", Source("q"), Target("q")))
    script.expect_nothing()


@pytest.mark.spec("2.7.2", "an attach above our handle-max closes the connection with a framing error")
def test_handle_max_enforced(play_server: Play) -> None:
    """The highest handle itself is taken."""
    script = play_server()
    script.begin()
    script.expect_event(SessionBegun).session.begin(SessionTerms(handle_max=2))
    script.expect(Begin, handle_max=2)
    script.send(attach("ok", 2, receives=True))
    script.expect_event(LinkAttached)
    script.send(attach("above", 3, receives=True))
    script.expect(Close, error=condition_is("amqp:connection:framing-error"))


@pytest.mark.spec("2.7.2", "any frame with a handle above our handle-max closes the connection with a framing error")
@pytest.mark.parametrize("kind", ["transfer", "flow", "detach"])
def test_handles_above_the_most(play_client: Play, kind: str) -> None:
    """The highest handle itself may have a link, so that it ends the session where there is none."""
    for handle, frame, condition in (
        (3, End, "amqp:session:unattached-handle"),
        (4, Close, "amqp:connection:framing-error"),
    ):
        script = play_client()
        script.session(SessionTerms(handle_max=3))
        if kind == "transfer":
            script.transfer(0, handle=handle)
        elif kind == "flow":
            script.flow(handle=handle, link_credit=1)
        else:
            script.send(Detach(handle=handle))
        script.expect(frame, error=condition_is(condition))


@pytest.mark.spec("2.7.3", "the lowest handle that is free is assigned")
def test_lowest_handle(play_client: Play) -> None:
    """After two of four links are gone, the next ones have their handles."""
    script = play_client()
    session = script.session()
    links = [script.sender(session) for _ in range(4)]
    for number in (2, 1):
        links[number].detach()
        script.expect(Detach, handle=number)
        script.send(Detach(handle=number, closed=True))
    assert [script.sender(session).handle for _ in range(3)] == [1, 2, 4]  # type: ignore[attr-defined]


@pytest.mark.spec("2.6.2", "an attach with a handle that is in use ends the session")
def test_handle_in_use(serving: tuple[EngineScript, Session]) -> None:
    """The condition is amqp:session:handle-in-use."""
    script, _ = serving
    script.send(attach("one", 0, receives=True))
    script.send(attach("two", 0, receives=True))
    script.expect(End, error=condition_is("amqp:session:handle-in-use"))


@pytest.mark.spec("2.6.2", "a frame for a handle without a link ends the session")
@pytest.mark.parametrize("kind", ["transfer", "flow", "detach"])
def test_unattached_handle(play_client: Play, kind: str) -> None:
    """The condition is amqp:session:unattached-handle."""
    script = play_client()
    script.session()
    if kind == "transfer":
        script.transfer(0, handle=6)
    elif kind == "flow":
        script.flow(handle=6, link_credit=1)
    else:
        script.send(Detach(handle=6))
    script.expect(End, error=condition_is("amqp:session:unattached-handle"))
    assert isinstance(script.expect_event(SessionUnmapped).error, RemoteProtocolError)
    assert script.engine.opened


# Attaching


@pytest.mark.spec("2.6.3", "an attach is answered with an attach of the same name and the other role")
def test_attach(serving: tuple[EngineScript, Session]) -> None:
    """The peer's word is offered in full, and ours goes back in full."""
    script, _ = serving
    script.send(
        Attach(
            name="link",
            handle=7,
            role=False,
            snd_settle_mode=1,
            rcv_settle_mode=1,
            source=Source("from"),
            target=Target("to"),
            initial_delivery_count=40,
            max_message_size=1000,
            offered_capabilities=("a",),
            desired_capabilities=("b",),
            properties={"k": 1},
        )
    )
    link = script.expect_event(LinkAttached).link
    assert not link.attached
    assert not link.is_sender
    remote = link.remote
    assert remote is not None
    assert (remote.name, remote.settle_mode, remote.receiver_settle_mode) == ("link", "settled", "second")
    assert (remote.initial_delivery_count, remote.max_message_size) == (40, 1000)
    assert (remote.offered_capabilities, remote.desired_capabilities) == (("a",), ("b",))
    assert dict(remote.properties) == {"k": 1}
    link.attach(LinkTerms("link", Source("from"), Target("to"), max_message_size=77, properties={"x": "y"}))
    script.expect(
        Attach,
        name="link",
        role=True,
        source=Source("from"),
        target=Target("to"),
        max_message_size=77,
        initial_delivery_count=None,
        properties={"x": "y"},
    )
    assert link.attached


@pytest.mark.spec("2.6.3", "a link may carry frames before its attach was answered, from the receiver")
def test_flow_before_answer(serving: tuple[EngineScript, Session]) -> None:
    """Pitfall 6: credit that comes right behind the attach is there when the answer is."""
    script, _ = serving
    state: dict[str, Any] = {"next_incoming_id": 0, "incoming_window": 9, "next_outgoing_id": 0, "outgoing_window": 9}
    script.send_together(attach("r", 0, receives=True), Flow(handle=0, link_credit=5, **state))
    link = script.expect_event(LinkAttached).link
    assert link.remote is not None
    link.attach(LinkTerms("r", Source("queue"), Target("queue"), initial_delivery_count=11))
    script.expect(Attach, initial_delivery_count=11)
    assert link.credit == 5


@pytest.mark.spec("2.6.3", "a link is refused by an attach with a null terminus, and a detach with the reason")
@pytest.mark.parametrize("receives", [True, False])
def test_refuse(serving: tuple[EngineScript, Session], receives: bool) -> None:
    """Pitfall 25: the null terminus is the one that the refusing side would have had."""
    script, session = serving
    script.send(attach("no", 0, receives=receives))
    script.expect_event(LinkAttached).link.refuse(Error("amqp:not-found", "no such node"))
    answer = script.expect(Attach, name="no", role=not receives)
    assert (answer.source if receives else answer.target) is None
    script.expect(Detach, handle=answer.handle, closed=True, error=condition_is("amqp:not-found"))
    script.send(Detach(handle=0, closed=True))
    script.expect_nothing()
    assert session.begun
    script.send(attach("no", 0, receives=receives))
    script.expect_event(LinkAttached)


@pytest.mark.spec("2.6.3", "our refused link ends with the reason in the detach that follows")
@pytest.mark.parametrize("sends", [True, False])
def test_refused(play_client: Play, sends: bool) -> None:
    """Pitfall 25: it was never attached, its detach is answered, and its handle is free."""
    script = play_client()
    session = script.session(handle_max=0)
    terms = LinkTerms("no", Source("q"), Target("q"))
    link = session.attach_sender(terms) if sends else session.attach_receiver(terms)
    script.answer_attach(**({"target": None} if sends else {"source": None}))
    assert not link.attached
    assert script.take_events() == []
    script.send(Detach(handle=0, closed=True, error=Error("amqp:unauthorized-access", "not you")))
    script.expect(Detach, handle=0, closed=True, error=None)
    ended = script.expect_event(LinkEnded)
    assert ended.link is link
    assert isinstance(ended.error, LinkDetached)
    assert (ended.error.condition, ended.error.description) == ("amqp:unauthorized-access", "not you")
    script.sender(session, terms)


@pytest.mark.spec("2.6.3", "frames pipelined after the attach of a refused link are no error")
def test_refused_with_frames_on_the_way() -> None:
    """A receiver whose credit is on its way when it is refused does no harm to the session."""
    pair = EnginePair()
    pair.open()
    mine, theirs = pair.begin()
    link = mine.attach_receiver(LinkTerms("r", Source("q"), Target("q")))
    link.flow(10)
    pair.run()
    offered = next(event.link for event in pair.server_events if isinstance(event, LinkAttached))
    link.flow(20)
    offered.refuse(Error("amqp:not-found"))
    pair.run()
    assert mine.begun
    assert theirs.begun
    ended = [event for event in pair.client_events if isinstance(event, LinkEnded)]
    assert [event.error.condition for event in ended if isinstance(event.error, LinkDetached)] == ["amqp:not-found"]


@pytest.mark.spec("2.7.3", "a sender's attach without initial-delivery-count ends the session")
def test_initial_delivery_count_missing(serving: tuple[EngineScript, Session]) -> None:
    """It is mandatory for the role sender."""
    script, _ = serving
    script.send(Attach(name="x", handle=0, role=False, source=Source("q"), target=Target("q")))
    script.expect(End, error=condition_is("amqp:invalid-field"))


@pytest.mark.spec("2.7.3", "initial-delivery-count is ignored if the role is receiver")
def test_initial_delivery_count_of_a_receiver(play_client: Play) -> None:
    """The sender counts from what it has said itself."""
    script = play_client()
    link = script.sender(script.session(), initial_delivery_count=77)
    script.flow(handle=0, delivery_count=None, link_credit=5)
    assert link.credit == 5
    link.send(b"")
    script.expect(Transfer)
    script.flow(handle=0, next_incoming_id=1, delivery_count=1, link_credit=5, echo=True)
    script.expect(Flow, delivery_count=1, link_credit=5)


@pytest.mark.spec("2.8.2", "a settle mode that does not exist is an error")
@pytest.mark.parametrize("field", ["snd_settle_mode", "rcv_settle_mode"])
def test_unknown_settle_mode(serving: tuple[EngineScript, Session], field: str) -> None:
    """Mode 3 ends the session, or the connection where the codec sees it first."""
    script, session = serving
    frame = attach("x", 0, receives=True)
    setattr(frame, field, 3)
    script.send(frame)
    assert not session.begun


@pytest.mark.spec("2.6.3", "the attach has each side's unsettled deliveries")
def test_unsettled_map(serving: tuple[EngineScript, Session]) -> None:
    """The state that link resume needs: the peer's unsettled map is offered, ours is told."""
    script, _ = serving
    frame = attach("resumed", 0, receives=True)
    frame.unsettled = {b"\1": None, b"\2": ACCEPTED}
    frame.incomplete_unsettled = True
    script.send(frame)
    link = script.expect_event(LinkAttached).link
    assert link.remote is not None
    assert dict(link.remote.unsettled or {}) == {b"\1": None, b"\2": ACCEPTED}
    assert link.remote.incomplete_unsettled
    link.attach(LinkTerms("resumed", Source("q"), Target("q"), unsettled={b"\2": None}))
    script.expect(Attach, unsettled={b"\2": None}, incomplete_unsettled=False)
