"""Engines of 0-10, opened, and the bytes of their peer."""

from __future__ import annotations

from typing import Any

from amqp10 import Source, Target
from amqp10.dialects.v0_10 import DIALECT
from amqp10.dialects.v0_10.wire.commands import (
    ExecutionResult,
    MessageSubscribe,
    QueueQueryResult,
)
from amqp10.dialects.v0_10.wire.controls import (
    SessionCompleted,
)
from amqp10.engine import (
    ConnectionTerms,
    LinkAttached,
    LinkTerms,
)
from amqp10.sasl import Authenticator

from .pair import TERMS
from .raw_peer import Raw


def a_client(**terms: Any) -> Raw:
    engine = DIALECT.client(ConnectionTerms("client", **{"idle_timeout": None, **terms}), None, True)
    engine.start()
    engine.open()
    return Raw(engine)


def a_server(**rules: Any) -> Raw:
    engine = DIALECT.server(TERMS, Authenticator(**{"anonymous": True, **rules}))
    engine.start()
    return Raw(engine)


def sender_on(raw: Raw, credit_first: bool = True) -> Any:
    """A sender that is attached."""
    session = raw.engine.begin()
    link = session.attach_sender(LinkTerms("s", Source(), Target("q")))
    raw.listen()
    raw.attached()
    raw.listen()
    raw.do(ExecutionResult(0, QueueQueryResult("q")))
    raw.say(SessionCompleted(((0, 0),)))
    raw.engine.events()
    assert link.attached
    return link


def begun() -> Raw:
    """A server whose client has opened the connection and begun a session."""
    raw = a_server()
    raw.open_as_client()
    raw.engine.events()[0].session.begin()  # type: ignore[attr-defined]
    return raw


def outlet_on(raw: Raw, **fields: Any) -> Any:
    """A subscription that is attached."""
    raw.do(MessageSubscribe("q", "d", **fields))
    links: list[Any] = [event.link for event in raw.engine.events() if isinstance(event, LinkAttached)]
    link = links[0]
    link.attach(LinkTerms("d", link.remote.source, link.remote.target))
    return link
