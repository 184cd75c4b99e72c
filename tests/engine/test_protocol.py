"""Every dialect has all that the contract names."""

from __future__ import annotations

import pytest

from amqp10.engine import (
    Engine,
    Link,
    LinkAttached,
    LinkTerms,
    ReceiverLink,
    SenderLink,
    Session,
    SessionBegun,
    dialect_names,
)
from amqp10.messaging import Source, Target
from amqp10.testing import EnginePair


def missing(thing: object, *contracts: type) -> set[str]:
    """Return the attributes that the contracts declare, and the thing does not have."""
    declared: set[str] = set()
    for contract in contracts:
        declared |= set(contract.__annotations__)
    return {name for name in declared if not hasattr(thing, name)}


@pytest.mark.parametrize("name", dialect_names())
def test_nothing_is_forgotten(name: str) -> None:
    """Engines, sessions and links have each attribute of the contract, used or not."""
    pair = EnginePair(dialect=name)
    pair.open()
    session = pair.client.begin()
    sender = session.attach_sender(LinkTerms("out", Source(), Target("q")))
    receiver = session.attach_receiver(LinkTerms("in", Source("q"), Target()))
    pair.run()
    for engine in (pair.client, pair.server):
        assert not missing(engine, Engine)
    assert not missing(sender, Link, SenderLink)
    assert not missing(receiver, Link, ReceiverLink)
    began = [event.session for event in pair.server_events if isinstance(event, SessionBegun)]
    for each in (session, *began):
        assert not missing(each, Session)
    for event in pair.server_events:
        if isinstance(event, LinkAttached):
            assert not missing(event.link, Link, SenderLink if event.link.is_sender else ReceiverLink)
