"""Tests that engines, sessions and links have every attribute that the contract declares.

Abstract methods that are missing fail when an object is made. Attributes without a method behind them do not.
"""

from __future__ import annotations

from dataclasses import replace

from ...engine import (
    Engine,
    Link,
    LinkAttached,
    LinkTerms,
    QueueFacts,
    ReceiverLink,
    RequestReceived,
    SenderLink,
    Session,
    SessionBegun,
)
from ...messaging import Message, Source, Target
from .._pair import EnginePair
from ._contract import Contract


def missing(thing: object, *contracts: type) -> set[str]:
    """Return the attributes that `contracts` declare and `thing` does not have."""
    declared = {name for contract in contracts for name in contract.__annotations__}
    return {name for name in declared if not hasattr(thing, name)}


class Attributes(Contract):
    """Both ends have each attribute of the contract, used or not."""

    def test_attributes(self) -> None:
        """Check the attributes of engines, sessions and links at both ends."""
        pair = EnginePair(dialect=self.dialect)
        pair.open()
        session = pair.client.begin()
        sender = session.attach_sender(LinkTerms("out", Source(), Target("q")))
        receiver = session.attach_receiver(LinkTerms("in", Source("q"), Target()))
        receiver.flow(1)
        sessions, links = _serve(pair)
        sender.send(Message("hello").encode())  # some dialects have a producer by its first message alone
        more_sessions, more_links = _serve(pair)
        sessions = [session, *sessions, *more_sessions]
        links = [sender, receiver, *links, *more_links]
        assert len(sessions) > 1, "the server's engine emitted no SessionBegun"
        assert len(links) == 4, "the server's engine did not emit a LinkAttached for each link"
        for engine in (pair.client, pair.server):
            assert not missing(engine, Engine)
        for each in sessions:
            assert not missing(each, Session)
        for link in links:
            assert not missing(link, Link, SenderLink if link.is_sender else ReceiverLink)


def _serve(pair: EnginePair) -> tuple[list[Session], list[Link]]:
    """Answer all that the client asks of the server; return the server's new sessions and links."""
    sessions: list[Session] = []
    links: list[Link] = []
    while events := pair.take("server"):
        for event in events:
            match event:
                case SessionBegun(session):
                    session.begin()
                    sessions.append(session)
                case RequestReceived(pending):  # whether there is the queue
                    pending.session.answer(pending, QueueFacts("q", 0, 0))
                case LinkAttached(link):
                    assert link.remote is not None
                    link.attach(replace(link.remote, initial_delivery_count=0))
                    links.append(link)
                    if isinstance(link, ReceiverLink):
                        link.flow(1)
    return sessions, links
