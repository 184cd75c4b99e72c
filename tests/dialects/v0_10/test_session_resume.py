"""Sessions that are resumed: the connection is cut after each frame in turn, and everything happens exactly once."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from typing import Any

import pytest

from amqp10 import Message
from amqp10.engine import ConnectionEnded, Engine, LinkAttached, LinkEnded, SenderLink, Session, SessionUnmapped
from amqp10.errors import ConnectionLost, LocalProtocolError
from amqp10.messaging import ACCEPTED

from ...kit.dialects.v0_10.pair import ClientApplication, Line, ServerApplication, pair

pytestmark = pytest.mark.capability("AMQP 0-10")

COUNT = 5


def scenario(cuts: list[int], first: int = 0) -> tuple[ClientApplication, ServerApplication, Line]:
    """Send five messages, receive five others, on one session, over a line that is cut at these points.

    The client's commands are numbered from `first`.
    """
    client, server, line = pair([f"stock {n}" for n in range(COUNT)])
    sent: list[str] = []

    def start(engine: Engine) -> None:
        session: Any = client.begin(timeout=100)
        session.outbox.next = first
        client.sender()
        client.receiver().flow(100)

    def work() -> None:
        link: Any = next(
            (e.link for e in client.events if isinstance(e, LinkAttached) and isinstance(e.link, SenderLink)), None
        )
        while link is not None and len(sent) < COUNT:
            sent.append(f"sent {len(sent)}")
            link.send(Message(sent[-1]).encode())

    client.on_open = start
    handle = client.handle

    def handle_and_work(events: Any) -> None:
        handle(events)
        work()

    client.handle = handle_and_work  # type: ignore[method-assign]
    line.cuts = list(cuts)
    line.run()
    return client, server, line


def check(client: ClientApplication, server: ServerApplication) -> None:
    """Each message once, in order; each outcome once; nothing ended but connections."""
    assert server.got == [f"sent {n}" for n in range(COUNT)]
    assert client.told == {f"sent {n}": [ACCEPTED] for n in range(COUNT)}
    assert client.got == [f"stock {n}" for n in range(COUNT)]
    assert server.taken == client.got
    assert not server.returned
    for one in (client, server):
        assert all(isinstance(each, ConnectionEnded) for each in one.ended)


def frames_in_all() -> int:
    client, server, line = scenario([])
    check(client, server)
    return line.passed


TOTAL = frames_in_all()
GRANTED = 15
"""Before that many frames the server has not said that it keeps the session."""


@pytest.mark.parametrize("first", [0, 0xFFFF_FFF0, 0xFFFF_FFFC])
@pytest.mark.parametrize("cut", range(TOTAL))
def test_cut_once(cut: int, first: int) -> None:
    """The line is cut after this many frames, also before and after the command ids wrap."""
    client, server, line = scenario([cut], first)
    check_unless_too_early(client, server, cut)
    assert line.passed >= TOTAL - 1


@pytest.mark.parametrize("cut", range(0, TOTAL, 2))
@pytest.mark.slow
def test_cut_again_and_again(cut: int) -> None:
    """The line is cut there, and each line after it soon after, wherever the resuming has got to."""
    for step in range(8, 24):
        client, server, _ = scenario([cut, *[step] * 6])
        check_unless_too_early(client, server, cut)


def check_unless_too_early(client: ClientApplication, server: ServerApplication, cut: int) -> None:
    """A session that the server has not granted to keep ends with its transport, and is begun anew by the test."""
    over = [each for each in client.ended if isinstance(each, SessionUnmapped)]
    if over:
        assert all(isinstance(each.error, ConnectionLost) for each in over)
        assert cut < GRANTED
    else:
        check(client, server)
        assert client.resumed > 0 or cut < GRANTED


def test_what_is_said_meanwhile() -> None:
    """While there is no line the session takes messages and outcomes, and says them when it is back."""
    client, server, line = pair(["stock"])
    links: list[Any] = []

    def start(engine: Engine) -> None:
        client.begin(timeout=100)
        links.extend((client.sender(), client.receiver()))
        links[1].flow(1)

    client.on_open = start
    client.engine.events()
    line.run()
    assert client.got == ["stock"]
    for one in (client, server):
        one.engine.receive_eof()
        one.handle(one.engine.events())
    session = client.session
    assert session is not None
    assert session.suspended
    delivery = links[0].send(Message("meanwhile").encode())
    server.stock.append("more")
    links[1].flow(1)
    assert delivery.remote_state is None
    server.new_engine()
    client.new_engine()
    line.run()
    assert server.got == ["meanwhile"]
    assert client.told == {"meanwhile": [ACCEPTED]}
    assert client.resumed == 1
    assert not session.suspended


def test_forgotten() -> None:
    """A server that no longer has the session any more: links and session end, as by a loss."""
    client, server, line = pair()
    client.on_open = lambda engine: (client.begin(timeout=100), client.sender())  # type: ignore[assignment]
    line.run()
    server.keeper.sessions.clear()
    line.cut()
    line.run()
    errors = [each.error for each in client.ended if isinstance(each, SessionUnmapped)]
    assert len(errors) == 1
    assert isinstance(errors[0], ConnectionLost)
    assert "no longer has the session" in str(errors[0])
    assert client.engine.opened


def test_what_is_missing_is_long_gone() -> None:
    """A server that is missing a million commands: the session ends, and nothing of their number is kept for that."""
    client, _, line = pair()
    client.on_open = lambda engine: (client.begin(timeout=100), client.sender())  # type: ignore[assignment]
    line.run()
    session: Any = client.session
    session.outbox.next += 1 << 20
    line.cut()
    tracemalloc.start()
    line.run()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [type(each.error) for each in client.ended if isinstance(each, SessionUnmapped)] == [ConnectionLost]
    assert peak < 4_000_000


@pytest.mark.parametrize("silent", ["client", "server"])
def test_given_up_as_silent(silent: str) -> None:
    """A side that gives up a silent peer sends nothing: a late close would end the session that waits to be resumed."""
    client, server, line = pair()
    client.on_open = lambda engine: (client.begin(timeout=100), client.sender())  # type: ignore[assignment]
    line.run()
    one: Any = client if silent == "server" else server
    one.engine.terms = replace(one.engine.terms, idle_timeout=10.0)
    one.engine.login.heartbeat = 5
    one.engine.tick(0.0)
    one.engine.data_to_send()
    one.engine.tick(1000.0)
    one.handle(one.engine.events())
    assert isinstance(one.ended[-1].error, ConnectionLost)
    assert b"\1\x0b" not in one.engine.data_to_send()  # connection.close
    line.cut()
    line.run()
    assert client.resumed == 1


@pytest.mark.parametrize(("timeout", "longest"), [(0, 100), (100, 0)])
def test_not_kept(timeout: int, longest: int) -> None:
    """Without a timeout, asked for or granted, a session ends with its connection."""
    client, server, line = pair()
    server.keeper.longest = longest
    client.on_open = lambda engine: client.begin(timeout)  # type: ignore[assignment]
    line.run()
    session = client.session
    line.cut()
    assert [type(each) for each in client.ended] == [SessionUnmapped, ConnectionEnded]
    assert session is not None
    with pytest.raises(LocalProtocolError):
        client.engine.resume(session)


def test_stolen() -> None:
    """A server that has not seen the transport die gives the session to the client all the same."""
    client, server, line = pair()
    client.on_open = lambda engine: (client.begin(timeout=100), client.sender())  # type: ignore[assignment]
    line.run()
    client.engine.receive_eof()
    client.handle(client.engine.events())
    before = server.engine
    taken: Any = next(iter(server.keeper.sessions.values()))
    server.new_engine()
    client.new_engine()
    line.run()
    assert client.resumed == 1
    assert before.data_to_send().endswith(taken.name + b"\1")
    before.receive_eof()
    assert [type(each) for each in before.events()] == [ConnectionEnded]


def test_orderly_close_keeps_nothing() -> None:
    """Nothing is kept for a client that closes in order or ends the session."""
    client, server, line = pair()
    client.on_open = lambda engine: client.begin(timeout=100)  # type: ignore[assignment]
    line.run()
    client.engine.close()
    line.run()
    assert [type(each) for each in client.ended] == [SessionUnmapped, ConnectionEnded]
    assert [type(each) for each in server.ended] == [SessionUnmapped, ConnectionEnded]


def test_ended_while_it_is_attached_anew() -> None:
    """A session that its owner ends before the peer has answered its second attach is detached, and over."""
    client, server, line = pair()
    client.on_open = lambda engine: (client.begin(timeout=100), client.sender())  # type: ignore[assignment]
    line.run()
    for one in (client, server):
        one.engine.receive_eof()
        one.handle(one.engine.events())
    server.new_engine()
    engine, session = client.new_engine(), client.session
    assert session is not None
    resume = engine.resume

    def resume_and_end(session: Session) -> None:
        resume(session)
        session.end()

    engine.resume = resume_and_end  # type: ignore[method-assign]
    line.run()
    assert [type(each) for each in client.ended] == [ConnectionEnded, LinkEnded, SessionUnmapped]
    assert client.resumed == 0
    assert not engine.sessions  # type: ignore[attr-defined]  # the channel is free


def test_nothing_follows_our_close() -> None:
    """A client that ends links and sessions after its close of the connection writes nothing for them."""
    client, _, line = pair()
    links: list[Any] = []

    def start(engine: Engine) -> None:
        client.begin()
        links.extend((client.sender(), client.receiver()))

    client.on_open = start
    line.run()
    client.engine.close()
    assert client.engine.data_to_send()
    for link in links:
        link.detach()
    links[0].session.end()
    assert client.engine.data_to_send() == b""
