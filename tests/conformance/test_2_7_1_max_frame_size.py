"""The peer's max-frame-size (§2.7.1): no frame of any kind is larger, and what cannot be said has no effect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from amqp10.engine import LinkAttached, LinkTerms, SessionBegun, SessionTerms
from amqp10.errors import LocalProtocolError
from amqp10.messaging import ACCEPTED, Error, Modified, Rejected, Source, Target
from amqp10.testing import Attach, Begin, Close, Detach, Disposition, End, EngineScript, Flow, Transfer

Play = Callable[..., EngineScript]
SMALL: dict[str, Any] = {"max_frame_size": 512}
LONG = "x" * 600

pytestmark = pytest.mark.spec("2.7.1", "a peer must not send frames larger than its partner can handle")


def test_begin(play_client: Play) -> None:
    """A begin too large is refused, and its channel is free for one that is not."""
    script = play_client(peer={**SMALL, "channel_max": 0})
    with pytest.raises(LocalProtocolError, match="512"):
        script.engine.begin(SessionTerms(properties={"x": LONG}))
    script.expect_nothing()
    script.session()


def test_begin_as_answer(play_server: Play) -> None:
    """The session that the peer began can still be answered."""
    script = play_server(peer=SMALL)
    script.begin()
    session = script.expect_event(SessionBegun).session
    with pytest.raises(LocalProtocolError, match="512"):
        session.begin(SessionTerms(properties={"x": LONG}))
    script.expect_nothing()
    session.begin()
    script.expect(Begin, remote_channel=0)


def test_attach(play_client: Play) -> None:
    """An attach too large is refused; its name and handle are free for one that is not."""
    script = play_client(peer=SMALL)
    session = script.session(handle_max=0)
    with pytest.raises(LocalProtocolError, match="512"):
        session.attach_sender(LinkTerms("name", Source("q"), Target("q"), properties={"x": LONG}))
    script.expect_nothing()
    script.sender(session, LinkTerms("name", Source("q"), Target("q")))


def test_attach_as_answer(play_server: Play) -> None:
    """The link that the peer attached can still be answered, or refused."""
    script = play_server(peer=SMALL)
    script.begin()
    script.expect_event(SessionBegun).session.begin()
    script.expect(Begin)
    script.send(Attach(name="a", handle=0, role=True, source=Source("q"), target=Target("q")))
    link = script.expect_event(LinkAttached).link
    with pytest.raises(LocalProtocolError, match="512"):
        link.attach(LinkTerms("a", Source("q"), Target("q"), properties={"x": LONG}))
    script.expect_nothing()
    assert not link.attached
    link.refuse(Error("amqp:internal-error"))
    script.expect(Attach, name="a", handle=0)
    script.expect(Detach, handle=0)


@pytest.mark.parametrize("ending", ["detach", "end", "close"])
def test_errors_are_cut(play_client: Play, ending: str) -> None:
    """Ending something is never impossible: the description is cut, and info left out, to what fits."""
    script = play_client(peer=SMALL)
    session = script.session()
    link = script.sender(session)
    error = Error("amqp:internal-error", "because " + LONG, {"much": LONG})
    cut: Callable[[Error], bool] = lambda told: (  # noqa: E731
        told.condition == "amqp:internal-error" and str(told.description).startswith("because x")
    )
    if ending == "detach":
        link.detach(error=error)
        script.expect(Detach, error=cut)
    elif ending == "end":
        session.end(error)
        script.expect(End, error=cut)
    else:
        script.engine.close(error)
        script.expect(Close, error=cut)


@pytest.mark.parametrize(
    "state",
    [Rejected(Error("x:y", LONG)), Modified(message_annotations={"x-opt-a": LONG})],
    ids=["rejected", "modified"],
)
def test_outcome(play_client: Play, state: Any) -> None:
    """An outcome too large is refused; the delivery is as it was, and can be settled with another."""
    script = play_client(peer=SMALL)
    link = script.receiver(script.session(), credit=5)
    script.transfer(0)
    delivery = link.incoming.popleft()
    with pytest.raises(LocalProtocolError, match="512"):
        link.settle(delivery, state)
    script.expect_nothing()
    assert delivery.state is None
    link.settle(delivery, ACCEPTED)
    script.expect(Disposition, first=0, settled=True, state=ACCEPTED)


def test_state_in_transfer(play_client: Play) -> None:
    """A state leaves less room for payload in the first frame; one that leaves none is refused."""
    script = play_client(peer=SMALL)
    link = script.sender(script.session(), credit=5)
    state = Modified(message_annotations={"x-opt-a": "x" * 300})
    link.send(bytes(1000), state=state)
    data = script.engine.data_to_send()
    assert int.from_bytes(data[:4], "big") <= 512
    script.transcript.feed(data)
    got = b""
    while True:
        transfer, part = script.expect_payload(Transfer)
        got += part
        if not transfer.more:
            break
    assert got == bytes(1000)
    with pytest.raises(LocalProtocolError, match="512"):
        link.send(b"x", state=Modified(message_annotations={"x-opt-a": LONG}))
    assert link.credit == 4
    script.expect_nothing()


def test_flow_properties(play_client: Play) -> None:
    """A flow too large is refused, and the credit is as it was."""
    script = play_client(peer=SMALL)
    link = script.receiver(script.session(), credit=5)
    with pytest.raises(LocalProtocolError, match="512"):
        link.flow(50, properties={"x": LONG})
    script.expect_nothing()
    assert link.credit == 5
    link.flow(6)
    script.expect(Flow, link_credit=6)
