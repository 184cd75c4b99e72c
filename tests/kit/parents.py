"""What a link belongs to, whole: the contract tells a link only a part of its session and engine."""

from __future__ import annotations

from amqp10.engine import Engine, Link, Session


def session_of(link: Link) -> Session:
    """Return the session of a link."""
    assert isinstance(link.session, Session)
    return link.session


def engine_of(link: Link) -> Engine:
    """Return the engine of a link."""
    engine = link.session.engine
    assert isinstance(engine, Engine)
    return engine
