"""A server's sending links: credit of both kinds, what waits for it, browsers, and how they end."""

from __future__ import annotations

from typing import Any

import pytest

from amqp10 import Message
from amqp10.dialects.v0_10.wire.commands import (
    ExecutionException,
    ExecutionSync,
    MessageAccept,
    MessageCancel,
    MessageFlow,
    MessageFlush,
    MessageRelease,
    MessageSetFlowMode,
    MessageStop,
    MessageSubscribe,
)
from amqp10.dialects.v0_10.wire.controls import SessionAttach, SessionCompleted, SessionDetach, SessionDetached
from amqp10.dialects.v0_10.wire.rare_commands import UNIMPLEMENTED
from amqp10.engine import LinkAttached, LinkEnded, LinkTerms, OutcomesReceived, SessionBegun
from amqp10.messaging import ACCEPTED, RELEASED

from ....kit.dialects.v0_10.engines import a_server, begun, outlet_on


def test_exclusive() -> None:
    """The owner is told of a subscription that wants to be the only one."""
    assert outlet_on(begun(), exclusive=True).remote.properties == {"exclusive": True}
    assert not outlet_on(begun()).remote.properties


def test_credit_in_messages_and_octets() -> None:
    """Both are needed; in mode "credit" only message.flow brings more."""
    raw = begun()
    link = outlet_on(raw)
    raw.do(MessageSetFlowMode("d", 0))
    raw.do(MessageFlow("d", 0, 5))
    assert link.credit == 0
    raw.do(MessageFlow("d", 1, 300))
    assert link.credit == 5
    link.send(Message(b"x" * 100).encode())
    raw.listen()
    assert raw.bodies == [b"x" * 100]
    link.send(Message(b"y" * 200).encode())  # more than is left
    raw.listen()
    assert raw.bodies == [b"x" * 100]
    assert link.credit == 0
    raw.do(MessageFlow("d", 1, 0xFFFF_FFFF))
    raw.listen()
    assert raw.bodies[1:] == [b"y" * 200]
    assert link.credit == 3
    raw.say(SessionCompleted(((0, 1),)))
    assert link.credit == 3
    raw.do(MessageStop("d"))
    assert link.credit == 0


def test_stopped_while_a_message_waits() -> None:
    """A message that waits for credit in octets is released when the credit is gone; octets alone do not send it."""
    raw = begun()
    link = outlet_on(raw)
    raw.do(MessageFlow("d", 0, 5))
    raw.do(MessageFlow("d", 1, 10))
    delivery = link.send(Message(b"x" * 100).encode())
    raw.do(MessageFlush("d"))
    outcomes = [event for event in raw.engine.events() if isinstance(event, OutcomesReceived)]
    assert [event.deliveries for event in outcomes] == [[delivery]]
    assert delivery.remote_state == RELEASED
    assert not link.unsettled
    raw.do(MessageFlow("d", 1, 1000))
    raw.do(MessageFlow("d", 0, 1))
    assert (raw.bodies, link.credit) == ([], 1)


@pytest.mark.parametrize("accept_mode", [0, 1])
@pytest.mark.parametrize("end", [MessageStop("d"), MessageSetFlowMode("d", 0), MessageCancel("d")], ids=str)
def test_ended_while_a_message_waits(accept_mode: int, end: Any) -> None:
    """A message that waits for credit in octets belongs to nobody yet, even if sending it would accept it."""
    raw = begun()
    link = outlet_on(raw, accept_mode=accept_mode)
    raw.do(MessageFlow("d", 0, 5))
    raw.do(MessageFlow("d", 1, 150))
    sent, waiting = (link.send(Message(b"x" * 100).encode()) for _ in range(2))
    assert sent.remote_settled == (accept_mode == 1)
    raw.engine.events()
    raw.do(end)
    (event,) = [event for event in raw.engine.events() if isinstance(event, OutcomesReceived)]
    assert (event.deliveries, waiting.remote_state) == ([waiting], RELEASED)
    assert len(raw.bodies) == 1


@pytest.mark.parametrize("command", [MessageCancel("d"), MessageStop("d"), MessageFlush("d")], ids=str)
def test_in_the_same_breath(command: Any) -> None:
    """Commands after a subscription wait until it is attached and completed; later commands wait, too."""
    raw = begun()
    for each in (MessageSubscribe("q", "d"), command, ExecutionSync()):
        raw.do(each, sync=False)
    (link,) = [event.link for event in raw.engine.events() if isinstance(event, LinkAttached)]
    assert not [each for each in raw.heard if isinstance(each, SessionCompleted)]
    link.attach(LinkTerms("d"))
    completed = [each.commands for each in raw.listen() if isinstance(each, SessionCompleted)]
    assert completed[-1] == ((0, 2),)


def test_window_in_octets() -> None:
    """A completed message gives back the octets that it took."""
    raw = begun()
    link = outlet_on(raw)
    raw.do(MessageFlow("d", 1, 300))
    raw.do(MessageFlow("d", 0, 0xFFFF_FFFF))
    for number in range(5):
        link.send(Message(b"x" * 200).encode())
        raw.listen()
        assert len(raw.bodies) == number + 1
        raw.say(SessionCompleted(((0, number),)))


def test_window_mode() -> None:
    """A completed message gives its credit back; so subscriptions begin."""
    raw = begun()
    link = outlet_on(raw)
    raw.do(MessageFlow("d", 1, 0xFFFF_FFFF))
    raw.do(MessageFlow("d", 0, 1))
    link.send(Message(b"x").encode())
    raw.listen()
    assert link.credit == 0
    raw.say(SessionCompleted(((0, 0),)))
    assert link.credit == 1
    raw.do(MessageFlush("d"))
    assert link.drain
    link.drained()
    assert link.credit == 0
    assert isinstance(raw.listen()[-1], SessionCompleted)


def test_a_mode_takes_credit_back() -> None:
    """message.set-flow-mode begins anew, whatever was granted before."""
    raw = begun()
    link = outlet_on(raw)
    raw.do(MessageFlow("d", 1, 0xFFFF_FFFF))
    raw.do(MessageFlow("d", 0, 5))
    assert link.credit == 5
    raw.do(MessageSetFlowMode("d", 1))
    assert link.credit == 0


def test_cancelled_while_it_is_flushed() -> None:
    """A flush is complete when its subscription is gone: nothing waits for it."""
    raw = begun()
    link = outlet_on(raw)
    raw.do(MessageFlow("d", 1, 0xFFFF_FFFF))
    raw.do(MessageFlow("d", 0, 5))
    raw.do(MessageFlush("d"))  # the command with the id 3
    assert link.drain
    raw.do(MessageCancel("d"))
    completed = [each.commands for each in raw.heard if isinstance(each, SessionCompleted)]
    assert completed[-1] == ((0, 4),)


def test_a_browser_that_goes() -> None:
    """Nothing is to be said of what was only shown: its link is over with the subscription."""
    raw = a_server()
    raw.open_as_client()
    link = outlet_on(raw, acquire_mode=1)
    raw.do(MessageFlow("d", 1, 0xFFFF_FFFF))
    raw.do(MessageFlow("d", 0, 2))
    link.send(Message("shown").encode())
    raw.do(MessageCancel("d"))
    assert [event.link for event in raw.engine.events() if isinstance(event, LinkEnded)] == [link]


def test_cancelled_with_deliveries_out() -> None:
    """A delivery that is out when a subscription is cancelled can still be settled; then the link is over."""
    raw = begun()
    link = outlet_on(raw)
    raw.do(MessageFlow("d", 1, 0xFFFF_FFFF))
    raw.do(MessageFlow("d", 0, 10))
    deliveries = [link.send(Message(n).encode()) for n in range(2)]
    raw.listen()
    raw.do(MessageCancel("d"))
    raw.engine.events()
    assert link.credit == 0
    raw.do(MessageAccept(((0, 0),)))
    raw.do(MessageRelease(((1, 1),), set_redelivered=True))
    events = raw.engine.events()
    assert [type(event) for event in events] == [OutcomesReceived, LinkEnded]
    assert deliveries[0].remote_state == ACCEPTED
    assert deliveries[1].remote_state.delivery_failed


FAULTS: dict[str, tuple[Any, int]] = {
    "no such subscription": (MessageFlow("nowhere", 0, 1), 404),
    "no destination": (MessageSubscribe("q", ""), 531),
    "a unit that is none": (MessageFlow("d", 7, 1), 531),
    "a mode that is none": (MessageSetFlowMode("d", 2), 531),
    "what nobody does": (UNIMPLEMENTED["file.qos"](), 540),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults_of_clients(name: str) -> None:
    """Each ends the session with its code, and leaves the connection."""
    command, code = FAULTS[name]
    raw = begun()
    outlet_on(raw)
    answer = raw.do(command)
    (exception,) = [each for each in answer if isinstance(each, ExecutionException)]
    assert exception.error_code == code
    assert exception.class_code == command.spec_code >> 8
    assert isinstance(answer[-1], SessionDetach)
    assert raw.say(SessionDetached(b"name", 0)) == []
    assert raw.engine.opened
    raw.say(SessionAttach(b"another"))
    assert any(isinstance(event, SessionBegun) for event in raw.engine.events())
